//! The files of a tensor dump: writing, reading, verifying and repairing them. Knows no threads and no platform.
//!
//! A dump is a folder with
//!
//! | file | written | content |
//! | --- | --- | --- |
//! | `tensor_dump.idx` | while the run lasts | the records, in frames with checksums |
//! | `tensor_dump.bin` | while the run lasts, from the first payload on | payload bytes |
//! | `tensor_dump.json` | at the end, or by repair | the manifest, made from the index |
//! | `graph.json` | at the end, or by repair | tasks and dependencies, made from the index |
//! | `args_dump.json`, `kernel_args_dump.json` | at the end, or by repair | with `--dump-args`: the orchestration's arguments, and those of every dispatch, made from the index |
//!
//! [`DumpWriter`] appends, [`Dump`] reads, [`verify()`] checks and [`repair()`] closes what nobody closed. The bytes are
//! described in `docs/format.md`.
//!
//! What holds at every moment, also when the writer is killed:
//! - Every frame of the index but the last is whole, and so is every payload that a whole frame refers to, as long as
//!   the caller writes payloads before it appends their records.
//! - Files only grow, except that `--dump-last` replaces the index by a shorter one and then punches holes into the
//!   payload file, in this order.
//! - The JSON files are there whole or not at all.
//! - The writer holds a lock on the index, so nobody repairs what is being written.
//!
//! Readers trust nothing: lengths are checked before memory is taken, a file may be cut while it is read, and a record
//! that contradicts itself ends the dump where it stands. Files are read with positioned reads, not mapped, so a file
//! that shrinks is an error and no signal.
#![forbid(unsafe_code)]

mod args_json;
mod beside_writer;
mod choice;
mod cut;
mod details;
mod dispatch;
mod error;
mod files;
mod footer;
mod frame;
mod graph;
mod index;
mod info;
mod join;
mod json;
mod json_check;
mod json_records;
mod json_text;
mod layout;
mod manifest;
mod manifest_check;
mod modules;
mod names;
mod payload;
mod reader;
mod record;
mod repair;
mod rewrite;
mod scalar;
mod source;
mod survey;
mod task;
mod types;
mod verify;
mod view;
mod window;
mod writer;

pub use choice::{TaskChoice, func_ids, is_pattern, name_fits, numbered, scope_fits, task_fits, word_fits};
pub use cut::CutTask;
pub use details::{Details, TaskDetails};
pub use dispatch::{
    Dispatch, DispatchArg, DispatchContext, OrchestrationArg, OrchestrationScalar, dispatch_id,
};
pub use error::FormatError;
pub use footer::{DumpCounters, Footer, GoldenVerdict, InFlightTask, Loss, Status, ThreadEnd, Totals};
pub use graph::Edge;
pub use info::{
    ARGS_FILE, BIN_FILE, GRAPH_FILE, HOST_PLATFORM, INDEX_FILE, KERNEL_ARGS_FILE, KernelInfo,
    KernelTolerance, MANIFEST_FILE, RECORD_RUNTIME, RunInfo,
};
pub use join::Names;
pub use layout::INDEX_VERSION;
pub use manifest::SCHEMA_VERSION;
pub use modules::{ImageWriter, MODULES_DIR, Module, image_file_name};
pub use names::{choose_dir, choose_dir_named, find_newest, monotonic_ns, quoted, timestamp};
pub use payload::{PayloadChunks, PayloadReader};
pub use reader::{Dump, Records, Tail, Uncaptured};
pub use record::{IndexRecord, Payload, PayloadState};
pub use repair::{Repair, repair, repair_without_payloads};
pub use scalar::ScalarValue;
pub use source::{DumpFormat, PassedOver, WhyPassedOver};
pub use survey::Gap;
pub use task::{
    Argument, ArgumentFacts, ArgumentRecord, Assembler, Captured, DispatchFacts, DispatchTimes, Finished,
    Launch, Pending, RecordingThread, Renewed, Task, TaskFacts, TaskKey, TaskPart, Tasks, is_in_steps,
};
pub use types::{ReadAs, TypeRule, TypedArg};
pub use verify::{Findings, Problem, RecordName, Spread, verify, verify_spread};
pub use view::{ArgumentKind, NamedRecord, Record, StatsDocument, role_name};
pub use writer::{DumpWriter, WriterOptions};
