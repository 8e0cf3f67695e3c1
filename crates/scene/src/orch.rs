use std::fmt::Display;

use tensortap_abi::{CoreType, DType, Role};
use tensortap_geometry::Layout;

use crate::name::{Named, write_name};
use crate::{
    ArgSpec, BufferTable, GraphError, KernelDef, Location, Marks, ScalarArg, TaskHandle, TaskSpec, Tensor,
    TensorUse,
};

/// What a runtime provides to orchestrations.
pub trait GraphBuilder {
    /// Adds a checked task: gives a location to each buffer it writes first, stores its payload, and derives its
    /// dependencies if the runtime does that. The task cannot run before it is published.
    fn add(&mut self, task: &TaskSpec, buffers: &mut BufferTable) -> Result<TaskHandle, GraphError>;

    /// Makes `to` wait for `from`.
    fn add_edge(&mut self, from: TaskHandle, to: TaskHandle) -> Result<(), GraphError>;

    /// Makes the task visible to schedulers. Nothing can be added to it any more.
    fn publish(&mut self, task: TaskHandle) -> Result<(), GraphError>;

    /// Registers what the dump is to know about a task's tensors that were added without it.
    fn set_tensor_info(
        &mut self,
        task: TaskHandle,
        tensors: &[TensorUse],
        buffers: &BufferTable,
    ) -> Result<(), GraphError>;

    /// Enters a scope of this name, inside the innermost one that is open.
    fn begin_scope(&mut self, name: &str) -> Result<(), GraphError>;

    /// Leaves the innermost scope; its intermediates are released once their consumers are done.
    fn end_scope(&mut self) -> Result<(), GraphError>;
}

/// One of the orchestration's own arguments, where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedArg {
    /// Name in the scene.
    pub name: &'static str,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<u64>,
    /// Where it lies.
    pub location: Location,
}

impl PlacedArg {
    /// An argument of a scene at a location.
    pub fn new(spec: ArgSpec, location: Location) -> PlacedArg {
        let ArgSpec { name, dtype, shape, role: _ } = spec;
        PlacedArg { name, dtype, shape, location }
    }
}

