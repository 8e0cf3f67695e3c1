//! What an author of kernels and scenes sees: kernel definitions and their arguments, the orchestration API, the
//! [`Scene`] trait, and a plain sequential executor that says what a graph should compute.
//!
//! Nothing here knows how or where tasks run. A runtime implements [`GraphBuilder`]; an orchestration talks to
//! [`Orch`]; a kernel receives [`Args`].
//!
//! ```
//! use tensortap_scene::SequentialGraph;
//! use tensortap_abi::{CoreType, DType};
//! use tensortap_scene::KernelArg::{In, Out};
//! use tensortap_scene::{
//!     ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask, Scene,
//!     kernel_entry,
//! };
//!
//! struct Double;
//!
//! impl KernelBody for Double {
//!     fn run(args: &Args) {
//!         let doubled: Vec<f32> = args.tensor(0).load::<f32>().iter().map(|x| x + x).collect();
//!         args.tensor(1).store(&doubled);
//!     }
//! }
//!
//! fn double_reference(task: &mut RefTask) {
//!     let twice = task.tensors[0].values.iter().map(|x| x * 2.0).collect();
//!     task.tensors[1].values = twice;
//! }
//!
//! const DOUBLE: KernelDef = KernelDef {
//!     func_id: 0,
//!     name: "double",
//!     core_type: CoreType::Aiv,
//!     signature: &[In("x"), Out("doubled")],
//!     entry: kernel_entry::<Double>,
//!     reference: Some(&double_reference),
//!     tolerance: None,
//!     faults: &[],
//! };
//!
//! /// `y = 4x`, in two tasks.
//! struct Fourfold;
//!
//! impl Scene for Fourfold {
//!     fn name(&self) -> &'static str {
//!         "fourfold"
//!     }
//!     fn about(&self) -> &'static str {
//!         "y = 4x, in two tasks"
//!     }
//!     fn params(&self) -> &'static [ParamSpec] {
//!         &[]
//!     }
//!     fn kernels(&self) -> &'static [KernelDef] {
//!         const { &[DOUBLE] }
//!     }
//!     fn args(&self, _: &Params) -> Vec<ArgSpec> {
//!         vec![ArgSpec::input("x", DType::Float32, &[3]), ArgSpec::output("y", DType::Float32, &[3])]
//!     }
//!     fn fill(&self, _: &Params, args: &mut HostArgs) {
//!         args.get_mut("x").set(&[1.0_f32, 2.0, 3.0]);
//!     }
//!     fn orchestrate(&self, o: &mut Orch<'_>, _: &Params) -> Result<(), GraphError> {
//!         let (x, y, half_way) = (o.arg("x")?, o.arg("y")?, o.tensor(DType::Float32, &[3])?);
//!         let first = o.task(&DOUBLE).task_name("twofold").input(&x).output(&half_way).submit()?;
//!         o.task(&DOUBLE).task_name("fourfold").input(&half_way).output(&y).after(first).submit()?;
//!         Ok(())
//!     }
//!     fn golden(&self, _: &Params, _: &HostArgs) -> Option<Vec<HostTensor>> {
//!         Some(vec![HostTensor::new("y", &[3], &[4.0_f32, 8.0, 12.0])])
//!     }
//! }
//!
//! let params = Params::resolve("fourfold", Fourfold.params(), [])?;
//! let inputs = Fourfold.host_args(&params);
//! let mut graph = SequentialGraph::record(&Fourfold, &params, &inputs)?;
//! graph.run()?;
//! let golden = Fourfold.golden(&params, &inputs).expect("it has one");
//! assert_eq!(graph.arg_bytes("y").as_ref(), Some(&golden[0].bytes));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `unsafe` lives in `args.rs` and `args`, where the addresses that a kernel receives become views, and in `sequential.rs`, which
//! calls kernels.

mod args;
mod buffer;
mod case;
mod element;
mod error;
mod fault;
mod kernel;
mod name;
mod orch;
mod param;
mod reference;
mod scene;
mod sequential;
mod task;
mod tensor;

pub use args::{
    Args, KernelBody, TensorArg, kernel_entry, note_failure, run_damaged, run_kernel, unloaded_entry,
};
pub use buffer::{Buffer, BufferId, BufferTable, Location};
pub use case::Case;
pub use element::Element;
pub use error::{GraphError, SceneError};
pub use fault::{FaultKind, UnknownFault};
pub use kernel::{KernelArg, KernelDef, KernelLibrary, Loader, Registry, plans};
pub use name::{MAX_NAME_BYTES, Named};
pub use orch::{GraphBuilder, Orch, PlacedArg, TaskBuilder};
pub use param::{ParamKind, ParamSpec, Params};
pub use reference::{RefTask, RefTensor, Reference};
pub use scene::{ArgSpec, Runtimes, Scene};
pub use sequential::{SequentialGraph, StepView};
pub use task::{Marks, ScalarArg, TaskHandle, TaskSpec, TensorUse};
pub use tensor::{HostArgs, HostTensor, Tensor};
pub use tensortap_judge::Tolerance;
