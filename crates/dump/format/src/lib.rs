//! The files of a tensor dump: writing, reading, verifying and repairing them. The crate knows neither
//! threads nor platforms.
//!
//! A dump is a folder with
//!
//! | file | written | content |
//! | --- | --- | --- |
//! | `tensor_dump.idx` | while the run lasts | the records, in frames with checksums |
//! | `tensor_dump.bin` | while the run lasts, from the first payload on | payload bytes |
//! | `tensor_dump.1.bin` … | while the run lasts, if several threads write a large dump | further payload bytes |
//! | `tensor_dump.json` | at the end, or by repair | the manifest, generated from the index |
//! | `graph.json` | at the end, or by repair | tasks and dependencies, generated from the index |
//! | `args_dump.json`, `kernel_args_dump.json` | at the end, or by repair | with `--dump-args`: the orchestration's arguments, and those of every dispatch, generated from the index |
//!
//! [`DumpWriter`] writes a dump, [`Dump`] reads it, [`verify()`] checks it, and [`repair()`] completes a
//! dump whose writer died. `docs/reference/file-format.md` describes the files byte by byte.
//!
//! These guarantees hold at every moment, even if the writer is killed:
//! - Every frame of the index except the last is complete. Every payload that a complete frame refers to is
//!   complete too, provided that the caller writes payloads before it appends their records.
//! - Files only grow, with one exception: `--dump-last` replaces the index by a shorter one and then
//!   punches holes into the payload file, in this order.
//! - A JSON file exists completely or not at all.
//! - The writer holds a lock on the index, so that no other process repairs a dump that is being written.
//!
//! Readers trust nothing. They check lengths before they allocate memory, and a file may be truncated while
//! it is read. An invalid record ends the dump at its position. Readers use positioned reads instead of
//! mapping files, so a shrinking file causes an error and not a signal.
#![forbid(unsafe_code)]

mod allocation_check;
mod args_json;
mod attributes;
mod choice;
mod concurrent_writer;
mod cut;
mod details;
mod dispatch;
mod error;
mod family_check;
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
mod json_stream;
mod json_text;
mod keyed_hash;
mod layout;
mod manifest;
mod manifest_check;
mod modules;
mod names;
mod payload;
mod payload_files;
mod reader;
mod record;
mod repair;
mod rewrite;
mod scalar;
mod source;
mod survey;
mod symbol;
mod task;
mod types;
mod verify;
mod view;
mod window;
mod writer;
mod written_files;

pub use attributes::{Attribute, AttributeValue};
pub use choice::{TaskChoice, func_ids, is_pattern, name_fits, numbered, scope_fits, task_fits, word_fits};
pub use details::{Details, TaskCollective, TaskDetails};
pub use dispatch::{
    Dispatch, DispatchArg, DispatchContext, OrchestrationArg, OrchestrationScalar, dispatch_id,
};
pub use error::FormatError;
pub use footer::{DumpCounters, Footer, GoldenVerdict, InFlightTask, Loss, Status, ThreadEnd, Totals};
pub use graph::{AllocationEntry, Edge};
pub use info::{
    ARGS_FILE, BIN_FILE, GRAPH_FILE, HOST_PLATFORM, INDEX_FILE, KERNEL_ARGS_FILE, KernelInfo,
    KernelTolerance, MANIFEST_FILE, RECORD_RUNTIME, RunInfo,
};
pub use join::Names;
pub use keyed_hash::KEYED_HASH_BYTES;
pub use layout::{INDEX_VERSION, OLDEST_INDEX_VERSION, SEGMENTED_INDEX_VERSION};
pub use manifest::{SCHEMA_VERSION, SEGMENTED_SCHEMA_VERSION};
pub use modules::{ImageWriter, MODULES_DIR, Module, image_file_name};
pub use names::{choose_dir, choose_dir_named, find_newest, monotonic_ns, quoted, timestamp};
pub use payload::{PayloadChunks, PayloadReader};
pub use payload_files::{MAX_PAYLOAD_FILES, payload_file_name, split_position};
pub use reader::{Dump, Records, Tail, UncapturedArgument};
pub use record::{IndexRecord, Payload, PayloadState};
pub use repair::{Repair, repair, repair_without_payloads};
pub use scalar::ScalarValue;
pub use source::{DumpFormat, SkipReason, SkippedIndex};
pub use survey::Gap;
pub use symbol::{full_name, kernel_fits, short_name};
pub use task::{
    AllocationEvent, Argument, ArgumentFacts, ArgumentRecord, ArgumentSnapshot, Assembler, CollectiveFacts,
    DispatchFacts, DispatchFinish, DispatchTimes, Launch, PendingTask, PointerWord, RecordingThread, Task,
    TaskFacts, TaskKey, TaskPart, Tasks, is_in_steps,
};
pub use types::{ReadType, TypeRule, TypedArg};
pub use verify::{Findings, ParallelFor, Problem, RecordName, verify, verify_spread};
pub use view::{ArgumentKind, NamedRecord, Record, StatsDocument};
pub use writer::{DumpWriter, WriterOptions};
pub use written_files::PayloadPlace;
