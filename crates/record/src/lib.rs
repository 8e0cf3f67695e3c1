//! Recording from inside a program: what its tasks were given and what they made, tensor by tensor, in a dump like any other.
//!
//! A [`Session`] belongs to a process. It comes from the recorder that runs the program (`tensortap record -- COMMAND`), which is found
//! through the environment, or it owns a folder and a thread that collects into it. Where there is neither, [`Session::attach`] gives none.
//! Each thread that records has a [`ThreadRecorder`] of its own, which leases one lane of the memory between the process and the recorder and returns it when
//! it is dropped. Names, scopes, kernels, queues and steps are said once and have numbers from then on.
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
//! let summary = session.close()?.expect("it has a folder of its own");
//! assert_eq!((summary.counters.tensors, summary.counters.dropped_records), (2, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## What is promised
//! - A record that was made is in memory that outlives the process: the recorder has it, however the process ends. Once it is
//!   [flushed](ThreadRecorder::flush), it is in files that outlive the recorder, too.
//! - A recorder that is alive and slow is waited for, unless [`ThreadRecorder::set_max_wait`] says how long. One that is gone is not: the
//!   program goes on, what it would have recorded is counted, and one sentence on standard error says so.
//! - Nothing here installs a signal handler, ends the process, or writes to standard output.
//! - A process that is forked has none of its parent's sessions: calls of their handles are errors, and it may attach anew.
#![deny(unsafe_code)]

mod core;
mod environment;
mod error;
mod folder;
mod kernels;
mod later;
mod link;
mod names;
mod registry;
mod sanitizer;
mod session;
mod task;
mod tensor;
mod thread;

pub use environment::{LIBRARY_VARIABLE, SOCKET_VARIABLE};
pub use error::{RecordError, ViewFault};
pub use folder::{ANY_MEMORY, FolderOptions};
pub use kernels::MEANT_BY_NAME;
pub use later::{Incoming, Ticket};
pub use names::{KernelId, ModuleId, QueueId, ScopeId, StepId, StringId};
pub use session::{Session, SessionCounters};
pub use task::{Task, TaskInfo};
pub use tensor::Tensor;
pub use thread::{KernelInfo, ModuleImage, ThreadRecorder};

pub use tensortap_abi::{
    ArgKind, DType, DumpFilter, DumpLevel, DumpPolicy, DumpStage, EdgeCause, LAUNCH_COOPERATIVE,
    LAUNCH_EARLY, MAX_DIMS, MemorySpace, ModuleKind, Operation, Role, TensorStats, UncapturedReason,
};
pub use tensortap_collector::Summary;
pub use tensortap_recorder::{Counters, DropReason, Found, Outcome};
