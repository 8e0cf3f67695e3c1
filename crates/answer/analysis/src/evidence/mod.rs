//! The evidence model: for every byte that differs from the golden outside its rule, where the difference came from.
//!
//! Tasks are visited in dependency order. For each argument outside its rule, every differing position gets an
//! [`ErrorOrigin`]. Positions that are within their rule get none. What a task wrote is decided per element:
//!
//! - An element counts as written if the role is a known output, or if its bytes changed over the task in the dump or
//!   in the golden. A known in-out argument whose content before the task was not captured counts as written.
//! - A differing element that the task wrote has the origin [`Written`](ErrorOrigin::Written): it is evidence against
//!   the task. If the golden's task changed it and this one did not, the output is *stale*.
//! - A differing element that neither run wrote keeps the origin it had before the task. So uninitialized bytes next to
//!   defined ones, and errors of earlier tasks, are never evidence against a task that did not touch them.
//!
//! The origin of a differing element *before* a task follows from the last tasks that held its memory, the newest first:
//!
//! | the last holder | origin |
//! | --- | --- |
//! | left the same bytes, and they were wrong there | the origin that they had there |
//! | left the same bytes, and they were right there | [`Misplaced`](ErrorOrigin::Misplaced): the golden took its content from elsewhere |
//! | left other bytes | [`Changed`](ErrorOrigin::Changed) in between |
//! | is not in the golden, and received nothing wrong | [`Misplaced`](ErrorOrigin::Misplaced) |
//! | does not exist, and the allocation is known, but a task of the golden wrote it | [`Unwritten`](ErrorOrigin::Unwritten) |
//! | does not exist in either run, and the allocation is known | [`Uninitialized`](ErrorOrigin::Uninitialized), unless it still is what a task left wrong there before the allocation |
//! | does not exist | [`External`](ErrorOrigin::External): the memory had this content before recording, or an unrecorded writer left it |
//! | wrote it, but was not captured in both runs or has no certain partner | [`NotCompared`](ErrorOrigin::NotCompared), with the reason |
//! | may have written it, but the captured facts do not decide | [`Unknown`](ErrorOrigin::Unknown), with the reason |
//!
//! At level `hash`, an argument is one position: equal hashes prove that all of it is right, and different hashes
//! accuse a task only if the argument is a known output or was equal before the task.
//!
//! [`crate::labels`] turns origins into labels. A run that equals its golden reads no payload.

mod candidates;
mod content;
mod inputs;
mod missing_tasks;
mod outputs;
mod spans;
mod undefined;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use tensortap_abi::{DumpStage, Role};
use tensortap_format::{Argument, Dump, FormatError, Task};

use crate::blame::observed::lacks_records;
use crate::blame::{RightRuns, RuleTable};
use crate::graph::candidates::is_used;
use crate::graph::view::pieces;
use crate::graph::{OutputRef, TaskGraph, TensorView, WriteMap};
use crate::labels::{ArgStatus, Races, Status, TaskStatus};
use crate::matching::Matching;
pub(crate) use content::{all_positions, difference_between, holds_content_before, holds_output_of};
pub(crate) use inputs::covered_by;
use missing_tasks::beside_missing;
pub(crate) use spans::Spans;
pub(crate) use undefined::UninitializedUse;

const MEANWHILE: &str = "another task that declares to write there ran at the same time";
const MISSING_MEANWHILE: &str = "a task that a dump lacks may have run at the same time and written there";

/// Where a differing element came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ErrorOrigin {
    /// A task wrote it.
    Written(OutputRef),
    /// It is not what this output, the last to hold its memory, left there.
    Changed(OutputRef),
    /// It is what this output left there, where it was right: the golden's content came from another task.
    Misplaced(OutputRef),
    /// The task of this output received it wrong, for another reason than a wrong output, and did not change it.
    Passed(OutputRef),
    /// It was there before recording began, or an unrecorded writer left it.
    External,
    /// Nothing wrote it since its allocation, in either run.
    Uninitialized,
    /// Nothing wrote it since its allocation, but this output of the golden wrote it there.
    Unwritten(OutputRef),
    /// A recorded task wrote it, into an argument that was not compared; the number of the reason.
    NotCompared(u32),
    /// Not known; the number of the reason.
    Unknown(u32),
}

