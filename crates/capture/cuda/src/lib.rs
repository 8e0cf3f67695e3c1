//! `libtensortap_cuda`: a library that CUDA's driver loads into a program. It records every launch, copy and
//! fill. The program needs no changes.
//!
//! A driver that finds the library in `CUDA_INJECTION64_PATH` calls [`InitializeInjection`], which subscribes
//! to CUPTI. From then on, CUPTI calls back before and after each call of the driver. Before a command, the
//! backend puts one of its own kernels into the command's stream. The kernel hashes and measures the memory
//! ranges of the command. After the command, the same happens again (`snapshot`). If the kernels cannot run,
//! the ranges are copied to this process, and a host function in the stream records them (`host_snapshot`).
//! The backend never synchronizes the device.
//!
//! NVTX loads the same library and calls [`InitializeInjectionNvtx2`]. Its ranges become regions (`nvtx`).
//!
//! If the process is not recorded, the library does not subscribe.

mod allocations;
mod backend;
mod callback;
mod calls;
mod command;
mod copy_plan;
mod enqueue;
mod host_snapshot;
mod library;
mod nvtx;
mod parameters;
mod pinned_pool;
mod raw;
mod snapshot;
mod stream_guard;
mod streams;
mod table;
mod torch;
mod values;

/// Called by the driver. Starts recording if the process is to be recorded.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the driver's name for it")]
pub extern "C" fn InitializeInjection() -> i32 {
    // A panic must not reach the driver, and the program continues in any case.
    let started = std::panic::catch_unwind(callback::start);
    drop(started);
    1
}

/// Called by NVTX, once for each library that uses it. Its ranges are recorded if the process is.
///
/// # Safety
/// As NVTX calls it.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name that NVTX looks up")]
pub unsafe extern "C" fn InitializeInjectionNvtx2(get: Option<nvtx::GetExportTable>) -> i32 {
    // A panic must not reach the program.
    let started = std::panic::catch_unwind(|| {
        if let Some(get) = get {
            // SAFETY: the caller's guarantee.
            unsafe { nvtx::initialize(get) };
        }
    });
    drop(started);
    1
}
