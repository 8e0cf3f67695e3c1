//! The lock-free protocols of tensortap. Other crates have atomics only as single flags and counters, or lay these
//! protocols over words of shared memory.
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
//! | [`pending`] | the orchestrator and completing schedulers | how many producers a task still waits for |
//! | [`retire`] | schedulers and the orchestrator | task slots that may be used again |
//! | [`park`] | an idle thread and whoever has work for it | nothing: a wake-up |
//! | [`spsc`] | the dump's producer and its collector | numbers of record buffers |
//! | [`commit`] | the dump's producer and its collector | how many records of a buffer may be read |
//! | [`arena`] | the dump's producer and its collector | which bytes of a circular arena are in use |
//!
//! The last three run where there is neither an allocator nor an operating system, and their other side may be
//! another process that wrote nonsense: they check every count they read, with [`cursor`]. `ready`, `retire` and
//! `park` need the feature `std`, which is on by default.
//!
//! Three rules hold throughout:
//! - A word with one writer is only stored by it: the writer keeps its own position in a plain field of its
//!   handle. This is cheaper, and it is the form that loom explores without help. Words with several writers
//!   (the cursors of `ready`, the tail of `retire`) cannot be so; their model checks mark the steps to reorder.
//! - Every ordering has a name in the private module `orderings`, which says what it pairs with. Protocol
//!   code is generic over those names; the model checks weaken one at a time and must then fail.
//! - With `--cfg loom` the atomics are loom's. They have other sizes, so layout checks of shared structures
//!   do not hold there.

// The model checks guard a real cell to prove the ordering; they alone need unsafe code, in one file.
#![cfg_attr(not(any(feature = "std", test, loom)), no_std)]
#![cfg_attr(not(all(test, loom)), forbid(unsafe_code))]
#![cfg_attr(all(test, loom), deny(unsafe_code))]

pub mod arena;
pub mod atomic;
pub mod commit;
pub mod cursor;
pub mod fanout;
#[cfg(feature = "std")]
mod hint;
mod line;
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
pub mod spsc;
#[cfg(all(test, not(loom)))]
mod testing;

pub use line::Line;
