//! Graphs as lists of steps. Task lists are translated to steps, and a worker returns the steps of an
//! orchestration.

use serde::{Deserialize, Serialize};
use tensortap_abi::{DType, Role};
use tensortap_scene::{GraphError, KernelDef, Orch, Params, ScalarArg, TaskHandle, Tensor};

use crate::definition::{Definition, TaskDef, whole};

/// One step of an orchestration. Handles identify tensors and tasks: the first one created has handle 1, and
/// 0 means none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// An argument of the scene. Creates a tensor.
    Arg(String),
    /// A new intermediate, by dtype tag and shape. Creates a tensor.
    New(u8, Vec<u64>),
    /// A view of a tensor. Creates a tensor.
    View(u32, View),
    /// A task. Creates a task.
    Task(TaskStep),
    /// Makes the second task wait for the first.
    Edge(u32, u32),
    /// Publishes a task.
    Publish(u32),
    /// Opens a scope.
    ScopeBegin(String),
    /// Closes the innermost scope.
    ScopeEnd,
}

/// A view operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum View {
    /// Dimension, start, length, step.
    Slice(u32, u64, u64, i64),
    /// Two dimensions.
    Transpose(u32, u32),
    /// Dimension and index.
    Select(u32, u64),
    /// Dimension and length.
    Broadcast(u32, u64),
    /// Sizes.
    Reshape(Vec<u64>),
}

/// A task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskStep {
    /// Names of the kernels.
    pub kernels: Vec<String>,
    /// The name of the task.
    pub name: Option<String>,
    /// Tensor handles with role tags.
    pub tensors: Vec<(u32, u8)>,
    /// Dtype tags with bits.
    pub scalars: Vec<(u8, u64)>,
    /// Number of blocks.
    pub blocks: u32,
    /// Mask of the arguments that are marked for the dump.
    pub marks: u64,
    /// Tasks to wait for.
    pub after: Vec<u32>,
    /// Whether to publish the task at once.
    pub publish: bool,
}

/// Executes the steps of one orchestration.
pub struct StepExecutor<'o, 'b> {
    orch: &'o mut Orch<'b>,
    kernels: &'static [KernelDef],
    tensors: Vec<Tensor>,
    tasks: Vec<TaskHandle>,
    scopes: usize,
}

impl<'o, 'b> StepExecutor<'o, 'b> {
    /// Creates an executor over a runtime.
    pub fn new(orch: &'o mut Orch<'b>, kernels: &'static [KernelDef]) -> StepExecutor<'o, 'b> {
        StepExecutor { orch, kernels, tensors: Vec::new(), tasks: Vec::new(), scopes: 0 }
    }

    /// Executes a step. Returns the handle of the tensor or task that it created, or 0.
    ///
    /// # Errors
    ///
    /// The reason why the step failed.
    pub fn take(&mut self, step: &Step) -> Result<u32, GraphError> {
        match step {
            Step::Arg(name) => {
                let tensor = self.orch.arg(name)?;
                Ok(self.add_tensor(tensor))
            }
            Step::New(tag, shape) => {
                let tensor = self.orch.tensor(dtype(*tag)?, shape)?;
                Ok(self.add_tensor(tensor))
            }
            Step::View(of, view) => {
                let tensor = apply_view(self.tensor(*of)?, view)?;
                Ok(self.add_tensor(tensor))
            }
            Step::Task(task) => self.task(task),
            Step::Edge(from, to) => {
                let (from, to) = (self.handle(*from)?, self.handle(*to)?);
                self.orch.add_edge(from, to).map(|()| 0)
            }
            Step::Publish(task) => {
                let task = self.handle(*task)?;
                self.orch.publish(task).map(|()| 0)
            }
            Step::ScopeBegin(name) => {
                self.orch.begin_scope(name)?;
                self.scopes += 1;
                Ok(0)
            }
            Step::ScopeEnd if self.scopes == 0 => {
                Err(other_error("a scope is closed that was not opened".into()))
            }
            Step::ScopeEnd => {
                self.scopes -= 1;
                self.orch.end_scope().map(|()| 0)
            }
        }
    }

