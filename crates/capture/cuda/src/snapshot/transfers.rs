//! Copies of new content from the ring into the memory of the recording.

use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError},
    time::Duration,
};

use tensortap_record::{PartialContent, RecordError, Ticket};

use super::{context::ContextResources, pending::RingSlot};
use crate::{backend::CudaBackend, library::SUCCESS};

/// A copy in flight.
struct Copy {
    device: Arc<ContextResources>,
    /// Occurs when the copy is done.
    event: usize,
    ticket: u64,
    /// The ring slot to free. Only the last piece of a content has it.
    last: Option<RingSlot>,
    hash: u128,
}

/// The result of starting a copy.
enum CopyStart {
    /// The copy is in flight.
    Running,
    /// The copy is done and committed.
    Finished,
    /// There is no copy.
    Failed,
}

/// Free events of a context. They are destroyed with it.
fn events(device: &ContextResources) -> std::sync::MutexGuard<'_, Vec<usize>> {
    device.events.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends of the pinned parts of the recording's memory.
fn pinned(device: &ContextResources) -> std::sync::MutexGuard<'_, Vec<usize>> {
    device.pinned.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Splits a range so that no part crosses one of `ends`: offsets and sizes of the parts.
fn parts(start: usize, bytes: u64, ends: &[usize]) -> Vec<(usize, usize)> {
    let end = start.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX));
    let inside = ends.iter().copied().filter(|at| (start + 1..end).contains(at));
    let cuts: Vec<usize> = [start].into_iter().chain(inside).chain([end]).collect();
    cuts.windows(2).map(|cut| (cut[0] - start, cut[1] - cut[0])).collect()
}

/// All copies in flight, in the order they were started.
#[derive(Default)]
pub struct PayloadTransfers {
    copies: VecDeque<Copy>,
    /// Whether the memory of the recording was pinned for a context.
    is_registered: bool,
}

/// Pause between two looks at a copy.
const PAUSE: Duration = Duration::from_micros(5);

impl PayloadTransfers {
    /// Whether no copy is in flight.
    pub fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    /// Starts to copy content. When it is done, its ring slot is freed.
    pub fn begin(
        &mut self,
        backend: &CudaBackend,
        device: &Arc<ContextResources>,
        mut partial: PartialContent,
        (from, hash): (RingSlot, u128),
        lost: &mut Vec<u128>,
    ) {
        self.register(backend, device);
        let (mut moved, mut pieces) = (0, 0);
        let is_whole = loop {
            match backend.snapshots.record(backend, |recorder| Ok(recorder.next_space(&mut partial))) {
                Some(Ok(Some(ticket))) => {
                    match self.copy(backend, device, &ticket, (from.address + moved, hash)) {
                        CopyStart::Running => pieces += 1,
                        CopyStart::Finished => {}
                        CopyStart::Failed => break false,
                    }
                    moved += ticket.bytes;
                }
                Some(Ok(None)) => break true,
                Some(Err(RecordError::CommitFirst)) if !self.copies.is_empty() => {
                    while !self.settle_first(backend, lost) {
                        std::thread::sleep(PAUSE);
                    }
                }
                _ => break false,
            }
        };
        if !is_whole {
            lost.push(hash);
        }
        // The last copy frees the ring slot: until then the slot is read.
        match self.copies.back_mut().filter(|_| pieces > 0) {
            Some(last) => last.last = Some(from),
            None => give(device, from),
        }
    }

    /// Pins the memory of the recording for a context, and again the part by which it has grown. Copies to unpinned
    /// memory are slower.
    pub fn register(&mut self, backend: &CudaBackend, device: &Arc<ContextResources>) {
        if device.ring.is_none() {
            return;
        }
        let Some((start, bytes)) = backend.record(tensortap_record::ThreadRecorder::all_space) else {
            return;
        };
        let end = start.saturating_add(usize::try_from(bytes).unwrap_or(0));
        let mut pinned = pinned(device);
        let from = pinned.last().copied().unwrap_or(start);
        if from >= end {
            return;
        }
        let part = (end - from) as u64;
        let registered = device.call(&backend.driver, || backend.driver.register(from, part));
        pinned.push(end);
        self.is_registered |= registered == Some(SUCCESS);
        if !self.is_registered {
            backend.note_once("memory for content could not be pinned, so copies from the device are slower");
        }
    }

