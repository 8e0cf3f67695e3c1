//! Kernels and the arguments that the program sets.

use std::ffi::{c_char, c_void};

use super::{behind, programs::image_of};
use crate::{
    ffi::{self, Kernel, Program, SUCCESS, Status},
    layer::Layer,
    objects::{Arg, KernelFacts, KernelState, key},
    raw,
};

pub unsafe extern "C" fn create(program: Program, name: *const c_char, status: *mut Status) -> Kernel {
    // SAFETY: the program's promises.
    let kernel = unsafe { behind!(clCreateKernel)(program, name, status) };
    meet(kernel);
    kernel
}

pub unsafe extern "C" fn create_all(
    program: Program,
    room: u32,
    kernels: *mut Kernel,
    count: *mut u32,
) -> Status {
    let mut made = 0;
    // SAFETY: the program's promises, and a word of this call's.
    let status = unsafe { behind!(clCreateKernelsInProgram)(program, room, kernels, &raw mut made) };
    if status == SUCCESS {
        // SAFETY: as many were written, if there is where.
        unsafe { raw::list(if kernels.is_null() { 0 } else { made }, kernels) }
            .iter()
            .for_each(|&kernel| meet(kernel));
        if !count.is_null() {
            // SAFETY: the program's promise.
            unsafe { count.write(made) };
        }
    }
    status
}

fn meet(kernel: Kernel) {
    if !kernel.is_null() {
        let layer = Layer::get();
        let program = image_of(layer, kernel);
        let facts = KernelFacts { program, ..KernelFacts::ask(&layer.target, kernel) };
        layer.objects().kernels.insert(key(kernel), KernelState::new(facts));
    }
}

pub unsafe extern "C" fn clone(kernel: Kernel, status: *mut Status) -> Kernel {
    // SAFETY: the program's promises.
    let made = unsafe { behind!(clCloneKernel)(kernel, status) };
    if !made.is_null() {
        let mut objects = Layer::get().objects();
        if let Some(known) = objects.kernels.get(&key(kernel)).cloned() {
            objects.kernels.insert(key(made), KernelState { holds: 1, ..known });
        }
    }
    made
}

pub unsafe extern "C" fn retain(kernel: Kernel) -> Status {
    // SAFETY: the program's promises.
    let status = unsafe { behind!(clRetainKernel)(kernel) };
    if status == SUCCESS
        && let Some(state) = Layer::get().objects().kernels.get_mut(&key(kernel))
    {
        state.holds += 1;
    }
    status
}

pub unsafe extern "C" fn release(kernel: Kernel) -> Status {
    {
        let mut objects = Layer::get().objects();
        if let Some(state) = objects.kernels.get_mut(&key(kernel)) {
            state.holds -= 1;
            if state.holds == 0 {
                objects.kernels.remove(&key(kernel));
            }
        }
    }
    // SAFETY: the program's promises.
    unsafe { behind!(clReleaseKernel)(kernel) }
}

fn set(kernel: Kernel, at: u32, arg: Arg) {
    if let Some(state) = Layer::get().objects().kernels.get_mut(&key(kernel)) {
        state.set(at, arg);
    }
}

pub unsafe extern "C" fn set_arg(kernel: Kernel, at: u32, size: usize, value: *const c_void) -> Status {
    // SAFETY: the program's promises.
    let status = unsafe { behind!(clSetKernelArg)(kernel, at, size, value) };
    if status == SUCCESS {
        // SAFETY: the driver has read as many.
        let bytes = unsafe { raw::bytes(value, size) };
        set(kernel, at, bytes.map_or(Arg::Local(size), Arg::Bytes));
    }
    status
}

pub unsafe extern "C" fn set_shared(kernel: Kernel, at: u32, address: *const c_void) -> Status {
    // SAFETY: the program's promises.
    let status = unsafe { behind!(clSetKernelArgSVMPointer)(kernel, at, address) };
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
    // SAFETY: the program's promises.
    let status = unsafe { behind!(clSetKernelExecInfo)(kernel, what, size, value) };
    if status == SUCCESS && what == ffi::KERNEL_EXEC_INFO_SVM_PTRS {
        let count = u32::try_from(size / size_of::<usize>()).unwrap_or(0);
        // SAFETY: the driver has read as many addresses.
        let addresses = unsafe { raw::list(count, value.cast::<usize>()) }.to_vec();
        if let Some(state) = Layer::get().objects().kernels.get_mut(&key(kernel)) {
            state.shared = addresses;
        }
    }
    status
}
