//! `libtensortap`: recording for C. The header `include/tensortap_record.h` documents the functions.
//!
//! The only exported symbol is the table [`tensortap_record_1`]. Each of its functions checks its handle,
//! catches panics and returns a status. Both sides assert sizes and offsets of shared structures;
//! `tests/header.rs` compares them.

mod calls;
mod facts;
mod handles;
mod status;
mod table;
mod types;

pub use status::STATUSES;
pub use table::{RecordApi, tensortap_record_1};
pub use types::{
    Counts, FolderSettings, KernelArg, MemoryEvent, ModuleImageInfo, RecordedTask, ReservedSpace,
    TaskDescription, Value, View,
};
