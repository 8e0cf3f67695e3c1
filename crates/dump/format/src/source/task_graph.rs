//! Tasks and dependencies from a file next to a manifest: tensortap's `graph.json` or `simpler`'s
//! `deps.json`.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::File,
};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess},
};
use tensortap_abi::{EdgeCause, NO_KERNEL, Operation, SLOTS_PER_TASK};

use super::{
    fields::{Dims, Id, Kernels},
    graph_facts::GraphFacts,
    metered_reader::Meter,
    neighbors::{ForEach, MAX_HEAD_BYTES, json_reader},
    normalize::step,
};
use crate::{Edge, Launch, TaskFacts, TaskKey, join::TaskMeaning, json_stream::read_stream};

/// The content of such a file.
#[derive(Default)]
pub(super) struct TaskGraph {
    tasks: Vec<TaskFacts>,
    edges: Vec<Edge>,
    pub(super) slots: Slots,
    pub(super) runtime: Option<String>,
    /// Arguments that a task only writes.
    outputs: HashSet<(TaskKey, i64)>,
    /// Tensor ids of arguments, for tasks that have several tensors.
    tensors: HashMap<TaskKey, Vec<(u16, u64)>>,
    pub(super) shared: SharedBuffers,
    /// Names of tasks; only of tensortap's own file.
    pub(super) meanings: Vec<(TaskKey, TaskMeaning)>,
    pub(super) facts: GraphFacts,
}

/// Arguments of a task that share a buffer; most tasks have none.
#[derive(Default)]
pub(crate) struct SharedBuffers {
    known: HashMap<TaskKey, Vec<Vec<u16>>>,
    /// As in [`Slots`].
    has_steps: bool,
}

impl SharedBuffers {
    /// The arguments of a task that share a buffer, grouped by buffer.
    pub(crate) fn get(&self, task: TaskKey) -> &[Vec<u16>] {
        let step = if self.has_steps { task.step } else { 0 };
        self.known.get(&TaskKey { step, ..task }).map_or(&[], Vec::as_slice)
    }
}

/// Kernel of each subtask slot, by task.
#[derive(Default)]
pub(super) struct Slots {
    known: HashMap<TaskKey, [u32; SLOTS_PER_TASK]>,
    /// Whether the file distinguishes steps. If not, it applies to every step.
    has_steps: bool,
}

impl Slots {
    pub(super) fn get(&self, step: u32, task_id: u64) -> Option<[u32; SLOTS_PER_TASK]> {
        let step = if self.has_steps { step } else { 0 };
        self.known.get(&TaskKey { step, task_id }).copied()
    }
}

/// Maximum number of tasks and edges of a graph that is repeated for several steps.
const MAX_REPEATED: usize = 1 << 22;

/// Reads either file. The keys show which one it is.
pub(super) fn read(file: File, is_own: bool) -> Result<TaskGraph, String> {
    let meter = Meter::new(MAX_HEAD_BYTES);
    let mut json = json_reader(file, &meter);
    let mut graph = TaskGraph::default();
    let reader = Reader { graph: &mut graph, meter: &meter, is_own };
    reader.deserialize(&mut json).and_then(|()| json.end()).map_err(|e| e.to_string())?;
    Ok(graph)
}

/// As [`read`], for a document in memory.
pub(super) fn of_document(document: serde_json::Value) -> Result<TaskGraph, String> {
    let mut graph = TaskGraph::default();
    let meter = Meter::new(MAX_HEAD_BYTES);
    Reader { graph: &mut graph, meter: &meter, is_own: true }
        .deserialize(document)
        .map_err(|e| e.to_string())?;
    Ok(graph)
}

struct Reader<'g> {
    graph: &'g mut TaskGraph,
    meter: &'g Meter,
    is_own: bool,
}

