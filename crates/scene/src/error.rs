use tensortap_abi::TaskId;
use tensortap_geometry::GeometryError;

use crate::Named;

/// Why an orchestration could not go on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// More tensors than a payload holds.
    #[error("task of kernel `{kernel}` has {count} tensors, a payload holds at most {max}")]
    TooManyTensors {
        /// First kernel of the task.
        kernel: &'static str,
        /// Tensors submitted.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// More scalars than a payload holds.
    #[error("task of kernel `{kernel}` has {count} scalars, a payload holds at most {max}")]
    TooManyScalars {
        /// First kernel of the task.
        kernel: &'static str,
        /// Scalars submitted.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// The task's kernels do not fit its subtask slots.
    #[error("kernel `{kernel}` finds no free {core_type} slot in its task: a block has one AIC and two AIV")]
    NoFreeSlot {
        /// Kernel that does not fit.
        kernel: &'static str,
        /// Its core type.
        core_type: &'static str,
    },
    /// An SPMD task without blocks.
    #[error("task of kernel `{kernel}` asks for 0 blocks; it needs at least 1")]
    NoBlocks {
        /// First kernel of the task.
        kernel: &'static str,
    },
    /// What a task gives a kernel is not what the kernel declares.
    #[error(
        "task of kernel `{kernel}`: argument {arg_index} (`{name}`) is declared {declared} and submitted {submitted}"
    )]
    Signature {
        /// Kernel that declares it.
        kernel: &'static str,
        /// Argument at fault.
        arg_index: usize,
        /// Its name.
        name: &'static str,
        /// How the kernel uses it.
        declared: &'static str,
        /// What it was given.
        submitted: &'static str,
    },
    /// A tensor was read before anything was written to it.
    #[error("task of kernel `{kernel}` reads argument {arg_index}, which no earlier task writes")]
    ReadBeforeWrite {
        /// First kernel of the task.
        kernel: &'static str,
        /// Argument at fault.
        arg_index: usize,
    },
    /// A tensor handle outlived its scope.
    #[error("task of kernel `{kernel}` uses argument {arg_index} after the scope that made it has ended")]
    ScopeEnded {
        /// First kernel of the task.
        kernel: &'static str,
        /// Argument at fault.
        arg_index: usize,
    },
    /// The task array is full.
    #[error(
        "the task array holds {capacity} tasks and is full; use a smaller problem or --runtime tensormap_and_ringbuffer"
    )]
    TaskArrayFull {
        /// Its size.
        capacity: usize,
    },
    /// A table of the graph is full.
    #[error("{what} is full: {capacity} {unit}; use a smaller problem or more --device-memory")]
    TableFull {
        /// Which.
        what: &'static str,
        /// Its size.
        capacity: u64,
        /// Unit of the size.
        unit: &'static str,
    },
    /// One task asks for more than a whole ring.
    #[error("one task needs {needed} {unit} of ring {ring}, which has {capacity}; use {option} {needed}")]
    TaskLargerThanRing {
        /// The ring.
        ring: u32,
        /// What the task needs.
        needed: u64,
        /// What the ring has.
        capacity: u64,
        /// Unit of both.
        unit: &'static str,
        /// Option that enlarges it.
        option: &'static str,
    },
    /// A full ring that can never drain.
    #[error("{0}")]
    RingDeadlock(String),
    /// The runtime cannot do what was asked.
    #[error("runtime `{runtime}` cannot {what}")]
    Unsupported {
        /// The runtime.
        runtime: &'static str,
        /// What was asked.
        what: &'static str,
    },
    /// An edge or a publication names a task that is not there any more, or not yet published.
    #[error("{what}: task {task} {problem}")]
    BadTask {
        /// Operation.
        what: &'static str,
        /// The task.
        task: TaskId,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A scope or a task has a name that no dump would hold.
    #[error("the name of {named}, {name:?}, {problem}")]
    BadName {
        /// What it is given to.
        named: Named,
        /// How it begins.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The orchestration asked for an argument the scene does not have.
    #[error("the scene has no argument `{0}`")]
    NoSuchArg(String),
    /// A view that cannot be.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The host could not provide memory.
    #[error("{0}")]
    Memory(String),
    /// The run is over; the orchestration must return.
    #[error("the run was stopped")]
    Stopped,
    /// Any other reason an orchestration has for giving up.
    #[error("{0}")]
    Other(String),
}

/// Why a scene cannot be run as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SceneError {
    /// A kernel declares an argument by a name that cannot serve.
    #[error("kernel `{kernel}`: the argument name {name:?} {problem}")]
    BadName {
        /// The kernel.
        kernel: &'static str,
        /// How the name begins.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A parameter the scene does not have.
    #[error("scene `{scene}` has no parameter `{name}`; it has: {valid}")]
    UnknownParam {
        /// The scene.
        scene: &'static str,
        /// What was asked.
        name: String,
        /// What there is.
        valid: String,
    },
    /// A parameter given more than once.
    #[error("parameter `{name}` of scene `{scene}` is given as `{first}` and as `{second}`; give it once")]
    RepeatedParam {
        /// The scene.
        scene: &'static str,
        /// The parameter.
        name: String,
        /// The value before.
        first: String,
        /// The value behind it.
        second: String,
    },
    /// A value outside the parameter's range.
    #[error("parameter `{name}` of scene `{scene}` cannot be `{value}`: {expected}")]
    BadParam {
        /// The scene.
        scene: &'static str,
        /// The parameter.
        name: String,
        /// What was asked.
        value: String,
        /// What would do.
        expected: String,
    },
    /// Parameters that no tensor can have.
    #[error(
        "tensor `{tensor}` of scene `{scene}` has no valid shape with these parameters: {why}; use others"
    )]
    Sizes {
        /// The scene.
        scene: &'static str,
        /// The tensor.
        tensor: &'static str,
        /// Which size.
        why: String,
    },
    /// An input that could not be filled.
    #[error("input `{tensor}` of scene `{scene}` could not be filled: {why}")]
    Input {
        /// The scene.
        scene: &'static str,
        /// The tensor.
        tensor: &'static str,
        /// Why not.
        why: String,
    },
}
