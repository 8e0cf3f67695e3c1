//! Content that comes later, such as a copy from a device: space is reserved, filled, and committed in any order.

use std::{collections::VecDeque, time::Duration};

use tensortap_abi::DumpStage;
use tensortap_recorder::{NotReserved, Outcome, Reserved};

use crate::{
    RecordError, Task, Tensor, ThreadRecorder,
    core::{CoreRef, Lane},
    tensor::check_position,
    thread::capture,
};

/// Space that was reserved: where the content goes, and the number by which it is committed.
///
/// The space is the holder's alone until then. It lies in the session's memory, which is there as long as the handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its number.
    pub number: u64,
    /// Where the content goes, logical and contiguous.
    pub start: *mut u8,
    /// Bytes of the content.
    pub bytes: u64,
}

/// The lane of a handle for content that comes later.
pub(crate) struct Later {
    lane: Lane,
    /// What was reserved and is not visible yet, in that order.
    queue: VecDeque<Place>,
    /// Number of the first in the queue.
    first: u64,
}

struct Place {
    reserved: Reserved,
    state: State,
}

enum State {
    Open,
    Filled(Option<u128>),
    GivenUp,
}

impl Later {
    fn new(core: &CoreRef, name: &str, max_wait: Option<Duration>) -> Result<Later, RecordError> {
        let mut lane = core.lease(name)?;
        lane.set_max_wait(max_wait);
        Ok(Later { lane, queue: VecDeque::new(), first: 0 })
    }

    pub fn set_max_wait(&mut self, most: Option<Duration>) {
        self.lane.set_max_wait(most);
    }

    pub fn settle(&mut self) -> bool {
        self.lane.settle()
    }

    /// What is still open never comes; the lane is returned.
    pub fn close(&mut self, core: &CoreRef) {
        for place in &mut self.queue {
            if matches!(place.state, State::Open) {
                place.state = State::GivenUp;
            }
        }
        self.publish();
        core.give_back(&mut self.lane);
    }

    fn reserve(
        &mut self,
        beside: &mut Lane,
        task: &Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
    ) -> Result<Ticket, NotReserved> {
        let reserved = self.lane.reserve_tensor(&capture(task, stage, tensor), beside)?;
        let (start, bytes) = (self.lane.space(&reserved).as_mut_ptr().cast(), reserved.bytes());
        let number = self.first + self.queue.len() as u64;
        self.queue.push_back(Place { reserved, state: State::Open });
        Ok(Ticket { number, start, bytes })
    }

    fn settle_place(&mut self, ticket: u64, state: State) -> Result<Outcome, RecordError> {
        let at = ticket.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let place =
            at.and_then(|at| self.queue.get_mut(at)).filter(|place| matches!(place.state, State::Open));
        place.ok_or(RecordError::NotReserved { ticket })?.state = state;
        Ok(self.publish())
    }

    /// Makes visible what no open reservation stands before; what became of the last of it.
    fn publish(&mut self) -> Outcome {
        let mut outcome = Outcome::Recorded;
        while let Some(Place { reserved, state }) = self.queue.pop_front() {
            outcome = match state {
                State::Open => {
                    self.queue.push_front(Place { reserved, state });
                    break;
                }
                State::Filled(hash) => self.lane.commit_reserved(reserved, hash),
                State::GivenUp => self.lane.give_up_reserved(reserved),
            };
            self.first += 1;
        }
        outcome
    }
}

impl ThreadRecorder {
    /// Reserves space for a tensor's content, which comes later and is not read from the tensor's memory. None when there is nothing to be
    /// filled: the task is filtered, or only metadata is wanted, which is recorded then.
    ///
    /// Reservations are committed in any order and become visible in the order they were made. They have a lane of their own, so nothing
    /// else waits for them.
    ///
    /// # Errors
    /// [`RecordError::CommitFirst`] when only a commit of this handle's own makes room: it never waits for that.
    /// [`RecordError::TooLarge`] when there never is as much. [`RecordError::NoLane`], [`RecordError::BadView`]. And see [`ThreadRecorder`].
    pub fn reserve(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
    ) -> Result<Option<Ticket>, RecordError> {
        self.core.check()?;
        if !task.check()? {
            return Ok(None);
        }
        check_position(tensor.arg)?;
        task.has_tensor(tensor.arg);
        if !tensor.is_recordable() {
            return Err(self.not_recordable(task, stage, tensor));
        }
        let later = match &mut self.later {
            Some(later) => later,
            none => none.insert(Later::new(&self.core, &self.name, self.max_wait)?),
        };
        match later.reserve(&mut self.lane, task, stage, tensor) {
            Ok(ticket) => Ok(Some(ticket)),
            Err(NotReserved::Done(Outcome::Uncaptured)) => Err(self.uncaptured(tensor)),
            Err(NotReserved::Done(_)) => Ok(None),
            Err(NotReserved::CommitFirst) => Err(RecordError::CommitFirst),
            Err(NotReserved::TooLarge { bytes, most }) => Err(RecordError::TooLarge { bytes, most }),
        }
    }

    /// The content has come. Without its `xxh3_128_tree4k`, that is taken here, from the bytes that were filled.
    ///
    /// # Errors
    /// When no such reservation is open, and see [`ThreadRecorder`].
    pub fn commit(&mut self, ticket: u64, hash: Option<u128>) -> Result<Outcome, RecordError> {
        self.settle_later(ticket, State::Filled(hash))
    }

    /// The content does not come: its metadata stays, and its payload counts as dropped.
    ///
    /// # Errors
    /// As [`ThreadRecorder::commit`].
    pub fn give_up(&mut self, ticket: u64) -> Result<Outcome, RecordError> {
        self.settle_later(ticket, State::GivenUp)
    }

    fn settle_later(&mut self, ticket: u64, state: State) -> Result<Outcome, RecordError> {
        self.core.check()?;
        match &mut self.later {
            Some(later) => later.settle_place(ticket, state),
            None => Err(RecordError::NotReserved { ticket }),
        }
    }
}
