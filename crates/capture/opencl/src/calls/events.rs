//! Events. The program gets the event of the snapshot after its command. These functions answer as the command's own
//! event would, except that a command completes when its after-snapshot is complete.

use std::ffi::c_void;

use tensortap_queue::OrderToken;

use super::{driver_fn, retain_function};
use crate::{
    ffi::{self, COMPLETE, Event, EventCallback, RUNNING, SUCCESS, Status},
    layer::Layer,
    objects::{EventHandle, EventState, drop_reference, key},
    raw,
};

fn state(event: Event) -> Option<EventState> {
    Layer::get().objects().events.get(&key(event)).copied()
}

pub unsafe extern "C" fn wait(count: u32, events: *const Event) -> Status {
    let layer = Layer::get();
    // SAFETY: the program's guarantees.
    unsafe {
        let tokens = layer.objects().tokens(raw::list(count, events));
        let status = driver_fn!(clWaitForEvents)(count, events);
        layer.release_queued_events();
        if status == SUCCESS {
            layer.objects().orders.host_waited(&tokens);
        }
        status
    }
}

pub unsafe extern "C" fn info(
    event: Event,
    what: u32,
    room: usize,
    value: *mut c_void,
    size: *mut usize,
) -> Status {
    let ask = driver_fn!(clGetEventInfo);
    // SAFETY: the program's guarantees. The layer holds the command's own event as long as the program holds this one.
    unsafe {
        match (what, state(event)) {
            (ffi::EVENT_COMMAND_TYPE, Some(EventState { own: Some(EventHandle(own)), .. })) => {
                ask(own, what, room, value, size)
            }
            (ffi::EVENT_COMMAND_EXECUTION_STATUS, Some(known)) => {
                let Some(status) = execution_status(event, &known) else {
                    return ask(event, what, room, value, size);
                };
                if status == COMPLETE {
                    Layer::get().objects().orders.host_waited(&[known.token]);
                }
                raw::answer(&status.to_ne_bytes(), room, value, size)
            }
            _ => ask(event, what, room, value, size),
        }
    }
}

/// The execution status of a command. It is complete when its after-snapshot is. If the command failed, this is its
/// error.
fn execution_status(event: Event, known: &EventState) -> Option<i32> {
    let of = |event: Event| Layer::get().status(event);
    let status = of(event)?;
    let Some(EventHandle(own)) = known.own else { return Some(status) };
    Some(match (status, of(own)?) {
        (COMPLETE, _) => COMPLETE,
        // The command is complete. Only its after-snapshot failed.
        (..0, COMPLETE) => COMPLETE,
        (_, COMPLETE) => RUNNING,
        (_, own) => own,
    })
}

pub unsafe extern "C" fn profiling(
    event: Event,
    what: u32,
    room: usize,
    value: *mut c_void,
    size: *mut usize,
) -> Status {
    let ask = driver_fn!(clGetEventProfilingInfo);
    let own = state(event).and_then(|known| known.own);
    // SAFETY: as in `info`.
    unsafe { ask(own.map_or(event, |EventHandle(own)| own), what, room, value, size) }
}

retain_function!(clRetainEvent, events);

pub unsafe extern "C" fn release(event: Event) -> Status {
    let gone = drop_reference(&mut Layer::get().objects().events, event);
    let release = driver_fn!(clReleaseEvent);
    // SAFETY: the program's guarantees. The layer held the command's own event as long as the program held this one.
    unsafe {
        if let Some(EventHandle(own)) = gone.and_then(|known| known.own) {
            release(own);
        }
        release(event)
    }
}

/// A callback of the program, and the event that it was set for.
struct CallbackRelay {
    callback: EventCallback,
    data: *mut c_void,
    /// The event that the program has.
    event: Event,
    own: Option<EventHandle>,
    token: OrderToken,
}

pub unsafe extern "C" fn set_callback(
    event: Event,
    at: i32,
    callback: Option<EventCallback>,
    data: *mut c_void,
) -> Status {
    let set = driver_fn!(clSetEventCallback);
    // SAFETY: the program's guarantees. The driver passes the relay to `relayed` once.
    unsafe {
        let (Some(known), Some(callback)) = (state(event), callback) else {
            return set(event, at, callback, data);
        };
        // A command is submitted and runs when its own event reports it. It is complete when its after-snapshot is.
        let watched = match known.own {
            Some(EventHandle(own)) if at != COMPLETE => own,
            _ => event,
        };
        let own = known.own;
        if let Some(EventHandle(own)) = own {
            driver_fn!(clRetainEvent)(own);
        }
        let relay = CallbackRelay { callback, data, event, own, token: known.token };
        let relay = Box::into_raw(Box::new(relay));
        let status = set(watched, at, Some(relayed), relay.cast());
        if status != SUCCESS {
            drop(Box::from_raw(relay));
            if let Some(EventHandle(own)) = own {
                driver_fn!(clReleaseEvent)(own);
            }
        }
        status
    }
}

/// Calls the program's callback with its event and the status of its command.
unsafe extern "C" fn relayed(_: Event, status: i32, relay: *mut c_void) {
    // SAFETY: `set_callback` created the relay, and the driver passes it once.
    let CallbackRelay { callback, data, event, own, token } =
        *unsafe { Box::from_raw(relay.cast::<CallbackRelay>()) };
    let mut status = status;
    if let Some(EventHandle(own)) = own {
        // The relay holds the command's own event until here.
        let own_status = Layer::get().status(own);
        // If the command failed, its snapshot failed because of that. The program gets the command's error.
        if status < 0 {
            status = own_status.filter(|&own_status| own_status < 0).unwrap_or(status);
        }
        // SAFETY: as above.
        unsafe { driver_fn!(clReleaseEvent)(own) };
    }
    if status == COMPLETE {
        Layer::get().objects().orders.host_waited(&[token]);
    }
    // SAFETY: the program set this callback with this data.
    unsafe { callback(event, status, data) }
}
