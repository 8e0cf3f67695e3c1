//! The callback of CUPTI: it runs before and after every subscribed function of the driver, and when contexts
//! and modules are created and destroyed.

use std::{
    cell::{Cell, RefCell},
    ffi::c_void,
};

use tensortap_queue::print_note;

use crate::{
    backend::CudaBackend,
    calls::{self, CallState},
    library::{self, MULTIPLE_SUBSCRIBERS, SUCCESS, SubscribeError},
    raw::{Call, ENTER, ResourceData},
    snapshot,
    table::{self, FUNCTIONS},
};

/// The CUPTI domain of driver functions.
const DRIVER: u32 = 1;
/// The CUPTI domain of contexts and modules.
const RESOURCES: u32 = 3;

const CONTEXT_CREATED: u32 = 1;
const CONTEXT_DESTROYED: u32 = 2;
const MODULE_LOADED: u32 = 6;
const MODULE_UNLOADED: u32 = 7;

thread_local! {
    /// Whether this thread is in a callback. Functions that it calls then are the backend's, not the
    /// program's.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Calls of this thread whose first callback has run and whose second one has not.
    static OPEN_CALLS: RefCell<Vec<(u32, CallState)>> = const { RefCell::new(Vec::new()) };
}

/// Starts the backend and subscribes to CUPTI.
pub fn start() {
    if CudaBackend::start().is_none() {
        return;
    }
    let resources =
        [CONTEXT_CREATED, CONTEXT_DESTROYED, MODULE_LOADED, MODULE_UNLOADED].map(|id| (RESOURCES, id));
    let functions = FUNCTIONS.iter().map(|function| (DRIVER, function.id));
    // SAFETY: `called` accepts the data that CUPTI passes for these ids.
    match unsafe { library::subscribe(called, resources.into_iter().chain(functions)) } {
        Ok(()) => {}
        Err(SubscribeError::NoCupti) => print_note(
            "CUDA is not recorded: libcupti was not found. It comes with CUDA, in extras/CUPTI/lib64, and with the \
             package nvidia-cuda-cupti. Set TENSORTAP_CUPTI to its path",
        ),
        Err(SubscribeError::Refused(MULTIPLE_SUBSCRIBERS)) => print_note(
            "CUDA is not recorded: another tool has subscribed to CUPTI, which serves only one tool. Record without that \
             tool (probably a profiler)",
        ),
        Err(SubscribeError::Refused(status)) => {
            print_note(&format!("CUDA is not recorded: CUPTI refuses with status {status}"));
        }
    }
}

/// Marks this thread as being in a callback until it is dropped.
struct CallbackGuard;

impl CallbackGuard {
    fn enter() -> Option<CallbackGuard> {
        let was_inside = IS_INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true);
        (!was_inside).then(|| CallbackGuard)
    }
}

impl Drop for CallbackGuard {
    fn drop(&mut self) {
        let _ = IS_INSIDE.try_with(|inside| inside.set(false));
    }
}

/// From now on, calls of this thread are the backend's.
pub fn stay_inside() {
    let _ = IS_INSIDE.try_with(|inside| inside.set(true));
}

/// # Safety
/// As CUPTI calls it: `data` is of the type for this domain and id.
unsafe extern "C" fn called(_: *mut c_void, domain: u32, id: u32, data: *const c_void) {
    let (Some(backend), false) = (CudaBackend::get(), data.is_null()) else { return };
    let inside = CallbackGuard::enter();
    // A context or module that the backend's own call creates is still reported.
    if inside.is_none() && domain == DRIVER {
        return;
    }
    // A panic must not reach the driver.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match domain {
        // SAFETY: the caller's guarantee.
        DRIVER => driver_called(backend, id, unsafe { Call::of(data) }),
        // SAFETY: the caller's guarantee.
        RESOURCES => resource_changed(backend, id, unsafe { ResourceData::of(data) }),
        _ => {}
    }));
    drop(result);
}

fn driver_called(backend: &'static CudaBackend, id: u32, call: Call<'_>) {
    let Some(function) = table::function(id) else { return };
    if call.data.site == ENTER {
        let state = calls::before(backend, function, call);
        if !matches!(state, Some(CallState::Command(_))) {
            backend.snapshots.count_other_call();
        }
        if let Some(state) = state {
            let _ = OPEN_CALLS
                .try_with(|open_calls| open_calls.borrow_mut().push((call.data.correlation, state)));
        }
        return;
    }
    let state = OPEN_CALLS.try_with(|open_calls| {
        let mut open_calls = open_calls.borrow_mut();
        let at = open_calls.iter().rposition(|(correlation, _)| *correlation == call.data.correlation)?;
        // Calls that started later have ended without a second callback.
        open_calls.drain(at..).next().map(|(_, state)| state)
    });
    match state.ok().flatten() {
        Some(CallState::Command(pending)) => pending.finish(backend, call.status()),
        Some(CallState::Wait(tokens)) if call.status() == SUCCESS => {
            backend.state().streams.host_waited(&tokens)
        }
        Some(CallState::Wait(_)) => {}
        None if call.status() == SUCCESS => calls::after(backend, function, call),
        None => {}
    }
    backend.snapshots.call_over(backend, call.data.context);
}

fn resource_changed(backend: &CudaBackend, id: u32, resource: ResourceData) {
    match id {
        CONTEXT_CREATED if backend.wants_content => backend.snapshots.context_created(resource.context),
        // The backend's own code is no module of the program.
        MODULE_LOADED | MODULE_UNLOADED if snapshot::is_loading() => {}
        CONTEXT_DESTROYED => {
            calls::memory::context_destroyed(backend, resource.context);
            backend.context_destroyed(resource.context);
        }
        MODULE_LOADED | MODULE_UNLOADED => {
            // SAFETY: the resource is a module, and its image lives until this returns.
            let Some(module) = (unsafe { resource.module() }) else { return };
            match id {
                MODULE_LOADED => calls::modules::loaded(backend, module),
                _ => calls::modules::unloaded(backend, module.number),
            }
        }
        _ => {}
    }
}