read_stream!(object Reader<'_>, "an object with tasks and edges");

impl Reader<'_> {
    fn read<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Reader { graph, meter, is_own } = self;
        // Determining the cause of an edge needs the waiting task, and keys have no order.
        let mut raw_edges: Vec<RawEdge> = Vec::new();
        let mut buffers: HashMap<u64, u64> = HashMap::new();
        macro_rules! each {
            ($take:expr) => {
                map.next_value_seed(ForEach::new(meter, $take))?
            };
        }
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "tasks" => each!(|task: RawTask| graph.task(&task)),
                "edges" => each!(|edge| {
                    raw_edges.push(edge);
                    Ok(())
                }),
                "tensors" => each!(|tensor: RawTensor| {
                    buffers.extend(tensor.tensor_id.zip(tensor.buffer_addr).map(|(id, addr)| (id.0, addr.0)));
                    Ok(())
                }),
                "runtime" => graph.runtime = map.next_value()?,
                // Another project's file may have other lists of these names.
                _ if !is_own => {
                    map.next_value::<IgnoredAny>()?;
                }
                "queues" => each!(|queue| graph.facts.queue(&queue)),
                "steps" => each!(|step| graph.facts.step(&step)),
                "threads" => each!(|thread| {
                    graph.facts.thread(thread);
                    Ok(())
                }),
                "attributes" => each!(|attribute| graph.facts.attribute(attribute)),
                "collectives" => each!(|collective| graph.facts.collective(&collective)),
                "allocations" => each!(|allocation| graph.facts.allocation(&allocation)),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let steps = graph.steps_of_ids();
        let edges: Result<_, String> = raw_edges.iter().map(|edge| graph.edge(edge, &steps)).collect();
        graph.edges = edges.map_err(serde::de::Error::custom)?;
        graph.share(&buffers);
        Ok(())
    }
}

#[derive(Deserialize)]
struct RawTask {
    task_id: Id,
    step: Option<u32>,
    run_epoch: Option<Option<Id>>,
    /// One number per subtask slot; -1 for an inactive slot.
    kernel_ids: Option<Dims<i64>>,
    func_id: Option<Kernels>,
    subtask_id: Option<Dims<u64>>,
    block_num: Option<u32>,
    tensor_count: Option<u32>,
    scalar_count: Option<u32>,
    submitted_ns: Option<Id>,
    dispatched_ns: Option<Id>,
    held_up_ns: Option<Id>,
    /// Null for a task that did not complete; absent in a file without times.
    #[serde(default, deserialize_with = "stated")]
    completed_ns: Option<Option<Id>>,
    #[serde(default)]
    in_flight: bool,
    core_id: Option<u32>,
    operation: Option<String>,
    module: Option<u32>,
    #[serde(default)]
    work_dims: u8,
    #[serde(default)]
    grid: [u32; 3],
    #[serde(default)]
    group: [u32; 3],
    #[serde(default)]
    global_size: [u64; 3],
    #[serde(default)]
    global_offset: [u64; 3],
    #[serde(default)]
    shared_bytes: u32,
    #[serde(default)]
    cluster: [u8; 3],
    #[serde(default)]
    cooperative: bool,
    queue: Option<u32>,
    parent: Option<Id>,
    #[serde(default)]
    region: bool,
    thread: Option<u32>,
    source_file: Option<String>,
    #[serde(default)]
    source_line: u32,
    task_name: Option<String>,
    scope: Option<String>,
    #[serde(default)]
    args: Vec<RawArg>,
}

/// A value that may be null, which differs from an absent one.
fn stated<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Id>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
struct RawArg {
    idx: Option<i64>,
    r#type: Option<String>,
    tensor_id: Option<Id>,
}

#[derive(Deserialize)]
struct RawTensor {
    tensor_id: Option<Id>,
    buffer_addr: Option<Id>,
}

#[derive(Deserialize)]
struct RawEdge {
    #[serde(alias = "from")]
    pred: Id,
    #[serde(alias = "to")]
    succ: Id,
    #[serde(alias = "arg_index")]
    arg: Option<i64>,
    source: Option<Word>,
    why: Option<Word>,
    step: Option<u32>,
    run_epoch: Option<Option<Id>>,
}

