//! What is made of a call of the driver, before it and behind.

pub mod graphs;
pub mod kernels;
pub mod launches;
pub mod memory;
pub mod modules;
pub mod repeats;
pub mod transfers;

use std::cell::Cell;

use tensortap_queue::Mark;

use crate::{
    door::{Door, Taken},
    enqueue::{Begun, Place},
    raw::Call,
    streams::Stream,
    table::{Does, Function},
    torch,
};

/// A call between its two callbacks.
pub enum Going {
    /// A command goes into its stream.
    Command(Begun),
    /// The host waits for these, and has if the call succeeds.
    Wait(Vec<Mark>),
}

/// The call has not run yet.
pub fn before(door: &Door, function: &Function, call: Call<'_>) -> Option<Going> {
    // SAFETY: words that this function has, as the table says.
    let word = |at| unsafe { call.word(at) };
    let streams = || stream_of(function, call, handle(word(0)));
    match function.does {
        Does::Launch { .. }
        | Does::LaunchEx
        | Does::LaunchOld(_)
        | Does::Graph(_)
        | Does::Move(..)
        | Does::CopyMany(_)
        | Does::CopyBox(..)
        | Does::CopyArray(..)
        | Does::Fill(..)
        | Does::FillRows(..) => command(door, function, call).map(Going::Command),
        Does::Free(stream) => {
            let is_captured = stream.is_some_and(|at| is_captured(door, function, call, word(at)));
            if !is_captured {
                memory::goes(door, word(0));
            }
            None
        }
        Does::Unmap => {
            memory::unmapped(door, word(0), word(1));
            None
        }
        Does::EventRecord => {
            let stream = stream_of(function, call, handle(word(1)));
            if !door.driver.is_capturing(stream.handle()) {
                door.state().streams.record(handle(word(0)), stream, call.data.context_id);
            }
            None
        }
        Does::EventGone => {
            door.state().streams.forget_event(handle(word(0)));
            None
        }
        Does::StreamGone => {
            let mut state = door.state();
            state.lines.remove(&streams());
            state.streams.forget(streams());
            None
        }
        Does::EventSeen => Some(Going::Wait(door.state().streams.of_event(handle(word(0))))),
        Does::StreamSeen => Some(Going::Wait(door.state().streams.of_stream(streams()))),
        Does::ContextSeen { is_named } if is_named && handle(word(0)) != call.data.context => None,
        Does::ContextSeen { .. } => Some(Going::Wait(door.state().streams.of_context(call.data.context_id))),
        Does::Alloc(..) | Does::AllocPitch | Does::Map => {
            // Who hands out parts of it has not begun to.
            torch::look();
            None
        }
        Does::GraphGone => {
            graphs::gone(door, handle(word(0)));
            None
        }
        Does::GraphPlanGone => {
            graphs::plan_gone(door, handle(word(0)));
            None
        }
        Does::TextureGone(kind) => {
            door.state().textures.remove(&(kind, word(0)));
            None
        }
        Does::LaunchMany => {
            door.tell_once(
                "launches on several devices at once (cuLaunchCooperativeKernelMultiDevice) are not recorded: what they write \
                 shows as an unattributed change",
            );
            None
        }
        Does::Unrecorded
        | Does::Register
        | Does::SetAccess
        | Does::TextureMade(_)
        | Does::ContextMade
        | Does::ContextUsed
        | Does::EventWait
        | Does::Variable(_)
        | Does::Open
        | Does::Multicast
        | Does::GraphMade
        | Does::GraphUpdated
        | Does::GraphSet(_) => None,
    }
}

