//! Graphs as lists of steps: what a static list of tasks means, and what an orchestration in another process has asked for.

use serde::{Deserialize, Serialize};
use tensortap_abi::{DType, Role};
use tensortap_scene::{GraphError, KernelDef, Orch, Params, ScalarArg, TaskHandle, Tensor};

use crate::definition::{Definition, TaskDef, whole};

/// One step of an orchestration. Tensors and tasks are named by handles: the first that is made is 1, and 0 is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// One of the scene's own tensors; makes a tensor.
    Arg(String),
    /// A new intermediate; makes a tensor.
    New(u8, Vec<u64>),
    /// A view of a tensor; makes a tensor.
    View(u32, View),
    /// A task; makes a task.
    Task(TaskStep),
    /// One task waits for another.
    Edge(u32, u32),
    /// A task becomes visible.
    Publish(u32),
    /// A scope begins.
    ScopeBegin(String),
    /// The innermost scope ends.
    ScopeEnd,
}

/// How a tensor is viewed.
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
    /// Kernels by name.
    pub kernels: Vec<String>,
    /// What people call it.
    pub name: Option<String>,
    /// Tensors and tags of their roles.
    pub tensors: Vec<(u32, u8)>,
    /// Tags of dtypes, and bits.
    pub scalars: Vec<(u8, u64)>,
    /// Blocks.
    pub blocks: u32,
    /// Arguments that are marked for the dump.
    pub marks: u64,
    /// Tasks to wait for.
    pub after: Vec<u32>,
    /// Whether it is visible at once.
    pub publish: bool,
}

/// Takes the steps of one orchestration.
pub struct Player<'o, 'b> {
    orch: &'o mut Orch<'b>,
    kernels: &'static [KernelDef],
    tensors: Vec<Tensor>,
    tasks: Vec<TaskHandle>,
    scopes: usize,
}

impl<'o, 'b> Player<'o, 'b> {
    /// Over a runtime.
    pub fn new(orch: &'o mut Orch<'b>, kernels: &'static [KernelDef]) -> Player<'o, 'b> {
        Player { orch, kernels, tensors: Vec::new(), tasks: Vec::new(), scopes: 0 }
    }

    /// Takes a step; gives the handle of what it made, 0 when it made nothing.
    ///
    /// # Errors
    /// Why it cannot be taken.
    pub fn take(&mut self, step: &Step) -> Result<u32, GraphError> {
        match step {
            Step::Arg(name) => {
                let tensor = self.orch.arg(name)?;
                Ok(self.keep(tensor))
            }
            Step::New(tag, shape) => {
                let tensor = self.orch.tensor(dtype(*tag)?, shape)?;
                Ok(self.keep(tensor))
            }
            Step::View(of, view) => {
                let tensor = viewed(self.tensor(*of)?, view)?;
                Ok(self.keep(tensor))
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
            Step::ScopeEnd if self.scopes == 0 => Err(odd("a scope ends that was not begun".into())),
            Step::ScopeEnd => {
                self.scopes -= 1;
                self.orch.end_scope().map(|()| 0)
            }
        }
    }

    /// Ends the scopes that are open, which a whole orchestration leaves none of.
    ///
    /// # Errors
    /// There are some.
    pub fn finish(mut self) -> Result<(), GraphError> {
        let open = std::mem::take(&mut self.scopes);
        for _ in 0..open {
            self.orch.end_scope()?;
        }
        if open == 0 { Ok(()) } else { Err(odd(format!("{open} scopes were begun and not ended"))) }
    }

    /// Size of a dimension of a tensor.
    pub fn size(&self, tensor: u32, dim: u32) -> Option<u64> {
        let shape = self.tensors.get(usize::try_from(tensor).ok()?.checked_sub(1)?)?.layout().shape();
        shape.get(usize::try_from(dim).ok()?).copied()
    }

    /// The bits of one of the scene's own scalars.
    pub fn scalar_arg(&self, name: &str) -> Result<u64, GraphError> {
        self.orch.scalar_arg(name).map(|scalar| scalar.bits)
    }

    fn keep(&mut self, tensor: Tensor) -> u32 {
        self.tensors.push(tensor);
        u32::try_from(self.tensors.len()).unwrap_or(0)
    }

    fn tensor(&self, handle: u32) -> Result<Tensor, GraphError> {
        let place = (handle as usize).checked_sub(1);
        let tensor = place.and_then(|place| self.tensors.get(place)).copied();
        tensor.ok_or_else(|| odd(format!("there is no tensor with the handle {handle}")))
    }

    fn handle(&self, handle: u32) -> Result<TaskHandle, GraphError> {
        let place = (handle as usize).checked_sub(1);
        let task = place.and_then(|place| self.tasks.get(place)).copied();
        task.ok_or_else(|| odd(format!("there is no task with the handle {handle}")))
    }

    fn kernel(&self, name: &str) -> Result<&'static KernelDef, GraphError> {
        let kernel = self.kernels.iter().find(|kernel| kernel.name == name);
        kernel.ok_or_else(|| odd(format!("the scene has no kernel `{name}`; describe it under [[kernel]]")))
    }

    fn task(&mut self, step: &TaskStep) -> Result<u32, GraphError> {
        let TaskStep { kernels, name, tensors, scalars, blocks, marks, after, publish } = step;
        let kernels: Vec<_> = kernels.iter().map(|name| self.kernel(name)).collect::<Result<_, _>>()?;
        let (first, others) = kernels.split_first().ok_or_else(|| odd("a task without a kernel".into()))?;
        let mut given = Vec::with_capacity(tensors.len());
        for &(handle, tag) in tensors {
            let role = Role::from_tag(tag).ok_or_else(|| odd(format!("there is no role {tag}")))?;
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
        task = task.blocks(*blocks).dump(Bits(*marks)).after_all(after);
        let handle = if *publish { task.submit()? } else { task.add()? };
        self.tasks.push(handle);
        Ok(u32::try_from(self.tasks.len()).unwrap_or(0))
    }
}

/// Marks as their bits.
struct Bits(u64);

impl tensortap_scene::Marks for Bits {
    fn bits(self) -> u64 {
        self.0
    }
}

/// A scalar that is bits already.
struct RawScalar(ScalarArg);

impl From<RawScalar> for ScalarArg {
    fn from(scalar: RawScalar) -> ScalarArg {
        scalar.0
    }
}

fn odd(what: String) -> GraphError {
    GraphError::Other(what)
}

fn dtype(tag: u8) -> Result<DType, GraphError> {
    DType::from_tag(tag).ok_or_else(|| odd(format!("there is no dtype {tag}")))
}

fn viewed(tensor: Tensor, view: &View) -> Result<Tensor, GraphError> {
    match *view {
        View::Slice(dim, start, len, 1) => tensor.slice(dim as usize, start, len),
        View::Slice(dim, start, len, step) => tensor.slice_step(dim as usize, start, len, step),
        View::Transpose(a, b) => tensor.transpose(a as usize, b as usize),
        View::Select(dim, index) => tensor.select(dim as usize, index),
        View::Broadcast(dim, len) => tensor.broadcast(dim as usize, len),
        View::Reshape(ref shape) => tensor.reshape(shape),
    }
}

/// The steps of a static list of tasks. Every task waits for those above it that touch what it touches, unless both only read.
///
/// # Errors
/// A size that these parameters do not give.
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
        blocks: u32::try_from(blocks).map_err(|_| format!("a task has {blocks} blocks"))?,
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
