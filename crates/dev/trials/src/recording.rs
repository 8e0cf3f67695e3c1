//! Records a run into a dump, and keeps which facts the dump has.

use std::collections::HashMap;
use std::path::Path;

use tensortap_record::{
    ArgKind, DType, DumpFilter, DumpLevel, DumpPolicy, DumpStage, EdgeCause, FolderOptions, KernelId,
    KernelInfo, MemorySpace, Operation, Outcome, QueueId, RecordError, Role, ScopeId, Session, StepId,
    StringId, Task, TaskInfo, Tensor, ThreadRecorder,
};

use crate::machine::Observer;
use crate::memory::Memory;
use crate::program::{Access, Element, HostData, HostRead, Launch, Program, View};

/// How much a dump has of an argument's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    None,
    Hash,
    Full,
}

/// The facts that a dump has.
#[derive(Debug, Default)]
pub struct Facts {
    /// The task id of each launch and recorded host write, in the order of recording.
    pub ids: Vec<(usize, u64)>,
    /// By identity, argument and whether it is after the task. No entry if nothing was captured.
    pub content: HashMap<(usize, usize, bool), Content>,
    /// Whether all scalars of a launch were captured.
    pub scalars: HashMap<usize, bool>,
}

impl Facts {
    pub fn content(&self, id: usize, arg: usize, is_after: bool) -> Content {
        self.content.get(&(id, arg, is_after)).copied().unwrap_or(Content::None)
    }

    /// The identity of a task of the dump.
    pub fn identity(&self, task: u64) -> Option<usize> {
        self.ids.iter().find(|(_, dumped)| *dumped == task).map(|(id, _)| *id)
    }
}

/// What a dump keeps.
#[derive(Clone, Copy, Debug)]
pub struct Capture {
    pub level: DumpLevel,
    pub filter: DumpFilter,
    pub policy: DumpPolicy,
    pub arena_bytes: u64,
}

impl Capture {
    pub const FULL: Capture = Capture {
        level: DumpLevel::Full,
        filter: DumpFilter::ALL,
        policy: DumpPolicy::Block,
        arena_bytes: 1 << 18,
    };

    /// Whether every argument of every task is in the dump.
    pub fn is_complete(&self) -> bool {
        let all = DumpFilter::ALL;
        let filter = &self.filter;
        let filters = (filter.task_ranges, filter.funcs, filter.args, filter.stages, filter.first_tasks);
        matches!(self.level, DumpLevel::Full | DumpLevel::Hash)
            && self.policy == DumpPolicy::Block
            && filters == (all.task_ranges, all.funcs, all.args, all.stages, all.first_tasks)
    }

    /// Whether a filter or a cap may leave out whole tasks.
    pub fn filters_tasks(&self) -> bool {
        let all = DumpFilter::ALL;
        let filter = &self.filter;
        (filter.task_ranges, filter.funcs, filter.first_tasks)
            != (all.task_ranges, all.funcs, all.first_tasks)
            || self.policy == DumpPolicy::Drop
    }
}

pub fn dtype(element: Element) -> DType {
    match element {
        Element::F32 => DType::Float32,
        Element::I32 => DType::Int32,
        Element::F64 => DType::Float64,
        Element::I64 => DType::Int64,
        Element::U8 => DType::UInt8,
    }
}

/// The numbers of everything that has a name.
#[derive(Default)]
struct Numbers {
    kernels: Vec<KernelId>,
    steps: Vec<StepId>,
    scopes: Vec<ScopeId>,
    queues: Vec<QueueId>,
}

/// A dump that is being recorded.
pub struct Recording<'p> {
    program: &'p Program,
    level: DumpLevel,
    session: Option<Session>,
    lanes: Vec<ThreadRecorder>,
    numbers: Numbers,
    /// The last task of each lane.
    last: Vec<Option<u64>>,
    running: HashMap<usize, Task>,
    facts: Facts,
    error: Option<RecordError>,
}

