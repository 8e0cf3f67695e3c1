//! The host's half of a tensor dump: takes records and payloads out of the dump region and writes them to
//! files.
//!
//! The device writes the region, and a faulty kernel may overwrite any part of it. Nothing in it is
//! trusted. Sizes and offsets come from the host's own [`CollectorOptions`]. Counts and cursors are
//! compared with earlier values. Invalid records are counted and skipped.
//!
//! - [`RegionMemory`] accesses the region: mapped, or through copies only. [`DeviceRegion`] is the region
//!   of an open device.
//! - [`Collector`] is the state machine. [`Collector::step`] takes everything visible and never sleeps.
//! - [`Collection`] drives a collector in a background thread, next to a heartbeat thread.
//! - [`DumpSetup`] opens a dump: it derives region, run information and collector from one set of settings.
//! - [`Sink`] receives the records: a `DumpWriter`, or a test.
//!
//! ## Order of writes
//! For each lane and the records at hand: the collector writes the payloads, then the index frame that
//! refers to them. Then it moves the consumed cursor and acknowledges the records. With `sync`, both writes
//! are synced in between. Whichever process dies, the index only refers to bytes that are in the file. A
//! payload in pieces gets its range in the file with its first record. Its arena space is released piece by
//! piece, and its record is stored at its end.
//!
//! ## Limits
//! The collector knows neither runtimes nor scenes. It does not stop the device, wait for it, or know how
//! its run ended; [`RunEnd`] carries that. It does not compare a payload with its hash: the device computed
//! the hash at the source, and verifying the dump detects changes on the way.
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
//! # struct IdleProgram;
//! # impl DeviceProgram for IdleProgram {
//! #     fn run(&self, _: &DeviceLink, _: u64) {}
//! # }
//! # let mut options = DeviceOptions::new(Arc::new(IdleProgram));
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
mod setup;
mod sink;
mod stall_timer;
mod store;
mod stream;
mod summary;
#[cfg(test)]
mod testing;

pub use background::Collection;
pub use check::RecordFault;
pub use collector::{ArenaGrowth, Collector, CollectorOptions, DEFAULT_DEDUP_ENTRIES, MAX_WRITERS, Progress};
pub use error::{CollectError, WriteError};
pub use event::{CollectEvent, Listener};
pub use memory::{DeviceRegion, RegionMemory};
pub use payload::PayloadPath;
pub use setup::{ANY_MEMORY, DumpSetup, write_to_process};
pub use sink::Sink;
pub use stream::{ImpossibleWord, StreamError};
pub use summary::{ArenaUse, LaneSummary, RunEnd, Summary};