impl ErrorOrigin {
    /// Whether the element differs because of something that happened in the run. Other elements may differ between two
    /// right runs: uninitialized and external memory, and what hashes do not show.
    fn is_of_run(self) -> bool {
        !matches!(self, ErrorOrigin::External | ErrorOrigin::Uninitialized | ErrorOrigin::Unknown(_))
    }

    /// Why the origin is not known; the number of the reason.
    pub fn unknown_reason(self) -> Option<u32> {
        match self {
            ErrorOrigin::NotCompared(reason) | ErrorOrigin::Unknown(reason) => Some(reason),
            _ => None,
        }
    }
}

/// A range of positions with one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    span: Range<u64>,
    origin: ErrorOrigin,
}

/// The differing positions of one argument at one stage, sorted, with their origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Marks(Vec<Mark>);

impl Marks {
    fn all(end: u64, origin: ErrorOrigin) -> Marks {
        Marks(vec![Mark { span: 0..end, origin }])
    }

    fn of_spans(spans: &Spans, origin: ErrorOrigin) -> Marks {
        Marks(spans.iter().map(|span| Mark { span, origin }).collect())
    }

    /// Marks from parts in any order that share no position.
    fn joined(mut marks: Vec<Mark>) -> Marks {
        marks.sort_unstable_by_key(|mark| mark.span.start);
        let mut joined: Vec<Mark> = Vec::with_capacity(marks.len());
        for mark in marks {
            match joined.last_mut() {
                Some(last) if last.origin == mark.origin && last.span.end == mark.span.start => {
                    last.span.end = mark.span.end;
                }
                _ => joined.push(mark),
            }
        }
        Marks(joined)
    }

    /// The marks within a range, and the parts of the range without a mark.
    fn within(&self, range: Range<u64>) -> (Vec<Mark>, Vec<Range<u64>>) {
        let (mut found, mut bare, mut at) = (Vec::new(), Vec::new(), range.start);
        let first = self.0.partition_point(|mark| mark.span.end <= range.start);
        for mark in self.0[first..].iter().take_while(|mark| mark.span.start < range.end) {
            let span = mark.span.start.max(range.start)..mark.span.end.min(range.end);
            if span.start > at {
                bare.push(at..span.start);
            }
            at = span.end;
            found.push(Mark { span, origin: mark.origin });
        }
        if at < range.end {
            bare.push(at..range.end);
        }
        (found, bare)
    }

    /// Gives another origin to those positions in a set that differ because of something that happened in the run. Returns
    /// whether there are any.
    fn doubt(&mut self, positions: &Spans, origin: ErrorOrigin) -> bool {
        let mut marks = Vec::with_capacity(self.0.len());
        let mut is_any = false;
        for mark in &self.0 {
            let all = Spans::of_unsorted(vec![mark.span.clone()]);
            let doubted = if mark.origin.is_of_run() { all.and(positions) } else { Spans::default() };
            is_any |= !doubted.is_empty();
            marks.extend(Marks::of_spans(&doubted, origin).0);
            marks.extend(Marks::of_spans(&all.without(&doubted), mark.origin).0);
        }
        *self = Marks::joined(marks);
        is_any
    }

    fn spans(&self) -> Spans {
        Spans::of_unsorted(self.0.iter().map(|mark| mark.span.clone()).collect())
    }
}

/// What is known about an argument outside its rule before its task.
#[derive(Clone, Debug, Default)]
pub(crate) struct InputEvidence {
    marks: Marks,
    /// Every part of the argument is uninitialized or external: no recorded task defined any of it.
    pub is_undefined: bool,
    /// How the task used its uninitialized content.
    pub uninitialized: UninitializedUse,
    /// In one of the runs, nothing orders the task with another one that may have written the argument.
    is_unordered: bool,
    /// A task left elements there that are within their rule, but not equal.
    is_near: bool,
}