impl<'p> Recording<'p> {
    /// Opens a session with its own folder, and defines all names in the same order in each run.
    pub fn open(program: &'p Program, dir: &Path, capture: &Capture) -> Result<Recording<'p>, RecordError> {
        let &Capture { level, filter, policy, arena_bytes } = capture;
        let mut options = FolderOptions { level, filter, policy, ..FolderOptions::default() };
        options.geometry.lanes = 8;
        options.geometry.arena_bytes = arena_bytes.next_multiple_of(4096);
        let session = Session::in_folder(dir, &options)?;
        let lanes = (0..program.style.lanes).map(|lane| session.named_thread(&format!("lane {lane}")));
        let mut lanes = lanes.collect::<Result<Vec<_>, _>>()?;
        let numbers = define(program, &mut lanes[0])?;
        let (running, facts) = (HashMap::new(), Facts::default());
        let last = vec![None; lanes.len()];
        Ok(Recording {
            program,
            level,
            session: Some(session),
            lanes,
            numbers,
            last,
            running,
            facts,
            error: None,
        })
    }

    /// Completes the dump.
    pub fn close(mut self) -> Result<Facts, RecordError> {
        self.lanes.clear();
        if let Some(session) = self.session.take() {
            session.close()?;
        }
        self.error.take().map_or(Ok(self.facts), Err)
    }

    fn note<T>(&mut self, result: Result<T, RecordError>) -> Option<T> {
        result.map_err(|error| self.error.get_or_insert(error)).ok()
    }

    fn begin_task(&mut self, id: usize, lane: usize, info: &TaskInfo) -> Option<Task> {
        let explicit = if self.program.style.explicit_ids { id as u64 + 1 } else { 0 };
        let begun = self.lanes[lane].begin(&TaskInfo { id: explicit, ..*info });
        let task = self.note(begun)?;
        self.facts.ids.push((id, task.id()));
        let before = self.last[lane].replace(task.id());
        if self.program.style.declares_lane_order
            && let Some(before) = before
        {
            let edge = self.lanes[lane].edge(before, task.id(), EdgeCause::QueueOrder, u16::MAX);
            self.note(edge);
        }
        Some(task)
    }

    fn tensor(
        &mut self,
        lane: usize,
        task: &mut Task,
        key: (usize, usize, bool),
        tensor: &Tensor<'_>,
        marked: bool,
    ) {
        let stage = if key.2 { DumpStage::AfterCompletion } else { DumpStage::BeforeDispatch };
        let outcome = self.lanes[lane].tensor(task, stage, tensor);
        let Some(outcome) = self.note(outcome) else { return };
        let content = match self.level {
            DumpLevel::Full => Content::Full,
            DumpLevel::Hash => Content::Hash,
            DumpLevel::Meta | DumpLevel::Marked if marked => Content::Full,
            _ => Content::None,
        };
        if outcome == Outcome::Recorded {
            self.facts.content.insert(key, content);
        }
    }

    fn tensors(&mut self, id: usize, launch: &Launch, memory: &Memory, task: &mut Task, is_after: bool) {
        let params = &self.program.kernels[launch.kernel].params;
        for (position, (arg, param)) in launch.args.iter().zip(params).enumerate() {
            let is_wanted = if is_after { param.access.writes() } else { param.access.reads() };
            if param.role_known && !is_wanted {
                continue;
            }
            let role = match param.access {
                _ if !param.role_known => Role::InOut,
                Access::Read => Role::Input,
                Access::Write => Role::Output,
                Access::Update => Role::InOut,
            };
            let tensor = tensor(memory, &arg.view, param.element).map(|tensor| {
                let index = u16::try_from(position).expect("few arguments");
                let tensor = tensor.arg(index).role(role).guessed(false, !param.role_known, false);
                if arg.marked { tensor.marked() } else { tensor }
            });
            if let Some(tensor) = self.note(tensor) {
                self.tensor(launch.lane, task, (id, position, is_after), &tensor, arg.marked);
            }
        }
    }
}

fn tensor<'m>(memory: &'m Memory, view: &View, element: Element) -> Result<Tensor<'m>, RecordError> {
    let wide = |numbers: &[usize]| numbers.iter().map(|&number| number as u64).collect::<Vec<_>>();
    let strides: Vec<i64> =
        view.strides.iter().map(|&stride| i64::try_from(stride).expect("small")).collect();
    Tensor::of(memory.block(view.block), dtype(element))?.view(
        &wide(&view.shape),
        &strides,
        view.start as u64,
    )
}

fn define(program: &Program, lane: &mut ThreadRecorder) -> Result<Numbers, RecordError> {
    let mut numbers = Numbers::default();
    for kernel in &program.kernels {
        let names: Vec<String> = (0..kernel.params.len()).map(|arg| format!("p{arg}")).collect();
        let kinds = kernel.params.iter().map(|param| {
            param.role_known.then_some(match param.access {
                Access::Read => ArgKind::In,
                Access::Write => ArgKind::Out,
                Access::Update => ArgKind::InOut,
            })
        });
        let args: Vec<_> = names.iter().map(String::as_str).zip(kinds).collect();
        let args = if program.style.declares_args { args.as_slice() } else { &[] };
        let info = KernelInfo { name: &kernel.name, args, ..KernelInfo::default() };
        numbers.kernels.push(lane.define_kernel(&info)?);
    }
    for step in 0..program.style.steps {
        let is_stepped = program.style.steps > 1;
        numbers.steps.push(if is_stepped { lane.step(&format!("step {step}"))? } else { StepId::NONE });
    }
    for scope in 0..3 {
        numbers.scopes.push(lane.scope(&format!("part {scope}"), ScopeId::NONE)?);
    }
    for queue in 0..program.style.lanes {
        let number =
            if program.style.queues { lane.queue(&format!("queue {queue}"))? } else { QueueId::NONE };
        numbers.queues.push(number);
    }
    Ok(numbers)
}