/// The call has succeeded.
pub fn after(door: &'static Door, function: &Function, call: Call<'_>) {
    // SAFETY: words that this function has, as the table says.
    let word = |at| unsafe { call.word(at) };
    match function.does {
        Does::Alloc(space, stream) => {
            let is_captured = stream.is_some_and(|at| is_captured(door, function, call, word(at)));
            if !is_captured {
                // SAFETY: the driver has written an address there just now.
                let address = unsafe { crate::raw::at(word(0)) };
                memory::comes(door, call.data.context, (address, word(1)), space);
            }
        }
        Does::AllocPitch => {
            // SAFETY: the driver has written both just now.
            let (address, pitch): (u64, u64) = unsafe { (crate::raw::at(word(0)), crate::raw::at(word(1))) };
            let bytes = pitch.saturating_mul(word(3));
            memory::comes(door, call.data.context, (address, bytes), crate::table::Space::Device);
        }
        Does::GraphMade => {
            // SAFETY: the driver has written a handle there just now.
            let made = handle(unsafe { crate::raw::at(word(0)) });
            graphs::made(door, call.data.context, made, handle(word(1)));
        }
        Does::GraphUpdated => graphs::made(door, call.data.context, handle(word(0)), handle(word(1))),
        // SAFETY: the program's call has given it there.
        Does::GraphSet(what) => unsafe {
            graphs::set(door, handle(word(0)), handle(word(1)), (what, word(2)))
        },
        Does::Register => {
            memory::comes(door, call.data.context, (word(0), word(1)), crate::table::Space::Pinned);
        }
        Does::Variable(space) => {
            // SAFETY: the driver has written a word there just now, if there is a place for it.
            let written = |at: u64| if at == 0 { 0 } else { unsafe { crate::raw::at(at) } };
            let (address, bytes) = (written(word(0)), written(word(1)));
            memory::variable(door, handle(word(2)), (address, bytes), space);
        }
        Does::Map => memory::mapped(door, word(0), word(1), word(3)),
        // SAFETY: the driver has written an address there just now.
        Does::Open => memory::opened(door, unsafe { crate::raw::at(word(0)) }),
        // SAFETY: the driver has written a handle there just now.
        Does::Multicast => door.state().allocations.add_multicast(unsafe { crate::raw::at(word(0)) }),
        Does::TextureMade(kind) => {
            // SAFETY: the driver has written a handle there just now.
            let handle = unsafe { crate::raw::at(word(0)) };
            door.state().textures.insert((kind, handle), call.data.context);
        }
        // SAFETY: the driver has read as many descriptions there just now.
        Does::SetAccess => unsafe { memory::access(door, word(0), word(1), (word(2), word(3))) },
        // SAFETY: the driver has written a handle there just now.
        Does::ContextMade => door.contents.call_over(door, handle(unsafe { crate::raw::at(word(0)) })),
        Does::ContextUsed => door.contents.call_over(door, handle(word(0))),
        Does::EventWait => {
            let stream = stream_of(function, call, handle(word(0)));
            if !door.driver.is_capturing(stream.handle())
                && door.stream(stream, (call.data.context, call.data.context_id)).is_some()
            {
                door.state().streams.wait(stream, handle(word(1)));
            }
        }
        _ => {}
    }
}

/// Flags of a launch by the function that it is called with.
fn cooperative(has_extra: bool) -> u8 {
    if has_extra { 0 } else { tensortap_record::LAUNCH_COOPERATIVE }
}

/// A handle, as it stands in a word.
fn handle(word: u64) -> usize {
    usize::try_from(word).unwrap_or(0)
}

/// The stream that a call means by a handle.
fn stream_of(function: &Function, call: Call<'_>, handle: usize) -> Stream {
    Stream::of(handle, function.means_thread, call.data.context_id, thread_number())
}

fn is_captured(door: &Door, function: &Function, call: Call<'_>, stream: u64) -> bool {
    door.driver.is_capturing(stream_of(function, call, handle(stream)).handle())
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

/// A command goes into its stream.
fn command(door: &Door, function: &Function, call: Call<'_>) -> Option<Begun> {
    // SAFETY: words that this function has, as the table says.
    let word = |at| unsafe { call.word(at) };
    let (stream_at, blocks) = match function.does {
        Does::Launch { extra } => {
            let launch = launches::Launch {
                function: handle(word(0)),
                sizes: [word(1), word(2), word(3)],
                parameters: word(6),
                extra: if extra { word(7) } else { 0 },
                // The function that takes no settings is the one for cooperative launches.
                details: launches::Details {
                    flags: cooperative(extra),
                    ..launches::Details::shared(word(4))
                },
            };
            return launches::launch(door, function, call, handle(word(5)), &launch);
        }
        Does::LaunchEx => return launches::launch_ex(door, function, call),
        Does::Graph(at) | Does::CopyMany(at) => (Some(at), false),
        Does::LaunchOld(at) | Does::Fill(_, at) | Does::FillRows(_, at) => (at, false),
        // Copies that say no stream are done when they return; fills are not.
        Does::Move(_, _, at) | Does::CopyArray(_, at) | Does::CopyBox(_, at) => (at, at.is_none()),
        _ => return None,
    };
    let stream = stream_at.map_or(0, |at| handle(word(at)));
    let place = place(door, function, call, stream, blocks)?;
    let taken = Taken::new(door.stream(place.stream, place.context)?);
    match function.does {
        Does::LaunchOld(_) => launches::launch_unknown(door, call, &place, taken, handle(word(0))),
        Does::Graph(_) => graphs::launch(door, function, handle(word(0)), &place, taken),
        _ => transfers::transfer(door, function, call, &place, taken),
    }
}

/// Where a command goes; none while a stream is captured, for then it only becomes part of a graph.
fn place(door: &Door, function: &Function, call: Call<'_>, stream: usize, blocks: bool) -> Option<Place> {
    let stream = stream_of(function, call, stream);
    if door.driver.is_capturing(stream.handle()) {
        return None;
    }
    Some(Place { stream, context: (call.data.context, call.data.context_id), blocks })
}
