//! What CUPTI calls: before and behind every function of the driver that is wanted, and when resources come and go.

use std::{
    cell::{Cell, RefCell},
    ffi::c_void,
};

use tensortap_queue::say;

use crate::{
    calls::{self, Going},
    content,
    door::Door,
    library::{self, MULTIPLE_SUBSCRIBERS, NotSubscribed, SUCCESS},
    raw::{Call, ENTER, ResourceData},
    table::{self, FUNCTIONS},
};

/// Functions of the driver.
const DRIVER: u32 = 1;
/// Contexts, streams, modules.
const RESOURCES: u32 = 3;

const CONTEXT_COMES: u32 = 1;
const CONTEXT_GOES: u32 = 2;
const MODULE_LOADED: u32 = 6;
const MODULE_GOES: u32 = 7;

thread_local! {
    /// Whether this thread is in a callback: functions that it calls there are not the program's.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Calls of this thread, between their callbacks.
    static GOING_IN: RefCell<Vec<(u32, Going)>> = const { RefCell::new(Vec::new()) };
}

/// Opens the door, and lets CUPTI tell of calls.
pub fn start() {
    if Door::open().is_none() {
        return;
    }
    let resources = [CONTEXT_COMES, CONTEXT_GOES, MODULE_LOADED, MODULE_GOES].map(|id| (RESOURCES, id));
    let functions = FUNCTIONS.iter().map(|function| (DRIVER, function.id));
    // SAFETY: `called` takes what CUPTI gives for these.
    match unsafe { library::subscribe(called, resources.into_iter().chain(functions)) } {
        Ok(()) => {}
        Err(NotSubscribed::NoCupti) => say(
            "nothing of CUDA is recorded: libcupti was not found; name it in TENSORTAP_CUPTI (it comes with CUDA, in \
             extras/CUPTI/lib64, and with the package nvidia-cuda-cupti)",
        ),
        Err(NotSubscribed::Refused(MULTIPLE_SUBSCRIBERS)) => say(
            "nothing of CUDA is recorded: another tool has subscribed to CUPTI, which serves one (a profiler, perhaps); \
             record without it",
        ),
        Err(NotSubscribed::Refused(status)) => {
            say(&format!("nothing of CUDA is recorded: CUPTI refuses with status {status}"));
        }
    }
}

/// Marks this thread as inside until it is dropped.
struct Inside;

impl Inside {
    fn enter() -> Option<Inside> {
        let was_inside = IS_INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true);
        (!was_inside).then(|| Inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = IS_INSIDE.try_with(|inside| inside.set(false));
    }
}

/// What this thread calls from now on is not the program's.
pub fn stay_inside() {
    let _ = IS_INSIDE.try_with(|inside| inside.set(true));
}

/// # Safety
/// As CUPTI calls it: data of the domain and the id.
unsafe extern "C" fn called(_: *mut c_void, domain: u32, id: u32, data: *const c_void) {
    let (Some(door), false) = (Door::get(), data.is_null()) else { return };
    let inside = Inside::enter();
    // What a function of ours loads is the program's all the same.
    if inside.is_none() && domain == DRIVER {
        return;
    }
    // A panic must not reach the driver.
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match domain {
        // SAFETY: the caller's promise.
        DRIVER => driver_called(door, id, unsafe { Call::of(data) }),
        // SAFETY: the caller's promise.
        RESOURCES => resource_told(door, id, unsafe { ResourceData::of(data) }),
        _ => {}
    }));
    drop(told);
}

fn driver_called(door: &'static Door, id: u32, call: Call<'_>) {
    let Some(function) = table::function(id) else { return };
    if call.data.site == ENTER {
        let going = calls::before(door, function, call);
        if !matches!(going, Some(Going::Command(_))) {
            door.contents.passes_by();
        }
        if let Some(going) = going {
            let _ = GOING_IN.try_with(|going_in| going_in.borrow_mut().push((call.data.correlation, going)));
        }
        return;
    }
    let going = GOING_IN.try_with(|going_in| {
        let mut going_in = going_in.borrow_mut();
        let at = going_in.iter().rposition(|(correlation, _)| *correlation == call.data.correlation)?;
        // Whatever went in behind it has left without a word.
        going_in.drain(at..).next().map(|(_, going)| going)
    });
    match going.ok().flatten() {
        Some(Going::Command(begun)) => begun.finish(door, call.status()),
        Some(Going::Wait(marks)) if call.status() == SUCCESS => door.state().streams.host_waited(&marks),
        Some(Going::Wait(_)) => {}
        None if call.status() == SUCCESS => calls::after(door, function, call),
        None => {}
    }
    door.contents.call_over(door, call.data.context);
}

fn resource_told(door: &Door, id: u32, resource: ResourceData) {
    match id {
        CONTEXT_COMES if door.wants_content => door.contents.context_comes(resource.context),
        // Our own code is none of the program's.
        MODULE_LOADED | MODULE_GOES if content::is_loading() => {}
        CONTEXT_GOES => {
            calls::memory::context_goes(door, resource.context);
            door.context_goes(resource.context);
        }
        MODULE_LOADED | MODULE_GOES => {
            // SAFETY: a module, whose image is there until this returns.
            let Some(module) = (unsafe { resource.module() }) else { return };
            match id {
                MODULE_LOADED => calls::modules::loaded(door, module),
                _ => calls::modules::goes(door, module.number),
            }
        }
        _ => {}
    }
}
