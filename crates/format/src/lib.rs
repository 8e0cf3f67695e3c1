//! The files of a tensor dump: writing, reading, verifying and repairing them.
#![forbid(unsafe_code)]

mod error;
mod files;
mod footer;
mod frame;
mod graph;
mod hash;
mod index;
mod info;
mod json;
mod layout;
mod manifest;
mod manifest_check;
mod names;
mod reader;
mod record;
mod repair;
mod rewrite;
mod scalar;
mod survey;
mod verify;
mod view;
mod window;
mod writer;

pub use error::FormatError;
pub use footer::{Footer, InFlightTask, Loss, Status, ThreadEnd, Totals};
pub use graph::{Edge, Task};
pub use hash::{HASH_ALGORITHM, content_hash};
pub use info::{BIN_FILE, GRAPH_FILE, INDEX_FILE, KernelInfo, MANIFEST_FILE, RunInfo};
pub use layout::INDEX_VERSION;
pub use manifest::SCHEMA_VERSION;
pub use names::{choose_dir, find_newest, timestamp};
pub use reader::{Dump, Records, Tail, Uncaptured};
pub use record::{IndexRecord, Payload, PayloadState};
pub use repair::{Repair, repair};
pub use scalar::ScalarValue;
pub use survey::Gap;
pub use verify::{Problem, RecordName, Verdict, verify};
pub use view::{ArgumentKind, Record, role_name};
pub use writer::{DumpWriter, WriterOptions};