impl InputEvidence {
    /// The differing elements that no task of the run wrote.
    fn undefined_spans(&self) -> Spans {
        let is_undefined =
            |mark: &&Mark| matches!(mark.origin, ErrorOrigin::Uninitialized | ErrorOrigin::External);
        let marks = self.marks.0.iter().filter(is_undefined);
        Spans::of_unsorted(marks.map(|mark| mark.span.clone()).collect())
    }

    /// The distinct origins of its differing elements, with the first range of each in bytes.
    pub fn origins(&self) -> Vec<(ErrorOrigin, Range<u64>)> {
        let mut found: Vec<(ErrorOrigin, Range<u64>)> = Vec::new();
        for mark in &self.marks.0 {
            if !found.iter().any(|(origin, _)| *origin == mark.origin) {
                found.push((mark.origin, mark.span.start / 2..mark.span.end.div_ceil(2)));
            }
        }
        found
    }
}

/// What is known about an argument outside its rule after its task.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputEvidence {
    marks: Marks,
    /// The task did not change elements that the golden's task changed, and these are wrong.
    pub is_stale: bool,
    /// Why it is not known whether the task wrote wrong elements; the number of the reason.
    undecided: Option<u32>,
    /// A task of the run left elements that are within their rule, but not equal.
    is_near: bool,
    /// The task changed the argument, and its partner in the golden left it alone.
    changed_only_here: bool,
    /// Only hashes or statistics show the difference, so it is not known which elements differ.
    is_by_hash: bool,
    /// A task of the run left something else than in the golden, but it may have been another task, or not be wrong.
    is_open: bool,
}

impl OutputEvidence {
    fn of(marks: Marks) -> OutputEvidence {
        OutputEvidence { marks, ..OutputEvidence::default() }
    }
}

/// Arguments that differ after their tasks, by task position and argument index.
#[derive(Clone, Debug, Default)]
pub(crate) struct WrongOutputs {
    /// The task wrote wrong elements, as contents show.
    pub written: HashSet<(usize, u16)>,
    /// The task wrote wrong elements, as hashes show.
    pub written_by_hash: HashSet<(usize, u16)>,
    /// It is not known whether the task wrote them, or whether they are wrong.
    pub open: HashSet<(usize, u16)>,
}

/// The evidence about every argument that is outside its rule. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    inputs: HashMap<(usize, u16), InputEvidence>,
    outputs: HashMap<OutputRef, OutputEvidence>,
    reasons: Vec<String>,
    /// The ids of the golden's tasks that wrote what no task of the dump wrote, by position.
    golden_tasks: HashMap<usize, u64>,
    /// Why writes may be missing from one of the dumps.
    gap: Option<String>,
}

impl Evidence {
    /// Why writes may be missing from one of the dumps; `None` if every write was captured.
    pub fn gap(&self) -> Option<&str> {
        self.gap.as_deref()
    }

    /// The evidence about an argument before its task; `None` if nothing differs there.
    pub fn input(&self, task: usize, arg_index: u16) -> Option<&InputEvidence> {
        self.inputs.get(&(task, arg_index))
    }

    /// Whether a task wrote wrong elements into an argument.
    pub fn wrote_wrong(&self, task: usize, arg_index: u16) -> bool {
        let output = OutputRef { task, arg_index };
        self.has_origin(output, |origin| origin == ErrorOrigin::Written(output))
    }

    /// Whether a task did not write elements that it should have written.
    pub fn is_stale(&self, task: usize, arg_index: u16) -> bool {
        self.outputs.get(&OutputRef { task, arg_index }).is_some_and(|output| output.is_stale)
    }

    /// Whether an argument left its task with wrong elements that a task of the run is the reason for.
    pub fn is_left_wrong(&self, task: usize, arg_index: u16) -> bool {
        let is_known = |origin: ErrorOrigin| origin.is_of_run() && origin.unknown_reason().is_none();
        self.has_origin(OutputRef { task, arg_index }, is_known)
    }

