//! Labels tasks one after the other, in dependency order. See [`super`] for the rules.

use std::collections::HashSet;

use tensortap_abi::Role;
use tensortap_format::{Argument, Edge, Task};

use super::race::Races;
use super::regions::label_regions;
use super::{ArgStatus, Finding, InputFacts, Label, Race, Status, TaskStatus};
use crate::blame::values::is_value;
use crate::graph::{OriginBasis, OutputRef, TaskGraph};
use crate::provenance::InputProvenance;

/// What a label rests on if nothing was captured before the tasks. [`Finding::rests_on_edges`] looks for this
/// prefix.
pub(super) const ONLY_OUTPUTS: &str = "only outputs were captured, so the label rests on dependencies";

/// Why a task with a wrong output is not judged if nothing was captured before it and all its producers are right.
const NO_INPUTS: &str = "nothing was captured before the task, so an input may be wrong too; \
                         record without `--dump-stage after`";

/// The task left elements as they were that the golden's task changed.
const STALE: &str = "the task did not write elements that it writes in the golden";

/// Labels every task. `statuses` has one entry per task. `provenance` compares an input outside its rule with
/// its producers' outputs.
pub fn label_tasks(
    graph: &TaskGraph,
    statuses: &[TaskStatus],
    inputs: &InputFacts,
    provenance: impl Fn(usize, Argument<'_>) -> InputProvenance,
) -> Vec<Finding> {
    Labeler::new(graph, statuses, inputs, provenance, false).label_all()
}

/// Like [`label_tasks`], for outputs that were compared with what each task should have computed from its own
/// captured inputs. Then a task with a wrong output is `wrong_here` whatever its inputs are.
pub fn label_isolated(
    graph: &TaskGraph,
    statuses: &[TaskStatus],
    provenance: impl Fn(usize, Argument<'_>) -> InputProvenance,
) -> Vec<Finding> {
    Labeler::new(graph, statuses, &InputFacts::default(), provenance, true).label_all()
}

pub(super) struct Labeler<'a, C> {
    pub(super) graph: &'a TaskGraph,
    pub(super) races: Races<'a>,
    pub(super) statuses: &'a [TaskStatus],
    pub(super) inputs: &'a InputFacts,
    pub(super) provenance: C,
    /// Outputs were judged by the captured inputs, so errors are not inherited.
    isolated: bool,
    /// Arguments that were set aside.
    pub(super) set_aside: HashSet<OutputRef>,
    /// By task labeled so far: whether an error reached it.
    reached: Vec<bool>,
    /// By task labeled so far.
    pub(super) labels: Vec<Label>,
    /// With unknown roles: the first task through which the host read something wrong. Later host writes may
    /// result from it.
    pub(super) host_read: Option<usize>,
}

/// Why an input is outside its rule.
pub(super) enum Cause {
    /// The producer's output is wrong.
    Inherited,
    Raced(Race),
    /// No captured task wrote it.
    Fed(String),
    Unknown(String),
    /// It is what its producer wrote, and the producer's output is within its own rule.
    Within,
}

impl<'a, C: Fn(usize, Argument<'_>) -> InputProvenance> Labeler<'a, C> {
    fn new(
        graph: &'a TaskGraph,
        statuses: &'a [TaskStatus],
        inputs: &'a InputFacts,
        provenance: C,
        isolated: bool,
    ) -> Self {
        Labeler {
            graph,
            races: Races::of(graph),
            statuses,
            inputs,
            provenance,
            isolated,
            set_aside: HashSet::new(),
            reached: Vec::new(),
            labels: Vec::new(),
            host_read: None,
        }
    }

    fn label_all(&mut self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = (0..self.graph.len())
            .map(|task| {
                if self.graph.task(task).contains_tasks() {
                    // It has neither inputs nor outputs of its own; see `label_regions`.
                    self.reached.push(false);
                    self.labels.push(Label::Ok);
                    return finding(Label::Ok, None, None);
                }
                let found = self.label(task);
                let is_wrong = !matches!(found.label, Label::Ok | Label::Unknown);
                if is_wrong && self.host_read.is_none() && self.is_host_read(task) {
                    self.host_read = Some(task);
                }
                let is_reached = is_wrong && !(found.label == Label::Masked && self.is_only_noise(task));
                self.reached.push(is_reached || self.near_equal_error(task).is_some());
                self.labels.push(found.label);
                found
            })
            .collect();
        label_regions(self.graph, self.statuses, &mut findings);
        findings
    }

    /// Whether a task with right outputs received nothing wrong but values, in a run with noise: then noise explains that
    /// its outputs are not equal.
    fn is_only_noise(&self, task: usize) -> bool {
        let TaskStatus::Compared(statuses) = &self.statuses[task] else { return false };
        let node = self.graph.task(task);
        let mut outside = node.arguments().zip(statuses).filter(|(_, s)| s.before == Status::Outside);
        self.inputs.is_noisy && outside.all(|(arg, _)| arg.is_scalar() || is_value(self.graph, node, arg))
    }

    /// An input that is within its rule but not equal, together with its producer, if an error reached the
    /// producer.
    fn near_equal_error(&self, task: usize) -> Option<(u16, usize)> {
        self.graph.task(task).inputs().find_map(|arg| {
            let is_near = self.inputs.near.contains(&(task, arg.arg_index));
            let mut outputs = self.graph.producers_of(arg).iter().filter(|_| is_near);
            let from = outputs.find(|output| self.reached.get(output.task) == Some(&true))?;
            Some((arg.arg_index, from.task))
        })
    }

    fn label(&mut self, task: usize) -> Finding {
        let statuses = match &self.statuses[task] {
            TaskStatus::Unmatched(reason) => return finding(Label::Unknown, Some(reason.clone()), None),
            TaskStatus::Compared(statuses) => statuses,
        };
        let graph = self.graph;
        let node = graph.task(task);
        let set_aside = self.set_aside(task, node, statuses);
        let args: Vec<_> =
            node.arguments().zip(statuses).filter(|(a, _)| !set_aside.contains(&a.arg_index)).collect();
        let found = self.replace_by_likely_race(task, &args, self.judge(task, node, &args));
        // A task that is named may have read the memory that it left alone. In a scene, that is scratch memory.
        if matches!(found.label, Label::WrongHere | Label::Fed) && self.inputs.evidence.is_some() {
            let is_scratch = |arg: Argument<'_>| arg.role_known && !self.graph.others_write;
            let is_left = |arg: Argument<'_>| is_scratch(arg) && set_aside.contains(&arg.arg_index);
            let args: Vec<_> = node.arguments().zip(statuses).filter(|(arg, _)| !is_left(*arg)).collect();
            let again = self.judge(task, node, &args);
            if again.label != found.label {
                return Finding { set_aside, ..again };
            }
        }
        Finding { set_aside, ..found }
    }

    /// In-out arguments that have no producer and that the task left unchanged.
    fn set_aside(&mut self, task: usize, node: Task<'_>, statuses: &[ArgStatus]) -> Vec<u16> {
        let mut set_aside = Vec::new();
        for (arg, status) in node.arguments().zip(statuses) {
            let differs = arg.role == Role::InOut && status.before == Status::Outside;
            // With unknown roles the golden must agree that no task writes the memory, because the order may
            // be incomplete.
            let is_unowned = || match self.graph.observations() {
                Some(_) => self.inputs.uninitialized.contains(&(task, arg.arg_index)),
                None => self.races.overwriter(task, arg).is_none(),
            };
            // The golden's task wrote it and this one did not: that is no garbage that the task left alone.
            let evidence = self.inputs.evidence.as_ref();
            let is_missing = evidence.is_some_and(|found| found.wrote_wrong(task, arg.arg_index));
            if differs && arg.is_unchanged() && !is_missing && self.has_no_producer(arg) && is_unowned() {
                self.set_aside.insert(OutputRef { task, arg_index: arg.arg_index });
                set_aside.push(arg.arg_index);
            }
        }
        set_aside
    }

    fn has_no_producer(&self, arg: Argument<'_>) -> bool {
        let origin = self.graph.origin(arg);
        !matches!(origin.basis, OriginBasis::Nothing | OriginBasis::Undecided)
            && origin.outputs.iter().all(|output| self.set_aside.contains(output))
    }

    fn judge(&self, task: usize, node: Task<'_>, args: &[(Argument<'_>, &ArgStatus)]) -> Finding {
        let outside: Vec<(Argument<'_>, Cause)> = args
            .iter()
            .filter(|(arg, s)| s.before == Status::Outside || self.is_possible_input(task, *arg))
            .map(|(arg, _)| (*arg, self.cause(task, *arg)))
            .filter(|(_, cause)| !matches!(cause, Cause::Within))
            .collect();
        let at = |arg: &Argument<'_>| Some(arg.arg_index);
        // With unknown roles, an argument that the task left unchanged is not wrong here, unless it should
        // have been another buffer.
        let is_other = |arg: &Argument<'_>| self.inputs.other_buffers.contains_key(&(task, arg.arg_index));
        let is_left = |arg: &Argument<'_>, s: &ArgStatus| {
            !arg.role_known && arg.is_unchanged() && s.before == Status::Outside && !is_other(arg)
        };
        let wrong = match &self.inputs.evidence {
            Some(evidence) => self.wrong_argument(evidence, task, args),
            None => {
                let wrong = args.iter().find(|(arg, s)| s.after == Status::Outside && !is_left(arg, s));
                wrong.map(|(arg, _)| (*arg, true))
            }
        };
        if let Some((wrong, _)) = wrong.filter(|_| self.isolated) {
            return self.wrong_here(task, wrong);
        }
        // A program may read less than it declares. Without a wrong output, an early read is no race.
        let shows_race = !self.graph.others_write
            || self.inputs.evidence.is_none()
            || wrong.is_some_and(|(_, is_own)| is_own);
        if let Some((arg, race)) = outside.iter().filter(|_| shows_race).find_map(|(a, c)| match c {
            Cause::Raced(race) => Some((a, *race)),
            _ => None,
        }) {
            return Finding { race: Some(race), ..finding(Label::Raced, None, at(arg)) };
        }
        if let Some((wrong, is_own)) = wrong {
            if let Some((arg, _)) = outside.iter().find(|(_, c)| matches!(c, Cause::Inherited)) {
                return finding(Label::Inherited, None, at(arg));
            }
            if let Some((arg, reason)) = outside.iter().find_map(|(a, c)| match c {
                Cause::Unknown(reason) => Some((a, reason)),
                _ => None,
            }) {
                return finding(Label::Unknown, Some(reason.clone()), at(arg));
            }
            let likely_races = self.inputs.likely_races.as_ref();
            if let Some((_, words)) =
                likely_races.and_then(|races| races.get(&(task, wrong.arg_index))).filter(|_| !self.isolated)
            {
                return finding(Label::Unknown, Some(words.clone()), at(&wrong));
            }
            // An input that was not captured may be the cause, rather than one that differs.
            let missing = self.missing_input(node, args).filter(|_| !self.is_without_inputs(node));
            if let Some(reason) = missing.filter(|_| self.inputs.evidence.is_some()) {
                return finding(Label::Unknown, Some(reason), at(&wrong));
            }
            if let Some((arg, what)) = self.first_fed(node, &outside) {
                // A value or uninitialized memory is a cause only if nothing else is.
                let is_doubtful = !arg.role_known
                    || arg.is_scalar()
                    || is_value(self.graph, node, *arg)
                    || self.inputs.uninitialized.contains(&(task, arg.arg_index));
                if let Some(found) = self.amplified(task).filter(|_| is_doubtful) {
                    return found;
                }
                return finding(Label::Fed, Some(format!("argument {} is {what}", arg.arg_index)), at(arg));
            }
            if self.is_host_write(node) {
                return self.written_by_host(task, wrong);
            }
            if !is_own {
                let reason = "an argument is wrong, but the task did not write the wrong elements";
                return finding(Label::Unknown, Some(reason.into()), at(&wrong));
            }
            if self.is_without_inputs(node) {
                return self.by_edges(node, wrong);
            }
            if let Some(reason) = self.missing_input(node, args) {
                return finding(Label::Unknown, Some(reason), at(&wrong));
            }
            return self.amplified_or_wrong_here(task, wrong);
        }
        if let Some(found) = self.misdirected(task, args).or_else(|| self.read_by_host(task, &outside)) {
            return found;
        }
        let undecided =
            self.inputs.evidence.as_ref().and_then(|found| self.undecided_output(found, node, args));
        if let Some(found) = undecided {
            return found;
        }
        if let Some(reason) = missing_output(node, args) {
            return finding(Label::Unknown, Some(reason), None);
        }
        match outside.first() {
            Some((arg, _)) => finding(Label::Masked, None, at(arg)),
            None => finding(Label::Ok, None, None),
        }
    }

    /// The first argument that the task was fed. Values are a cause only if no memory is.
    fn first_fed<'o, 'g>(
        &self,
        node: Task<'_>,
        outside: &'o [(Argument<'g>, Cause)],
    ) -> Option<(&'o Argument<'g>, &'o str)> {
        let fed = outside.iter().filter_map(|(arg, cause)| match cause {
            Cause::Fed(what) => Some((arg, what.as_str())),
            _ => None,
        });
        fed.min_by_key(|(arg, _)| arg.is_scalar() || is_value(self.graph, node, **arg))
    }

    /// Whether a candidate without a counterpart in the golden holds something wrong.
    fn is_possible_input(&self, task: usize, arg: Argument<'_>) -> bool {
        let evidence = self.inputs.evidence.as_ref();
        arg.is_candidate() && evidence.is_some_and(|found| found.input(task, arg.arg_index).is_some())
    }

    /// The label of a wrong task whose inputs are within their rules: `wrong_here`, unless an input carries
    /// another task's error within its rule, because correct kernels can amplify errors.
    fn amplified_or_wrong_here(&self, task: usize, wrong: Argument<'_>) -> Finding {
        let found = self.wrong_here(task, wrong);
        let is_stale =
            self.inputs.evidence.as_ref().is_some_and(|found| found.is_stale(task, wrong.arg_index));
        let found = match (found.label, &found.reason) {
            (Label::WrongHere, None) if is_stale => Finding { reason: Some(STALE.into()), ..found },
            _ => found,
        };
        match self.near_equal_error(task).filter(|_| found.label == Label::WrongHere) {
            None if found.label == Label::WrongHere => self.amplified(task).unwrap_or(found),
            None => found,
            Some((arg_index, from)) => {
                let from = self.graph.task(from).task_id;
                let reason = format!(
                    "argument {arg_index} is within its rule but not equal to the golden, and came from \
                     task {from:#x}, which is wrong"
                );
                Finding { is_amplified: true, ..finding(Label::Inherited, Some(reason), Some(arg_index)) }
            }
        }
    }

    /// The label of a wrong task with an input that is within its rule but not equal, in runs that are equal otherwise: a
    /// right kernel may have amplified the difference. Where noise is usual, rules decide.
    fn amplified(&self, task: usize) -> Option<Finding> {
        let is_near = |arg: &Argument<'_>| self.inputs.near.contains(&(task, arg.arg_index));
        let arg = self.graph.task(task).inputs().filter(|_| !self.inputs.is_noisy).find(is_near)?;
        let from = self.graph.producers_of(arg).first().map(|output| self.graph.task(output.task).task_id);
        let from = from.map_or_else(String::new, |from| format!(" came from task {from:#x} and"));
        let reason = format!(
            "argument {}{from} is within its rule but not equal to the golden; a right kernel may amplify such a difference",
            arg.arg_index
        );
        let found = finding(Label::Unknown, Some(reason), Some(arg.arg_index));
        Some(Finding { is_amplified: true, ..found })
    }

    /// The label of a task with right inputs and a wrong output: `wrong_here`, unless another task wrote to
    /// its memory while it ran.
    fn wrong_here(&self, task: usize, wrong: Argument<'_>) -> Finding {
        if let Some(seen) = self.graph.observations() {
            return self.observed_wrong_here(seen, task, wrong);
        }
        let at = Some(wrong.arg_index);
        match self.races.overlapping(task) {
            Some(race) if self.graph.others_write || self.inputs.golden_times.overlap(task, race.other) => {
                finding(Label::Unknown, Some(self.overlap_words(race.other)), at)
            }
            Some(race) => Finding { race: Some(race), ..finding(Label::Raced, None, at) },
            None => finding(Label::WrongHere, None, at),
        }
    }

    /// A program may order two tasks, or divide their memory between them, in ways that were not recorded. So running at
    /// the same time proves no race.
    fn overlap_words(&self, other: usize) -> String {
        let id = self.graph.task(other).task_id;
        format!("task {id:#x} ran at the same time and declares that it writes memory of this task")
    }

    /// Whether nothing was captured before the task, as with `--dump-stage after`, but its dependencies show its
    /// producers.
    fn is_without_inputs(&self, node: Task<'_>) -> bool {
        node.arguments().all(|arg| arg.before.is_none()) && self.graph.has_derived_edges
    }

    /// The label of a wrong task with only captured outputs: `inherited` if the output of a producer is wrong.
    /// Otherwise it is not known whether something that the task read was wrong.
    fn by_edges(&self, node: Task<'_>, wrong: Argument<'_>) -> Finding {
        let carries = |edge: &&Edge| !matches!(edge.why, "write_after_write" | "write_after_read");
        let producers = node.producers().filter(carries);
        let wrong_producer = producers
            .filter_map(|edge| self.graph.position(edge.producer()))
            .filter(|&place| self.any_output(place, |s| *s == Status::Outside))
            .min();
        let at = Some(wrong.arg_index);
        match wrong_producer {
            Some(place) => {
                let producer = self.graph.task(place).task_id;
                let words = format!("task {producer:#x}, which this task waited for, is wrong");
                finding(Label::Inherited, Some(format!("{ONLY_OUTPUTS}: {words}")), at)
            }
            None => finding(Label::Unknown, Some(NO_INPUTS.into()), at),
        }
    }

    fn any_output(&self, place: usize, is: impl Fn(&Status) -> bool) -> bool {
        match &self.statuses[place] {
            TaskStatus::Compared(statuses) => statuses.iter().any(|status| is(&status.after)),
            TaskStatus::Unmatched(_) => false,
        }
    }

    /// The cause of an input outside its rule.
    fn cause(&self, task: usize, arg: Argument<'_>) -> Cause {
        if arg.is_scalar() {
            return match self.inputs.harmless_scalars.contains(&(task, arg.arg_index)) {
                true => Cause::Within,
                false => Cause::Fed("a scalar that differs".into()),
            };
        }
        if let Some(evidence) = &self.inputs.evidence {
            return match is_value(self.graph, self.graph.task(task), arg) {
                true if self.inputs.other_values.contains(&(task, arg.arg_index)) => {
                    Cause::Fed("a value that differs".into())
                }
                // Only addresses differ.
                true => Cause::Within,
                false => self.cause_by_evidence(evidence, task, arg),
            };
        }
        if let Some(seen) = self.graph.observations() {
            return self.observed_cause(seen, task, arg);
        }
        let origin = self.graph.origin(arg);
        if origin.outputs.is_empty() || self.has_no_producer(arg) {
            if let Some(race) = self.races.overwriter(task, arg) {
                return Cause::Raced(race);
            }
            let not_recorded = "the dump does not record where argument";
            return match origin.basis {
                OriginBasis::Undecided => Cause::Unknown(format!(
                    "the task that wrote argument {} was not determined: the search takes too long",
                    arg.arg_index
                )),
                OriginBasis::Nothing => Cause::Unknown(format!("{not_recorded} {} came from", arg.arg_index)),
                _ => self.external_words(task, arg),
            };
        }
        match (self.provenance)(task, arg) {
            InputProvenance::Same if self.has_other_wiring(task, arg) => self.of_producers(
                arg,
                Cause::Fed(format!(
                    "taken differently than in the golden, from task {:#x}",
                    self.graph.task(origin.outputs[0].task).task_id
                )),
            ),
            InputProvenance::Same => self.of_producers(arg, Cause::Within),
            InputProvenance::Changed(output) => self.changed(task, arg, output),
            InputProvenance::Unknown(_) => {
                let [output, ..] = origin.outputs else { return Cause::Within };
                self.of_producers(arg, self.changed_by(task, arg, *output))
            }
        }
    }

    /// The cause for an input of known role that came from no task.
    pub(super) fn external_words(&self, task: usize, arg: Argument<'_>) -> Cause {
        Cause::Fed(match arg.role {
            _ if self.has_other_wiring(task, arg) => {
                "a different view of an external input than in the golden".into()
            }
            Role::InOut => "an external input or uninitialized memory".into(),
            _ => "an external input".into(),
        })
    }

    pub(super) fn has_other_wiring(&self, task: usize, arg: Argument<'_>) -> bool {
        self.inputs.wiring_changed.contains(&(task, arg.arg_index))
    }

    fn changed(&self, task: usize, arg: Argument<'_>, output: OutputRef) -> Cause {
        match &self.graph.gap {
            Some(_) if self.isolated && !self.races.started_before_end(task, output.task) => Cause::Within,
            Some(gap) if !self.races.started_before_end(task, output.task) => Cause::Unknown(format!(
                "argument {} is not what task {:#x} wrote; {gap}, so an uncaptured task may have \
                 overwritten it",
                arg.arg_index,
                self.graph.task(output.task).task_id
            )),
            _ => self.changed_by(task, arg, output),
        }
    }

    /// The task that changed an input after its producer wrote it, or code that was not recorded.
    fn changed_by(&self, task: usize, arg: Argument<'_>, output: OutputRef) -> Cause {
        if let Some(race) = self.races.race_for(task, arg, output) {
            return Cause::Raced(race);
        }
        Cause::Fed(self.unattributed_words(task, arg, (output, None)))
    }

    /// `if_within` for an input whose producers are all within their rules, otherwise [`Cause::Inherited`].
    fn of_producers(&self, arg: Argument<'_>, if_within: Cause) -> Cause {
        let within = |output: &OutputRef| self.after(*output) == Some(&Status::Within);
        if self.graph.producers_of(arg).iter().all(within) { if_within } else { Cause::Inherited }
    }

    /// Why it is not known whether all inputs are right, if it is not.
    fn missing_input(&self, node: Task<'_>, args: &[(Argument<'_>, &ArgStatus)]) -> Option<String> {
        let unknown = args.iter().find_map(|(arg, s)| match &s.before {
            Status::Unknown(reason) => Some(format!("argument {} before the task: {reason}", arg.arg_index)),
            _ => None,
        });
        unknown.or_else(|| {
            self.graph.lacks_input(node).then(|| "not all inputs of the task were captured".into())
        })
    }

    pub(super) fn after(&self, output: OutputRef) -> Option<&Status> {
        let TaskStatus::Compared(statuses) = &self.statuses[output.task] else { return None };
        let place = self.graph.task(output.task).arguments().position(|a| a.arg_index == output.arg_index)?;
        statuses.get(place).map(|s| &s.after)
    }
}

