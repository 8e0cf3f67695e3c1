use tensortap_abi::TaskId;
use tensortap_geometry::GeometryError;

use crate::NameTarget;

/// Why an orchestration failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A task has more tensors than a payload holds.
    #[error("a task of kernel `{kernel}` has {count} tensors; the limit is {max}")]
    TooManyTensors {
        /// First kernel of the task.
        kernel: &'static str,
        /// Number of tensors.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// A task has more scalars than a payload holds.
    #[error("a task of kernel `{kernel}` has {count} scalars; the limit is {max}")]
    TooManyScalars {
        /// First kernel of the task.
        kernel: &'static str,
        /// Number of scalars.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// The kernels of a task do not fit its subtask slots.
    #[error(
        "no free {core_type} slot for kernel `{kernel}` in its task: a block has one AIC and two AIV cores"
    )]
    NoFreeSlot {
        /// The kernel that does not fit.
        kernel: &'static str,
        /// Its core type.
        core_type: &'static str,
    },
    /// A task has no blocks.
    #[error("a task of kernel `{kernel}` has 0 blocks; it needs at least 1")]
    NoBlocks {
        /// First kernel of the task.
        kernel: &'static str,
    },
    /// A task's arguments do not match the declaration of its kernel.
    #[error(
        "task of kernel `{kernel}`: argument {arg_index} (`{name}`) is declared {declared} but {submitted}"
    )]
    Signature {
        /// The kernel.
        kernel: &'static str,
        /// The argument.
        arg_index: usize,
        /// Name of the argument.
        name: &'static str,
        /// How the kernel declares it.
        declared: &'static str,
        /// How the task submits it.
        submitted: &'static str,
    },
    /// A task reads a tensor that no task has written.
    #[error("a task of kernel `{kernel}` reads argument {arg_index}, which no earlier task has written")]
    ReadBeforeWrite {
        /// First kernel of the task.
        kernel: &'static str,
        /// The argument.
        arg_index: usize,
    },
    /// A task uses a tensor whose scope has ended.
    #[error("a task of kernel `{kernel}` uses argument {arg_index} after the scope of that tensor has ended")]
    ScopeEnded {
        /// First kernel of the task.
        kernel: &'static str,
        /// The argument.
        arg_index: usize,
    },
    /// The task array is full.
    #[error(
        "the task array is full: it holds {capacity} tasks; use a smaller problem or --runtime tensormap_and_ringbuffer"
    )]
    TaskArrayFull {
        /// Its capacity.
        capacity: usize,
    },
    /// A table of the graph is full.
    #[error("{what} is full: it holds {capacity} {unit}; use a smaller problem or more --device-memory")]
    TableFull {
        /// The table.
        what: &'static str,
        /// Its capacity.
        capacity: u64,
        /// Unit of the capacity.
        unit: &'static str,
    },
    /// One task needs more than a whole ring.
    #[error("one task needs {needed} {unit} of ring {ring}, which has {capacity}; use {option} {needed}")]
    TaskLargerThanRing {
        /// The ring.
        ring: u32,
        /// What the task needs.
        needed: u64,
        /// The capacity of the ring.
        capacity: u64,
        /// Unit of both.
        unit: &'static str,
        /// The option that enlarges the ring.
        option: &'static str,
    },
    /// A ring is full and can never drain.
    #[error("{0}")]
    RingDeadlock(String),
    /// The runtime does not support an operation.
    #[error("runtime `{runtime}` cannot {what}")]
    Unsupported {
        /// The runtime.
        runtime: &'static str,
        /// The operation.
        what: &'static str,
    },
    /// An operation on a task that does not exist or is already published.
    #[error("{what}: task {task} {problem}")]
    BadTask {
        /// The operation.
        what: &'static str,
        /// The task.
        task: TaskId,
        /// The problem.
        problem: &'static str,
    },
    /// The name of a scope or task is invalid.
    #[error("invalid name {name:?} of {target}: the name {problem}")]
    BadName {
        /// The scope or task.
        target: NameTarget,
        /// The start of the name.
        name: String,
        /// The problem.
        problem: String,
    },
    /// The orchestration uses an argument that the scene does not have.
    #[error("the scene has no argument `{0}`")]
    NoSuchArg(String),
    /// An invalid view.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Memory could not be allocated.
    #[error("{0}")]
    Memory(String),
    /// The run has ended, and the orchestration must return.
    #[error("the run was stopped")]
    Stopped,
    /// Any other error of an orchestration.
    #[error("{0}")]
    Other(String),
}

/// Why a scene cannot run with these parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SceneError {
    /// The argument name of a kernel is invalid.
    #[error("kernel `{kernel}`: the argument name {name:?} {problem}")]
    BadName {
        /// The kernel.
        kernel: &'static str,
        /// The start of the name.
        name: String,
        /// The problem.
        problem: &'static str,
    },
    /// The scene does not have this parameter.
    #[error("scene `{scene}` has no parameter `{name}`; it has: {valid}")]
    UnknownParam {
        /// The scene.
        scene: &'static str,
        /// The given name.
        name: String,
        /// The names of its parameters.
        valid: String,
    },
    /// A parameter is given more than once.
    #[error(
        "parameter `{name}` of scene `{scene}` is given twice, as `{first}` and as `{second}`; give it once"
    )]
    RepeatedParam {
        /// The scene.
        scene: &'static str,
        /// The parameter.
        name: String,
        /// The first value.
        first: String,
        /// The second value.
        second: String,
    },
    /// A value is out of the parameter's range.
    #[error("parameter `{name}` of scene `{scene}` cannot be `{value}`: {expected}")]
    BadParam {
        /// The scene.
        scene: &'static str,
        /// The parameter.
        name: String,
        /// The given value.
        value: String,
        /// Valid values.
        expected: String,
    },
    /// A tensor has no valid shape with these parameters.
    #[error(
        "tensor `{tensor}` of scene `{scene}` has no valid shape with these parameters: {why}; use other parameters"
    )]
    Sizes {
        /// The scene.
        scene: &'static str,
        /// The tensor.
        tensor: &'static str,
        /// The invalid size.
        why: String,
    },
    /// An input could not be filled.
    #[error("input `{tensor}` of scene `{scene}` could not be filled: {why}")]
    Input {
        /// The scene.
        scene: &'static str,
        /// The tensor.
        tensor: &'static str,
        /// The reason.
        why: String,
    },
}
