//! The primitives that the build swaps: those of `core` and `std`, or loom's under `--cfg loom`.
//!
//! No other crate names an atomic (`clippy.toml` forbids it). Other crates use [`crate::SharedU64`] and
//! similar types, so one switch puts every protocol under the model checker.

#[cfg(not(loom))]
pub(crate) use core::hint::spin_loop;
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(all(feature = "std", loom))]
pub(crate) use loom::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::yield_now,
};
#[cfg(all(feature = "std", not(loom)))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::yield_now,
};