/// The orchestration's view of a run: it submits tasks here.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_scene::{GraphError, KernelDef, Orch};
///
/// fn orchestrate(o: &mut Orch<'_>, add: &'static KernelDef, n: u64) -> Result<(), GraphError> {
///     let (a, b, f) = (o.arg("a")?, o.arg("b")?, o.arg("f")?);
///     let c = o.tensor(DType::Float32, &[n])?;
///     let first = o.task(add).task_name("sum").input(&a).input(&b).output(&c).submit()?;
///     o.scope("twice", |o| {
///         o.task(add).input(&c).input(&b).output(&f).scalar(1.0_f32).dump([2]).after(first).submit()?;
///         Ok(())
///     })
/// }
/// ```
pub struct Orch<'b> {
    builder: &'b mut dyn GraphBuilder,
    buffers: BufferTable,
    args: Vec<(&'static str, Tensor)>,
    scalars: Vec<(&'static str, ScalarArg)>,
    // Reused from task to task and from scope to scope, so that submitting does not allocate.
    spec: TaskSpec,
    scope_name: String,
}

impl<'b> Orch<'b> {
    /// An orchestration over a runtime, with its own arguments where they already lie.
    pub fn new(
        builder: &'b mut dyn GraphBuilder,
        args: impl IntoIterator<Item = PlacedArg>,
    ) -> Result<Orch<'b>, GraphError> {
        let mut buffers = BufferTable::default();
        let mut named = Vec::new();
        for PlacedArg { name, dtype, shape, location } in args {
            let layout = Layout::contiguous(&shape, dtype.bits())?;
            let buffer = buffers.add(layout.byte_range().end, Some(location));
            named.push((name, Tensor { buffer, dtype, layout }));
        }
        let (spec, scope_name) = (TaskSpec::default(), String::new());
        Ok(Orch { builder, buffers, args: named, scalars: Vec::new(), spec, scope_name })
    }

    /// The same, with the scene's own scalars.
    #[must_use]
    pub fn with_scalars(mut self, scalars: Vec<(&'static str, ScalarArg)>) -> Orch<'b> {
        self.scalars = scalars;
        self
    }

    /// One of the scene's own arguments.
    pub fn arg(&self, name: &str) -> Result<Tensor, GraphError> {
        let found = self.args.iter().find(|(n, _)| *n == name);
        found.map(|(_, t)| *t).ok_or_else(|| GraphError::NoSuchArg(name.into()))
    }

    /// One of the scene's own scalar arguments.
    pub fn scalar_arg(&self, name: &str) -> Result<ScalarArg, GraphError> {
        let found = self.scalars.iter().find(|(n, _)| *n == name);
        found.map(|(_, scalar)| *scalar).ok_or_else(|| GraphError::NoSuchArg(name.into()))
    }

    /// A contiguous intermediate of the current scope. Memory is given to it by the first task that writes it.
    pub fn tensor(&mut self, dtype: DType, shape: &[u64]) -> Result<Tensor, GraphError> {
        let layout = Layout::contiguous(shape, dtype.bits())?;
        let buffer = self.buffers.add(layout.byte_range().end, None);
        Ok(Tensor { buffer, dtype, layout })
    }

    /// Starts a task of this kernel; see [`TaskBuilder`].
    pub fn task(&mut self, kernel: &'static KernelDef) -> TaskBuilder<'_, 'b> {
        self.spec.reset();
        TaskBuilder { orch: self, error: None }.with(kernel)
    }

    /// Runs `body` in a nested scope of this name: `"attention"`, `format_args!("layer {layer}")`. The memory of
    /// tensors made in it is released at its end, once the tasks that use them are done. Names of scopes that lie
    /// in one another make a path, `layer 1/attention`, by which people find the tasks in them; scopes may share one.
    pub fn scope<R>(
        &mut self,
        name: impl Display,
        body: impl FnOnce(&mut Orch<'b>) -> Result<R, GraphError>,
    ) -> Result<R, GraphError> {
        self.begin_scope(name)?;
        let result = body(self);
        self.end_scope()?;
        result
    }

    /// Enters a scope as [`Orch::scope`] does, for orchestrations that cannot be written with closures. Each needs its
    /// [end](Orch::end_scope).
    pub fn begin_scope(&mut self, name: impl Display) -> Result<(), GraphError> {
        write_name(&mut self.scope_name, &name, Named::Scope)?;
        self.builder.begin_scope(&self.scope_name)?;
        self.buffers.begin_scope();
        Ok(())
    }

    /// Leaves the innermost scope.
    pub fn end_scope(&mut self) -> Result<(), GraphError> {
        self.buffers.end_scope();
        self.builder.end_scope()
    }

    /// Makes one task wait for another that was added but not published yet, beyond [`TaskBuilder::after`].
    pub fn add_edge(&mut self, from: TaskHandle, to: TaskHandle) -> Result<(), GraphError> {
        self.builder.add_edge(from, to)
    }

    /// Makes a task visible that was only [added](TaskBuilder::add).
    pub fn publish(&mut self, task: TaskHandle) -> Result<(), GraphError> {
        self.builder.publish(task)
    }

    /// Registers what the dump is to know about the tensors of a task added
    /// [without it](TaskBuilder::without_tensor_info), in argument order.
    pub fn set_tensor_info_to_task(
        &mut self,
        task: TaskHandle,
        tensors: &[(Tensor, Role)],
    ) -> Result<(), GraphError> {
        let uses: Vec<_> = tensors.iter().map(|&(tensor, role)| TensorUse { tensor, role }).collect();
        self.builder.set_tensor_info(task, &uses, &self.buffers)
    }
}

/// A task being described. Arguments take their slots in the order given, tensors before scalars.
#[must_use = "a task does nothing until it is submitted"]
pub struct TaskBuilder<'o, 'b> {
    orch: &'o mut Orch<'b>,
    error: Option<GraphError>,
}

impl TaskBuilder<'_, '_> {
    /// One more kernel: the task becomes a mix task whose kernels share the arguments and run at the same time.
    pub fn with(mut self, kernel: &'static KernelDef) -> Self {
        let slots = match kernel.core_type {
            CoreType::Aic => 0..1,
            CoreType::Aiv => 1..3,
        };
        match self.orch.spec.kernels[slots].iter_mut().find(|k| k.is_none()) {
            Some(free) => *free = Some(kernel),
            None => {
                let core_type = kernel.core_type.name();
                self.error.get_or_insert(GraphError::NoFreeSlot { kernel: kernel.name, core_type });
            }
        }
        self
    }

    /// What people call the task: `"k_proj"`, `format_args!("head {head}")`. Tasks may share a name.
    pub fn task_name(mut self, name: impl Display) -> Self {
        let kernel = self.orch.spec.kernel_name();
        if let Err(error) = write_name(&mut self.orch.spec.task_name, &name, Named::Task { kernel }) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// A tensor that is read.
    pub fn input(self, tensor: &Tensor) -> Self {
        self.tensor(tensor, Role::Input)
    }

    /// A tensor of which every element is written.
    pub fn output(self, tensor: &Tensor) -> Self {
        self.tensor(tensor, Role::Output)
    }

    /// A tensor that is read and written, or only partly written.
    pub fn inout(self, tensor: &Tensor) -> Self {
        self.tensor(tensor, Role::InOut)
    }

    fn tensor(self, tensor: &Tensor, role: Role) -> Self {
        self.orch.spec.tensors.push(TensorUse { tensor: *tensor, role });
        self
    }

    /// A scalar, stored as raw bits with its dtype.
    pub fn scalar(self, value: impl Into<ScalarArg>) -> Self {
        self.orch.spec.scalars.push(value.into());
        self
    }

    /// Dispatches the task once per block.
    pub fn blocks(self, block_num: u32) -> Self {
        self.orch.spec.block_num = block_num;
        self
    }

    /// Marks arguments for the dump: `dump(..)` the whole task, `dump([0, 2])` some.
    pub fn dump(self, marks: impl Marks) -> Self {
        self.orch.spec.dump_marks |= marks.bits();
        self
    }

    /// Waits for another task. Where dependencies are derived from reads and writes this says nothing new and is
    /// not looked at.
    pub fn after(self, task: TaskHandle) -> Self {
        self.orch.spec.after.push(task);
        self
    }

    /// Waits for several tasks; see [`TaskBuilder::after`].
    pub fn after_all(self, tasks: impl IntoIterator<Item = TaskHandle>) -> Self {
        self.orch.spec.after.extend(tasks);
        self
    }

    /// Leaves the registration of metadata for the dump to [`Orch::set_tensor_info_to_task`]; only
    /// `host_build_graph` tells the two apart.
    pub fn without_tensor_info(self) -> Self {
        self.orch.spec.with_tensor_info = false;
        self
    }

    /// Adds the task and makes it visible.
    pub fn submit(mut self) -> Result<TaskHandle, GraphError> {
        let task = self.add_in_place()?;
        self.orch.builder.publish(task)?;
        Ok(task)
    }

    /// Adds the task without making it visible: more edges can be added until it is
    /// [published](Orch::publish).
    pub fn add(mut self) -> Result<TaskHandle, GraphError> {
        self.add_in_place()
    }

    /// The same, and registers at once what the dump is to know of its tensors, whatever was said before. The other way,
    /// after adding, is [`Orch::set_tensor_info_to_task`].
    pub fn add_task_with_tensor_info(mut self) -> Result<TaskHandle, GraphError> {
        self.orch.spec.with_tensor_info = true;
        self.add_in_place()
    }

    fn add_in_place(&mut self) -> Result<TaskHandle, GraphError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let Orch { builder, buffers, spec, .. } = &mut *self.orch;
        spec.check(buffers)?;
        let task = builder.add(spec, buffers)?;
        for &from in &spec.after {
            builder.add_edge(from, task)?;
        }
        Ok(task)
    }
}
