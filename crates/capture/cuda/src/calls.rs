//! What the backend does before and after each function of the driver.

pub mod graphs;
pub mod kernels;
pub mod launch_cache;
pub mod launches;
pub mod memory;
pub mod modules;
pub mod transfers;

use std::cell::Cell;

use tensortap_queue::OrderToken;

use crate::{
    backend::CudaBackend,
    enqueue::{PendingCommand, StreamTarget},
    raw::Call,
    stream_guard::StreamGuard,
    streams::Stream,
    table::{CallKind, Function},
    torch,
};

/// The state of a call between its two callbacks.
pub enum CallState {
    /// The call puts a command into a stream.
    Command(PendingCommand),
    /// The call waits for these commands. If it succeeds, they have run.
    Wait(Vec<OrderToken>),
}

/// The call has not run yet.
pub fn before(backend: &CudaBackend, function: &Function, call: Call<'_>) -> Option<CallState> {
    // SAFETY: the function has these words, as the table says.
    let word = |at| unsafe { call.word(at) };
    let streams = || stream_of(function, call, handle(word(0)));
    match function.kind {
        CallKind::Launch { .. }
        | CallKind::LaunchEx
        | CallKind::LaunchLegacy(_)
        | CallKind::GraphLaunch(_)
        | CallKind::Memcpy(..)
        | CallKind::CopyBatch(_)
        | CallKind::CopyBox(..)
        | CallKind::CopyArray(..)
        | CallKind::Fill(..)
        | CallKind::FillRows(..) => command(backend, function, call).map(CallState::Command),
        CallKind::Free(stream) => {
            let is_captured = stream.is_some_and(|at| is_captured(backend, function, call, word(at)));
            if !is_captured {
                let stream = stream.map(|at| stream_of(function, call, handle(word(at))));
                memory::freed(backend, word(0), stream);
            }
            None
        }
        CallKind::Unmap => {
            memory::unmapped(backend, word(0), word(1));
            None
        }
        CallKind::EventRecord => {
            let stream = stream_of(function, call, handle(word(1)));
            if !backend.driver.is_capturing(stream.handle()) {
                backend.state().streams.record(handle(word(0)), stream, call.data.context_id);
            }
            None
        }
        CallKind::EventDestroy => {
            backend.state().streams.forget_event(handle(word(0)));
            None
        }
        CallKind::StreamDestroy => {
            let mut state = backend.state();
            state.stream_states.remove(&streams());
            state.streams.forget(streams());
            None
        }
        CallKind::EventSync => Some(CallState::Wait(backend.state().streams.of_event(handle(word(0))))),
        CallKind::StreamSync => Some(CallState::Wait(backend.state().streams.of_stream(streams()))),
        CallKind::ContextSync { is_named } if is_named && handle(word(0)) != call.data.context => None,
        CallKind::ContextSync { .. } => {
            Some(CallState::Wait(backend.state().streams.of_context(call.data.context_id)))
        }
        CallKind::Alloc(..) | CallKind::AllocPitch | CallKind::Map => {
            // PyTorch allocates from the driver before it hands out a block of that memory. So this look is
            // early enough.
            torch::look();
            None
        }
        CallKind::GraphExecDestroy => {
            graphs::exec_destroyed(backend, handle(word(0)));
            None
        }
        CallKind::GraphDestroy => {
            graphs::graph_destroyed(backend, handle(word(0)));
            None
        }
        CallKind::TextureDestroy(kind) => {
            backend.state().textures.remove(&(kind, word(0)));
            None
        }
        CallKind::LaunchMultiDevice => {
            backend.note_once(
                "launches on several devices at once (cuLaunchCooperativeKernelMultiDevice) are not recorded: their \
                 results show as unattributed changes",
            );
            None
        }
        CallKind::Unrecorded
        | CallKind::Register
        | CallKind::SetAccess
        | CallKind::TextureCreate(_)
        | CallKind::ContextCreate
        | CallKind::ContextSetCurrent
        | CallKind::EventWait
        | CallKind::Variable(_)
        | CallKind::IpcOpen
        | CallKind::Multicast
        | CallKind::GraphInstantiate
        | CallKind::GraphUpdate
        | CallKind::GraphSetNode(_) => None,
    }
}

