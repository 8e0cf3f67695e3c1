//! `libtensortap_opencl`: a layer of OpenCL's loader that records every command of a program. The program needs no
//! changes.
//!
//! A loader that finds the library in `OPENCL_LAYERS` calls [`clInitLayer`], and from then on the functions of the table
//! that it returns. For each command the layer captures the command's memory ranges before and after the command, in the
//! command's own queue. The before-snapshot waits for everything that the program lets the command wait for. The program
//! gets the event of the after-snapshot, so everything that waits for the command also waits for that snapshot.
//!
//! If the process is not recorded, the table is empty, and the loader calls the driver directly.

mod calls;
mod device_hasher;
mod enqueue;
mod ffi;
mod harvest_thread;
mod layer;
mod objects;
mod queue_state;
mod raw;
mod ring;
mod snapshot;
mod table;
mod types;
mod values;
mod variables;

use std::ffi::c_void;

use ffi::{Dispatch, ENTRIES, INVALID_VALUE, SUCCESS, Status};

/// Reports the properties of the layer to the loader.
///
/// # Safety
/// As a loader calls it: `value` is null or has room for `room` bytes, and `size` is null or can be written.
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
    // SAFETY: the loader's guarantee.
    unsafe { raw::answer(answer, room, value, size) }
}

/// Receives the functions of the driver or the next layer, and returns the functions that replace them.
///
/// # Safety
/// As a loader calls it: `target` has `entries` entries and lives as long as the process. The other two pointers can be
/// written.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the loader's name for it")]
pub unsafe extern "C" fn clInitLayer(
    entries: u32,
    target: *const Dispatch,
    result_entries: *mut u32,
    result: *mut *const Dispatch,
) -> Status {
    if target.is_null() || result_entries.is_null() || result.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the loader's guarantee.
    let target = unsafe { Dispatch::first(target, entries as usize) };
    let table = table::replacements(target);
    let known = u32::try_from(ENTRIES).unwrap_or(u32::MAX).min(entries);
    // SAFETY: the loader's guarantee.
    unsafe {
        result_entries.write(known);
        result.write(table);
    }
    SUCCESS
}