    fn copy(
        &mut self,
        backend: &CudaBackend,
        device: &Arc<ContextResources>,
        ticket: &Ticket,
        (from, hash): (u64, u128),
    ) -> CopyStart {
        let driver = &backend.driver;
        let (known, ends) = (events(device).pop(), pinned(device).clone());
        let pending = device.call(driver, || {
            let event = known.map_or_else(|| driver.make_event(), Ok)?;
            let to = ticket.start.expose_provenance();
            for (start, bytes) in parts(to, ticket.bytes, &ends) {
                // SAFETY: the space belongs to this ticket until it is committed or canceled, which happens after
                // the copy.
                let copied = unsafe {
                    driver.copy_to_host(to + start, from + start as u64, bytes as u64, device.copies)
                };
                if copied != SUCCESS {
                    // Earlier parts may still be written. A stream that cannot be waited for does nothing any more.
                    driver.wait_stream(device.copies);
                    events(device).push(event);
                    return Err(copied);
                }
            }
            if driver.record_event(event, device.copies) == SUCCESS {
                return Ok(Some(event));
            }
            // No event tells when the copy is done, and until then the device writes to the space. A stream
            // that cannot be waited for does nothing any more.
            match driver.wait_stream(device.copies) {
                SUCCESS => Ok(None),
                status => Err(status),
            }
        });
        match pending {
            Some(Ok(Some(event))) => {
                let (device, ticket) = (Arc::clone(device), ticket.number);
                self.copies.push_back(Copy { device, event, ticket, last: None, hash });
                CopyStart::Running
            }
            Some(Ok(None)) => {
                backend.record(|recorder| recorder.commit(ticket.number, None));
                CopyStart::Finished
            }
            _ => {
                backend.record(|recorder| recorder.give_up(ticket.number));
                CopyStart::Failed
            }
        }
    }

    /// Commits copies that are done. Returns whether there were any.
    pub fn settle(&mut self, backend: &CudaBackend, lost: &mut Vec<u128>) -> bool {
        let mut has_arrived = false;
        while self.settle_first(backend, lost) {
            has_arrived = true;
        }
        has_arrived
    }

    fn settle_first(&mut self, backend: &CudaBackend, lost: &mut Vec<u128>) -> bool {
        let Some(first) = self.copies.front() else { return false };
        let request = first.device.call(&backend.driver, || backend.driver.has_happened(first.event));
        if request == Some(Ok(false)) {
            return false;
        }
        let Some(Copy { device, event, ticket, last, hash }) = self.copies.pop_front() else { return false };
        if request == Some(Ok(true)) {
            backend.record(|recorder| recorder.commit(ticket, None));
            events(&device).push(event);
        } else {
            backend.record(|recorder| recorder.give_up(ticket));
            lost.push(hash);
        }
        if let Some(last) = last {
            give(&device, last);
        }
        true
    }
}

/// Frees the ring slot of content.
pub fn give(device: &ContextResources, content: RingSlot) {
    if let Some((_, ring)) = &device.ring {
        ring.free([content.slice]);
    }
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn no_part_of_a_copy_crosses_the_end_of_pinned_memory() {
        let ends = [100, 200, 400];
        for (start, bytes, expected) in [
            (0, 100, vec![(0, 100)]),
            (100, 100, vec![(0, 100)]),
            (150, 20, vec![(0, 20)]),
            (90, 20, vec![(0, 10), (10, 10)]),
            (50, 500, vec![(0, 50), (50, 100), (150, 200), (350, 150)]),
            (500, 7, vec![(0, 7)]),
        ] {
            assert_eq!(parts(start, bytes, &ends), expected, "{start}, {bytes}");
        }
        assert_eq!(parts(8, 9, &[]), [(0, 9)]);
    }
}
