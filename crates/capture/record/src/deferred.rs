//! Content that arrives later, such as a copy from a device: space is reserved, filled, and committed in any
//! order.

use std::{collections::VecDeque, time::Duration};

use tensortap_abi::DumpStage;
use tensortap_recorder::{ContentDigest, Outcome, PayloadReservation, PiecewisePayload, ReserveError};

use crate::{
    RecordError, Task, Tensor, ThreadRecorder,
    core::{CoreRef, Lane},
    tensor::check_position,
    thread::capture,
};

/// A reservation: the space for the content, and the number for its commit.
///
/// Until then, only the caller uses the space. It is in the session's memory, which exists as long as the
/// handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Number of the reservation.
    pub number: u64,
    /// Start of the space. The content is logical and contiguous.
    pub start: *mut u8,
    /// Size of the content in bytes.
    pub bytes: u64,
}

/// Content with a known hash. Its space is [reserved](ThreadRecorder::next_space) piece by piece.
#[derive(Debug)]
pub struct PartialContent {
    /// The whole content, if one reservation is enough.
    whole: Option<Ticket>,
    pieces: Option<PiecewisePayload>,
}

/// A handle's lane for content that arrives later.
pub(crate) struct DeferredLane {
    lane: Lane,
    /// Reservations that are not visible yet, in order.
    queue: VecDeque<QueuedReservation>,
    /// Number of the first entry of the queue.
    first: u64,
}

struct QueuedReservation {
    reserved: PayloadReservation,
    state: State,
}

enum State {
    Open,
    Filled(Option<u128>),
    Canceled,
}

impl DeferredLane {
    fn new(core: &CoreRef, name: &str, max_wait: Option<Duration>) -> Result<DeferredLane, RecordError> {
        let mut lane = core.lease(name)?;
        lane.set_max_wait(max_wait);
        Ok(DeferredLane { lane, queue: VecDeque::new(), first: 0 })
    }

    pub fn set_max_wait(&mut self, most: Option<Duration>) {
        self.lane.set_max_wait(most);
    }

    pub fn settle(&mut self) -> bool {
        self.lane.settle()
    }

