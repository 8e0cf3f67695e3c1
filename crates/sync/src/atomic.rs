//! Atomics of the build: `core`'s, or loom's under `--cfg loom`.
//!
//! Other crates name atomics through this module only, so that one switch puts the whole program under the
//! model checker.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