    /// Closes open scopes. A complete orchestration has none.
    ///
    /// # Errors
    ///
    /// If scopes were open.
    pub fn finish(mut self) -> Result<(), GraphError> {
        let open = std::mem::take(&mut self.scopes);
        for _ in 0..open {
            self.orch.end_scope()?;
        }
        if open == 0 { Ok(()) } else { Err(other_error(format!("{open} scopes were opened and not closed"))) }
    }

    /// The size of a dimension of a tensor.
    pub fn size(&self, tensor: u32, dim: u32) -> Option<u64> {
        let shape = self.tensors.get(usize::try_from(tensor).ok()?.checked_sub(1)?)?.layout().shape();
        shape.get(usize::try_from(dim).ok()?).copied()
    }

    /// The bits of a scalar argument of the scene.
    pub fn scalar_arg(&self, name: &str) -> Result<u64, GraphError> {
        self.orch.scalar_arg(name).map(|scalar| scalar.bits)
    }

    fn add_tensor(&mut self, tensor: Tensor) -> u32 {
        self.tensors.push(tensor);
        u32::try_from(self.tensors.len()).unwrap_or(0)
    }

    fn tensor(&self, handle: u32) -> Result<Tensor, GraphError> {
        let place = (handle as usize).checked_sub(1);
        let tensor = place.and_then(|place| self.tensors.get(place)).copied();
        tensor.ok_or_else(|| other_error(format!("unknown tensor handle {handle}")))
    }

    fn handle(&self, handle: u32) -> Result<TaskHandle, GraphError> {
        let place = (handle as usize).checked_sub(1);
        let task = place.and_then(|place| self.tasks.get(place)).copied();
        task.ok_or_else(|| other_error(format!("unknown task handle {handle}")))
    }

    fn kernel(&self, name: &str) -> Result<&'static KernelDef, GraphError> {
        let kernel = self.kernels.iter().find(|kernel| kernel.name == name);
        kernel
            .ok_or_else(|| other_error(format!("the scene has no kernel `{name}`; add it under [[kernel]]")))
    }

    fn task(&mut self, step: &TaskStep) -> Result<u32, GraphError> {
        let TaskStep { kernels, name, tensors, scalars, blocks, marks, after, publish } = step;
        let kernels: Vec<_> = kernels.iter().map(|name| self.kernel(name)).collect::<Result<_, _>>()?;
        let (first, others) =
            kernels.split_first().ok_or_else(|| other_error("the task has no kernel".into()))?;
        let mut given = Vec::with_capacity(tensors.len());
        for &(handle, tag) in tensors {
            let role = Role::from_tag(tag).ok_or_else(|| other_error(format!("unknown role {tag}")))?;
            given.push((self.tensor(handle)?, role));
        }
        let after: Vec<TaskHandle> = after.iter().map(|&task| self.handle(task)).collect::<Result<_, _>>()?;
        let mut task = self.orch.task(first);
        for kernel in others {
            task = task.with(kernel);
        }
        if let Some(name) = name {
            task = task.task_name(name);
        }
        for (tensor, role) in &given {
            task = match role {
                Role::Input => task.input(tensor),
                Role::Output => task.output(tensor),
                Role::InOut => task.inout(tensor),
            };
        }
        for &(tag, bits) in scalars {
            task = task.scalar(RawScalar(ScalarArg { bits, dtype: dtype(tag)? }));
        }
        task = task.blocks(*blocks).dump(MarkBits(*marks)).after_all(after);
        let handle = if *publish { task.submit()? } else { task.add()? };
        self.tasks.push(handle);
        Ok(u32::try_from(self.tasks.len()).unwrap_or(0))
    }
}

