//! The device's side of a tensor dump: turns arguments into records in the dump region.
//!
//! It runs on device threads: no allocation, no operating system, nothing shared between threads but the region. The
//! host's side drains the region meanwhile; layouts are those of `tensortap-abi`. It knows neither schedulers nor files.
//!
//! - [`Region`] is the region as a device opens it, after checking all of it; [`setup_bytes`] is what the host writes
//!   there before.
//! - [`LaneRecorder`] records in one lane: [tasks](LaneRecorder::task), [tensors](LaneRecorder::tensor),
//!   scalars, edges, dispatches. It applies level and filters, and obeys the loss policy when the host is behind.
//! - [`Gather`] reads a strided view as its logical contiguous content; the content's hash and statistics are taken while its
//!   bytes are hot.
//!
//! Every record goes through the same three steps: *reserve* a record place and arena space, *fill* the space, *commit*.
//! Commits become visible in the order of reservation.
//!
//! ## What becomes of a record that was asked for
//! Each call of [`LaneRecorder`] asks for one record, and has one [`Outcome`]: it is recorded, or it is counted in
//! exactly one of `filtered_records`, `dropped_no_buffer`, `dropped_no_space` and `dropped_no_host`. An argument whose
//! payload alone was dropped is counted as dropped too; its metadata stays, flagged. An argument that the level does
//! not want was not asked for.
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

mod ahead;
mod capture;
mod counters;
mod error;
mod filter;
pub mod gather;
pub mod host;
mod lane;
mod open;
mod recorder;
mod region;
mod setup;

pub use ahead::Ahead;
pub use capture::{
    DispatchCapture, EdgeCapture, KernelDefinition, Known, OrchestrationArgCapture, ScalarCapture, TaskHead,
    TensorCapture, UncapturedArg, tensor_record, uncaptured_record,
};
pub use counters::{Counters, DropReason};
pub use error::{GatherError, RegionError, SetupError};
pub use gather::Gather;
pub use host::HostLink;
pub use open::Region;
pub use recorder::{Found, LaneRecorder, NotReserved, Outcome, Pieces, Reserved};
pub use region::Memory;
pub use setup::{SetupBytes, SetupOptions, setup_bytes};
