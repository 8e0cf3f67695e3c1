//! The host's side of a tensor dump: takes records and payloads out of the dump region and puts them into files.
//!
//! The region is written by the device, possibly while a kernel scribbles on it, so nothing in it is trusted: sizes and
//! offsets come from the host's own [`CollectorOptions`], counts and cursors are checked against what was seen before,
//! and a record that cannot be what it claims to be is counted and passed over.
//!
//! - [`RegionMemory`] is how the region is reached: mapped, or by copies only. [`DeviceRegion`] is that of an open device.
//! - [`Collector`] is the state machine. [`Collector::step`] takes what is visible and never sleeps.
//! - [`Collection`] drives a collector from a thread of its own, with a heartbeat beside it.
//! - [`Sink`] is where it all goes: a `DumpWriter`, or a test.
//!
//! ## Order
//! Per lane, for the records at hand: payloads are written, then the index frame that refers to them, then the consumed
//! cursor moves and the records count as acknowledged. With `sync` both writes are synced in between. Whatever dies in
//! between, the index refers only to bytes that are there. A payload in pieces has its range in the file from its
//! beginning; its space in the arena is given back piece by piece, its record is entered with its end.
//!
//! ## What it does not do
//! It knows neither runtimes nor scenes. It does not stop the device, wait for it, or know how its run ended:
//! [`RunEnd`] tells. It does not check a payload against its hash: the device took that at the source, and verifying
//! the dump finds what changed on the way.
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # use tensortap_abi::*;
//! # use tensortap_platform::{DeviceEvent, DeviceLink, DeviceMode, DeviceOptions, DeviceProgram, find};
//! # use tensortap_recorder::{SetupOptions, setup_bytes};
//! use tensortap_collector::{
//!     CollectEvent, Collection, Collector, CollectorOptions, DeviceRegion, RegionMemory, RunEnd,
//! };
//! use tensortap_format::{DumpWriter, RunInfo, Status};
//! # struct Nothing;
//! # impl DeviceProgram for Nothing {
//! #     fn run(&self, _: &DeviceLink, _: u64) {}
//! # }
//! # let mut options = DeviceOptions::new(Arc::new(Nothing));
//! # options.mode = DeviceMode::Thread;
//! # options.memory_bytes = Some(4 << 20);
//! # let mut device = find("a2a3sim")?.open(&options)?;
//! # let dir = tempfile::tempdir()?;
//! # let run_id = 1;
//!
//! let geometry = DumpGeometry { lanes: 1, buffers: 4, records: 64, arena_bytes: 1 << 20 };
//! let base = device.allocate(geometry.bytes(), LARGE_PAYLOAD_ALIGN, "dump region")?;
//! let range = DeviceRange { addr: base, bytes: geometry.bytes() };
//! let region = DeviceRegion::new(device.access(), range).expect("it was allocated there");
//! # let setup = SetupOptions {
//! #     base, run_id, level: DumpLevel::Full, policy: DumpPolicy::Block, collect: DumpCollect::Live,
//! #     liveness_ms: 30_000, filter: DumpFilter::ALL,
//! #     of_process: false,
//! # };
//! setup_bytes(geometry, &setup)?.try_write(|offset, bytes| region.write(offset, bytes))?;
//!
//! let writer = DumpWriter::create(dir.path(), &RunInfo::default())?;
//! let options = CollectorOptions::new(geometry, run_id, device.memory());
//! let listener = Box::new(|event: CollectEvent<'_>| eprintln!("{event}"));
//! let collection = Collection::start(Collector::new(region, writer, &options, listener)?)?;
//! device.launch(base)?;
//! while device.wait(Duration::from_millis(50))? != DeviceEvent::Finished {
//!     collection.notify();
//! }
//! let summary = collection.finish(&RunEnd::new(Status::Complete))?;
//! assert_eq!((summary.counters.entries, summary.counters.dropped_records), (0, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod background;
mod check;
mod collector;
mod dedup;
mod drain;
mod error;
mod event;
mod lane_offsets;
mod memory;
mod payload;
mod sink;
mod standstill;
mod store;
mod stream;
mod summary;
#[cfg(test)]
mod testing;

pub use background::Collection;
pub use check::RecordFault;
pub use collector::{Collector, CollectorOptions, DEFAULT_DEDUP_ENTRIES, MAX_WRITERS, Progress};
pub use error::{CollectError, WriteError};
pub use event::{CollectEvent, Listener};
pub use memory::{DeviceRegion, RegionMemory};
pub use payload::PayloadPath;
pub use sink::Sink;
pub use stream::{Impossible, StreamError};
pub use summary::{LaneSummary, RunEnd, Summary};
