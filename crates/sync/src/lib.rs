//! The lock-free protocols of tensortap, both halves of each. Nothing outside this crate names an atomic: others lay
//! [`SharedU32`] and [`SharedU64`] over words of device memory, and have [`Flag`], [`Counter`] and [`HandlerPointer`]
//! for what needs no protocol.
//!
//! Every protocol here carries integers: sequence numbers, task slots, edge nodes. The data that an integer
//! stands for belongs to the caller; a protocol promises only which accesses happen before which. So no
//! unsafe code is needed here.
//!
//! | module | between | carries |
//! | --- | --- | --- |
//! | [`mailbox`] | one scheduler and one core | one message at a time |
//! | [`ready`] | any scheduler and any scheduler | task slots that may be dispatched |
//! | [`fanout`] | the orchestrator and the completing scheduler | successors that wait for a task |
//! | [`pending`] | the orchestrator and completing schedulers; holders of a slot | how many still have to let go |
//! | [`retire`] | schedulers and the orchestrator | task slots that may be used again |
//! | [`park`] | an idle thread and whoever has work for it | nothing: a wake-up |
//! | [`link`] | host and device | nothing: a wake-up |
//! | [`spsc`] | the dump's producer and its collector | numbers of record buffers |
//! | [`commit`] | the dump's producer and its collector | how many records of a buffer may be read |
//! | [`buffers`] | the dump's producer and its collector | record buffers: the two above, put together |
//! | [`arena`] | the dump's producer and its collector | which bytes of a circular arena are in use |
//! | [`signs`] | the dump's producer and its collector | heartbeat, an order to discard, the end |
//! | [`lease`] | threads that record, and the collector | who has a lane |
//!
//! Those of the dump and of the link have a host on one side, which may reach the words only by copies that can fail:
//! that side is written over [`Word`] and runs here under the model checker as it runs there. The dump's run where there
//! is neither an allocator nor an operating system, and their other side may be another process that wrote nonsense: they
//! check every count they read, with [`cursor`], and a count that cannot be right is an error, never a loop. `ready`,
//! `retire`, `park` and `link` need the feature `std`, which is on by default.
//!
//! Three rules hold throughout:
//! - A word with one writer is only stored by it: the writer keeps its own position in a plain field of its
//!   handle. This is cheaper, and it is the form that loom explores without help. Words with several writers
//!   (the cursors of `ready`, the tail of `retire`, the wake of `link`) cannot be so; their model checks mark the steps
//!   to reorder.
//! - Every ordering that a protocol relies on has a name in the private module `orderings`, which says what it pairs
//!   with. Protocol code is generic over those names; the model checks weaken one at a time and must then fail.
//! - With `--cfg loom` the atomics are loom's. They have other sizes, so layout checks of shared structures
//!   do not hold there.

// The model checks guard a real cell to prove the ordering; they alone need unsafe code, in one file.
#![cfg_attr(not(any(feature = "std", test, loom)), no_std)]
#![cfg_attr(not(all(test, loom)), forbid(unsafe_code))]
#![cfg_attr(all(test, loom), deny(unsafe_code))]
// This is the one crate that may.
#![allow(clippy::disallowed_types)]

pub mod arena;
mod atomic;
pub mod buffers;
pub mod commit;
pub mod cursor;
pub mod fanout;
mod flag;
pub mod lease;
#[cfg(feature = "std")]
pub mod link;
pub mod mailbox;
#[cfg(all(test, loom))]
mod model;
mod orderings;
#[cfg(feature = "std")]
pub mod park;
pub mod pending;
#[cfg(feature = "std")]
pub mod ready;
#[cfg(feature = "std")]
pub mod retire;
pub mod signs;
pub mod spsc;
#[cfg(all(test, not(loom)))]
mod testing;
pub mod word;

pub use core::sync::atomic::Ordering;
#[cfg(feature = "std")]
pub use flag::SignalFlag;
pub use flag::{Counter, Flag, HandlerPointer, ProcessLock, ProcessLockGuard};
pub use word::{Line, SharedU32, SharedU64, Word};
