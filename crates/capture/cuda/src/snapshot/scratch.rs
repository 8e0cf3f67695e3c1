//! Device memory in which the kernels of snapshots work.

use std::{
    cell::Cell,
    fmt,
    mem::ManuallyDrop,
    sync::{Arc, Weak},
};

use tensortap_queue::RingSlice;
use tensortap_record::{DumpStage, UncapturedReason};

use super::context::ContextResources;

/// The working memory of a stream while snapshots of it are in flight.
#[derive(Debug, Default)]
pub struct StreamScratch {
    /// The memory of before-snapshots, and that of after-snapshots if the two may overlap. If they do not
    /// overlap, all snapshots use the first.
    held: [Weak<ScratchSlice>; 2],
    /// If the last command in the stream is an after-snapshot that lets the next one overlap: the number of
    /// [other calls](super::Snapshots::count_other_call) at that time.
    pub lets_next: Option<u64>,
}

/// Device memory that snapshots of one stream share. It is freed when all of them are complete.
pub struct ScratchSlice {
    device: Arc<ContextResources>,
    /// Its bundles.
    pub bundles: RingSlice,
}

impl fmt::Debug for ScratchSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScratchSlice").field("bundles", &self.bundles).finish_non_exhaustive()
    }
}

impl Drop for ScratchSlice {
    fn drop(&mut self) {
        self.device.bundles.free([self.bundles]);
    }
}

/// The working memory of one snapshot. If the snapshot is never complete, its memory is never freed: the
/// device may still write there.
#[derive(Default)]
pub struct ScratchHold(Cell<Option<Arc<ScratchSlice>>>);

impl ScratchHold {
    /// The working memory of a snapshot.
    pub fn of(held: Arc<ScratchSlice>) -> ScratchHold {
        ScratchHold(Cell::new(Some(held)))
    }

    /// The snapshot is complete and uses the memory no more.
    pub fn is_over(&self) {
        drop(self.0.take());
    }
}

impl Drop for ScratchHold {
    fn drop(&mut self) {
        let _stays = ManuallyDrop::new(self.0.take());
    }
}

/// Working memory for this many bundles: memory that snapshots of this stream and stage use already, or new
/// memory. A stream handle may have been reused in another context, so the context is compared.
pub fn hold(
    device: &Arc<ContextResources>,
    scratch: &mut StreamScratch,
    stage: DumpStage,
    bundles: u64,
) -> Result<Arc<ScratchSlice>, UncapturedReason> {
    let is_apart = device.overlaps_sides() && stage == DumpStage::AfterCompletion;
    let place = &mut scratch.held[usize::from(is_apart)];
    let fits = |held: &Arc<ScratchSlice>| Arc::ptr_eq(&held.device, device) && held.bundles.bytes >= bundles;
    if let Some(held) = place.upgrade().filter(fits) {
        return Ok(held);
    }
    let bundles = device.bundles.allocate(bundles, || {}).ok_or(UncapturedReason::NoRoom)?;
    let held = Arc::new(ScratchSlice { device: Arc::clone(device), bundles });
    *place = Arc::downgrade(&held);
    Ok(held)
}
