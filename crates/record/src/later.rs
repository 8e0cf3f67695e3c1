//! Content that comes later, such as a copy from a device: space is reserved, filled, and committed in any order.

use std::{collections::VecDeque, time::Duration};

use tensortap_abi::DumpStage;
use tensortap_recorder::{Found, NotReserved, Outcome, Pieces, Reserved};

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

/// Content whose hash is known and whose space is [given out](ThreadRecorder::next_space) piece by piece.
#[derive(Debug)]
pub struct Incoming {
    /// All of it, where it goes in one.
    whole: Option<Ticket>,
    pieces: Option<Pieces>,
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
        Ok(self.open(reserved))
    }

    fn open(&mut self, reserved: Reserved) -> Ticket {
        let (start, bytes) = (self.lane.space(&reserved).as_mut_ptr().cast(), reserved.bytes());
        let number = self.first + self.queue.len() as u64;
        self.queue.push_back(Place { reserved, state: State::Open });
        Ticket { number, start, bytes }
    }

    /// A record that waits for nothing but those before it.
    fn say(&mut self, reserved: Reserved) -> Outcome {
        self.queue.push_back(Place { reserved, state: State::Filled(None) });
        self.publish()
    }

    fn next_space(&mut self, incoming: &mut Incoming) -> Result<Option<Ticket>, NotReserved> {
        if let Some(ticket) = incoming.whole.take() {
            return Ok(Some(ticket));
        }
        let Some(pieces) = &mut incoming.pieces else { return Ok(None) };
        match self.lane.reserve_piece(pieces)? {
            Some(piece) if piece.bytes() > 0 => Ok(Some(self.open(piece))),
            Some(end) => {
                self.say(end);
                incoming.pieces = None;
                Ok(None)
            }
            None => Ok(None),
        }
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
        if !self.takes(task, stage, tensor)? {
            return Ok(None);
        }
        let (later, lane) = self.later()?;
        let reserved = later.reserve(lane, task, stage, tensor);
        self.reserved(tensor, reserved)
    }

    /// Whether a task and its argument are recorded at all.
    fn takes(&mut self, task: &mut Task, stage: DumpStage, tensor: &Tensor<'_>) -> Result<bool, RecordError> {
        self.core.check()?;
        if !task.check()? {
            return Ok(false);
        }
        check_position(tensor.arg)?;
        task.has_tensor(tensor.arg);
        if tensor.is_recordable() { Ok(true) } else { Err(self.not_recordable(task, stage, tensor)) }
    }

    /// The lane for what comes later, and the one beside it.
    fn later(&mut self) -> Result<(&mut Later, &mut Lane), RecordError> {
        let later = match &mut self.later {
            Some(later) => later,
            none => none.insert(Later::new(&self.core, &self.name, self.max_wait)?),
        };
        Ok((later, &mut self.lane))
    }

    /// What is told of a reservation; none where there was nothing to be reserved.
    fn reserved<T>(
        &self,
        tensor: &Tensor<'_>,
        reserved: Result<T, NotReserved>,
    ) -> Result<Option<T>, RecordError> {
        match reserved {
            Ok(reserved) => Ok(Some(reserved)),
            Err(NotReserved::Done(Outcome::Uncaptured)) => Err(self.uncaptured(tensor)),
            Err(NotReserved::Done(_)) => Ok(None),
            Err(NotReserved::CommitFirst) => Err(RecordError::CommitFirst),
            Err(NotReserved::TooLarge { bytes, most }) => Err(RecordError::TooLarge { bytes, most }),
        }
    }

    /// Records a tensor by what somebody else has found out about its content, such as a device: hash and statistics. Both are believed. Its payload, where the level
    /// wants it, counts as dropped.
    ///
    /// # Errors
    /// As [`ThreadRecorder::tensor`].
    pub fn found(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
        found: &Found,
    ) -> Result<Outcome, RecordError> {
        if !self.takes(task, stage, tensor)? {
            return Ok(Outcome::Filtered);
        }
        match self.lane.found(&capture(task, stage, tensor), found) {
            Outcome::Uncaptured => Err(self.uncaptured(tensor)),
            outcome => Ok(outcome),
        }
    }

    /// The same of content that [came in](ThreadRecorder::incoming) by this handle before: it is not stored again. Where the collector does not have it after all, the
    /// record says that its payload was dropped.
    ///
    /// # Errors
    /// As [`ThreadRecorder::reserve`].
    pub fn found_again(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
        found: &Found,
    ) -> Result<(), RecordError> {
        if !self.takes(task, stage, tensor)? {
            return Ok(());
        }
        let (later, lane) = self.later()?;
        let said = later.lane.reserve_stored(&capture(task, stage, tensor), found, lane);
        let said = said.map(|reserved| later.say(reserved));
        self.reserved(tensor, said).map(|_| ())
    }

    /// Begins a tensor whose content comes later and whose hash is known already. Its space is asked for by [`ThreadRecorder::next_space`]. None when there is nothing to be
    /// filled, as with [`ThreadRecorder::reserve`].
    ///
    /// # Errors
    /// As [`ThreadRecorder::reserve`], but that nothing is too large.
    pub fn incoming(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
        found: &Found,
    ) -> Result<Option<Incoming>, RecordError> {
        if !self.takes(task, stage, tensor)? {
            return Ok(None);
        }
        let (later, lane) = self.later()?;
        let begun = later.lane.reserve_found(&capture(task, stage, tensor), found, lane);
        let begun = begun.map(|(reserved, pieces)| match pieces {
            None => Incoming { whole: Some(later.open(reserved)), pieces: None },
            pieces => {
                later.say(reserved);
                Incoming { whole: None, pieces }
            }
        });
        self.reserved(tensor, begun)
    }

    /// Space for the next bytes of content that comes, in order; none when all has space. Whoever gives up a piece does not ask for more: content that is not whole is none.
    ///
    /// # Errors
    /// [`RecordError::CommitFirst`] as [`ThreadRecorder::reserve`]. [`RecordError::Lost`] when the recorder takes no more of it.
    pub fn next_space(&mut self, incoming: &mut Incoming) -> Result<Option<Ticket>, RecordError> {
        self.core.check()?;
        match self.later()?.0.next_space(incoming) {
            Ok(ticket) => Ok(ticket),
            Err(NotReserved::CommitFirst) => Err(RecordError::CommitFirst),
            Err(NotReserved::Done(_) | NotReserved::TooLarge { .. }) => Err(RecordError::Lost),
        }
    }

    /// Where all content of this handle goes that comes later: where it begins, and its bytes. For whoever makes that memory known to a device.
    ///
    /// # Errors
    /// [`RecordError::NoLane`], and see [`ThreadRecorder`].
    pub fn all_space(&mut self) -> Result<(usize, u64), RecordError> {
        self.core.check()?;
        let range = self.later()?.0.lane.all_space();
        Ok((usize::try_from(range.addr).unwrap_or(0), range.bytes))
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
