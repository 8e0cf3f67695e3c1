//! `libtensortap_opencl`: a layer of OpenCL's loader that records every command of a program, without a change to it.
//!
//! A loader that finds it in `OPENCL_LAYERS` calls [`clInitLayer`], and then every function of the table that it was given back. Of each command the
//! ranges it is given are read before and behind it, in its own queue: a probe goes in before it, behind everything the program lets it wait for, and a
//! probe behind it, and the program is handed the event of the last, so that whatever waits for its command waits until that was seen.
//!
//! Where nobody records, the table is empty and the loader calls drivers as if nothing were there.

mod calls;
mod enqueue;
mod ffi;
mod finder;
mod layer;
mod objects;
mod probe;
mod raw;
mod reader;
mod ring;
mod table;
mod types;
mod values;
mod variables;

use std::ffi::c_void;

use ffi::{Dispatch, ENTRIES, INVALID_VALUE, SUCCESS, Status};

/// Tells a loader what it asks of a layer.
///
/// # Safety
/// As a loader calls it: what is not null can be written, `room` bytes at `value`.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the loader's name for it")]
pub unsafe extern "C" fn clGetLayerInfo(
    what: u32,
    room: usize,
    value: *mut c_void,
    size: *mut usize,
) -> Status {
    let version = ffi::LAYER_API_VERSION_100.to_ne_bytes();
    let answer: &[u8] = match what {
        ffi::LAYER_API_VERSION => &version,
        ffi::LAYER_NAME => b"tensortap\0",
        _ => return INVALID_VALUE,
    };
    // SAFETY: the loader's promise.
    unsafe { raw::answer(answer, room, value, size) }
}

/// Takes the functions behind the layer, and gives those that stand before them.
///
/// # Safety
/// As a loader calls it: a table of so many entries, which lives as long as the process, and two places to write.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the loader's name for it")]
pub unsafe extern "C" fn clInitLayer(
    entries: u32,
    target: *const Dispatch,
    entries_given: *mut u32,
    given: *mut *const Dispatch,
) -> Status {
    if target.is_null() || entries_given.is_null() || given.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the loader's promise.
    let target = unsafe { Dispatch::first(target, entries as usize) };
    let table = table::before(target);
    let known = u32::try_from(ENTRIES).unwrap_or(u32::MAX).min(entries);
    // SAFETY: the loader's promise.
    unsafe {
        entries_given.write(known);
        given.write(table);
    }
    SUCCESS
}
