//! The API for authors of kernels and scenes.
//!
//! A scene ([`Scene`]) has kernels, an orchestration that submits their tasks, inputs, and a golden result.
//! The crate also has a sequential executor ([`SequentialGraph`]), which computes the expected result of a
//! graph on the host.
//!
//! # Who calls what
//!
//! - A **runtime** implements [`GraphBuilder`] and calls [`Scene::orchestrate`].
//! - An **orchestration** submits tasks through [`Orch`], which checks each task before it reaches the
//!   runtime.
//! - A **kernel** receives [`Args`]. Built-in kernels implement [`KernelBody`]; all kernels share one C ABI.
//!
//! # What must hold
//!
//! - Nothing here knows how or where tasks run. The same orchestration serves every runtime that the scene
//!   supports.
//! - **Host and device know scenes and kernels by name** ([`Registry`]), never by pointer. A scene whose code
//!   is not in the executable has a [plan](Scene::plan), which the device loads before it is confined.
//! - A golden and a reference never share code with the kernels that they judge.
//! - Kernels never get references into device memory, because other cores may write neighboring elements.
//! - Names are at most [`MAX_NAME_BYTES`] long, so every name fits into a dump.
//!
//! # Example
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
//!         let (x, y, doubled) = (o.arg("x")?, o.arg("y")?, o.tensor(DType::Float32, &[3])?);
//!         let first = o.task(&DOUBLE).task_name("twofold").input(&x).output(&doubled).submit()?;
//!         o.task(&DOUBLE).task_name("fourfold").input(&doubled).output(&y).after(first).submit()?;
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
//! let golden = Fourfold.golden(&params, &inputs).expect("the scene has a golden");
//! assert_eq!(graph.arg_bytes("y").as_ref(), Some(&golden[0].bytes));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Unsafe code
//!
//! `args.rs` and `args/` turn the addresses that a kernel receives into views, and `sequential.rs` calls
//! kernels.

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
    Args, KernelBody, TensorArg, kernel_entry, record_failure, run_damaged, run_kernel, unloaded_entry,
};
pub use buffer::{Buffer, BufferId, BufferTable, Location};
pub use case::Case;
pub use element::Element;
pub use error::{GraphError, SceneError};
pub use fault::{FaultKind, UnknownFault};
pub use kernel::{KernelArg, KernelDef, KernelLibrary, Loader, Registry, plans};
pub use name::{MAX_NAME_BYTES, NameTarget};
pub use orch::{GraphBuilder, Orch, PlacedArg, TaskBuilder};
pub use param::{ParamKind, ParamSpec, Params};
pub use reference::{RefTask, RefTensor, Reference};
pub use scene::{ArgSpec, Runtimes, Scene};
pub use sequential::{SequentialGraph, TaskObservation};
pub use task::{DumpMarks, ScalarArg, TaskHandle, TaskSpec, TensorUse};
pub use tensor::{HostArgs, HostTensor, Tensor};
pub use tensortap_judge::Tolerance;