    /// Whether a task changed an argument that its partner in the golden left alone.
    pub fn is_changed_only_here(&self, task: usize, arg_index: u16) -> bool {
        self.outputs.get(&OutputRef { task, arg_index }).is_some_and(|output| output.changed_only_here)
    }

    /// Arguments outside their rule before their tasks, of which other parts are within it, but not equal.
    pub fn near_inputs(&self) -> impl Iterator<Item = (usize, u16)> + '_ {
        self.inputs.iter().filter(|(_, input)| input.is_near).map(|(key, _)| *key)
    }

    /// The arguments that differ before their tasks and are not, or not only, what an earlier task left there wrong;
    /// with the last holder if it left something else.
    pub fn changed_inputs(&self) -> impl Iterator<Item = ((usize, u16), Option<OutputRef>)> + '_ {
        self.inputs.iter().filter_map(|(key, input)| {
            input.marks.0.iter().find_map(|mark| match mark.origin {
                ErrorOrigin::Changed(holder) => Some((*key, Some(holder))),
                ErrorOrigin::External => Some((*key, None)),
                _ => None,
            })
        })
    }

    /// The id of the golden's task that wrote what no task of the dump wrote.
    pub fn golden_task(&self, output: OutputRef) -> u64 {
        self.golden_tasks.get(&output.task).copied().unwrap_or_default()
    }

    /// Why it is not known whether a task wrote wrong elements into an argument, if that is not known.
    pub fn unknown_output(&self, task: usize, arg_index: u16) -> Option<&str> {
        let undecided = self.outputs.get(&OutputRef { task, arg_index })?.undecided;
        undecided.map(|reason| self.reason(reason))
    }

    /// Arguments that differ at a stage because of something that happened in the run. Memory that only a word inside a
    /// value points to counts only where its task wrote it: other errors there are shown by the tasks that made them.
    pub fn counting(&self, graph: &TaskGraph) -> HashSet<(usize, u16, DumpStage)> {
        let is_candidate = |task: usize, arg_index: u16| {
            graph.task(task).argument(arg_index).is_some_and(|arg| arg.is_candidate())
        };
        let inputs = self.inputs.iter().filter(|((task, arg_index), input)| {
            let is_by_order = |origin| {
                let is_of_holder = matches!(
                    origin,
                    ErrorOrigin::Changed(_) | ErrorOrigin::Misplaced(_) | ErrorOrigin::NotCompared(_)
                );
                input.is_unordered && is_of_holder
            };
            let mut origins = input.marks.0.iter().map(|mark| mark.origin);
            !is_candidate(*task, *arg_index)
                && origins.any(|origin| origin.is_of_run() && !is_by_order(origin))
        });
        let inputs = inputs.map(|((task, arg_index), _)| (*task, *arg_index, DumpStage::BeforeDispatch));
        let outputs = self.outputs.iter().filter(|(output, found)| {
            let is_candidate = is_candidate(output.task, output.arg_index);
            let counts = |origin: ErrorOrigin| match is_candidate {
                true => origin == ErrorOrigin::Written(**output),
                false => origin.is_of_run(),
            };
            found.marks.0.iter().any(|mark| counts(mark.origin))
        });
        let outputs = outputs.map(|(output, _)| (output.task, output.arg_index, DumpStage::AfterCompletion));
        inputs.chain(outputs).collect()
    }

    /// The arguments for which the task wrote wrong elements, and those for which that remains open.
    pub fn wrong_outputs(&self) -> WrongOutputs {
        let of = |is: &dyn Fn(&OutputRef, &OutputEvidence) -> bool| {
            let found = self.outputs.iter().filter(|(output, found)| is(output, found));
            found.map(|(output, _)| (output.task, output.arg_index)).collect()
        };
        WrongOutputs {
            written: of(&|output, found| {
                !found.is_by_hash && self.wrote_wrong(output.task, output.arg_index)
            }),
            written_by_hash: of(&|output, found| {
                found.is_by_hash && self.wrote_wrong(output.task, output.arg_index)
            }),
            open: of(&|_, found| found.is_open),
        }
    }

    /// The positions of an argument that differ at a stage.
    pub fn differing(&self, task: usize, arg_index: u16, stage: DumpStage) -> Spans {
        let marks = match stage {
            DumpStage::BeforeDispatch => self.inputs.get(&(task, arg_index)).map(|input| &input.marks),
            DumpStage::AfterCompletion => {
                self.outputs.get(&OutputRef { task, arg_index }).map(|output| &output.marks)
            }
        };
        marks.map(Marks::spans).unwrap_or_default()
    }

    /// The text of a reason.
    pub fn reason(&self, number: u32) -> &str {
        self.reasons.get(number as usize).map_or("it is not known", String::as_str)
    }

    fn has_origin(&self, output: OutputRef, is: impl Fn(ErrorOrigin) -> bool) -> bool {
        self.outputs.get(&output).is_some_and(|found| found.marks.0.iter().any(|mark| is(mark.origin)))
    }

    fn unknown(&mut self, reason: impl Into<String>) -> ErrorOrigin {
        ErrorOrigin::Unknown(self.number_of(reason))
    }

    /// The origin of content that a task left in an argument that was not compared. A declared output is written whole.
    fn not_compared(&mut self, left_in: Argument<'_>, reason: impl Into<String>) -> ErrorOrigin {
        let reason = self.number_of(reason);
        match left_in.role_known && left_in.role == Role::Output {
            true => ErrorOrigin::NotCompared(reason),
            false => ErrorOrigin::Unknown(reason),
        }
    }

    fn number_of(&mut self, reason: impl Into<String>) -> u32 {
        let reason = reason.into();
        // Neighboring arguments often have the same reason.
        let known = self.reasons.iter().rev().take(8).position(|known| *known == reason);
        let number = known.map_or(self.reasons.len(), |back| self.reasons.len() - 1 - back);
        if known.is_none() {
            self.reasons.push(reason);
        }
        u32::try_from(number).unwrap_or(u32::MAX)
    }
}

