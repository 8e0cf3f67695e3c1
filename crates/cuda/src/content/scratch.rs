//! Memory of a device that its kernels work in.

use std::{
    cell::Cell,
    fmt,
    mem::ManuallyDrop,
    sync::{Arc, Weak},
};

use tensortap_queue::Room;
use tensortap_record::DumpStage;

use super::{NotSeen, device::Device};

/// What a stream has of a device while sides of it are under way.
#[derive(Debug, Default)]
pub struct Scratch {
    /// What sides before commands work in, and what sides behind, where one before a command may run beside the one behind the command before; otherwise they come
    /// one after the other, and all work in the first.
    held: [Weak<Held>; 2],
    /// Where the last thing in the stream is a side that lets the next begin beside it: how many calls had [passed by](super::Contents::passes_by).
    pub lets_next: Option<u64>,
}

/// Memory of a device that sides of one stream work in. It goes back when all of them were seen.
pub struct Held {
    device: Arc<Device>,
    /// Its bundles.
    pub bundles: Room,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("bundles", &self.bundles).finish_non_exhaustive()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.device.bundles.give([self.bundles]);
    }
}

/// The memory, as a side has it. Of a side that nobody has seen it stays taken: the device may write there yet.
#[derive(Default)]
pub struct Working(Cell<Option<Arc<Held>>>);

impl Working {
    /// What a side works in.
    pub fn of(held: Arc<Held>) -> Working {
        Working(Cell::new(Some(held)))
    }

    /// The side was seen: nothing of it works any more.
    pub fn is_over(&self) {
        drop(self.0.take());
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let _stays = ManuallyDrop::new(self.0.take());
    }
}

/// Memory for so many bundles: what sides of the stream at this stage work in already, or more. A handle may be that of another context's stream by now, so the
/// device is compared.
pub fn hold(
    device: &Arc<Device>,
    scratch: &mut Scratch,
    stage: DumpStage,
    bundles: u64,
) -> Result<Arc<Held>, NotSeen> {
    let is_apart = device.overlaps_sides() && stage == DumpStage::AfterCompletion;
    let place = &mut scratch.held[usize::from(is_apart)];
    let fits = |held: &Arc<Held>| Arc::ptr_eq(&held.device, device) && held.bundles.bytes >= bundles;
    if let Some(held) = place.upgrade().filter(fits) {
        return Ok(held);
    }
    let bundles = device.bundles.take(bundles, || {}).ok_or(NotSeen::NoRoom)?;
    let held = Arc::new(Held { device: Arc::clone(device), bundles });
    *place = Arc::downgrade(&held);
    Ok(held)
}
