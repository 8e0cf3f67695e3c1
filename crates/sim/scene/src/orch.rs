use std::fmt::Display;

use tensortap_abi::{CoreType, DType, Role};
use tensortap_geometry::Layout;

use crate::name::{NameTarget, write_name};
use crate::{
    ArgSpec, BufferTable, DumpMarks, GraphError, KernelDef, Location, ScalarArg, TaskHandle, TaskSpec,
    Tensor, TensorUse,
};

/// The interface that a runtime provides to orchestrations.
pub trait GraphBuilder {
    /// Adds a checked task. The runtime gives a location to each buffer that the task writes first, stores
    /// the payload, and derives dependencies if it does so. The task cannot run before it is published.
    fn add(&mut self, task: &TaskSpec, buffers: &mut BufferTable) -> Result<TaskHandle, GraphError>;

    /// Makes `to` wait for `from`.
    fn add_edge(&mut self, from: TaskHandle, to: TaskHandle) -> Result<(), GraphError>;

    /// Makes a task visible to schedulers. Nothing can be added to it afterwards.
    fn publish(&mut self, task: TaskHandle) -> Result<(), GraphError>;

    /// Registers metadata for the dump, for the tensors of a task that was added without it.
    fn set_tensor_info(
        &mut self,
        task: TaskHandle,
        tensors: &[TensorUse],
        buffers: &BufferTable,
    ) -> Result<(), GraphError>;

    /// Opens a scope with this name, inside the innermost open scope.
    fn begin_scope(&mut self, name: &str) -> Result<(), GraphError>;

    /// Closes the innermost scope. Its intermediate tensors are released once their consumers have completed.
    fn end_scope(&mut self) -> Result<(), GraphError>;
}

/// An argument of the orchestration, with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedArg {
    /// The name in the scene.
    pub name: &'static str,
    /// The element type.
    pub dtype: DType,
    /// The sizes of all dimensions.
    pub shape: Vec<u64>,
    /// Its location in device memory.
    pub location: Location,
}

impl PlacedArg {
    /// An argument of a scene at a location.
    pub fn new(spec: ArgSpec, location: Location) -> PlacedArg {
        let ArgSpec { name, dtype, shape, role: _ } = spec;
        PlacedArg { name, dtype, shape, location }
    }
}

/// Submits the tasks of an orchestration.
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
    // Reused for all tasks and scopes, so that submitting does not allocate.
    spec: TaskSpec,
    scope_name: String,
}

impl<'b> Orch<'b> {
    /// An orchestration over a runtime, with arguments that already have locations.
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