    /// Cancels open reservations and returns the lane.
    pub fn close(&mut self, core: &CoreRef) {
        for place in &mut self.queue {
            if matches!(place.state, State::Open) {
                place.state = State::Canceled;
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
    ) -> Result<Ticket, ReserveError> {
        let reserved = self.lane.reserve_tensor(&capture(task, stage, tensor), beside)?;
        Ok(self.open(reserved))
    }

    fn open(&mut self, reserved: PayloadReservation) -> Ticket {
        let (start, bytes) = (self.lane.space(&reserved).as_mut_ptr().cast(), reserved.bytes());
        let number = self.first + self.queue.len() as u64;
        self.queue.push_back(QueuedReservation { reserved, state: State::Open });
        Ticket { number, start, bytes }
    }

    /// Queues a complete record.
    fn say(&mut self, reserved: PayloadReservation) -> Outcome {
        self.queue.push_back(QueuedReservation { reserved, state: State::Filled(None) });
        self.publish()
    }

    fn next_space(&mut self, partial: &mut PartialContent) -> Result<Option<Ticket>, ReserveError> {
        if let Some(ticket) = partial.whole.take() {
            return Ok(Some(ticket));
        }
        let Some(pieces) = &mut partial.pieces else { return Ok(None) };
        match self.lane.reserve_piece(pieces)? {
            Some(piece) if piece.bytes() > 0 => Ok(Some(self.open(piece))),
            Some(end) => {
                self.say(end);
                partial.pieces = None;
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

    /// Publishes all entries before the first open reservation. Returns the outcome of the last one.
    fn publish(&mut self) -> Outcome {
        let mut outcome = Outcome::Recorded;
        while let Some(QueuedReservation { reserved, state }) = self.queue.pop_front() {
            outcome = match state {
                State::Open => {
                    self.queue.push_front(QueuedReservation { reserved, state });
                    break;
                }
                State::Filled(hash) => self.lane.commit_reserved(reserved, hash),
                State::Canceled => self.lane.cancel_reserved(reserved),
            };
            self.first += 1;
        }
        outcome
    }
}

impl ThreadRecorder {
    /// Reserves space for a tensor's content, which arrives later and is not read from the tensor's memory.
    /// `None` if nothing has to be filled: the task is filtered, or the level needs only metadata, which is
    /// recorded.
    ///
    /// Reservations can be committed in any order and become visible in the order of reservation. They use
    /// their own lane, so other records do not wait for them.
    ///
    /// # Errors
    /// [`RecordError::CommitFirst`] if only a commit by this handle can make room; the call does not wait for
    /// that. [`RecordError::TooLarge`] if the size exceeds the limit. [`RecordError::NoLane`],
    /// [`RecordError::BadView`]. See also [`ThreadRecorder`].
    pub fn reserve(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
    ) -> Result<Option<Ticket>, RecordError> {
        if !self.takes(task, stage, tensor)? {
            return Ok(None);
        }
        let (later, lane) = self.deferred_lane()?;
        let reserved = later.reserve(lane, task, stage, tensor);
        self.reserved(tensor, reserved)
    }

    /// Whether a task and its argument are recorded.
    fn takes(&mut self, task: &mut Task, stage: DumpStage, tensor: &Tensor<'_>) -> Result<bool, RecordError> {
        self.core.check()?;
        if !task.check()? {
            self.filtered(task, 1);
            return Ok(false);
        }
        check_position(tensor.arg)?;
        task.has_tensor(tensor.arg);
        if tensor.is_recordable() { Ok(true) } else { Err(self.not_recordable(task, stage, tensor)) }
    }

    /// The lane for deferred content, and the regular lane.
    fn deferred_lane(&mut self) -> Result<(&mut DeferredLane, &mut Lane), RecordError> {
        let later = match &mut self.deferred {
            Some(later) => later,
            none => none.insert(DeferredLane::new(&self.core, &self.name, self.max_wait)?),
        };
        Ok((later, &mut self.lane))
    }

    /// Converts the result of a reservation; `None` if there was nothing to reserve.
    fn reserved<T>(
        &self,
        tensor: &Tensor<'_>,
        reserved: Result<T, ReserveError>,
    ) -> Result<Option<T>, RecordError> {
        match reserved {
            Ok(reserved) => Ok(Some(reserved)),
            Err(ReserveError::Done(Outcome::Uncaptured)) => Err(self.uncaptured(tensor)),
            Err(ReserveError::Done(_)) => Ok(None),
            Err(ReserveError::CommitFirst) => Err(RecordError::CommitFirst),
            Err(ReserveError::TooLarge { bytes, most }) => Err(RecordError::TooLarge { bytes, most }),
        }
    }

    /// Records a tensor with a hash and statistics computed elsewhere, such as on a device. Both are trusted.
    /// If the level wants the payload, it counts as dropped.
    ///
    /// # Errors
    /// As [`ThreadRecorder::tensor`].
    pub fn found(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
        found: &ContentDigest,
    ) -> Result<Outcome, RecordError> {
        if !self.takes(task, stage, tensor)? {
            return Ok(Outcome::Filtered);
        }
        match self.lane.tensor_digest(&capture(task, stage, tensor), found) {
            Outcome::Uncaptured => Err(self.uncaptured(tensor)),
            outcome => Ok(outcome),
        }
    }

    /// Records a tensor whose content this handle has [recorded before](ThreadRecorder::incoming), without
    /// storing it again. If the collector does not have it, the record says that its payload was dropped.
    ///
    /// # Errors
    /// As [`ThreadRecorder::reserve`].
    pub fn found_again(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
        found: &ContentDigest,
    ) -> Result<(), RecordError> {
        if !self.takes(task, stage, tensor)? {
            return Ok(());
        }
        let (later, lane) = self.deferred_lane()?;
        let said = later.lane.reserve_stored(&capture(task, stage, tensor), found, lane);
        let said = said.map(|reserved| later.say(reserved));
        self.reserved(tensor, said).map(|_| ())
    }

    /// Begins a tensor with a known hash whose content arrives later. [`ThreadRecorder::next_space`] reserves
    /// the space. `None` if nothing has to be filled, as with [`ThreadRecorder::reserve`].
    ///
    /// # Errors
    /// As [`ThreadRecorder::reserve`], but no size is too large.
    pub fn incoming(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
        found: &ContentDigest,
    ) -> Result<Option<PartialContent>, RecordError> {
        if !self.takes(task, stage, tensor)? {
            return Ok(None);
        }
        let (later, lane) = self.deferred_lane()?;
        let begun = later.lane.reserve_hashed(&capture(task, stage, tensor), found, lane);
        let begun = begun.map(|(reserved, pieces)| match pieces {
            None => PartialContent { whole: Some(later.open(reserved)), pieces: None },
            pieces => {
                later.say(reserved);
                PartialContent { whole: None, pieces }
            }
        });
        self.reserved(tensor, begun)
    }

    /// Reserves space for the next bytes of the content, in order; `None` if all of it has space. After
    /// canceling a piece, do not reserve more: incomplete content is discarded.
    ///
    /// # Errors
    /// [`RecordError::CommitFirst`] as in [`ThreadRecorder::reserve`]. [`RecordError::Lost`] if the recorder
    /// accepts no more of it.
    pub fn next_space(&mut self, partial: &mut PartialContent) -> Result<Option<Ticket>, RecordError> {
        self.core.check()?;
        match self.deferred_lane()?.0.next_space(partial) {
            Ok(ticket) => Ok(ticket),
            Err(ReserveError::CommitFirst) => Err(RecordError::CommitFirst),
            Err(ReserveError::Done(_) | ReserveError::TooLarge { .. }) => Err(RecordError::Lost),
        }
    }

    /// Start and size of the memory for all deferred content of this handle, for registering it with a
    /// device.
    ///
    /// # Errors
    /// [`RecordError::NoLane`]. See also [`ThreadRecorder`].
    pub fn all_space(&mut self) -> Result<(usize, u64), RecordError> {
        self.core.check()?;
        let range = self.deferred_lane()?.0.lane.all_space();
        Ok((usize::try_from(range.addr).unwrap_or(0), range.bytes))
    }

    /// Commits content. Without a hash, computes its `xxh3_128_tree4k` from the filled bytes.
    ///
    /// # Errors
    /// If the reservation is not open. See also [`ThreadRecorder`].
    pub fn commit(&mut self, ticket: u64, hash: Option<u128>) -> Result<Outcome, RecordError> {
        self.settle_deferred(ticket, State::Filled(hash))
    }

    /// Cancels a reservation: the metadata is recorded, and the payload counts as dropped.
    ///
    /// # Errors
    /// As [`ThreadRecorder::commit`].
    pub fn give_up(&mut self, ticket: u64) -> Result<Outcome, RecordError> {
        self.settle_deferred(ticket, State::Canceled)
    }

    fn settle_deferred(&mut self, ticket: u64, state: State) -> Result<Outcome, RecordError> {
        self.core.check()?;
        match &mut self.deferred {
            Some(later) => later.settle_place(ticket, state),
            None => Err(RecordError::NotReserved { ticket }),
        }
    }
}