/// A dump with its task graph.
#[derive(Clone, Copy)]
pub(crate) struct Recording<'r> {
    pub dump: &'r Dump,
    pub graph: &'r TaskGraph,
}

/// A task argument and the same argument of the golden's task.
#[derive(Clone, Copy)]
struct ArgPair<'r> {
    task: Task<'r>,
    arg: Argument<'r>,
    partner: Task<'r>,
    other: Argument<'r>,
}

impl ArgPair<'_> {
    fn output(&self) -> OutputRef {
        OutputRef { task: self.task.place(), arg_index: self.arg.arg_index }
    }

    /// Size of the packed content in half-bytes.
    fn end(&self) -> u64 {
        self.arg.content_bytes().unwrap_or(0).saturating_mul(2).max(1)
    }
}

/// Gathers the evidence of a dump.
pub(crate) struct Gatherer<'r> {
    ours: Recording<'r>,
    golden: Recording<'r>,
    matching: &'r Matching,
    rules: &'r RuleTable<'r>,
    right_runs: &'r RightRuns<'r>,
    /// The golden may have other float dtypes.
    across: bool,
    evidence: Evidence,
    /// The last outputs in each place, also if the memory was freed since. `None` if the dump has no allocations.
    earlier: Option<WriteMap>,
    /// When the tasks of both runs ran, if they are programs. Used for arguments with known roles.
    times: Option<[Races<'r>; 2]>,
    /// Whether several threads or queues of one run have tasks.
    has_threads: bool,
    /// By run and task: whether a task that the dump lacks may have run at the same time.
    beside_missing: [Vec<bool>; 2],
    /// Whether a dump lacks records of its run.
    lacks_records: bool,
}

