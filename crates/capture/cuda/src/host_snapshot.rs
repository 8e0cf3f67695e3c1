//! Snapshots by copies to the host, for memory that the backend's kernels cannot hash on the device
//! (`snapshot`).
//!
//! Copies from the device enter the stream, followed by a host function that records what they brought. In
//! stream order, the host function runs after all its copies. It must not call CUDA.

use std::{
    ffi::c_void,
    ptr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tensortap_queue::{Command, Range, RingSlice};
use tensortap_record::{DumpStage, RecordError, Tensor, ThreadRecorder, UncapturedReason};

use crate::{
    backend::CudaBackend,
    command::CommandArgs,
    copy_plan::{Piece, pieces},
    library::{SUCCESS, Status},
};

/// A command that is in its stream.
pub struct RunningCommand {
    /// The command.
    pub command: Command,
    /// Its arguments, until the values among them are recorded.
    args: Option<Arc<CommandArgs>>,
    /// Whether nothing more of it is recorded.
    pub is_over: bool,
}

impl RunningCommand {
    /// Records the arguments by value, unless that is done already.
    ///
    /// # Errors
    /// Those of [`ThreadRecorder`].
    pub fn record_known(&mut self, recorder: &mut ThreadRecorder) -> Result<(), RecordError> {
        let args = self.args.take();
        args.map_or(Ok(()), |args| args.known.record(recorder, self.command.task()))
    }
}

/// A command that the submitting thread shares with its stream and with the harvest thread.
pub struct SharedCommand {
    running: Mutex<RunningCommand>,
    /// Notified when nothing more of the command is recorded.
    over: Condvar,
}

/// A call that waits for its command waits at most this long for the after-snapshot, which follows the
/// command directly.
const WAIT_LIMIT: Duration = Duration::from_millis(100);
/// Limits of the pause between two looks at the device's progress.
const SHORTEST: Duration = Duration::from_micros(2);
const LONGEST: Duration = Duration::from_micros(100);

impl SharedCommand {
    /// A command that enters its stream.
    pub fn new(command: Command, args: Arc<CommandArgs>) -> Arc<SharedCommand> {
        let running = RunningCommand { command, args: Some(args), is_over: false };
        Arc::new(SharedCommand { running: Mutex::new(running), over: Condvar::new() })
    }

    /// Locks the command.
    pub fn running(&self) -> MutexGuard<'_, RunningCommand> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads that wait for the command.
    pub fn notify_over(&self) {
        self.over.notify_all();
    }

    /// Waits until the after-snapshot is complete, at most [`WAIT_LIMIT`]. Returns whether it is. `is_seen`
    /// returns true when the device has written its results, which is before they are recorded.
    pub fn wait_for_snapshot(&self, is_seen: impl Fn() -> bool) -> bool {
        let began = Instant::now();
        let mut pause = SHORTEST;
        // The device finishes soon what it has just begun.
        let is_over = || is_seen() || self.running.try_lock().is_ok_and(|running| running.is_over);
        while !is_over() {
            if began.elapsed() > WAIT_LIMIT {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST);
        }
        true
    }

    /// Waits until the after-snapshot is recorded, at most [`WAIT_LIMIT`]. Returns whether it is.
    pub fn wait(&self) -> bool {
        let waited = self.over.wait_timeout_while(self.running(), WAIT_LIMIT, |running| !running.is_over);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }
}

/// The data of a host function.
struct HostSnapshot {
    shared: Arc<SharedCommand>,
    stage: DumpStage,
    /// Ranges by their position in the snapshot, and the address of the content of each.
    ranges: Vec<(usize, usize)>,
    rooms: Vec<RingSlice>,
}

/// The stream of a snapshot.
#[derive(Clone, Copy)]
pub struct Target {
    /// Handle of the stream.
    pub stream: usize,
    /// Handle of the context.
    pub context: usize,
}

/// Puts a snapshot into a stream. Returns the ranges that are not captured, by their position, with the
/// reasons.
///
/// # Errors
/// The driver's status. Then nothing is captured, and nothing reports when the command has run.
pub fn enqueue(
    backend: &CudaBackend,
    target: Target,
    shared: &Arc<SharedCommand>,
    stage: DumpStage,
) -> Result<Vec<(usize, UncapturedReason)>, Status> {
    let ranges: Vec<Range> = shared.running().command.captured_at(stage).copied().collect();
    let (pieces, places) = pieces(ranges.iter());
    let copied: Vec<_> = pieces.iter().map(|piece| copy(backend, target, *piece)).collect();
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
    put(backend, target, HostSnapshot { shared: Arc::clone(shared), stage, ranges: seen, rooms })?;
    Ok(missed)
}

/// Puts the copy of a piece into a stream. Returns the address and the slice of its content.
fn copy(
    backend: &CudaBackend,
    target: Target,
    piece: Piece,
) -> Result<(usize, Option<RingSlice>), UncapturedReason> {
    if piece.bytes == 0 {
        return Ok((ptr::without_provenance::<u8>(8).addr(), None));
    }
    let pool = backend.pool(target.context).ok_or(UncapturedReason::NoRoom)?;
    let room = pool.allocate(piece.bytes).ok_or(UncapturedReason::NoRoom)?;
    let to = pool.start_of(room);
    // SAFETY: only this copy uses the slice until the host function after it frees the slice. The staging
    // memory lives until the process ends.
    match unsafe { backend.driver.copy_to_host(to, piece.start, piece.bytes, target.stream) } {
        SUCCESS => Ok((to, Some(room))),
        _ => {
            pool.free([room]);
            Err(UncapturedReason::NoAccess)
        }
    }
}

/// Puts the host function into the stream, after its copies.
fn put(backend: &CudaBackend, target: Target, snapshot: HostSnapshot) -> Result<(), Status> {
    let snapshot = Box::into_raw(Box::new(snapshot));
    // SAFETY: `run` takes the box back once, and does not call CUDA.
    let status = unsafe { backend.driver.host_function(target.stream, run, snapshot.cast()) };
    if status == SUCCESS {
        return Ok(());
    }
    // The copies are in the stream, so their slices are never freed.
    // SAFETY: the box was created above, and the driver has not taken it.
    drop(unsafe { Box::from_raw(snapshot) });
    Err(status)
}

/// The host function, in a thread of the driver.
///
/// # Safety
/// `snapshot` is a box of `put`, passed once.
unsafe extern "C" fn run(snapshot: *mut c_void) {
    // SAFETY: the caller's guarantee.
    let snapshot = unsafe { Box::from_raw(snapshot.cast::<HostSnapshot>()) };
    // A panic must not reach the driver.
    let recorded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| record(&snapshot)));
    drop(recorded);
    if let Some(pool) = CudaBackend::get().and_then(CudaBackend::known_pool) {
        pool.free(snapshot.rooms);
    }
}

fn record(snapshot: &HostSnapshot) {
    let HostSnapshot { shared, stage, ranges, rooms: _ } = snapshot;
    let mut running = shared.running();
    let Some(backend) = CudaBackend::get().filter(|_| !running.is_over) else {
        // The driver refused the command of this snapshot.
        return;
    };
    let command = &mut running.command;
    let of_stage: Vec<Range> = command.captured_at(*stage).copied().collect();
    let seen: Vec<(usize, Tensor<'_>)> = ranges
        .iter()
        .map(|&(place, start)| {
            let range = &of_stage[place];
            let start = ptr::with_exposed_provenance(start);
            // SAFETY: all bytes of the range are there, in a slice that only this snapshot uses. The copy has
            // filled it, because the stream has come that far.
            (place, unsafe { Tensor::at(start, range.bytes, range.elements()) })
        })
        .collect();
    backend.record(|recorder| command.record_contents(recorder, *stage, &seen, true));
    if *stage == DumpStage::AfterCompletion {
        running.is_over = true;
        drop(running);
        shared.notify_over();
    }
}
