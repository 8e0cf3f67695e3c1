//! What the capture backends for queue-based devices share.
//!
//! - [`ProcessSession`]: the recording session of a library that is loaded into the user's program;
//! - [`MemoryMap`]: the device memory that is allocated now;
//! - [`Storages`]: identities of memory, which its allocation and its release share;
//! - [`OrderTracker`]: which commands are ordered with which;
//! - [`Command`]: a command with the memory ranges it receives, and how it is recorded;
//! - [`SharedCommand`]: the states of a command from its submission to its end, and the record of its snapshots;
//! - [`HarvestThread`]: the thread that records what devices have found;
//! - [`StoredContent`]: which content the dump has already;
//! - [`RingAllocator`]: the allocator of ring buffers and other staging memory.
//!
//! A backend sees the program's calls. For each command it finds the ranges that the command receives, puts a
//! snapshot before and after the command into the same queue, and records what the snapshots read. Nothing in this
//! crate calls a driver.
#![deny(unsafe_code)]

mod command;
mod harvest_thread;
mod memory_map;
mod number_map;
mod order;
mod process_session;
mod ring_allocator;
mod shared_command;
mod storages;
mod stored_content;
mod value;

pub use command::{Command, ContentSource, Range, RangeRole};
pub use harvest_thread::HarvestThread;
pub use memory_map::{FIRST_ADDRESS, Memory, MemoryMap};
pub use number_map::{NumberHasher, NumberMap};
pub use order::{Cause, OrderToken, OrderTracker, QueueKey, Submission, Wait};
pub use process_session::{ProcessSession, number_from_environment, print_note};
pub use ring_allocator::{GRANULARITY, RingAllocator, RingSlice};
pub use shared_command::{CommandState, MissedRanges, RunningCommand, SharedCommand, WAIT_LIMIT};
pub use storages::{MemoryEvent, Storage, Storages};
pub use stored_content::StoredContent;
pub use value::Value;
