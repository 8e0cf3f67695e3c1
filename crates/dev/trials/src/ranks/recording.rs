//! Records a run of many ranks: one folder with one dump for each rank.

use std::collections::HashMap;
use std::path::Path;

use serde_json::json;
use tensortap_record::{
    ArgKind, CollectiveKind, DumpLevel, DumpStage, EdgeCause, FolderOptions, KernelId, KernelInfo, Operation,
    Outcome, QueueId, RecordError, Role, ScopeId, Session, StepId, StringId, Task, TaskInfo, Tensor,
    ThreadRecorder,
};

use super::machine::ArgTrace;
use super::program::{Exchange, Job, Phase, Program};
use crate::program::Access;
use crate::recording::{Capture, Content, dtype};

/// The facts that the dump of a rank has.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The task id of each task of the program.
    pub ids: Vec<u64>,
    /// By task, argument and whether it is after the task. No entry if nothing was captured.
    pub content: HashMap<(usize, usize, bool), Content>,
}

impl Facts {
    pub fn content(&self, job: usize, arg: usize, is_after: bool) -> Content {
        self.content.get(&(job, arg, is_after)).copied().unwrap_or(Content::None)
    }
}

/// The dump of one rank, while it is recorded.
struct Recording<'p> {
    program: &'p Program,
    rank: usize,
    /// How many collectives of all ranks, and of the subgroup, have been recorded.
    sequences: [u64; 2],
    level: DumpLevel,
    recorder: ThreadRecorder,
    kernels: Vec<KernelId>,
    steps: Vec<StepId>,
    scopes: Vec<ScopeId>,
    queues: [QueueId; 2],
    memory: Vec<Vec<u8>>,
    /// The last task and whether it is a collective.
    last: Option<(u64, bool)>,
    facts: Facts,
}

/// Records a rank of a run into its folder in the run's folder.
pub fn record(
    program: &Program,
    rank: usize,
    traces: &[Vec<ArgTrace>],
    capture: &Capture,
    run: &Path,
) -> Result<Facts, RecordError> {
    let &Capture { level, filter, policy, arena_bytes } = capture;
    let mut options = FolderOptions { level, filter, policy, ..FolderOptions::default() };
    options.geometry.lanes = 4;
    options.geometry.arena_bytes = arena_bytes.next_multiple_of(4096);
    let session = Session::in_folder(&run.join(format!("rank-{rank}")), &options)?;
    let mut recording = Recording::new((program, rank), level, session.named_thread("main")?, traces)?;
    for (number, (job, args)) in program.jobs.iter().zip(traces).enumerate() {
        recording.task(number, job, args)?;
    }
    let Recording { facts, .. } = recording;
    session.close()?;
    Ok(facts)
}

/// Writes the list of processes that `tensortap record` writes.
pub fn list_processes(ranks: usize, run: &Path) -> Result<(), String> {
    let process = |rank: usize| json!({"folder": format!("rank-{rank}"), "pid": 1000 + rank, "rank": rank});
    let list = json!({"schema_version": 1, "processes": (0..ranks).map(process).collect::<Vec<_>>()});
    std::fs::write(run.join("run.json"), list.to_string()).map_err(|error| error.to_string())
}

impl<'p> Recording<'p> {
    fn new(
        (program, rank): (&'p Program, usize),
        level: DumpLevel,
        mut recorder: ThreadRecorder,
        traces: &[Vec<ArgTrace>],
    ) -> Result<Recording<'p>, RecordError> {
        let kernels = (0..program.kernels.len()).map(|kernel| define(program, kernel, &mut recorder));
        let kernels = kernels.collect::<Result<_, _>>()?;
        let steps = (0..program.steps).map(|step| recorder.step(&format!("step {step}")));
        let steps = steps.collect::<Result<_, _>>()?;
        let scopes = (0..3).map(|layer| match program.style.scopes {
            true => recorder.scope(&format!("layer {layer}"), ScopeId::NONE),
            false => Ok(ScopeId::NONE),
        });
        let scopes = scopes.collect::<Result<_, _>>()?;
        let queues = match program.style.queues {
            true => [recorder.queue("compute")?, recorder.queue("exchange")?],
            false => [QueueId::NONE; 2],
        };
        let mut memory: Vec<Vec<u8>> =
            program.buffers.iter().map(|buffer| vec![0; buffer.elements * program.element.bytes()]).collect();
        // The content before the first task that uses a buffer is there from the beginning.
        for arg in traces.iter().flatten().rev() {
            memory[arg.buffer].copy_from_slice(&arg.before);
        }
        let (last, facts) = (None, Facts::default());
        Ok(Recording {
            program,
            rank,
            sequences: [0; 2],
            level,
            recorder,
            kernels,
            steps,
            scopes,
            queues,
            memory,
            last,
            facts,
        })
    }

