//! Snapshots by copies to the host, for memory that the backend's kernels cannot hash on the device
//! (`snapshot`).
//!
//! Copies from the device enter the stream, followed by a host function that records what they brought. In
//! stream order, the host function runs after all its copies. It must not call CUDA.

use std::{ffi::c_void, ptr, sync::Arc};

use tensortap_queue::{CommandState, MissedRanges, Range, RingSlice, RunningCommand};
use tensortap_record::{DumpStage, RecordError, ThreadRecorder, UncapturedReason};

use crate::{
    backend::CudaBackend,
    command::CommandArgs,
    copy_plan::{Piece, pieces},
    library::{SUCCESS, Status},
};

/// A command that the submitting thread shares with its stream and with the harvest thread.
pub type SharedCommand = tensortap_queue::SharedCommand<UnrecordedArgs>;

/// The arguments of a command, until the values among them are recorded.
pub struct UnrecordedArgs(pub Option<Arc<CommandArgs>>);

impl CommandState for UnrecordedArgs {}

/// Records the arguments by value, unless that is done already.
///
/// # Errors
/// Those of [`ThreadRecorder`].
pub fn record_known(
    running: &mut RunningCommand<UnrecordedArgs>,
    recorder: &mut ThreadRecorder,
) -> Result<(), RecordError> {
    let args = running.state.0.take();
    args.map_or(Ok(()), |args| args.known.record(recorder, running.command.task()))
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

/// Puts a snapshot into a stream. Returns the ranges that are not captured.
///
/// # Errors
/// The reason why nothing is captured. Then nothing reports when the command has run.
pub fn enqueue(
    backend: &CudaBackend,
    target: Target,
    shared: &Arc<SharedCommand>,
    stage: DumpStage,
) -> Result<MissedRanges, UncapturedReason> {
    let ranges: Vec<Range> = shared.running().command.captured_at(stage).copied().collect();
    let (pieces, places) = pieces(ranges.iter());
    let copied: Vec<_> = pieces.iter().map(|piece| copy(backend, target, *piece)).collect();
    let (mut seen, mut missed) = (Vec::new(), Vec::new());
    for (place, range) in ranges.iter().enumerate() {
        match copied[places[place]] {
            Ok((start, _)) => {
                let into = usize::try_from(range.base - pieces[places[place]].start).unwrap_or(0);
                seen.push((place, start + into));
            }
            Err(reason) => missed.push((place, reason)),
        }
    }
    let rooms = copied.into_iter().filter_map(|copied| copied.ok()?.1).collect();
    let snapshot = HostSnapshot { shared: Arc::clone(shared), stage, ranges: seen, rooms };
    put(backend, target, snapshot).map_err(|_| UncapturedReason::NoAccess)?;
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
    let Some(backend) = CudaBackend::get() else { return };
    // SAFETY: all bytes of the ranges are there, in slices that only this snapshot uses. The copies have filled them, because
    // the stream has come that far.
    unsafe { shared.record_contents(&backend.session, *stage, ranges.iter().copied(), true) };
}
