//! Snapshots by native kernels: functions of this process that the device runs in its queue. Each gets the memory of a
//! buffer and records what it finds there.

use std::{ffi::c_void, ptr, slice, sync::Arc};

use tensortap_record::{DumpStage, UncapturedReason};

use super::{QueuedSnapshot, SharedCommand, SnapshotRequest, Source};
use crate::{
    ffi::{self, Event, Mem, Queue, Status},
    layer::Layer,
    objects::LayerReferences,
    raw,
};

/// A range that a native kernel records, by its position in the snapshot. It is at an address, or in the buffer that the
/// kernel gets.
type RangePlace = (usize, Option<usize>);

/// The arguments of a native kernel.
struct NativeSnapshot {
    shared: Arc<SharedCommand>,
    stage: DumpStage,
    ranges: Vec<RangePlace>,
    /// Whether it is the last kernel of its snapshot.
    is_last: bool,
    /// The buffer that it gets, until it has run or will never run.
    _references: LayerReferences,
}

/// Groups ranges into those that one native kernel can record: the ranges of one buffer, and all ranges with an address.
///
/// A native kernel never gets two buffers, because some drivers (PoCL 3.0) pass several buffers in the wrong order.
fn by_buffer(sources: &[Source]) -> Vec<(Option<Mem>, Vec<RangePlace>)> {
    let mut groups: Vec<(Option<Mem>, Vec<RangePlace>)> = vec![(None, Vec::new())];
    for (place, source) in sources.iter().enumerate() {
        match *source {
            Source::Address(address) => groups[0].1.push((place, Some(address))),
            Source::Buffer(buffer) => match groups.iter_mut().find(|(known, _)| *known == Some(buffer)) {
                Some((_, ranges)) => ranges.push((place, None)),
                None => groups.push((Some(buffer), vec![(place, None)])),
            },
        }
    }
    // Ranges with an address need no kernel of their own.
    if groups.len() > 1 {
        let (_, addressed) = groups.remove(0);
        groups[0].1.extend(addressed);
    }
    groups
}

/// Puts native kernels into a queue, each waiting for the one before it. There is at least one.
pub fn enqueue(
    layer: &Layer,
    queue: Queue,
    SnapshotRequest { shared, sources, stage }: SnapshotRequest<'_>,
    waits: &[Event],
) -> Result<QueuedSnapshot, UncapturedReason> {
    let groups = by_buffer(sources);
    let count = groups.len();
    let mut events: Vec<Event> = Vec::with_capacity(count);
    for (number, (buffer, ranges)) in groups.into_iter().enumerate() {
        let is_last = number + 1 == count;
        let _references = LayerReferences::new(layer, buffer);
        let snapshot = NativeSnapshot { shared: Arc::clone(shared), stage, ranges, is_last, _references };
        let waits = events.last().map_or(waits, slice::from_ref);
        match enqueue_one(layer, queue, snapshot, buffer, waits) {
            Ok(event) => events.push(event),
            Err(_) => {
                events.into_iter().for_each(|event| layer.release(event));
                return Err(UncapturedReason::NoProbe);
            }
        }
    }
    Ok(QueuedSnapshot { events, ..QueuedSnapshot::default() })
}

/// Puts one native kernel into a queue.
fn enqueue_one(
    layer: &Layer,
    queue: Queue,
    snapshot: NativeSnapshot,
    buffer: Option<Mem>,
    waits: &[Event],
) -> Result<Event, Status> {
    let call = layer.target.clEnqueueNativeKernel.ok_or(ffi::INVALID_OPERATION)?;
    let shared = Arc::clone(&snapshot.shared);
    let snapshot = Box::into_raw(Box::new(snapshot));
    shared.running().state.waiting_kernels.push(snapshot.expose_provenance());
    // The driver copies these words, and writes the address of the buffer into its copy.
    let mut words = [snapshot.expose_provenance(), 0];
    let slot: *const c_void = (&raw const words[1]).cast();
    let (count, buffers, slots) = match &buffer {
        Some(buffer) => (1, ptr::from_ref(buffer), &raw const slot),
        None => (0, ptr::null(), ptr::null()),
    };
    let (wait_count, wait_list) = raw::wait_list(waits);
    let mut event = ptr::null_mut();
    // SAFETY: words and lists live during the call, and the driver keeps none of them. `run` reads exactly these words.
    let status = unsafe {
        call(
            queue,
            Some(run),
            words.as_mut_ptr().cast(),
            size_of_val(&words),
            count,
            buffers,
            slots,
            wait_count,
            wait_list,
            &raw mut event,
        )
    };
    if status != ffi::SUCCESS {
        shared.running().state.waiting_kernels.retain(|waiting| *waiting != snapshot.addr());
        // SAFETY: the box was created above, and the driver has not taken it.
        drop(unsafe { Box::from_raw(snapshot) });
        return Err(status);
    }
    Ok(event)
}

/// Frees native kernels that the driver will never run.
///
/// # Safety
/// They are from `enqueue_one`, and the driver never runs them.
pub unsafe fn discard(waiting: Vec<usize>) {
    for snapshot in waiting {
        // SAFETY: the caller's guarantee.
        drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<NativeSnapshot>(snapshot)) });
    }
}

/// A native kernel, in a thread of the driver.
///
/// # Safety
/// `words` are those of `enqueue_one`, passed once, with the address of a buffer that lives and can be read while this
/// runs.
unsafe extern "C" fn run(words: *mut c_void) {
    // SAFETY: these are two words, as `enqueue_one` passed them.
    let [snapshot, buffer] = unsafe { words.cast::<[usize; 2]>().read_unaligned() };
    // SAFETY: the first word is a box that only this call has.
    let snapshot = unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<NativeSnapshot>(snapshot)) };
    // A panic must not reach the driver.
    let recorded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| record(&snapshot, buffer)));
    drop(recorded);
}

fn record(snapshot: &NativeSnapshot, buffer: usize) {
    let NativeSnapshot { shared, stage, ranges, is_last, _references } = snapshot;
    shared.running().state.waiting_kernels.retain(|waiting| *waiting != ptr::from_ref(snapshot).addr());
    let contents = ranges.iter().map(|&(place, address)| (place, address.unwrap_or(buffer)));
    // SAFETY: the ranges are in this memory. It lives, because the program has not seen its command complete.
    unsafe { shared.record_contents(&Layer::get().session, *stage, contents, *is_last) };
}