    fn task(&mut self, number: usize, job: &Job, args: &[ArgTrace]) -> Result<(), RecordError> {
        let is_collective = matches!(job.phase, Phase::Collective(_));
        let name = job.name.as_ref().map_or(Ok(StringId::NONE), |name| self.recorder.string(name))?;
        let common = TaskInfo {
            name,
            scope: self.scopes[job.layer],
            queue: self.queues[usize::from(is_collective)],
            step: self.steps[job.step],
            ..TaskInfo::default()
        };
        let info = match job.kernel {
            Some(kernel) => TaskInfo { kernels: TaskInfo::of(self.kernels[kernel]).kernels, ..common },
            None => TaskInfo { operation: Operation::HostWrite, records: 1, ..common },
        };
        let mut task = self.recorder.begin(&info)?;
        self.facts.ids.push(task.id());
        self.collective(job, &task)?;
        self.order(task.id(), is_collective)?;
        self.tensors(number, job, args, &mut task, false)?;
        for arg in args {
            self.memory[arg.buffer].copy_from_slice(&arg.after);
        }
        self.tensors(number, job, args, &mut task, true)?;
        self.recorder.end(&mut task).map(drop)
    }

    /// Records the group of a collective, and its number in the group.
    fn collective(&mut self, job: &Job, task: &Task) -> Result<(), RecordError> {
        let Phase::Collective(exchange) = job.phase else { return Ok(()) };
        if !self.program.records_group(job.layer) {
            return Ok(());
        }
        let is_local = self.program.is_local[job.layer];
        let group =
            if is_local { format!("group {}", self.program.groups[self.rank]) } else { "all".to_owned() };
        let sequence = &mut self.sequences[usize::from(is_local)];
        *sequence += 1;
        let kind = match exchange {
            Exchange::AllReduce => CollectiveKind::AllReduce,
            Exchange::ReduceScatter => CollectiveKind::ReduceScatter,
            Exchange::AllGather => CollectiveKind::AllGather,
        };
        let group = self.recorder.string(&group)?;
        self.recorder.collective(task, group, *sequence, kind).map(drop)
    }

    /// Records that a task waits for the one before it, if there are several queues.
    fn order(&mut self, task: u64, is_collective: bool) -> Result<(), RecordError> {
        let last = self.last.replace((task, is_collective));
        if let Some((before, was_collective)) = last.filter(|_| self.program.style.queues) {
            let is_same = was_collective == is_collective;
            let cause = if is_same { EdgeCause::QueueOrder } else { EdgeCause::Event };
            self.recorder.edge(before, task, cause, u16::MAX)?;
        }
        Ok(())
    }

    fn tensors(
        &mut self,
        number: usize,
        job: &Job,
        args: &[ArgTrace],
        task: &mut Task,
        is_after: bool,
    ) -> Result<(), RecordError> {
        let is_known = self.program.style.roles_known || job.kernel.is_none();
        for (position, arg) in args.iter().enumerate() {
            let is_wanted = if is_after { arg.access.writes() } else { arg.access.reads() };
            if is_known && !is_wanted || job.kernel.is_none() && !is_after {
                continue;
            }
            let role = match arg.access {
                _ if !is_known => Role::InOut,
                Access::Read => Role::Input,
                Access::Write => Role::Output,
                Access::Update => Role::InOut,
            };
            let index = u16::try_from(position).expect("few arguments");
            let tensor = Tensor::of(&self.memory[arg.buffer][..], dtype(arg.element))?;
            let tensor = tensor.arg(index).role(role).guessed(false, !is_known, false);
            let stage = if is_after { DumpStage::AfterCompletion } else { DumpStage::BeforeDispatch };
            if self.recorder.tensor(task, stage, &tensor)? == Outcome::Recorded {
                let content = if self.level == DumpLevel::Full { Content::Full } else { Content::Hash };
                self.facts.content.insert((number, position, is_after), content);
            }
        }
        Ok(())
    }
}

fn define(program: &Program, kernel: usize, recorder: &mut ThreadRecorder) -> Result<KernelId, RecordError> {
    let job = program.jobs.iter().find(|job| job.kernel == Some(kernel));
    let args = job.map_or(&[][..], |job| job.args.as_slice());
    let names: Vec<String> = (0..args.len()).map(|arg| format!("p{arg}")).collect();
    let kinds = args.iter().map(|(_, access)| {
        program.style.roles_known.then_some(match access {
            Access::Read => ArgKind::In,
            Access::Write => ArgKind::Out,
            Access::Update => ArgKind::InOut,
        })
    });
    let args: Vec<_> = names.iter().map(String::as_str).zip(kinds).collect();
    let args = if program.declares(kernel) { args.as_slice() } else { &[] };
    let name = &program.kernels[kernel].name;
    recorder.define_kernel(&KernelInfo { name, args, ..KernelInfo::default() })
}
