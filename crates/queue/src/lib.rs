//! What recording has in common for devices that take their work from queues, whatever their driver: the session of a library in somebody's program ([`Attached`]), which memory lives ([`Memories`]), what is
//! ordered with what ([`Orders`]), and a command with the ranges it is given ([`Command`]).
//!
//! A driver's door sees the calls of a program. For each command it asks for the ranges it is given, puts a probe before and behind it into the same
//! queue, and hands each probe's content to the command, which records it. Nothing here calls a driver or waits.
#![forbid(unsafe_code)]

mod attached;
mod command;
mod memory;
mod numbers;
mod order;
mod rooms;

pub use attached::{Attached, say};
pub use command::{Command, Range, Roles};
pub use memory::{FIRST_ADDRESS, Memories, Memory};
pub use numbers::{ByNumber, NumberHasher};
pub use order::{Cause, Mark, Orders, QueueKey, Submission, Wait};
pub use rooms::{GRAIN, PATIENCE, Room, Rooms};
