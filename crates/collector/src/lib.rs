//! The host's side of a tensor dump: takes records and payloads out of the dump region and puts them into files.
#![forbid(unsafe_code)]

mod background;
mod check;
mod collector;
mod dedup;
mod drain;
mod error;
mod event;
mod memory;
mod payload;
mod places;
mod sink;
mod store;
mod stream;
mod summary;
#[cfg(test)]
mod testing;

pub use background::Collection;
pub use check::RecordFault;
pub use collector::{Collector, CollectorOptions, DEFAULT_DEDUP_ENTRIES, Progress};
pub use error::{CollectError, WriteError};
pub use event::{CollectEvent, Listener};
pub use memory::{DeviceRegion, RegionMemory};
pub use payload::PayloadPath;
pub use sink::Sink;
pub use stream::StreamError;
pub use summary::{RunEnd, Summary, ThreadSummary};
