//! Kernels, and the arguments that the program sets.

use std::ffi::{c_char, c_void};

use super::{driver_fn, programs::image_of, retain_function};
use crate::{
    ffi::{self, Kernel, Program, SUCCESS, Status},
    layer::Layer,
    objects::{Arg, KernelFacts, KernelState, drop_reference, key},
    raw,
};

pub unsafe extern "C" fn create(program: Program, name: *const c_char, status: *mut Status) -> Kernel {
    // SAFETY: the program's guarantees.
    let kernel = unsafe { driver_fn!(clCreateKernel)(program, name, status) };
    add(kernel);
    kernel
}

pub unsafe extern "C" fn create_all(
    program: Program,
    room: u32,
    kernels: *mut Kernel,
    count: *mut u32,
) -> Status {
    let mut created = 0;
    // SAFETY: the program's guarantees.
    let status = unsafe { driver_fn!(clCreateKernelsInProgram)(program, room, kernels, &raw mut created) };
    if status == SUCCESS {
        // SAFETY: the driver has written that many kernels, unless the pointer is null.
        unsafe { raw::list(if kernels.is_null() { 0 } else { created }, kernels) }
            .iter()
            .for_each(|&kernel| add(kernel));
        if !count.is_null() {
            // SAFETY: the program's guarantee.
            unsafe { count.write(created) };
        }
    }
    status
}

fn add(kernel: Kernel) {
    if !kernel.is_null() {
        let layer = Layer::get();
        let program = image_of(layer, kernel);
        let facts = KernelFacts { program, ..KernelFacts::ask(&layer.target, kernel) };
        layer.objects().kernels.insert(key(kernel), KernelState::new(facts));
    }
}

pub unsafe extern "C" fn clone(kernel: Kernel, status: *mut Status) -> Kernel {
    // SAFETY: the program's guarantees.
    let copy = unsafe { driver_fn!(clCloneKernel)(kernel, status) };
    if !copy.is_null() {
        let mut objects = Layer::get().objects();
        if let Some(known) = objects.kernels.get(&key(kernel)).cloned() {
            objects.kernels.insert(key(copy), KernelState { references: 1, ..known });
        }
    }
    copy
}

retain_function!(clRetainKernel, kernels);

pub unsafe extern "C" fn release(kernel: Kernel) -> Status {
    drop_reference(&mut Layer::get().objects().kernels, kernel);
    // SAFETY: the program's guarantees.
    unsafe { driver_fn!(clReleaseKernel)(kernel) }
}

fn set(kernel: Kernel, at: u32, arg: Arg) {
    if let Some(state) = Layer::get().objects().kernels.get_mut(&key(kernel)) {
        state.set(at, arg);
    }
}

pub unsafe extern "C" fn set_arg(kernel: Kernel, at: u32, size: usize, value: *const c_void) -> Status {
    // SAFETY: the program's guarantees.
    let status = unsafe { driver_fn!(clSetKernelArg)(kernel, at, size, value) };
    if status == SUCCESS {
        // SAFETY: the driver has read that many bytes.
        let bytes = unsafe { raw::bytes(value, size) };
        set(kernel, at, bytes.map_or(Arg::Local(size), Arg::Bytes));
    }
    status
}

pub unsafe extern "C" fn set_shared(kernel: Kernel, at: u32, address: *const c_void) -> Status {
    // SAFETY: the program's guarantees.
    let status = unsafe { driver_fn!(clSetKernelArgSVMPointer)(kernel, at, address) };
    if status == SUCCESS {
        set(kernel, at, Arg::Shared(address.addr()));
    }
    status
}

pub unsafe extern "C" fn set_exec_info(
    kernel: Kernel,
    what: u32,
    size: usize,
    value: *const c_void,
) -> Status {
    // SAFETY: the program's guarantees.
    let status = unsafe { driver_fn!(clSetKernelExecInfo)(kernel, what, size, value) };
    if status == SUCCESS && what == ffi::KERNEL_EXEC_INFO_SVM_PTRS {
        let count = u32::try_from(size / size_of::<usize>()).unwrap_or(0);
        // SAFETY: the driver has read that many addresses.
        let addresses = unsafe { raw::list(count, value.cast::<usize>()) }.to_vec();
        if let Some(state) = Layer::get().objects().kernels.get_mut(&key(kernel)) {
            state.shared = addresses;
        }
    }
    status
}
