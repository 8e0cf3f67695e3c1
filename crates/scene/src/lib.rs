//! What an author of kernels and scenes sees: kernel definitions and their arguments, the orchestration API, the
//! [`Scene`] trait, and a plain sequential executor that says what a graph should compute.
//!
//! Nothing here knows how or where tasks run. A runtime implements [`GraphBuilder`]; an orchestration talks to
//! [`Orch`]; a kernel receives [`Args`].
//!
//! `unsafe` lives in `args.rs` alone: a kernel's memory arrives as addresses, and there they become views.

mod args;
mod buffer;
mod check;
mod element;
mod error;
mod fault;
mod kernel;
mod orch;
mod param;
mod reference;
mod scene;
mod sequential;
mod task;
mod tensor;

pub use args::{Args, KernelBody, TensorArg, kernel_entry, run_kernel};
pub use buffer::{Buffer, BufferId, BufferTable, Place};
pub use check::{Comparison, Tolerance, compare};
pub use element::{Element, decode_f64, encode_f64};
pub use error::{GraphError, SceneError};
pub use fault::{FaultKind, UnknownFault};
pub use kernel::{KernelDef, Registry};
pub use orch::{GraphBuilder, Orch, PlacedArg, TaskBuilder};
pub use param::{ParamKind, ParamSpec, Params};
pub use reference::{RefTask, RefTensor, Reference};
pub use scene::{ArgSpec, Runtimes, Scene};
pub use sequential::{SequentialGraph, StepView};
pub use task::{Marks, ScalarArg, TaskHandle, TaskSpec, TensorUse};
pub use tensor::{HostArgs, HostTensor, Tensor};