/// tensortap's causes, and `simpler`'s word for a dependency that the orchestration declared. Other words
/// of `simpler` describe how a dependency was found, not its cause.
#[derive(Clone, Copy)]
struct Word(Option<&'static str>);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
        let known =
            |text: &str| Some(EdgeCause::ALL.into_iter().map(EdgeCause::name).find(|cause| *cause == text));
        super::fields::Word { parse: known, what: "cause" }.deserialize(deserializer).map(Word)
    }
}

impl TaskGraph {
    fn task(&mut self, raw: &RawTask) -> Result<(), String> {
        let stated = step(raw.step, raw.run_epoch)?;
        let (task_id, step) = (raw.task_id.0, stated.unwrap_or(0));
        let key = TaskKey { step, task_id };
        self.slots.has_steps |= stated.is_some();
        let func_id = slots(raw)?;
        for arg in &raw.args {
            if let (Some(idx), Some("OUTPUT" | "OUTPUT_EXISTING")) = (arg.idx, arg.r#type.as_deref()) {
                self.outputs.insert((key, idx));
            }
        }
        let tensor = |arg: &RawArg| Some((u16::try_from(arg.idx?).ok()?, arg.tensor_id?.0));
        let tensors: Vec<(u16, u64)> = raw.args.iter().filter_map(tensor).collect();
        if tensors.len() > 1 {
            self.tensors.insert(key, tensors);
        }
        self.slots.known.insert(key, func_id);
        self.name(key, func_id, raw);
        let args = u32::try_from(raw.args.len()).unwrap_or(u32::MAX);
        // A file without times only lists tasks that ran.
        let completed = raw.completed_ns.unwrap_or(Some(Id(0)));
        let &RawTask { work_dims, grid, group, global_size, global_offset, shared_bytes, cluster, .. } = raw;
        let is_cooperative = raw.cooperative;
        let launch = Launch {
            work_dims,
            grid,
            group,
            global_size,
            global_offset,
            shared_bytes,
            cluster,
            is_cooperative,
        };
        self.tasks.push(TaskFacts {
            step,
            task_id,
            func_id,
            block_num: raw.block_num.unwrap_or(1),
            submitted_ns: raw.submitted_ns.unwrap_or_default().0,
            capture_ns: raw.held_up_ns.unwrap_or_default().0,
            dispatched_ns: raw.dispatched_ns.unwrap_or_default().0,
            completed_ns: completed.map(|at| at.0),
            tensor_count: raw.tensor_count.unwrap_or(args),
            scalar_count: raw.scalar_count.unwrap_or(0),
            in_flight: raw.in_flight,
            core: raw.core_id,
            operation: raw.operation.as_deref().and_then(Operation::named).unwrap_or_default(),
            module: raw.module.unwrap_or(0),
            launch: launch.known(),
            queue: raw.queue.unwrap_or(0),
            parent: raw.parent.map(|parent| parent.0),
            is_region: raw.region,
            thread: raw.thread,
        });
        Ok(())
    }

    /// Notes the names of a task, which may have no argument that states them.
    fn name(&mut self, key: TaskKey, func_id: [u32; SLOTS_PER_TASK], raw: &RawTask) {
        let mut number = |text: &Option<String>| text.as_ref().map_or(0, |text| self.facts.number(text));
        let (name, scope) = (number(&raw.task_name), number(&raw.scope));
        if raw.step.is_some() || name != 0 || scope != 0 {
            self.meanings.push((key, TaskMeaning { func_id, name, scope, step: key.step }));
        }
        if let Some(file) = &raw.source_file {
            self.facts.source(key, file, raw.source_line);
        }
    }

    /// Finds the arguments of each task that share a buffer. `buffers` has the addresses of tensors.
    fn share(&mut self, buffers: &HashMap<u64, u64>) {
        self.shared.has_steps = self.slots.has_steps;
        for (task, tensors) in std::mem::take(&mut self.tensors) {
            // A tensor without an address is identified by its id, which cannot equal an address of another
            // tensor.
            let buffer = |id: u64| buffers.get(&id).map_or((0, id), |&addr| (1, addr));
            let mut by_buffer: BTreeMap<(u8, u64), Vec<u16>> = BTreeMap::new();
            for (arg_index, id) in tensors {
                by_buffer.entry(buffer(id)).or_default().push(arg_index);
            }
            let groups: Vec<Vec<u16>> = by_buffer.into_values().filter(|args| args.len() > 1).collect();
            if !groups.is_empty() {
                self.shared.known.insert(task, groups);
            }
        }
    }

