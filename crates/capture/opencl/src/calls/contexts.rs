//! Contexts. The staging memory that the layer creates in a context stays as long as the program holds the context.

use std::ffi::c_void;

use super::{driver_fn, retain_function};
use crate::{
    ffi::{Bits, Context, ContextCallback, Device, Status},
    layer::Layer,
    objects::{ContextEntry, drop_reference, key},
};

pub unsafe extern "C" fn create(
    properties: *const isize,
    count: u32,
    devices: *const Device,
    callback: ContextCallback,
    data: *mut c_void,
    status: *mut Status,
) -> Context {
    // SAFETY: the program's guarantees.
    add(unsafe { driver_fn!(clCreateContext)(properties, count, devices, callback, data, status) })
}

pub unsafe extern "C" fn create_from_type(
    properties: *const isize,
    kind: Bits,
    callback: ContextCallback,
    data: *mut c_void,
    status: *mut Status,
) -> Context {
    // SAFETY: the program's guarantees.
    add(unsafe { driver_fn!(clCreateContextFromType)(properties, kind, callback, data, status) })
}

/// Replaces the entry of an older context with the same handle.
fn add(context: Context) -> Context {
    if !context.is_null() {
        let entry = ContextEntry { references: 1, rings: Vec::new() };
        Layer::get().objects().contexts.insert(key(context), entry);
    }
    context
}

retain_function!(clRetainContext, contexts);

/// When the program drops its last reference, the layer drops its own.
pub unsafe extern "C" fn release(context: Context) -> Status {
    let gone = drop_reference(&mut Layer::get().objects().contexts, context);
    // SAFETY: the program's guarantees.
    let status = unsafe { driver_fn!(clReleaseContext)(context) };
    drop(gone);
    status
}