/// The call has succeeded.
pub fn after(backend: &'static CudaBackend, function: &Function, call: Call<'_>) {
    // SAFETY: the function has these words, as the table says.
    let word = |at| unsafe { call.word(at) };
    match function.kind {
        CallKind::Alloc(space, stream) => {
            let is_captured = stream.is_some_and(|at| is_captured(backend, function, call, word(at)));
            if !is_captured {
                // SAFETY: the driver has just written an address there.
                let address = unsafe { crate::raw::at(word(0)) };
                let from = stream.map(|at| {
                    let stream = stream_of(function, call, handle(word(at)));
                    backend.stream(stream, (call.data.context, call.data.context_id));
                    // The pool of a function that names one precedes the stream.
                    let pool = if at == 3 { format!("pool {:#x}", word(2)) } else { "default pool".into() };
                    (stream, pool.into())
                });
                memory::allocated(backend, call.data.context, (address, word(1)), space, from);
            }
        }
        CallKind::AllocPitch => {
            // SAFETY: the driver has just written both.
            let (address, pitch): (u64, u64) = unsafe { (crate::raw::at(word(0)), crate::raw::at(word(1))) };
            let bytes = pitch.saturating_mul(word(3));
            memory::allocated(
                backend,
                call.data.context,
                (address, bytes),
                crate::table::Space::Device,
                None,
            );
        }
        CallKind::GraphInstantiate => {
            // SAFETY: the driver has just written a handle there.
            let made = handle(unsafe { crate::raw::at(word(0)) });
            graphs::instantiated(backend, call.data.context, made, handle(word(1)));
        }
        CallKind::GraphUpdate => {
            graphs::instantiated(backend, call.data.context, handle(word(0)), handle(word(1)))
        }
        // SAFETY: the program's call passes the parameters there.
        CallKind::GraphSetNode(what) => unsafe {
            graphs::set(backend, handle(word(0)), handle(word(1)), (what, word(2)))
        },
        CallKind::Register => {
            memory::allocated(
                backend,
                call.data.context,
                (word(0), word(1)),
                crate::table::Space::Pinned,
                None,
            );
        }
        CallKind::Variable(space) => {
            // SAFETY: the driver has just written a word there, unless the pointer is null.
            let written = |at: u64| if at == 0 { 0 } else { unsafe { crate::raw::at(at) } };
            let (address, bytes) = (written(word(0)), written(word(1)));
            memory::variable(backend, handle(word(2)), (address, bytes), space);
        }
        CallKind::Map => memory::mapped(backend, word(0), word(1), word(3)),
        // SAFETY: the driver has just written an address there.
        CallKind::IpcOpen => memory::opened(backend, unsafe { crate::raw::at(word(0)) }),
        // SAFETY: the driver has just written a handle there.
        CallKind::Multicast => backend.state().allocations.add_multicast(unsafe { crate::raw::at(word(0)) }),
        CallKind::TextureCreate(kind) => {
            // SAFETY: the driver has just written a handle there.
            let handle = unsafe { crate::raw::at(word(0)) };
            backend.state().textures.insert((kind, handle), call.data.context);
        }
        // SAFETY: the driver has just read that many descriptions there.
        CallKind::SetAccess => unsafe { memory::access(backend, word(0), word(1), (word(2), word(3))) },
        CallKind::ContextCreate => {
            // SAFETY: the driver has just written a handle there.
            let context = handle(unsafe { crate::raw::at(word(0)) });
            backend.snapshots.call_over(backend, context);
        }
        CallKind::ContextSetCurrent => backend.snapshots.call_over(backend, handle(word(0))),
        CallKind::EventWait => {
            let stream = stream_of(function, call, handle(word(0)));
            if !backend.driver.is_capturing(stream.handle())
                && backend.stream(stream, (call.data.context, call.data.context_id)).is_some()
            {
                backend.state().streams.wait(stream, handle(word(1)));
            }
        }
        _ => {}
    }
}

