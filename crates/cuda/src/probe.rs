//! Probes: what is read before and behind a command, in its own stream, where a device cannot find out about it by itself (`content`).
//!
//! Copies from the device go into the stream, and behind them a function of this process, which records what they brought. It calls nothing of CUDA.

use std::{
    ffi::c_void,
    ptr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tensortap_queue::{Command, Range, Room};
use tensortap_record::{DumpStage, RecordError, Tensor, ThreadRecorder, UncapturedReason};

use crate::{
    copies::{Piece, pieces},
    door::Door,
    library::{SUCCESS, Status},
    work::Subject,
};

/// A command that is in its stream.
pub struct Running {
    /// The command.
    pub command: Command,
    /// What it is given, until what was known of that when it was submitted is recorded.
    subject: Option<Arc<Subject>>,
    /// Whether nothing more is seen of it.
    pub is_over: bool,
}

impl Running {
    /// Records what was known of it when it was submitted, unless somebody has.
    ///
    /// # Errors
    /// Those of [`ThreadRecorder`].
    pub fn record_known(&mut self, recorder: &mut ThreadRecorder) -> Result<(), RecordError> {
        let subject = self.subject.take();
        subject.map_or(Ok(()), |subject| subject.known.record(recorder, self.command.task()))
    }
}

/// The same, as the thread that submits it and the stream that runs it have it.
pub struct Shared {
    running: Mutex<Running>,
    /// Told when nothing more is seen of it.
    over: Condvar,
}

/// A call that waits for its command waits so long for what it left to be seen, which stands right behind it.
const PATIENCE: Duration = Duration::from_millis(100);
/// It looks for it so often.
const SHORTEST: Duration = Duration::from_micros(2);
const LONGEST: Duration = Duration::from_micros(100);

impl Shared {
    /// A command that goes into its stream.
    pub fn new(command: Command, subject: Arc<Subject>) -> Arc<Shared> {
        let running = Running { command, subject: Some(subject), is_over: false };
        Arc::new(Shared { running: Mutex::new(running), over: Condvar::new() })
    }

    /// The command, held for a moment.
    pub fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing more is seen of it: whoever waits goes on.
    pub fn told(&self) {
        self.over.notify_all();
    }

    /// Waits until what it left was seen, for a while; whether it was. `is_seen` says so before it is recorded.
    pub fn wait_seen(&self, is_seen: impl Fn() -> bool) -> bool {
        let began = Instant::now();
        let mut pause = SHORTEST;
        // What a device has just begun is over soon.
        let is_over = || is_seen() || self.running.try_lock().is_ok_and(|running| running.is_over);
        while !is_over() {
            if began.elapsed() > PATIENCE {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST);
        }
        true
    }

    /// Waits until what it left was seen and recorded, for a while; whether it was.
    pub fn wait(&self) -> bool {
        let waited = self.over.wait_timeout_while(self.running(), PATIENCE, |running| !running.is_over);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }
}

/// What a probe does when its turn has come.
struct Probe {
    shared: Arc<Shared>,
    stage: DumpStage,
    /// Ranges it looks at, by their places among those of the stage, and where the content of each begins.
    ranges: Vec<(usize, usize)>,
    rooms: Vec<Room>,
}

/// Where a probe goes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Handle of the stream.
    pub stream: usize,
    /// The context.
    pub context: usize,
}

/// Puts a probe into a stream. Ranges that it cannot look at are told, each by its place.
///
/// # Errors
/// What the driver says: nothing is looked at, and nobody tells when the command has run.
pub fn enqueue(
    door: &Door,
    target: Target,
    shared: &Arc<Shared>,
    stage: DumpStage,
) -> Result<Vec<(usize, UncapturedReason)>, Status> {
    let ranges: Vec<Range> = shared.running().command.seen_at(stage).copied().collect();
    let (pieces, places) = pieces(ranges.iter());
    let copied: Vec<_> = pieces.iter().map(|piece| copy(door, target, *piece)).collect();
    let (mut seen, mut missed) = (Vec::new(), Vec::new());
    for (place, range) in ranges.iter().enumerate() {
        match copied[places[place]] {
            Ok(room) => {
                let (start, _) = room;
                let into = usize::try_from(range.base - pieces[places[place]].start).unwrap_or(0);
                seen.push((place, start + into));
            }
            Err(reason) => missed.push((place, reason)),
        }
    }
    let rooms = copied.into_iter().filter_map(|copied| copied.ok()?.1).collect();
    put(door, target, Probe { shared: Arc::clone(shared), stage, ranges: seen, rooms })?;
    Ok(missed)
}

/// Puts the copy of a piece into a stream: where its content will be, and in whose room.
fn copy(door: &Door, target: Target, piece: Piece) -> Result<(usize, Option<Room>), UncapturedReason> {
    if piece.bytes == 0 {
        return Ok((ptr::without_provenance::<u8>(8).addr(), None));
    }
    let pool = door.pool(target.context).ok_or(UncapturedReason::NoRoom)?;
    let room = pool.take(piece.bytes).ok_or(UncapturedReason::NoRoom)?;
    let to = pool.start_of(room);
    // SAFETY: the room is this copy's until the probe behind it gives it back; the pool's memory is there until the process ends.
    match unsafe { door.driver.copy_to_host(to, piece.start, piece.bytes, target.stream) } {
        SUCCESS => Ok((to, Some(room))),
        _ => {
            pool.give([room]);
            Err(UncapturedReason::NoAccess)
        }
    }
}

/// Puts the function behind its copies.
fn put(door: &Door, target: Target, probe: Probe) -> Result<(), Status> {
    let probe = Box::into_raw(Box::new(probe));
    // SAFETY: `run` takes it for what it is, once, and calls nothing of CUDA.
    let status = unsafe { door.driver.host_function(target.stream, run, probe.cast()) };
    if status == SUCCESS {
        return Ok(());
    }
    // Copies are in the stream: their rooms are theirs for good.
    // SAFETY: made above, and nobody was given it.
    drop(unsafe { Box::from_raw(probe) });
    Err(status)
}

/// A probe's turn, in a thread of the driver.
///
/// # Safety
/// `probe` is one of `put`'s, once.
unsafe extern "C" fn run(probe: *mut c_void) {
    // SAFETY: the caller's promise.
    let probe = unsafe { Box::from_raw(probe.cast::<Probe>()) };
    // A panic must not reach the driver.
    let observed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| observe(&probe)));
    drop(observed);
    if let Some(pool) = Door::get().and_then(Door::known_pool) {
        pool.give(probe.rooms);
    }
}

fn observe(probe: &Probe) {
    let Probe { shared, stage, ranges, rooms: _ } = probe;
    let mut running = shared.running();
    let Some(door) = Door::get().filter(|_| !running.is_over) else {
        // The driver did not take its command.
        return;
    };
    let command = &mut running.command;
    let of_stage: Vec<Range> = command.seen_at(*stage).copied().collect();
    let seen: Vec<(usize, Tensor<'_>)> = ranges
        .iter()
        .map(|&(place, start)| {
            let range = &of_stage[place];
            let start = ptr::with_exposed_provenance(start);
            // SAFETY: all bytes of the range lie there, in a room that is this probe's; the copy has filled it, for the stream has come so far.
            (place, unsafe { Tensor::at(start, range.bytes, range.elements()) })
        })
        .collect();
    door.record(|recorder| command.observe(recorder, *stage, &seen, true));
    if *stage == DumpStage::AfterCompletion {
        running.is_over = true;
        drop(running);
        shared.told();
    }
}