impl<'r> Gatherer<'r> {
    pub fn new(
        (ours, golden): (Recording<'r>, Recording<'r>),
        matching: &'r Matching,
        (rules, right_runs): (&'r RuleTable<'r>, &'r RightRuns<'r>),
        across: bool,
    ) -> Gatherer<'r> {
        let their_gap = golden.graph.gap.as_ref().map(|gap| format!("in the golden, {gap}"));
        let evidence = Evidence { gap: ours.graph.gap.clone().or(their_gap), ..Evidence::default() };
        let has_allocations = ours.graph.observations().is_some() && !ours.graph.tasks().renewed().is_empty();
        let earlier = has_allocations.then(|| WriteMap::of(ours.graph.tasks().argument_count()));
        Gatherer {
            ours,
            golden,
            matching,
            rules,
            right_runs,
            across,
            evidence,
            earlier,
            times: None,
            has_threads: false,
            beside_missing: [Vec::new(), Vec::new()],
            lacks_records: false,
        }
    }

    /// Visits every task in dependency order. `check_canceled` may unwind.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn gather(
        mut self,
        statuses: &[TaskStatus],
        check_canceled: &dyn Fn(),
    ) -> Result<Evidence, FormatError> {
        if statuses.iter().any(TaskStatus::has_outside) {
            self.note_concurrency();
        }
        for task in self.ours.graph.tasks().iter() {
            let place = task.place();
            match (&statuses[place], self.matching.partner[place]) {
                (TaskStatus::Compared(args), Some(partner)) => {
                    self.visit_pair(task, self.golden.graph.task(partner), args)?;
                    check_canceled();
                }
                (TaskStatus::Unmatched(reason), _) => {
                    self.visit_unmatched(task, reason)?;
                    self.note_writes(task);
                }
                (TaskStatus::Compared(_), None) => {}
            }
        }
        Ok(self.evidence)
    }

    /// Notes when tasks ran. Runs without differences do not need it.
    fn note_concurrency(&mut self) {
        let runs = [self.ours, self.golden];
        let are_programs = runs.iter().all(|run| run.graph.others_write);
        self.times = are_programs.then(|| runs.map(|run| Races::of(run.graph)));
        self.has_threads = runs.iter().any(|run| run.graph.has_several_lanes());
        if are_programs && self.has_threads {
            self.beside_missing = runs.map(|run| beside_missing(run.graph));
        }
        self.lacks_records = runs.iter().any(|run| lacks_records(run.dump));
    }

    fn visit_pair(
        &mut self,
        task: Task<'r>,
        partner: Task<'r>,
        args: &[ArgStatus],
    ) -> Result<(), FormatError> {
        for (arg, status) in task.arguments().zip(args).filter(|(arg, _)| !arg.is_scalar()) {
            match partner.counterpart(arg) {
                Some(other) => {
                    self.visit(ArgPair { task, arg, partner, other }, (&status.before, &status.after))?;
                }
                None => self.visit_alone(task, arg, status)?,
            }
        }
        // What a task read follows from everything that it left.
        for arg in task.arguments() {
            let Some(other) = partner.counterpart(arg) else { continue };
            let used = self.uninitialized_use(ArgPair { task, arg, partner, other })?;
            if let Some(input) = self.evidence.inputs.get_mut(&(task.place(), arg.arg_index)) {
                input.uninitialized = used;
            }
        }
        self.note_writes(task);
        Ok(())
    }

    fn visit(&mut self, pair: ArgPair<'r>, (before, after): (&Status, &Status)) -> Result<(), FormatError> {
        let key = (pair.task.place(), pair.arg.arg_index);
        let input = match before {
            Status::Outside => Some(self.input_evidence(pair)?),
            Status::Within | Status::Unknown(_) | Status::NotApplicable => None,
        };
        let output = match after {
            Status::Outside => Some(self.output_evidence(pair, (before, input.as_ref()))?),
            Status::Unknown(reason) => {
                let origin = self.evidence.not_compared(pair.arg, reason.clone());
                Some(OutputEvidence::of(Marks::all(pair.end(), origin)))
            }
            Status::Within | Status::NotApplicable => None,
        };
        let shared =
            if input.is_some() || output.is_some() { self.written_meanwhile(pair) } else { Spans::default() };
        let input = input.map(|input| {
            let holders = self.ours.graph.last_holders(pair.arg);
            InputEvidence { is_near: holders.iter().any(|&holder| self.left_near(holder)), ..input }
        });
        let meanwhile = if self.is_beside_missing(pair) { MISSING_MEANWHILE } else { MEANWHILE };
        if let Some(mut output) = output {
            output.changed_only_here = !pair.arg.is_unchanged() && pair.other.is_unchanged();
            output.is_near |= input.as_ref().is_some_and(|input| input.is_near);
            if !shared.is_empty() {
                let reason = self.evidence.number_of(meanwhile);
                let is_doubted = output.marks.doubt(&shared, ErrorOrigin::Unknown(reason));
                output.undecided = output.undecided.or(is_doubted.then_some(reason));
                output.is_open |= is_doubted;
            }
            self.evidence.outputs.insert(pair.output(), output);
        }
        if let Some(mut input) = input {
            if !shared.is_empty() {
                let reason = self.evidence.unknown(meanwhile);
                input.marks.doubt(&shared, reason);
            }
            input.is_unordered = !self.is_ordered(pair);
            // A candidate that the task changed in both runs is used for certain.
            if !is_used(pair.arg, pair.other) {
                self.doubt_candidate(&mut input);
            }
            self.evidence.inputs.insert(key, input);
        }
        Ok(())
    }

    /// Whether a task left elements that are within their rule, but not equal.
    fn left_near(&self, holder: OutputRef) -> bool {
        if let Some(output) = self.evidence.outputs.get(&holder) {
            return output.is_near;
        }
        let written = self.ours.graph.output(holder);
        let partner = self.matching.partner[holder.task].map(|partner| self.golden.graph.task(partner));
        let golden = written.zip(partner).and_then(|(written, partner)| partner.counterpart(written));
        let hashes = written.and_then(|arg| arg.hash_after()).zip(golden.and_then(|arg| arg.hash_after()));
        hashes.is_some_and(|(ours, golden)| ours != golden)
    }

    /// Whether in both runs, the order of a task and of all others that may have written an argument of unknown role is known.
    fn is_ordered(&self, pair: ArgPair<'r>) -> bool {
        let of_run = |run: Recording<'_>, task, arg| {
            run.graph.observations().is_none_or(|seen| seen.unordered(task, arg).is_none())
        };
        of_run(self.ours, pair.task, pair.arg) && of_run(self.golden, pair.partner, pair.other)
    }

    /// Whether a task that a dump lacks may have run at the same time as the task of a pair.
    fn is_beside_missing(&self, pair: ArgPair<'r>) -> bool {
        let places = [pair.task.place(), pair.partner.place()];
        self.beside_missing.iter().zip(places).any(|(run, place)| run.get(place) == Some(&true))
    }

    /// The positions of an argument that tasks declare to write which ran at the same time, in one of the runs. Its content
    /// before and after the task may contain what they wrote, or not. A task that was not captured may be one of them.
    fn written_meanwhile(&self, pair: ArgPair<'r>) -> Spans {
        let is_ambiguous = |run: Recording<'_>, arg| {
            run.graph.observations().is_some_and(|seen| seen.ambiguity(arg).is_some())
        };
        // What one of the dumps lacks may have ordered its tasks.
        let is_disturbed = self.lacks_records
            && (is_ambiguous(self.ours, pair.arg) || is_ambiguous(self.golden, pair.other));
        let is_declared = pair.arg.role_known && self.times.is_some();
        let may_share = !pair.arg.role_known || pair.arg.role == Role::InOut;
        if is_disturbed || may_share && self.is_beside_missing(pair) {
            return Spans::up_to(pair.end());
        }
        let Some([ours, golden]) = self.times.as_ref().filter(|_| is_declared) else {
            return Spans::default();
        };
        let of_run = |times: &Races<'_>, task: Task<'_>, arg| {
            let Some(own) = TensorView::of(arg).and_then(|view| pieces(&view)) else {
                return Spans::default();
            };
            let written = times.written_meanwhile(task.place());
            let written = written.iter().filter_map(|view| Some(covered_by(&own, &pieces(view)?)));
            written.fold(Spans::default(), |all, part| all.or(&part))
        };
        let (here, there) = (of_run(ours, pair.task, pair.arg), of_run(golden, pair.partner, pair.other));
        // A task that only reads runs too early if it does so only here.
        if pair.arg.role == Role::Input { here.and(&there) } else { here.or(&there) }
    }

    /// An argument that the golden did not capture. Its status before the task may follow from its producers.
    fn visit_alone(
        &mut self,
        task: Task<'r>,
        arg: Argument<'r>,
        status: &ArgStatus,
    ) -> Result<(), FormatError> {
        if status.before == Status::Outside
            && let Some(origin) = self.wrong_part(task, arg)?
        {
            let marks = Marks::all(arg.content_bytes().unwrap_or(0).saturating_mul(2).max(1), origin);
            let input = InputEvidence { marks, ..InputEvidence::default() };
            self.evidence.inputs.insert((task.place(), arg.arg_index), input);
        }
        if arg.is_candidate() {
            return self.visit_candidate_alone(task, arg);
        }
        self.not_compared(task, arg, "the golden did not capture this argument");
        Ok(())
    }

    /// A task that the golden does not have. If it received something wrong, what it left is wrong for that reason.
    /// Otherwise its outputs get no origin here: if a later task receives wrong content from it, that is
    /// [`Misplaced`](ErrorOrigin::Misplaced).
    fn visit_unmatched(&mut self, task: Task<'r>, reason: &str) -> Result<(), FormatError> {
        let is_uncertain = self.matching.uncertain.contains_key(&task.place());
        if self.evidence.gap.is_some() || is_uncertain {
            let reason = format!("task {:#x} has no certain partner: {reason}", task.task_id);
            task.arguments().for_each(|arg| self.not_compared(task, arg, &reason));
            return Ok(());
        }
        let mut received: Option<ErrorOrigin> = None;
        for arg in task.inputs().filter(|arg| !arg.is_scalar()) {
            received = received.or(self.wrong_part(task, arg)?);
        }
        let Some(received) = received else { return Ok(()) };
        for arg in task.outputs().filter(|arg| !arg.is_scalar()) {
            let output = OutputRef { task: task.place(), arg_index: arg.arg_index };
            let is_unknown = received.unknown_reason().is_some();
            let origin = if is_unknown { received } else { ErrorOrigin::Passed(output) };
            let end = arg.content_bytes().unwrap_or(0).saturating_mul(2).max(1);
            self.evidence.outputs.insert(output, OutputEvidence::of(Marks::all(end, origin)));
        }
        Ok(())
    }

    /// Notes where a task may have written.
    fn note_writes(&mut self, task: Task<'_>) {
        let Some(earlier) = &mut self.earlier else { return };
        for arg in task.outputs().filter(|arg| !arg.is_scalar()) {
            if let Some(view) = TensorView::of(arg) {
                earlier.insert(OutputRef { task: task.place(), arg_index: arg.arg_index }, view);
            }
        }
    }

    /// Notes that the content which a task left in an argument was not compared.
    fn not_compared(&mut self, task: Task<'_>, arg: Argument<'_>, reason: &str) {
        if arg.role.writes() && !arg.is_scalar() {
            let origin = self.evidence.not_compared(arg, reason);
            let end = arg.content_bytes().unwrap_or(0).saturating_mul(2).max(1);
            let output = OutputRef { task: task.place(), arg_index: arg.arg_index };
            self.evidence.outputs.insert(output, OutputEvidence::of(Marks::all(end, origin)));
        }
    }
}
