//! Contexts: what was made in one for its devices stays as long as the program holds it.

use std::ffi::c_void;

use super::behind;
use crate::{
    ffi::{Bits, Context, ContextCallback, Device, SUCCESS, Status},
    layer::Layer,
    objects::{KnownContext, key},
};

pub unsafe extern "C" fn create(
    properties: *const isize,
    count: u32,
    devices: *const Device,
    callback: ContextCallback,
    data: *mut c_void,
    status: *mut Status,
) -> Context {
    // SAFETY: the program's promises.
    met(unsafe { behind!(clCreateContext)(properties, count, devices, callback, data, status) })
}

pub unsafe extern "C" fn create_from_type(
    properties: *const isize,
    kind: Bits,
    callback: ContextCallback,
    data: *mut c_void,
    status: *mut Status,
) -> Context {
    // SAFETY: the program's promises.
    met(unsafe { behind!(clCreateContextFromType)(properties, kind, callback, data, status) })
}

/// A new context may have the handle of one that is gone.
fn met(context: Context) -> Context {
    if !context.is_null() {
        let known = KnownContext { holds: 1, rings: Vec::new() };
        Layer::get().objects().contexts.insert(key(context), known);
    }
    context
}

pub unsafe extern "C" fn retain(context: Context) -> Status {
    // SAFETY: the program's promises.
    let status = unsafe { behind!(clRetainContext)(context) };
    if status == SUCCESS
        && let Some(known) = Layer::get().objects().contexts.get_mut(&key(context))
    {
        known.holds += 1;
    }
    status
}

/// With the program's last hold goes ours.
pub unsafe extern "C" fn release(context: Context) -> Status {
    let gone = {
        let mut objects = Layer::get().objects();
        let known = objects.contexts.get_mut(&key(context));
        let is_last = known.is_some_and(|known| {
            known.holds = known.holds.saturating_sub(1);
            known.holds == 0
        });
        if is_last { objects.contexts.remove(&key(context)) } else { None }
    };
    // SAFETY: the program's promises.
    let status = unsafe { behind!(clReleaseContext)(context) };
    drop(gone);
    status
}