/// Dump marks given as bits.
struct MarkBits(u64);

impl tensortap_scene::DumpMarks for MarkBits {
    fn bits(self) -> u64 {
        self.0
    }
}

/// A scalar given as bits.
struct RawScalar(ScalarArg);

impl From<RawScalar> for ScalarArg {
    fn from(scalar: RawScalar) -> ScalarArg {
        scalar.0
    }
}

fn other_error(what: String) -> GraphError {
    GraphError::Other(what)
}

fn dtype(tag: u8) -> Result<DType, GraphError> {
    DType::from_tag(tag).ok_or_else(|| other_error(format!("unknown dtype {tag}")))
}

fn apply_view(tensor: Tensor, view: &View) -> Result<Tensor, GraphError> {
    match *view {
        View::Slice(dim, start, len, 1) => tensor.slice(dim as usize, start, len),
        View::Slice(dim, start, len, step) => tensor.slice_step(dim as usize, start, len, step),
        View::Transpose(a, b) => tensor.transpose(a as usize, b as usize),
        View::Select(dim, index) => tensor.select(dim as usize, index),
        View::Broadcast(dim, len) => tensor.broadcast(dim as usize, len),
        View::Reshape(ref shape) => tensor.reshape(shape),
    }
}

/// The steps of a task list. Every task waits for the earlier tasks that use one of its tensors, unless both
/// only read it.
///
/// # Errors
///
/// If a size is invalid for these parameters.
pub fn steps(definition: &Definition, tasks: &[TaskDef], params: &Params) -> Result<Vec<Step>, String> {
    let param = whole(params);
    let mut steps = Vec::new();
    for tensor in &definition.tensors {
        steps.push(match tensor.role {
            Some(_) => Step::Arg(tensor.name.into()),
            None => Step::New(tensor.dtype.tag(), tensor.sizes(&param)?),
        });
    }
    let mut open: &[String] = &[];
    for (place, task) in tasks.iter().enumerate() {
        let shared = open.iter().zip(&task.scope).take_while(|(one, other)| one == other).count();
        steps.extend(open[shared..].iter().map(|_| Step::ScopeEnd));
        steps.extend(task.scope[shared..].iter().cloned().map(Step::ScopeBegin));
        open = &task.scope;
        let mut step = task_step(definition, task, &param)?;
        step.after =
            (1..).zip(&tasks[..place]).filter(|(_, above)| conflict(above, task)).map(|(at, _)| at).collect();
        steps.push(Step::Task(step));
    }
    steps.extend(open.iter().map(|_| Step::ScopeEnd));
    Ok(steps)
}

fn task_step(
    definition: &Definition,
    task: &TaskDef,
    param: &dyn Fn(&str) -> Option<u64>,
) -> Result<TaskStep, String> {
    let blocks = task.blocks.value(param)?;
    let scalar = |scalar: &crate::definition::ScalarDef| Ok((scalar.dtype.tag(), scalar.bits(param)?));
    let tensor = |&(place, role): &(usize, Role)| (u32::try_from(place + 1).unwrap_or(0), role.tag());
    Ok(TaskStep {
        kernels: task.kernels.iter().map(|&place| definition.kernels[place].name.to_owned()).collect(),
        name: task.name.clone(),
        tensors: task.tensors.iter().map(tensor).collect(),
        scalars: task.scalars.iter().map(scalar).collect::<Result<_, String>>()?,
        blocks: u32::try_from(blocks)
            .map_err(|_| format!("a task has {blocks} blocks, which is out of range"))?,
        marks: task.marks,
        after: Vec::new(),
        publish: true,
    })
}

fn conflict(one: &TaskDef, other: &TaskDef) -> bool {
    let touches = |task: &TaskDef, place: usize, role: Role| {
        task.tensors.iter().any(|&(at, r)| at == place && (r.writes() || role.writes()))
    };
    one.tensors.iter().any(|&(place, role)| touches(other, place, role))
}
