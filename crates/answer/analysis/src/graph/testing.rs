//! A compact notation for graphs in tests.

use tensortap_abi::{DType, DumpStage, NO_KERNEL, Role, SLOTS_PER_TASK};
use tensortap_format::{
    AllocationEvent, ArgumentKind, ArgumentRecord, Assembler, Edge, KernelInfo, Names, PayloadState,
    TaskFacts, TaskKey, TaskPart, Tasks,
};
use tensortap_geometry::Layout;

use super::TaskGraph;

/// A hash for the content with this name.
pub(crate) fn hash_of(content: &str) -> u128 {
    content.bytes().fold(0x9e37_79b9_7f4a_7c15, |hash: u128, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

/// Builds a task argument by argument. Tensors have 16 floats; address 0 means no address.
#[derive(Clone)]
pub(crate) struct TaskBuilder {
    pub facts: TaskFacts,
    kernel: String,
    scope: Option<String>,
    task_name: Option<String>,
    pub args: Vec<TestArg>,
}

/// An argument of a test task.
#[derive(Clone)]
pub(crate) struct TestArg {
    pub role: Role,
    pub role_known: bool,
    pub host_writable: bool,
    dtype: DType,
    address: u64,
    layout: Layout,
    pub scalar_bits: Option<u64>,
    pub before: Option<u128>,
    pub after: Option<u128>,
    /// The dump does not have this argument.
    pub is_left_out: bool,
}

impl TaskBuilder {
    pub fn new(task_id: u64, kernel: &str) -> TaskBuilder {
        let facts = TaskFacts { completed_ns: Some(0), ..TaskFacts::unknown(TaskKey { step: 0, task_id }) };
        TaskBuilder { facts, kernel: kernel.into(), scope: None, task_name: None, args: Vec::new() }
    }

    pub fn named(mut self, scope: &str, task_name: &str) -> TaskBuilder {
        (self.scope, self.task_name) = (Some(scope.into()), Some(task_name.into()));
        self
    }

    pub fn input(self, address: u64, content: &str) -> TaskBuilder {
        self.tensor(address, Role::Input, Some(content), None)
    }

    pub fn output(self, address: u64, content: &str) -> TaskBuilder {
        self.tensor(address, Role::Output, None, Some(content))
    }

    pub fn inout(self, address: u64, before: &str, after: &str) -> TaskBuilder {
        self.tensor(address, Role::InOut, Some(before), Some(after))
    }

    /// Adds memory with an unknown role.
    pub fn unknown_role(mut self, address: u64, before: &str, after: &str) -> TaskBuilder {
        self = self.inout(address, before, after);
        self.args.last_mut().unwrap().role_known = false;
        self
    }

    pub fn scalar(mut self, bits: u64) -> TaskBuilder {
        self = self.tensor(0, Role::Input, Some(""), None);
        let arg = self.args.last_mut().unwrap();
        (arg.scalar_bits, arg.before) = (Some(bits), None);
        self
    }

    /// Gives the last argument another view.
    pub fn view(mut self, address: u64, dtype: DType, layout: Layout) -> TaskBuilder {
        let arg = self.args.last_mut().unwrap();
        (arg.address, arg.dtype, arg.layout) = (address, dtype, layout);
        self
    }

    /// Makes the last argument a row of 4-bit elements, counted from an address.
    pub fn half_bytes(self, address: u64, elements: std::ops::Range<u64>) -> TaskBuilder {
        let row = Layout::new(&[elements.end - elements.start], &[1], elements.start, 4).unwrap();
        self.view(address, DType::Int4, row)
    }

    pub fn at(mut self, start: u64) -> TaskBuilder {
        // A time of 0 means no time.
        self.facts.dispatched_ns = start + 1;
        self.facts.completed_ns = Some(start + 2);
        self
    }

    pub fn submitted(mut self, at: u64) -> TaskBuilder {
        self.facts.submitted_ns = at;
        self
    }

    pub fn until(mut self, end: u64) -> TaskBuilder {
        self.facts.completed_ns = Some(end + 1);
        self
    }

    fn tensor(mut self, address: u64, role: Role, before: Option<&str>, after: Option<&str>) -> TaskBuilder {
        self.args.push(TestArg {
            role,
            role_known: true,
            host_writable: false,
            dtype: DType::Float32,
            address,
            layout: Layout::contiguous(&[16], 32).unwrap(),
            scalar_bits: None,
            before: before.map(hash_of),
            after: after.map(hash_of),
            is_left_out: false,
        });
        self
    }

    /// Passes the records of the task to an assembler.
    fn give(&self, func_id: u32, assembler: &mut Assembler) {
        let mut facts = self.facts.clone();
        facts.func_id[0] = func_id;
        let is_tensor = |arg: &&TestArg| arg.scalar_bits.is_none();
        facts.tensor_count = u32::try_from(self.args.iter().filter(is_tensor).count()).unwrap();
        facts.scalar_count = u32::try_from(self.args.len()).unwrap() - facts.tensor_count;
        let task = facts.key();
        assembler.take(TaskPart::Task(facts));
        for (arg_index, arg) in (0_u16..).zip(&self.args).filter(|(_, arg)| !arg.is_left_out) {
            let is_scalar = arg.scalar_bits.is_some();
            let record = ArgumentRecord {
                number: task.task_id * 100 + u64::from(arg_index) * 2,
                task,
                func_id: [NO_KERNEL; SLOTS_PER_TASK],
                stage: DumpStage::BeforeDispatch,
                arg_index,
                kind: if is_scalar { ArgumentKind::Scalar } else { ArgumentKind::Tensor },
                role: arg.role,
                dtype: arg.dtype,
                dtype_known: true,
                role_known: arg.role_known,
                extent_known: true,
                host_writable: arg.host_writable,
                shape: if is_scalar { &[] } else { arg.layout.shape() },
                strides: if is_scalar { &[] } else { arg.layout.strides() },
                start_offset: arg.layout.start_offset(),
                address: arg.address,
                scalar_bits: arg.scalar_bits,
                hash: arg.before,
                payload: PayloadState::Stored,
                bytes: 64,
                in_flight: false,
                name: 0,
            };
            if is_scalar || arg.before.is_some() {
                assembler.take(TaskPart::Argument(record));
            }
            if arg.after.is_some() {
                let (stage, number) = (DumpStage::AfterCompletion, record.number + 1);
                assembler.take(TaskPart::Argument(ArgumentRecord {
                    stage,
                    number,
                    hash: arg.after,
                    ..record
                }));
            }
            if !is_scalar && arg.before.or(arg.after).is_none() {
                // An unfinished argument has no content, but the dump records that it exists.
                assembler.take(TaskPart::Argument(ArgumentRecord { in_flight: true, ..record }));
            }
        }
    }
}

/// Assembles tasks in this order and numbers their kernels.
pub(crate) fn tasks_of(made: Vec<TaskBuilder>, edges: &[Edge]) -> Tasks {
    assembled(Assembler::default(), made, edges)
}

/// The same with allocations and frees.
pub(crate) fn tasks_with(made: Vec<TaskBuilder>, renewed: &[AllocationEvent]) -> Tasks {
    let mut assembler = Assembler::default();
    renewed.iter().for_each(|renewed| assembler.take(TaskPart::AllocationEvent(*renewed)));
    assembled(assembler, made, &[])
}

#[expect(clippy::needless_pass_by_value, reason = "tests hand over what they made")]
pub(crate) fn assembled(mut assembler: Assembler, made: Vec<TaskBuilder>, edges: &[Edge]) -> Tasks {
    let mut kernels: Vec<KernelInfo> = Vec::new();
    for task in &made {
        let known = kernels.iter().position(|kernel| kernel.name == task.kernel);
        let func_id = u32::try_from(known.unwrap_or(kernels.len())).unwrap();
        if known.is_none() {
            kernels.push(KernelInfo { func_id, name: task.kernel.clone(), ..KernelInfo::default() });
        }
        task.give(func_id, &mut assembler);
    }
    edges.iter().for_each(|edge| assembler.take(TaskPart::Edge(*edge)));
    let mut tasks = assembler.finish(&kernels);
    tasks.give_names(|key| {
        let task = made.iter().find(|task| task.facts.key() == key);
        let (scope, task_name) = task.map_or((None, None), |t| (t.scope.as_deref(), t.task_name.as_deref()));
        Names { scope, task_name, ..Names::default() }
    });
    tasks.forget_in_flight();
    tasks
}

/// The graph of these tasks.
pub(crate) fn graph_of(made: Vec<TaskBuilder>, edges: &[Edge], gap: Option<String>) -> TaskGraph {
    TaskGraph::build(tasks_of(made, edges), gap)
}
