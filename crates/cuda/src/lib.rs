//! `libtensortap_cuda`: a library that CUDA's driver loads into a program, and that records every launch, copy and fill of it, without a change to it.
//!
//! A driver that finds it in `CUDA_INJECTION64_PATH` calls [`InitializeInjection`], which subscribes to CUPTI. From then on it is told of calls of the
//! driver, before and behind each. Before a launch a kernel of ours goes into the launch's own stream, which hashes and measures the ranges it is given and tells what it has found; and the
//! same behind it (`content`). Where our code cannot run, they are copied into memory of this process, and a function of this process records them when the stream has come so
//! far (`probe`). Nothing waits for the device.
//!
//! Where nobody records, nothing is subscribed to.

mod allocations;
mod callback;
mod calls;
mod content;
mod copies;
mod cubin;
mod door;
mod enqueue;
mod known;
mod library;
mod parameters;
mod probe;
mod raw;
mod rooms;
mod streams;
mod table;
mod torch;
mod work;

/// Begins to record, where somebody records.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the driver's name for it")]
pub extern "C" fn InitializeInjection() -> i32 {
    // A panic must not reach the driver, and the program runs on in any case.
    let started = std::panic::catch_unwind(callback::start);
    drop(started);
    1
}
