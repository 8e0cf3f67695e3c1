//! `libtensortap`: the recording of programs, for C. What a function does is said in `include/tensortap_record.h`.
//!
//! One symbol is exported, the table [`tensortap_record_1`]. Every function of it tests its handle, keeps panics to itself and answers with a status.
//! Both sides assert sizes and offsets of what crosses; `tests/header.rs` holds them against one another.

mod calls;
mod handles;
mod status;
mod table;
mod types;

pub use status::STATUSES;
pub use table::{RecordApi, tensortap_record_1};
pub use types::{
    Counts, FolderSettings, KernelArg, ModuleImageInfo, RecordedTask, ReservedSpace, TaskDescription, View,
};
