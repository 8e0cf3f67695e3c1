//! The device's half of a tensor dump: turns arguments into records in the dump region.
//!
//! It runs on device threads, without allocation and without an operating system. Threads share nothing but
//! the region. The host's half drains the region at the same time. The layouts come from `tensortap-abi`.
//! The crate knows neither schedulers nor files.
//!
//! - [`Region`] is the region as a device opens it, after all of it was checked. The host first writes the
//!   bytes of [`setup_bytes`].
//! - [`LaneRecorder`] records in one lane: [tasks](LaneRecorder::task), [tensors](LaneRecorder::tensor),
//!   scalars, edges, dispatches. It applies level and filters, and follows the loss policy if the host is
//!   too slow.
//! - [`Gather`] reads a strided view as its logical contiguous content. Hash and statistics are computed
//!   while the bytes are in the cache.
//!
//! Every record goes through the same three steps: *reserve* a record slot and arena space, *fill* the
//! space, *commit*. Commits become visible in the order of reservation.
//!
//! ## Outcome of a call
//! Each call of a [`LaneRecorder`] requests one record and has one [`Outcome`]. The record is committed, or
//! it is counted in exactly one of `filtered_records`, `dropped_no_buffer`, `dropped_no_space` and
//! `dropped_no_host`. If only its payload is dropped, the argument counts as dropped and its metadata is
//! recorded with a flag. An argument that the level does not want counts nowhere.
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

mod capture;
mod counters;
mod error;
mod filter;
pub mod gather;
pub mod host;
mod lane;
mod open;
mod page_advice;
mod recorder;
mod region;
mod setup;

pub use capture::{
    DispatchCapture, EdgeCapture, KernelDefinition, OrchestrationArgCapture, ScalarCapture, TaskHead,
    TensorCapture, TensorDetails, UncapturedArg, tensor_record, uncaptured_record,
};
pub use counters::{Counters, DropReason};
pub use error::{GatherError, RegionError, SetupError};
pub use gather::Gather;
pub use host::HostLink;
pub use open::Region;
pub use page_advice::PageAdvice;
pub use recorder::{
    ContentDigest, LaneRecorder, Outcome, PayloadReservation, PiecewisePayload, ReserveError,
};
pub use region::Memory;
pub use setup::{SetupBytes, SetupOptions, setup_bytes};
