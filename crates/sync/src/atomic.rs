//! What the build swaps: `core`'s and `std`'s primitives, or loom's under `--cfg loom`.
//!
//! Nothing outside this crate names an atomic (`clippy.toml` forbids it): others have [`crate::SharedU64`] and its
//! like, so that one switch puts every protocol under the model checker.

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