    /// Adds the scalar arguments of the scene.
    #[must_use]
    pub fn with_scalars(mut self, scalars: Vec<(&'static str, ScalarArg)>) -> Orch<'b> {
        self.scalars = scalars;
        self
    }

    /// A tensor argument of the scene.
    pub fn arg(&self, name: &str) -> Result<Tensor, GraphError> {
        let found = self.args.iter().find(|(n, _)| *n == name);
        found.map(|(_, t)| *t).ok_or_else(|| GraphError::NoSuchArg(name.into()))
    }

    /// A scalar argument of the scene.
    pub fn scalar_arg(&self, name: &str) -> Result<ScalarArg, GraphError> {
        let found = self.scalars.iter().find(|(n, _)| *n == name);
        found.map(|(_, scalar)| *scalar).ok_or_else(|| GraphError::NoSuchArg(name.into()))
    }

    /// Creates a contiguous intermediate tensor in the current scope. It gets memory when the first task
    /// writes it.
    pub fn tensor(&mut self, dtype: DType, shape: &[u64]) -> Result<Tensor, GraphError> {
        let layout = Layout::contiguous(shape, dtype.bits())?;
        let buffer = self.buffers.add(layout.byte_range().end, None);
        Ok(Tensor { buffer, dtype, layout })
    }

    /// Starts a task of this kernel (see [`TaskBuilder`]).
    pub fn task(&mut self, kernel: &'static KernelDef) -> TaskBuilder<'_, 'b> {
        self.spec.reset();
        TaskBuilder { orch: self, error: None }.with(kernel)
    }

    /// Runs `body` in a nested scope, for example `"attention"` or `format_args!("layer {layer}")`. Tensors
    /// that are created in the scope are released at its end, once the tasks that use them have completed.
    ///
    /// The names of nested scopes form a path such as `layer 1/attention`, which identifies tasks for users.
    /// Several scopes may have the same name.
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

    /// Opens a scope like [`Orch::scope`], for orchestrations that cannot use closures. Each call needs a
    /// call to [`Orch::end_scope`].
    pub fn begin_scope(&mut self, name: impl Display) -> Result<(), GraphError> {
        write_name(&mut self.scope_name, &name, NameTarget::Scope)?;
        self.builder.begin_scope(&self.scope_name)?;
        self.buffers.begin_scope();
        Ok(())
    }

    /// Closes the innermost scope.
    pub fn end_scope(&mut self) -> Result<(), GraphError> {
        self.buffers.end_scope();
        self.builder.end_scope()
    }

    /// Makes `to` wait for `from`. `to` must be added but not published yet. For most cases use
    /// [`TaskBuilder::after`].
    pub fn add_edge(&mut self, from: TaskHandle, to: TaskHandle) -> Result<(), GraphError> {
        self.builder.add_edge(from, to)
    }

    /// Publishes a task that was [added](TaskBuilder::add) without publishing it.
    pub fn publish(&mut self, task: TaskHandle) -> Result<(), GraphError> {
        self.builder.publish(task)
    }

    /// Registers metadata for the dump, for the tensors of a task that was added [without
    /// it](TaskBuilder::without_tensor_info). The tensors must be in argument order.
    pub fn set_tensor_info_to_task(
        &mut self,
        task: TaskHandle,
        tensors: &[(Tensor, Role)],
    ) -> Result<(), GraphError> {
        let uses: Vec<_> = tensors.iter().map(|&(tensor, role)| TensorUse { tensor, role }).collect();
        self.builder.set_tensor_info(task, &uses, &self.buffers)
    }
}

/// Describes a task. Arguments take slots in the order of the calls, tensors before scalars.
#[must_use = "a task does nothing until it is submitted"]
pub struct TaskBuilder<'o, 'b> {
    orch: &'o mut Orch<'b>,
    error: Option<GraphError>,
}

impl TaskBuilder<'_, '_> {
    /// Adds a kernel. The task becomes a mix task, whose kernels share the arguments and run at the same
    /// time.
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

    /// Sets the name of the task, for example `"k_proj"` or `format_args!("head {head}")`. Several tasks may
    /// have the same name.
    pub fn task_name(mut self, name: impl Display) -> Self {
        let kernel = self.orch.spec.kernel_name();
        if let Err(error) = write_name(&mut self.orch.spec.task_name, &name, NameTarget::Task { kernel }) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Adds a tensor that is read.
    pub fn input(self, tensor: &Tensor) -> Self {
        self.tensor(tensor, Role::Input)
    }

    /// Adds a tensor whose elements are all written.
    pub fn output(self, tensor: &Tensor) -> Self {
        self.tensor(tensor, Role::Output)
    }

    /// Adds a tensor that is read and written, or only partly written.
    pub fn inout(self, tensor: &Tensor) -> Self {
        self.tensor(tensor, Role::InOut)
    }

    fn tensor(self, tensor: &Tensor, role: Role) -> Self {
        self.orch.spec.tensors.push(TensorUse { tensor: *tensor, role });
        self
    }

    /// Adds a scalar.
    pub fn scalar(self, value: impl Into<ScalarArg>) -> Self {
        self.orch.spec.scalars.push(value.into());
        self
    }

    /// Sets the number of blocks. The task is dispatched once per block.
    pub fn blocks(self, block_num: u32) -> Self {
        self.orch.spec.block_num = block_num;
        self
    }

    /// Marks arguments for the dump: `dump(..)` for all, `dump([0, 2])` for some.
    pub fn dump(self, marks: impl DumpMarks) -> Self {
        self.orch.spec.dump_marks |= marks.bits();
        self
    }

    /// Waits for another task. Runtimes that derive dependencies from reads and writes ignore this.
    pub fn after(self, task: TaskHandle) -> Self {
        self.orch.spec.after.push(task);
        self
    }

    /// Waits for several tasks (see [`TaskBuilder::after`]).
    pub fn after_all(self, tasks: impl IntoIterator<Item = TaskHandle>) -> Self {
        self.orch.spec.after.extend(tasks);
        self
    }

    /// Leaves the registration of metadata for the dump to [`Orch::set_tensor_info_to_task`]. Only
    /// `host_build_graph` needs registration.
    pub fn without_tensor_info(self) -> Self {
        self.orch.spec.with_tensor_info = false;
        self
    }

    /// Adds the task and publishes it.
    pub fn submit(mut self) -> Result<TaskHandle, GraphError> {
        let task = self.add_in_place()?;
        self.orch.builder.publish(task)?;
        Ok(task)
    }

    /// Adds the task without publishing it. More edges can be added until it is [published](Orch::publish).
    pub fn add(mut self) -> Result<TaskHandle, GraphError> {
        self.add_in_place()
    }

    /// Adds the task and registers metadata for the dump, even after [`Self::without_tensor_info`]. The
    /// alternative is [`Orch::set_tensor_info_to_task`] after adding.
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
