//! Events answer as those of the program's commands would, though they complete when what the commands left was seen.

use std::ffi::c_void;

use super::behind;
use crate::{
    ffi::{self, COMPLETE, Event, EventCallback, RUNNING, SUCCESS, Status},
    layer::Layer,
    objects::{EventState, OwnEvent, key},
    raw,
};

fn state(event: Event) -> Option<EventState> {
    Layer::get().objects().events.get(&key(event)).copied()
}

pub unsafe extern "C" fn wait(count: u32, events: *const Event) -> Status {
    let layer = Layer::get();
    // SAFETY: the program's promises.
    unsafe {
        let marks = layer.objects().marks(raw::list(count, events));
        let status = behind!(clWaitForEvents)(count, events);
        layer.release_spent();
        if status == SUCCESS {
            layer.objects().orders.host_waited(&marks);
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
    let ask = behind!(clGetEventInfo);
    // SAFETY: the program's promises, and its command's own event, which is held as long as it holds this one.
    unsafe {
        match (what, state(event)) {
            (ffi::EVENT_COMMAND_TYPE, Some(EventState { own: Some(OwnEvent(own)), .. })) => {
                ask(own, what, room, value, size)
            }
            (ffi::EVENT_COMMAND_EXECUTION_STATUS, Some(known)) => {
                let Some(status) = execution_status(event, &known) else {
                    return ask(event, what, room, value, size);
                };
                if status == COMPLETE {
                    Layer::get().objects().orders.host_waited(&[known.mark]);
                }
                raw::answer(&status.to_ne_bytes(), room, value, size)
            }
            _ => ask(event, what, room, value, size),
        }
    }
}

/// How far a command is. It has completed when what it left was seen; if it failed, it says how.
fn execution_status(event: Event, known: &EventState) -> Option<i32> {
    let of = |event: Event| Layer::get().status(event);
    let status = of(event)?;
    let Some(OwnEvent(own)) = known.own else { return Some(status) };
    Some(match (status, of(own)?) {
        (COMPLETE, _) => COMPLETE,
        // The command is done, whatever became of the probe behind it.
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
    let ask = behind!(clGetEventProfilingInfo);
    let own = state(event).and_then(|known| known.own);
    // SAFETY: as above.
    unsafe { ask(own.map_or(event, |OwnEvent(own)| own), what, room, value, size) }
}

pub unsafe extern "C" fn retain(event: Event) -> Status {
    // SAFETY: the program's promises.
    let status = unsafe { behind!(clRetainEvent)(event) };
    if status == SUCCESS
        && let Some(known) = Layer::get().objects().events.get_mut(&key(event))
    {
        known.holds += 1;
    }
    status
}

pub unsafe extern "C" fn release(event: Event) -> Status {
    let layer = Layer::get();
    let own = {
        let mut objects = layer.objects();
        match objects.events.get_mut(&key(event)) {
            Some(known) if known.holds > 1 => {
                known.holds -= 1;
                None
            }
            Some(_) => objects.events.remove(&key(event)).and_then(|known| known.own),
            None => None,
        }
    };
    let release = behind!(clReleaseEvent);
    // SAFETY: the program's promises; the command's own event was held for this one.
    unsafe {
        if let Some(OwnEvent(own)) = own {
            release(own);
        }
        release(event)
    }
}

/// A callback of the program's, and what it was set for.
struct Relay {
    callback: EventCallback,
    data: *mut c_void,
    /// The event as the program has it.
    event: Event,
    own: Option<OwnEvent>,
    mark: tensortap_queue::Mark,
}

pub unsafe extern "C" fn set_callback(
    event: Event,
    at: i32,
    callback: Option<EventCallback>,
    data: *mut c_void,
) -> Status {
    let set = behind!(clSetEventCallback);
    // SAFETY: the program's promises, and a relay that the driver hands over once.
    unsafe {
        let (Some(known), Some(callback)) = (state(event), callback) else {
            return set(event, at, callback, data);
        };
        // It is submitted and runs when its command does; it is complete when what that left was seen.
        let watched = match known.own {
            Some(OwnEvent(own)) if at != COMPLETE => own,
            _ => event,
        };
        let own = known.own;
        if let Some(OwnEvent(own)) = own {
            behind!(clRetainEvent)(own);
        }
        let relay = Box::into_raw(Box::new(Relay { callback, data, event, own, mark: known.mark }));
        let status = set(watched, at, Some(relayed), relay.cast());
        if status != SUCCESS {
            drop(Box::from_raw(relay));
            if let Some(OwnEvent(own)) = own {
                behind!(clReleaseEvent)(own);
            }
        }
        status
    }
}

/// Calls the program's callback, with its event and what became of its command.
unsafe extern "C" fn relayed(_: Event, status: i32, relay: *mut c_void) {
    // SAFETY: made by `set_callback`, and handed over once.
    let Relay { callback, data, event, own, mark } = *unsafe { Box::from_raw(relay.cast::<Relay>()) };
    let mut status = status;
    if let Some(OwnEvent(own)) = own {
        // Held by the relay, for as long.
        let told = Layer::get().status(own);
        // What waited for a command that failed fails for that: the program is told how its command did.
        if status < 0 {
            status = told.filter(|&told| told < 0).unwrap_or(status);
        }
        // SAFETY: as above.
        unsafe { behind!(clReleaseEvent)(own) };
    }
    if status == COMPLETE {
        Layer::get().objects().orders.host_waited(&[mark]);
    }
    // SAFETY: as the program has set it.
    unsafe { callback(event, status, data) }
}
