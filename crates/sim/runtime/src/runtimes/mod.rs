//! The runtimes. A runtime decides where a graph is built, how its tasks are stored, and where its
//! dependencies come from. To add one, write a module and add a line to [`RUNTIMES`].

mod aicpu_build_graph;
mod host_build_graph;
mod names;
mod slot;
mod tensormap_and_ringbuffer;

use tensortap_abi::{EdgeCause, KernelArgs, TaskId};
use tensortap_platform::DeviceMemory;
use tensortap_scene::{GraphBuilder, GraphError, TaskSpec};

use crate::device::reclaim::Rings;
use crate::device::run::Run;
use crate::host::{Plan, RunError};

pub use aicpu_build_graph::AicpuBuildGraph;
pub use host_build_graph::HostBuildGraph;
pub use names::DefineNames;
use names::{NameIds, NameTable};
pub use tensormap_and_ringbuffer::TensormapAndRingbuffer;

/// All runtimes.
pub static RUNTIMES: &[&dyn Runtime] = &[&TensormapAndRingbuffer, &AicpuBuildGraph, &HostBuildGraph];

/// The runtime with this name.
pub fn find(name: &str) -> Option<&'static dyn Runtime> {
    RUNTIMES.iter().copied().find(|r| r.name() == name)
}

/// When tasks may start, relative to building the graph (`aicpu_build_graph`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum BuildMode {
    /// Tasks start as soon as they are published.
    #[default]
    Concurrent = 0,
    /// Tasks start when the whole graph is built.
    Sequential = 1,
}

impl BuildMode {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            BuildMode::Concurrent => "concurrent",
            BuildMode::Sequential => "sequential",
        }
    }

    /// The mode with this name.
    pub fn parse(name: &str) -> Option<BuildMode> {
        [BuildMode::Concurrent, BuildMode::Sequential].into_iter().find(|m| m.name() == name)
    }

    /// The mode with this tag in the launch arguments.
    pub fn from_tag(tag: u32) -> BuildMode {
        if tag == BuildMode::Sequential as u32 { BuildMode::Sequential } else { BuildMode::Concurrent }
    }
}

/// A way to build and store a graph.
pub trait Runtime: Send + Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// One line for listings.
    fn about(&self) -> &'static str;

    /// Whether the orchestration runs on the device.
    fn builds_on_device(&self) -> bool;

    /// On the host, before launch: reserves device memory in the launch arguments. Also builds the graph if
    /// the host builds it.
    fn prepare(&self, plan: &mut Plan<'_>) -> Result<(), RunError>;

    /// On the device: the rings of task slots, if the runtime has rings.
    fn rings(&self, _args: &KernelArgs) -> Option<Rings> {
        None
    }

    /// On the device: the builder for the orchestration. It reports every dependency and name to `observer`.
    fn builder<'r, 'm: 'r>(
        &self,
        setup: &DeviceSetup<'m>,
        run: &'r Run<'m>,
        observer: Option<Box<dyn GraphObserver + 'r>>,
    ) -> Result<Box<dyn DeviceBuilder + 'r>, GraphError>;

    /// On the device: publishes the tasks of a graph that the host has built.
    fn seed(&self, _setup: &DeviceSetup<'_>, _run: &Run<'_>) {}
}

/// What a runtime needs on the device.
#[derive(Clone, Copy)]
pub struct DeviceSetup<'m> {
    /// Device memory.
    pub memory: &'m DeviceMemory,
    /// The launch arguments.
    pub args: KernelArgs,
}

/// Receives the dependencies of a graph, including those on completed tasks, and its names.
pub trait GraphObserver: DefineNames {
    /// `to` depends on these tasks. Each edge names its cause and the argument of `to`.
    fn edges(&mut self, to: TaskId, from: &mut dyn Iterator<Item = (TaskId, EdgeCause, u16)>);
}

/// Reports a graph to its observer. Does nothing if the graph is not recorded.
struct Recording<'r>(Option<(Box<dyn GraphObserver + 'r>, NameTable)>);

impl<'r> Recording<'r> {
    fn new(observer: Option<Box<dyn GraphObserver + 'r>>) -> Recording<'r> {
        Recording(observer.map(|observer| (observer, NameTable::new(1))))
    }

    fn is_on(&self) -> bool {
        self.0.is_some()
    }

    fn edges(&mut self, to: TaskId, mut from: impl ExactSizeIterator<Item = (TaskId, EdgeCause, u16)>) {
        if let Some((observer, _)) = &mut self.0
            && from.len() > 0
        {
            observer.edges(to, &mut from);
        }
    }

    fn begin_scope(&mut self, name: &str) {
        if let Some((observer, names)) = &mut self.0 {
            names.begin_scope(name, &mut **observer);
        }
    }

    fn end_scope(&mut self) {
        if let Some((_, names)) = &mut self.0 {
            names.end_scope();
        }
    }

    fn name_ids(&mut self, task: &TaskSpec) -> NameIds {
        match &mut self.0 {
            Some((observer, names)) => names.name_ids(task, &mut **observer),
            None => NameIds::default(),
        }
    }
}

/// A builder on the device.
pub trait DeviceBuilder: GraphBuilder {
    /// Ends building. Returns the number of tasks.
    fn finish(&mut self) -> Result<u64, GraphError>;
}
