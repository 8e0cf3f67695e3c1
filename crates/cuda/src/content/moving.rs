//! New content on its way from the ring into the memory of the recording.

use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError},
    time::Duration,
};

use tensortap_record::{Incoming, RecordError, Ticket};

use super::{device::Device, pending::InRing};
use crate::{door::Door, library::SUCCESS};

/// A copy that is under way.
struct Copy {
    device: Arc<Device>,
    /// Happens when it is done.
    event: usize,
    ticket: u64,
    /// What it gives back of the ring, with the last piece of its content.
    last: Option<InRing>,
    hash: u128,
}

/// What became of a copy that was to begin.
enum Begun {
    /// It is one of those under way.
    UnderWay,
    /// It is done and committed.
    Over,
    /// There is none.
    Not,
}

/// Events of a context that nobody waits for. They go with it.
fn events(device: &Device) -> std::sync::MutexGuard<'_, Vec<usize>> {
    device.events.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All of them, in the order they were begun.
#[derive(Default)]
pub struct Moving {
    copies: VecDeque<Copy>,
    /// Whether some context knows the memory that content goes to.
    is_registered: bool,
}

/// How long a copy is waited for at a time.
const PAUSE: Duration = Duration::from_micros(5);

impl Moving {
    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    /// Lets content be copied, which then gives its part of the ring back.
    pub fn begin(
        &mut self,
        door: &Door,
        device: &Arc<Device>,
        mut incoming: Incoming,
        (from, hash): (InRing, u128),
        lost: &mut Vec<u128>,
    ) {
        self.register(door, device);
        let (mut moved, mut pieces) = (0, 0);
        let is_whole = loop {
            match door.contents.record(door, |recorder| Ok(recorder.next_space(&mut incoming))) {
                Some(Ok(Some(ticket))) => {
                    match self.copy(door, device, &ticket, (from.at + moved, hash)) {
                        Begun::UnderWay => pieces += 1,
                        Begun::Over => {}
                        Begun::Not => break false,
                    }
                    moved += ticket.bytes;
                }
                Some(Ok(None)) => break true,
                Some(Err(RecordError::CommitFirst)) if !self.copies.is_empty() => {
                    while !self.settle_first(door, lost) {
                        std::thread::sleep(PAUSE);
                    }
                }
                _ => break false,
            }
        };
        if !is_whole {
            lost.push(hash);
        }
        // The ring is read until the last copy of it is done.
        match self.copies.back_mut().filter(|_| pieces > 0) {
            Some(last) => last.last = Some(from),
            None => give(device, from),
        }
    }

    /// Lets the driver know the memory that content goes to, once for each context: copies are slower otherwise.
    pub fn register(&mut self, door: &Door, device: &Arc<Device>) {
        if device.ring.is_none() || !device.knows_memory.raise() {
            return;
        }
        let Some((start, bytes)) = door.record(tensortap_record::ThreadRecorder::all_space) else { return };
        let registered = device.call(&door.driver, || door.driver.register(start, bytes));
        self.is_registered |= registered == Some(SUCCESS);
        if !self.is_registered {
            door.tell_once("memory for content could not be pinned: copies from the device are slower");
        }
    }

    fn copy(
        &mut self,
        door: &Door,
        device: &Arc<Device>,
        ticket: &Ticket,
        (from, hash): (u64, u128),
    ) -> Begun {
        let driver = &door.driver;
        let known = events(device).pop();
        let begun = device.call(driver, || {
            let event = known.map_or_else(|| driver.make_event(), Ok)?;
            let to = ticket.start.expose_provenance();
            // SAFETY: the space is this ticket's until it is committed or given up, which happens behind the copy.
            let copied = unsafe { driver.copy_to_host(to, from, ticket.bytes, device.copies) };
            if copied != SUCCESS {
                events(device).push(event);
                return Err(copied);
            }
            if driver.record_event(event, device.copies) == SUCCESS {
                return Ok(Some(event));
            }
            // Nothing tells when it is done, and until then it writes there. A stream that cannot be waited for does nothing any more.
            match driver.wait_stream(device.copies) {
                SUCCESS => Ok(None),
                status => Err(status),
            }
        });
        match begun {
            Some(Ok(Some(event))) => {
                let (device, ticket) = (Arc::clone(device), ticket.number);
                self.copies.push_back(Copy { device, event, ticket, last: None, hash });
                Begun::UnderWay
            }
            Some(Ok(None)) => {
                door.record(|recorder| recorder.commit(ticket.number, None));
                Begun::Over
            }
            _ => {
                door.record(|recorder| recorder.give_up(ticket.number));
                Begun::Not
            }
        }
    }

    /// Commits what has arrived; whether anything has.
    pub fn settle(&mut self, door: &Door, lost: &mut Vec<u128>) -> bool {
        let mut has_arrived = false;
        while self.settle_first(door, lost) {
            has_arrived = true;
        }
        has_arrived
    }

    fn settle_first(&mut self, door: &Door, lost: &mut Vec<u128>) -> bool {
        let Some(first) = self.copies.front() else { return false };
        let asked = first.device.call(&door.driver, || door.driver.has_happened(first.event));
        if asked == Some(Ok(false)) {
            return false;
        }
        let Some(Copy { device, event, ticket, last, hash }) = self.copies.pop_front() else { return false };
        if asked == Some(Ok(true)) {
            door.record(|recorder| recorder.commit(ticket, None));
            events(&device).push(event);
        } else {
            door.record(|recorder| recorder.give_up(ticket));
            lost.push(hash);
        }
        if let Some(last) = last {
            give(&device, last);
        }
        true
    }
}

/// Gives content's part of the ring back.
pub fn give(device: &Device, content: InRing) {
    if let Some((_, ring)) = &device.ring {
        ring.give([content.room]);
    }
}
