//! The runtimes: where a graph is built, how its tasks are stored, where its dependencies come from. A new one is a
//! module here and a line in [`RUNTIMES`].

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
use names::{NameTable, Naming};
pub use tensormap_and_ringbuffer::TensormapAndRingbuffer;

/// Every runtime.
pub static RUNTIMES: &[&dyn Runtime] = &[&TensormapAndRingbuffer, &AicpuBuildGraph, &HostBuildGraph];

/// The runtime of a name.
pub fn find(name: &str) -> Option<&'static dyn Runtime> {
    RUNTIMES.iter().copied().find(|r| r.name() == name)
}

/// When the graph is built, relative to when it runs (`aicpu_build_graph`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum BuildMode {
    /// Tasks run as soon as they are published.
    #[default]
    Concurrent = 0,
    /// Tasks run once the whole graph is built.
    Sequential = 1,
}

impl BuildMode {
    /// Spelled as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            BuildMode::Concurrent => "concurrent",
            BuildMode::Sequential => "sequential",
        }
    }

    /// The mode of a name.
    pub fn parse(name: &str) -> Option<BuildMode> {
        [BuildMode::Concurrent, BuildMode::Sequential].into_iter().find(|m| m.name() == name)
    }

    /// The mode of a tag in the launch arguments.
    pub fn from_tag(tag: u32) -> BuildMode {
        if tag == BuildMode::Sequential as u32 { BuildMode::Sequential } else { BuildMode::Concurrent }
    }
}

/// One way to build and store a graph.
pub trait Runtime: Send + Sync {
    /// Name, as on the command line.
    fn name(&self) -> &'static str;

    /// One line.
    fn about(&self) -> &'static str;

    /// Whether the orchestration runs on the device.
    fn builds_on_device(&self) -> bool;

    /// On the host, before launch: reserves device memory in the launch arguments, and builds the graph if that is
    /// the host's part.
    fn prepare(&self, plan: &mut Plan<'_>) -> Result<(), RunError>;

    /// On the device: the rings of task slots, if there are any.
    fn rings(&self, _args: &KernelArgs) -> Option<Rings> {
        None
    }

    /// On the device: what the orchestration builds with. The observer is told of every dependency and name.
    fn builder<'r, 'm: 'r>(
        &self,
        setup: &DeviceSetup<'m>,
        run: &'r Run<'m>,
        observer: Option<Box<dyn GraphObserver + 'r>>,
    ) -> Result<Box<dyn DeviceBuilder + 'r>, GraphError>;

    /// On the device: publishes a graph that the host has built.
    fn seed(&self, _setup: &DeviceSetup<'_>, _run: &Run<'_>) {}
}

/// What a runtime's device side starts from.
#[derive(Clone, Copy)]
pub struct DeviceSetup<'m> {
    /// Device memory.
    pub memory: &'m DeviceMemory,
    /// The launch arguments.
    pub args: KernelArgs,
}

/// Who is told of dependencies as they are found, also of those on tasks that are already complete, and of names.
pub trait GraphObserver: DefineNames {
    /// `to` follows these tasks, each because of an argument of `to`.
    fn edges(&mut self, to: TaskId, from: &mut dyn Iterator<Item = (TaskId, EdgeCause, u16)>);
}

/// What a builder tells of a graph that is recorded; nothing of one that is not.
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

    fn naming(&mut self, task: &TaskSpec) -> Naming {
        match &mut self.0 {
            Some((observer, names)) => names.naming(task, &mut **observer),
            None => Naming::default(),
        }
    }
}

/// A builder that says when the graph is complete.
pub trait DeviceBuilder: GraphBuilder {
    /// Ends building; gives the number of tasks.
    fn finish(&mut self) -> Result<u64, GraphError>;
}