/// Why it is not known whether all outputs are right, if it is not.
fn missing_output(node: Task<'_>, args: &[(Argument<'_>, &ArgStatus)]) -> Option<String> {
    if node.is_unfinished() {
        return Some("the dump has no end of the task".into());
    }
    let unknown = args.iter().find_map(|(arg, s)| match &s.after {
        Status::Unknown(reason) => Some(format!("argument {} after the task: {reason}", arg.arg_index)),
        _ => None,
    });
    let compared = args.iter().any(|(_, s)| s.after != Status::NotApplicable || s.before == Status::Within);
    // A task that writes nothing is judged by its inputs. If only inputs were captured of a task with more
    // arguments, it is not judged.
    let lacks = node.argument_total().is_some_and(|total| u64::from(total) > node.arguments().len() as u64);
    let only_inputs = lacks && !node.arguments().any(|arg| arg.role.writes());
    unknown
        .or_else(|| {
            let nothing = (!compared || only_inputs) && node.arguments().len() > 0;
            nothing.then(|| "none of the task's outputs were captured".into())
        })
        .or_else(|| {
            (node.arguments().len() == 0 && node.argument_total() != Some(0))
                .then(|| "nothing of the task was captured".into())
        })
}

pub(super) fn finding(label: Label, reason: Option<String>, arg_index: Option<u16>) -> Finding {
    Finding {
        label,
        reason,
        arg_index,
        race: None,
        likely_race: None,
        set_aside: Vec::new(),
        is_amplified: false,
        rests_on_producers: false,
        depends_on_ranks: false,
    }
}