    /// The step of each task, by its id. If a task has several, the first.
    fn steps_of_ids(&self) -> HashMap<u64, u32> {
        let mut steps = HashMap::new();
        for task in self.tasks.iter().filter(|_| self.slots.has_steps) {
            steps.entry(task.task_id).or_insert(task.step);
        }
        steps
    }

    /// The graph of a dump with these steps. A file without steps applies to every run in the dump.
    pub(super) fn in_steps(self, steps: &[u32]) -> Result<(Vec<TaskFacts>, Vec<Edge>), String> {
        let TaskGraph { tasks, edges, slots, .. } = self;
        if slots.has_steps || matches!(steps, [] | [0]) {
            return Ok((tasks, edges));
        }
        if steps.len() > 1 && (tasks.len() + edges.len()).saturating_mul(steps.len()) > MAX_REPEATED {
            return Err("it has no steps, and is too large to repeat for each step".into());
        }
        let in_step = |step: u32| tasks.iter().map(move |task| TaskFacts { step, ..task.clone() });
        let edges_in = |step: u32| edges.iter().map(move |edge| Edge { step, from_step: step, ..*edge });
        let all = |count: usize| count.saturating_mul(steps.len());
        let (mut all_tasks, mut all_edges) =
            (Vec::with_capacity(all(tasks.len())), Vec::with_capacity(all(edges.len())));
        for &step in steps {
            all_tasks.extend(in_step(step));
            all_edges.extend(edges_in(step));
        }
        Ok((all_tasks, all_edges))
    }

    /// An edge belongs to the step that it states, otherwise to the steps of its tasks.
    fn edge(&self, raw: &RawEdge, steps: &HashMap<u64, u32>) -> Result<Edge, String> {
        let RawEdge { pred, succ, arg, source, why, step: stated, run_epoch } = raw;
        let stated = step(*stated, *run_epoch)?;
        let step_of = |task_id: &Id| stated.or_else(|| steps.get(&task_id.0).copied()).unwrap_or(0);
        let (from_step, step) = (step_of(pred), step_of(succ));
        let arg_index = arg.and_then(|arg| u16::try_from(arg).ok());
        let is_output =
            arg.is_some_and(|arg| self.outputs.contains(&(TaskKey { step, task_id: succ.0 }, arg)));
        let stated = [why, source].into_iter().flatten().find_map(|word| word.0);
        let why = match stated {
            Some(cause) => cause,
            None if arg_index.is_none() => "explicit",
            None if is_output => "write_after_write",
            None => "read_after_write",
        };
        Ok(Edge { step, from_step, from: pred.0, to: succ.0, arg_index: arg_index.unwrap_or(0), why })
    }
}

fn slots(raw: &RawTask) -> Result<[u32; SLOTS_PER_TASK], String> {
    let mut slots = [NO_KERNEL; SLOTS_PER_TASK];
    if let Some(kernels) = raw.kernel_ids {
        if kernels.as_slice().len() > SLOTS_PER_TASK {
            return Err("a task has more than 3 kernels".into());
        }
        for (slot, kernel) in slots.iter_mut().zip(kernels.as_slice()) {
            if *kernel != -1 {
                *slot = u32::try_from(*kernel).map_err(|_| "a kernel number is out of range")?;
            }
        }
        return Ok(slots);
    }
    let known = raw.func_id.as_ref().map_or(&[][..], |kernels| kernels.known());
    for (place, kernel) in known.iter().enumerate() {
        let slot =
            raw.subtask_id.and_then(|slots| slots.as_slice().get(place).copied()).unwrap_or(place as u64);
        let slot = usize::try_from(slot).ok().and_then(|slot| slots.get_mut(slot));
        *slot.ok_or("a task has more than 3 subtask slots")? = *kernel;
    }
    Ok(slots)
}
