//! Gathers the evidence of a dump: visits every task in dependency order.

use tensortap_abi::Role;
use tensortap_format::{Argument, Dump, FormatError, Task};

use super::inputs::covered_by;
use super::marks::{ErrorOrigin, Marks};
use super::missing_tasks::beside_missing;
use super::{Evidence, InputEvidence, OutputEvidence, Spans};
use crate::blame::observed::lacks_records;
use crate::blame::{RightRuns, RuleTable};
use crate::graph::candidates::is_used;
use crate::graph::view::pieces;
use crate::graph::{OutputRef, TaskGraph, TensorView, WriteMap};
use crate::labels::{ArgStatus, Races, Status, TaskStatus};
use crate::matching::Matching;

const MEANWHILE: &str = "another task that declares to write there ran at the same time";
const MISSING_MEANWHILE: &str = "a task that a dump lacks may have run at the same time and written there";

/// A dump with its task graph.
#[derive(Clone, Copy)]
pub(crate) struct Recording<'r> {
    pub dump: &'r Dump,
    pub graph: &'r TaskGraph,
}

/// A task argument and the same argument of the golden's task.
#[derive(Clone, Copy)]
pub(super) struct ArgPair<'r> {
    pub task: Task<'r>,
    pub arg: Argument<'r>,
    pub partner: Task<'r>,
    pub other: Argument<'r>,
}

impl ArgPair<'_> {
    pub fn output(&self) -> OutputRef {
        OutputRef { task: self.task.place(), arg_index: self.arg.arg_index }
    }

    /// Size of the packed content in half-bytes.
    pub fn end(&self) -> u64 {
        self.arg.content_bytes().unwrap_or(0).saturating_mul(2).max(1)
    }
}

/// Gathers the evidence of a dump.
pub(crate) struct Gatherer<'r> {
    pub(super) ours: Recording<'r>,
    pub(super) golden: Recording<'r>,
    pub(super) matching: &'r Matching,
    pub(super) rules: &'r RuleTable<'r>,
    pub(super) right_runs: &'r RightRuns<'r>,
    /// The golden may have other float dtypes.
    pub(super) across: bool,
    pub(super) evidence: Evidence,
    /// The last outputs in each place, also if the memory was freed since. `None` if the dump has no allocations.
    pub(super) earlier: Option<WriteMap>,
    /// When the tasks of both runs ran, if they are programs. Used for arguments with known roles.
    pub(super) times: Option<[Races<'r>; 2]>,
    /// Whether several threads or queues of one run have tasks.
    pub(super) has_threads: bool,
    /// By run and task: whether a task that the dump lacks may have run at the same time.
    pub(super) beside_missing: [Vec<bool>; 2],
    /// Whether a dump lacks records of its run.
    pub(super) lacks_records: bool,
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
    pub(super) fn is_ordered(&self, pair: ArgPair<'r>) -> bool {
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
    pub(super) fn not_compared(&mut self, task: Task<'_>, arg: Argument<'_>, reason: &str) {
        if arg.role.writes() && !arg.is_scalar() {
            let origin = self.evidence.not_compared(arg, reason);
            let end = arg.content_bytes().unwrap_or(0).saturating_mul(2).max(1);
            let output = OutputRef { task: task.place(), arg_index: arg.arg_index };
            self.evidence.outputs.insert(output, OutputEvidence::of(Marks::all(end, origin)));
        }
    }
}
