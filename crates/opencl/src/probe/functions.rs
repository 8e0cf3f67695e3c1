//! Probes that are functions of this process, which the device runs in its queue: each is given the memory of a buffer when its turn has come, and records what
//! it finds there.

use std::{
    ffi::c_void,
    ptr, slice,
    sync::{Arc, Mutex},
};

use tensortap_queue::Range;
use tensortap_record::{DumpStage, Tensor, UncapturedReason};

use super::{Asked, Probed, Running, Source, lock};
use crate::{
    ffi::{self, Event, Mem, Queue, Status},
    layer::Layer,
    objects::Borrowed,
    raw,
};

/// A range that a probe looks at, by its place among those of the stage: at an address, or in the buffer that the probe is handed.
type Looked = (usize, Option<usize>);

/// What a probe does when its turn has come.
struct Probe {
    running: Arc<Mutex<Running>>,
    stage: DumpStage,
    ranges: Vec<Looked>,
    /// Whether it is the last of its stage.
    is_last: bool,
    /// The buffer that it is given, until it has run or never will.
    _borrowed: Borrowed,
}

/// Ranges that one probe can look at: those of one buffer, and whatever has an address.
///
/// A probe is never given two buffers, for there are drivers (PoCL 3.0) that hand over the memory of several in an order of their own.
fn by_buffer(sources: &[Source]) -> Vec<(Option<Mem>, Vec<Looked>)> {
    let mut groups: Vec<(Option<Mem>, Vec<Looked>)> = vec![(None, Vec::new())];
    for (place, source) in sources.iter().enumerate() {
        match *source {
            Source::Address(address) => groups[0].1.push((place, Some(address))),
            Source::Buffer(buffer) => match groups.iter_mut().find(|(known, _)| *known == Some(buffer)) {
                Some((_, ranges)) => ranges.push((place, None)),
                None => groups.push((Some(buffer), vec![(place, None)])),
            },
        }
    }
    // What has an address needs no probe of its own.
    if groups.len() > 1 {
        let (_, addressed) = groups.remove(0);
        groups[0].1.extend(addressed);
    }
    groups
}

/// Puts probes into a queue, one behind the other: one at least.
pub fn enqueue(
    layer: &Layer,
    queue: Queue,
    Asked { running, sources, stage }: Asked<'_>,
    waits: &[Event],
) -> Result<Probed, UncapturedReason> {
    let groups = by_buffer(sources);
    let count = groups.len();
    let mut events: Vec<Event> = Vec::with_capacity(count);
    for (number, (buffer, ranges)) in groups.into_iter().enumerate() {
        let is_last = number + 1 == count;
        let _borrowed = Borrowed::new(layer, buffer);
        let probe = Probe { running: Arc::clone(running), stage, ranges, is_last, _borrowed };
        let behind = events.last().map_or(waits, slice::from_ref);
        match put(layer, queue, probe, buffer, behind) {
            Ok(event) => events.push(event),
            Err(_) => {
                events.into_iter().for_each(|event| layer.release(event));
                return Err(UncapturedReason::NoProbe);
            }
        }
    }
    Ok(Probed { events, ..Probed::default() })
}

/// Puts one probe into a queue.
fn put(
    layer: &Layer,
    queue: Queue,
    probe: Probe,
    buffer: Option<Mem>,
    waits: &[Event],
) -> Result<Event, Status> {
    let call = layer.target.clEnqueueNativeKernel.ok_or(ffi::INVALID_OPERATION)?;
    let running = Arc::clone(&probe.running);
    let probe = Box::into_raw(Box::new(probe));
    lock(&running).waiting.push(probe.expose_provenance());
    // The driver copies these words, and writes the buffer's address into its copy.
    let mut words = [probe.expose_provenance(), 0];
    let slot: *const c_void = (&raw const words[1]).cast();
    let (count, buffers, slots) = match &buffer {
        Some(buffer) => (1, ptr::from_ref(buffer), &raw const slot),
        None => (0, ptr::null(), ptr::null()),
    };
    let (wait_count, wait_list) = raw::wait_list(waits);
    let mut event = ptr::null_mut();
    // SAFETY: the words and lists live during the call, the driver keeps none of them; `run` takes the words that it is handed for what they are.
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
        lock(&running).waiting.retain(|waiting| *waiting != probe.addr());
        // SAFETY: made above, and nobody was given it.
        drop(unsafe { Box::from_raw(probe) });
        return Err(status);
    }
    Ok(event)
}

/// Functions that a driver will not run any more go.
///
/// # Safety
/// They are of `put`, and neither the driver nor anybody else knows of them.
pub unsafe fn forget(waiting: Vec<usize>) {
    for probe in waiting {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Probe>(probe)) });
    }
}

/// A probe's turn, in a thread of the driver.
///
/// # Safety
/// `words` are those of `put`, once, with the address of a buffer that lives and can be read as long as this runs.
unsafe extern "C" fn run(words: *mut c_void) {
    // SAFETY: two words, as they were put.
    let [probe, buffer] = unsafe { words.cast::<[usize; 2]>().read_unaligned() };
    // SAFETY: the first is a probe that nobody else has.
    let probe = unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Probe>(probe)) };
    // A panic must not reach the driver.
    let observed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| observe(&probe, buffer)));
    drop(observed);
}

fn observe(probe: &Probe, buffer: usize) {
    let Probe { running, stage, ranges, is_last, _borrowed } = probe;
    let mut running = lock(running);
    running.waiting.retain(|waiting| *waiting != ptr::from_ref(probe).addr());
    if running.is_over {
        // The driver did not take its command.
        return;
    }
    let command = &mut running.command;
    let of_stage: Vec<Range> = command.seen_at(*stage).copied().collect();
    let seen: Vec<(usize, Tensor<'_>)> = ranges
        .iter()
        .map(|&(place, address)| {
            let (range, start) = (&of_stage[place], address.unwrap_or(buffer));
            let start = ptr::with_exposed_provenance(start);
            // SAFETY: the range lies in this memory, which lives: the command that uses it has not completed for the program.
            (place, unsafe { Tensor::at(start, range.bytes, range.elements()) })
        })
        .collect();
    let layer = Layer::get();
    layer.record(|recorder| command.observe(recorder, *stage, &seen, *is_last));
    if *is_last && *stage == DumpStage::AfterCompletion {
        running.end(layer);
    }
}