impl Observer for Recording<'_> {
    fn allocated(&mut self, memory: &Memory, block: usize, freed: bool) {
        if self.program.style.records_allocations {
            let bytes = memory.block(block);
            let address = bytes.as_ptr().addr() as u64;
            let result = self.lanes[0].allocation(address, bytes.len() as u64, MemorySpace::Host, freed);
            self.note(result);
        }
    }

    fn host_read(&mut self, memory: &Memory, read: &HostRead, lane: usize) {
        let queue = self.numbers.queues[lane];
        let info = TaskInfo { operation: Operation::HostRead, queue, records: 1, ..TaskInfo::default() };
        let Some(mut task) = self.begin_task(read.id, lane, &info) else { return };
        let tensor = tensor(memory, &read.view, read.element).map(|tensor| tensor.arg(0).role(Role::Input));
        if let Some(tensor) = self.note(tensor) {
            self.tensor(lane, &mut task, (read.id, 0, false), &tensor, false);
        }
        let ended = self.lanes[lane].end(&mut task);
        self.note(ended);
    }

    fn host_wrote(&mut self, id: usize, memory: &Memory, data: &HostData) {
        let &HostData { ref view, element, lane, .. } = data;
        let queue = self.numbers.queues[lane];
        let info = TaskInfo { operation: Operation::HostWrite, queue, records: 1, ..TaskInfo::default() };
        let Some(mut task) = self.begin_task(id, lane, &info) else { return };
        let tensor = tensor(memory, view, element).map(|tensor| tensor.arg(0).role(Role::Output));
        if let Some(tensor) = self.note(tensor) {
            self.tensor(lane, &mut task, (id, 0, true), &tensor, false);
        }
        let ended = self.lanes[lane].end(&mut task);
        self.note(ended);
    }

    fn begin(&mut self, id: usize, launch: &Launch) {
        let name = launch.name.as_ref().map(|name| self.lanes[launch.lane].string(name));
        let name = name.and_then(|name| self.note(name)).unwrap_or(StringId::NONE);
        let info = TaskInfo {
            name,
            scope: launch.scope.map_or(ScopeId::NONE, |scope| self.numbers.scopes[scope]),
            queue: self.numbers.queues[launch.lane],
            step: self.numbers.steps[launch.step],
            ..TaskInfo::of(self.numbers.kernels[launch.kernel])
        };
        if let Some(task) = self.begin_task(id, launch.lane, &info) {
            self.running.insert(id, task);
        }
    }

    fn before(&mut self, id: usize, launch: &Launch, scalars: &[u64], memory: &Memory) {
        if !self.running.contains_key(&id) {
            self.begin(id, launch);
        }
        let Some(mut task) = self.running.remove(&id) else { return };
        let waits = launch.waits.iter().filter_map(|of| self.facts.ids.iter().find(|(known, _)| known == of));
        let waits: Vec<_> = waits.map(|(_, task)| (*task, EdgeCause::Event)).collect();
        let feeds = launch.feeds.iter().filter_map(|of| self.facts.ids.iter().find(|(known, _)| known == of));
        let feeds: Vec<_> = feeds.map(|(_, task)| (*task, EdgeCause::ReadAfterWrite)).collect();
        for (before, cause) in waits.into_iter().chain(feeds) {
            let edge = self.lanes[launch.lane].edge(before, task.id(), cause, u16::MAX);
            self.note(edge);
        }
        self.tensors(id, launch, memory, &mut task, false);
        for (position, &bits) in scalars.iter().enumerate() {
            let arg = u16::try_from(launch.args.len() + position).expect("few arguments");
            let outcome = self.lanes[launch.lane].scalar(&mut task, arg, DType::UInt64, bits, StringId::NONE);
            let is_recorded = self.note(outcome) == Some(Outcome::Recorded);
            *self.facts.scalars.entry(id).or_insert(true) &= is_recorded;
        }
        self.running.insert(id, task);
    }

    fn after(&mut self, id: usize, launch: &Launch, memory: &Memory) {
        let Some(mut task) = self.running.remove(&id) else { return };
        self.tensors(id, launch, memory, &mut task, true);
        let ended = self.lanes[launch.lane].end(&mut task);
        self.note(ended);
    }
}
