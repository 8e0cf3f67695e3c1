//! Records the inputs and outputs of a program's tasks from inside the program, into a regular dump.
//!
//! A [`Session`] belongs to a process. `tensortap record -- COMMAND` provides it through the environment, or
//! the program opens one with its own folder and collector thread. Without either, [`Session::attach`]
//! returns `None`. Each recording thread has a [`ThreadRecorder`]. It leases one lane of the memory shared
//! with the recorder, and returns it when dropped. Names, scopes, kernels, queues and steps are defined once
//! and then have numbers.
//!
//! ```
//! use tensortap_record::{DType, DumpStage, FolderOptions, Role, Session, TaskInfo, Tensor};
//! # let dir = tempfile::tempdir()?;
//! # let folder = dir.path().join("dump");
//!
//! let session = match Session::attach()? {
//!     Some(session) => session,
//!     None => Session::in_folder(&folder, &FolderOptions::default())?,
//! };
//! let mut recorder = session.thread()?;
//! let kernel = recorder.kernel("double")?;
//!
//! let (x, mut y) = ([1.0_f32, 2.0, 3.0], [0.0_f32; 3]);
//! let mut task = recorder.begin(&TaskInfo::of(kernel))?;
//! recorder.tensor(&mut task, DumpStage::BeforeDispatch, &Tensor::of(&x, DType::Float32)?.role(Role::Input))?;
//! y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
//! recorder.tensor(&mut task, DumpStage::AfterCompletion, &Tensor::of(&y, DType::Float32)?.arg(1).role(Role::Output))?;
//! recorder.end(&mut task)?;
//!
//! drop(recorder);
//! let summary = session.close()?.expect("it has its own folder");
//! assert_eq!((summary.counters.tensors, summary.counters.dropped_records), (2, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## Features
//! `folder` adds `Session::in_folder` and the collector that it needs.
//!
//! ## Guarantees
//! - A record is in memory that outlives the process, so the recorder gets it even if the process crashes.
//!   After a [flush](ThreadRecorder::flush), it is also in files that outlive the recorder.
//! - Calls wait for a slow recorder, unless [`ThreadRecorder::set_max_wait`] sets a limit. They do not wait
//!   for a dead one: the program continues, lost records are counted, and one line on standard error reports
//!   it.
//! - The library installs no signal handler, never ends the process, and does not write to standard output.
//! - A forked process has none of its parent's sessions: calls with their handles are errors. It may attach
//!   again.
#![deny(unsafe_code)]

mod allocation;
mod attribute;
mod core;
mod deferred;
mod enclosure;
mod environment;
mod error;
#[cfg_attr(not(feature = "folder"), path = "no_folder.rs")]
mod folder;
mod kernels;
mod link;
mod names;
mod registry;
mod sanitizer;
mod session;
mod task;
mod task_ids;
mod tensor;
mod thread;
#[cfg(test)]
mod two_libraries;

pub use allocation::AllocationInfo;
pub use attribute::AttributeValue;
pub use deferred::{PartialContent, Ticket};
pub use environment::{LIBRARY_VARIABLE, SOCKET_VARIABLE};
pub use error::{RecordError, ViewFault};
#[cfg(feature = "folder")]
pub use folder::FolderOptions;
pub use folder::Summary;
pub use kernels::MATCHED_BY_NAME;
pub use names::{KernelId, ModuleId, QueueId, ScopeId, StepId, StringId};
pub use session::{Session, SessionCounters};
pub use task::{Task, TaskInfo};
pub use tensor::Tensor;
pub use thread::{KernelInfo, ModuleImage, ThreadRecorder};

pub use tensortap_abi::{
    ArgKind, CollectiveKind, DType, DumpFilter, DumpLevel, DumpPolicy, DumpStage, EdgeCause,
    LAUNCH_COOPERATIVE, LAUNCH_EARLY, MAX_ATTRIBUTE_VALUES, MAX_DIMS, MemorySpace, ModuleKind, Operation,
    Role, TensorStats, UncapturedReason,
};
pub use tensortap_recorder::{ContentDigest, Counters, DropReason, Outcome};
