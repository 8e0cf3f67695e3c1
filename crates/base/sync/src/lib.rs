//! Lock-free protocols of tensortap, with both halves of each: producer and consumer, sleeper and waker.
//!
//! No other crate names an atomic type. Other crates lay [`SharedU32`] and [`SharedU64`] over words of
//! device memory. They use [`Flag`], [`Counter`] and [`HandlerPointer`] where a single atomic is enough.
//!
//! Every protocol here carries integers: sequence numbers, task slots, edge nodes. The caller owns the data
//! that an integer represents. A protocol only promises which memory accesses happen before which. The
//! crate therefore needs no unsafe code.
//!
//! | module | between | carries |
//! | --- | --- | --- |
//! | [`mailbox`] | one scheduler and one core | one message at a time |
//! | [`ready`] | any scheduler and any scheduler | task slots that may be dispatched |
//! | [`fanout`] | the orchestrator and the completing scheduler | successors that wait for a task |
//! | [`pending`] | the orchestrator and completing schedulers; holders of a slot | how many have not finished |
//! | [`retire`] | schedulers and the orchestrator | task slots that may be used again |
//! | [`park`] | an idle thread and the threads that have work for it | nothing: a wake-up |
//! | [`link`] | host and device | nothing: a wake-up |
//! | [`spsc`] | the dump's producer and its collector | numbers of record buffers |
//! | [`commit`] | the dump's producer and its collector | how many records of a buffer may be read |
//! | [`buffers`] | the dump's producer and its collector | record buffers; combines [`spsc`] and [`commit`] |
//! | [`arena`] | the dump's producer and its collector | which bytes of a circular arena are in use |
//! | [`signs`] | the dump's producer and its collector | heartbeat and the order to discard |
//! | [`lease`] | recording threads and the collector | which thread holds a lane |
//! | [`enclosure`] | libraries of one process that record the same thread | the task that the thread is inside of |
//!
//! The protocols of the dump and of the link have a host on one side. The host may reach the words only
//! through copies that can fail. The host's half is therefore generic over [`Word`], and the model checker
//! runs the same code as the host.
//!
//! The dump protocols also run on devices without an allocator or an operating system. Their other side may
//! be a process that overwrote the words. Each half therefore checks every count that it reads, with
//! [`cursor`]: a wrong count is an error and never causes an endless loop.
//!
//! `ready`, `retire`, `park` and `link` need the feature `std`, which is on by default.
//!
//! Three rules hold in every module:
//! - The only writer of a word never loads it: the writer keeps its own position in a plain field of its
//!   handle. That is cheaper, and loom explores this form without help. Words with several writers (the
//!   cursors of `ready`, the tail of `retire`, the wake words of `link`) cannot follow this rule. Their
//!   model checks mark the steps that loom must reorder.
//! - Every memory ordering that a protocol relies on has a name in the private module `orderings`, which
//!   documents its partner. Protocol code is generic over those names. The model checks weaken one ordering
//!   at a time, and each weakened protocol must fail.
//! - With `--cfg loom` the atomics are loom's. Their sizes differ, so checks of struct layouts do not hold
//!   there.

// The model checks use a guarded cell to prove the orderings. Only that one file needs unsafe code.
#![cfg_attr(not(any(feature = "std", test, loom)), no_std)]
#![cfg_attr(not(all(test, loom)), forbid(unsafe_code))]
#![cfg_attr(all(test, loom), deny(unsafe_code))]
// This crate is the only one that may use atomics.
#![allow(clippy::disallowed_types)]

pub mod arena;
mod atomic;
pub mod buffers;
pub mod commit;
pub mod cursor;
pub mod enclosure;
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
pub mod parallel;
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
pub use word::{CachePadded, SharedU32, SharedU64, Word};