/// The launch flags that follow from the function that was called.
fn cooperative(has_extra: bool) -> u8 {
    if has_extra { 0 } else { tensortap_record::LAUNCH_COOPERATIVE }
}

/// The handle in a word.
fn handle(word: u64) -> usize {
    usize::try_from(word).unwrap_or(0)
}

/// The stream that a call means by a handle.
fn stream_of(function: &Function, call: Call<'_>, handle: usize) -> Stream {
    Stream::of(handle, function.means_thread, call.data.context_id, thread_number())
}

fn is_captured(backend: &CudaBackend, function: &Function, call: Call<'_>, stream: u64) -> bool {
    backend.driver.is_capturing(stream_of(function, call, handle(stream)).handle())
}

/// A number that no other thread of this process has.
fn thread_number() -> u64 {
    static NEXT: std::sync::Mutex<u64> = std::sync::Mutex::new(0);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    let known = NUMBER.with(Cell::get);
    if known != 0 {
        return known;
    }
    let mut next = NEXT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    *next += 1;
    NUMBER.with(|number| number.set(*next));
    *next
}

/// The call puts a command into a stream.
fn command(backend: &CudaBackend, function: &Function, call: Call<'_>) -> Option<PendingCommand> {
    // SAFETY: the function has these words, as the table says.
    let word = |at| unsafe { call.word(at) };
    let (stream_at, blocks) = match function.kind {
        CallKind::Launch { extra } => {
            let launch = launches::Launch {
                function: handle(word(0)),
                sizes: [word(1), word(2), word(3)],
                parameters: word(6),
                extra: if extra { word(7) } else { 0 },
                // The function without `extra` is the one for cooperative launches.
                details: launches::LaunchOptions {
                    flags: cooperative(extra),
                    ..launches::LaunchOptions::shared(word(4))
                },
            };
            return launches::launch(backend, function, call, handle(word(5)), &launch);
        }
        CallKind::LaunchEx => return launches::launch_ex(backend, function, call),
        CallKind::GraphLaunch(at) | CallKind::CopyBatch(at) => (Some(at), false),
        CallKind::LaunchLegacy(at) | CallKind::Fill(_, at) | CallKind::FillRows(_, at) => (at, false),
        // A copy without a stream is complete when the call returns. A fill is not.
        CallKind::Memcpy(_, _, at) | CallKind::CopyArray(_, at) | CallKind::CopyBox(_, at) => {
            (at, at.is_none())
        }
        _ => return None,
    };
    let stream = stream_at.map_or(0, |at| handle(word(at)));
    let target = target(backend, function, call, stream, blocks)?;
    let guard = StreamGuard::new(backend.stream(target.stream, target.context)?);
    match function.kind {
        CallKind::LaunchLegacy(_) => launches::launch_unknown(backend, call, &target, guard, handle(word(0))),
        CallKind::GraphLaunch(_) => graphs::launch(backend, function, handle(word(0)), &target, guard),
        _ => transfers::transfer(backend, function, call, &target, guard),
    }
}

/// The stream that a command enters. None while the stream is captured: then the command only becomes part of
/// a graph.
fn target(
    backend: &CudaBackend,
    function: &Function,
    call: Call<'_>,
    stream: usize,
    blocks: bool,
) -> Option<StreamTarget> {
    let stream = stream_of(function, call, stream);
    if backend.driver.is_capturing(stream.handle()) {
        return None;
    }
    Some(StreamTarget { stream, context: (call.data.context, call.data.context_id), blocks })
}
