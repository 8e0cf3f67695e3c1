//! Labels tasks one after the other.

use std::collections::HashSet;

use tensortap_abi::Role;
use tensortap_format::{Argument, Edge, Task};

use super::race::{RaceKind, Races};
use super::{ArgStatus, Finding, Inputs, Label, Race, Status, TaskStatus};
use crate::carry::Carried;
use crate::graph::{Basis, OutputRef, TaskGraph};

/// On what a label rests where nothing was captured before tasks.
pub(super) const ONLY_OUTPUTS: &str = "only outputs were captured, so it rests on edges";

/// Labels every task. `statuses` has one entry per task; `carried` says whether an input is what its producers wrote, and is
/// asked for inputs that are outside.
pub fn label_tasks(
    graph: &TaskGraph,
    statuses: &[TaskStatus],
    inputs: &Inputs,
    carried: impl Fn(usize, Argument<'_>) -> Carried,
) -> Vec<Finding> {
    Labeller::new(graph, statuses, inputs, carried, false).label_all()
}

/// The same where outputs were held against what each task, alone, should have made of its captured inputs: then a wrong output
/// is wrong here, whatever the inputs were.
pub fn label_alone(
    graph: &TaskGraph,
    statuses: &[TaskStatus],
    carried: impl Fn(usize, Argument<'_>) -> Carried,
) -> Vec<Finding> {
    Labeller::new(graph, statuses, &Inputs::default(), carried, true).label_all()
}

pub(super) struct Labeller<'a, C> {
    pub(super) graph: &'a TaskGraph,
    races: Races<'a>,
    statuses: &'a [TaskStatus],
    pub(super) inputs: &'a Inputs,
    pub(super) carried: C,
    /// Outputs were judged by the captured inputs.
    alone: bool,
    /// Arguments that were set aside, by task.
    pub(super) aside: HashSet<OutputRef>,
    /// Whether an error reached each task that was labelled.
    reached: Vec<bool>,
    /// The first task by which the host read something wrong, where roles are not known: it may have made use of it.
    pub(super) host_read: Option<usize>,
}

/// Where an input outside its rule came from.
pub(super) enum Cause {
    /// Its producer is wrong.
    Inherited,
    Raced(Race),
    /// No captured task wrote it.
    Fed(String),
    Unknown(String),
    /// It is what its producer wrote, and that is within the producer's rule.
    Within,
}

impl<'a, C: Fn(usize, Argument<'_>) -> Carried> Labeller<'a, C> {
    fn new(
        graph: &'a TaskGraph,
        statuses: &'a [TaskStatus],
        inputs: &'a Inputs,
        carried: C,
        alone: bool,
    ) -> Self {
        let (races, aside, reached) = (Races::of(graph), HashSet::new(), Vec::new());
        Labeller { graph, races, statuses, inputs, carried, alone, aside, reached, host_read: None }
    }

    fn label_all(&mut self) -> Vec<Finding> {
        (0..self.graph.len())
            .map(|task| {
                let found = self.label(task);
                let is_wrong = !matches!(found.label, Label::Ok | Label::Unknown);
                if is_wrong && self.host_read.is_none() && self.is_host_read(task) {
                    self.host_read = Some(task);
                }
                self.reached.push(is_wrong || self.error_within(task).is_some());
                found
            })
            .collect()
    }

    /// An input that is within its rule and not equal, and the task that it came from, which an error had reached.
    fn error_within(&self, task: usize) -> Option<(u16, usize)> {
        self.graph.task(task).inputs().find_map(|arg| {
            let is_near = self.inputs.near.contains(&(task, arg.arg_index));
            let mut outputs = self.graph.outputs_behind(arg).iter().filter(|_| is_near);
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
        let found = self.but_raced(task, &args, self.judge(task, node, &args));
        let found =
            if graph.observations().is_some() { self.fed_aside(&set_aside, node, found) } else { found };
        Finding { set_aside, ..found }
    }

    /// In-outs that came from nobody and were left alone.
    fn set_aside(&mut self, task: usize, node: Task<'_>, statuses: &[ArgStatus]) -> Vec<u16> {
        let mut set_aside = Vec::new();
        for (arg, status) in node.arguments().zip(statuses) {
            let differs = arg.role == Role::InOut && status.before == Status::Outside;
            // Where roles are not known, memory is nobody's only if the golden says so, too: there may have been an order.
            let is_nobodys = || match self.graph.observations() {
                Some(_) => self.inputs.uninitialised.contains(&(task, arg.arg_index)),
                None => self.races.overwriter(task, arg).is_none(),
            };
            if differs && arg.is_unchanged() && self.came_from_nobody(arg) && is_nobodys() {
                self.aside.insert(OutputRef { task, arg_index: arg.arg_index });
                set_aside.push(arg.arg_index);
            }
        }
        set_aside
    }

    fn came_from_nobody(&self, arg: Argument<'_>) -> bool {
        let origin = self.graph.origin(arg);
        !matches!(origin.basis, Basis::Nothing | Basis::Undecided)
            && origin.outputs.iter().all(|output| self.aside.contains(output))
    }

    fn judge(&self, task: usize, node: Task<'_>, args: &[(Argument<'_>, &ArgStatus)]) -> Finding {
        let outside: Vec<(Argument<'_>, Cause)> = args
            .iter()
            .filter(|(_, s)| s.before == Status::Outside)
            .map(|(arg, _)| (*arg, self.cause(task, *arg)))
            .filter(|(_, cause)| !matches!(cause, Cause::Within))
            .collect();
        let at = |arg: &Argument<'_>| Some(arg.arg_index);
        // Where roles are not known, what was left as it came is nobody's doing here; unless it is not what should have come.
        let is_other = |arg: &Argument<'_>| self.inputs.other_buffers.contains_key(&(task, arg.arg_index));
        let is_left = |arg: &Argument<'_>, s: &ArgStatus| {
            !arg.role_known && arg.is_unchanged() && s.before == Status::Outside && !is_other(arg)
        };
        let wrong = args.iter().find(|(arg, s)| s.after == Status::Outside && !is_left(arg, s));
        if let Some((wrong, _)) = wrong.filter(|_| self.alone) {
            return self.wrong_here(task, *wrong);
        }
        if let Some((arg, race)) = outside.iter().find_map(|(a, c)| match c {
            Cause::Raced(race) => Some((a, *race)),
            _ => None,
        }) {
            return Finding { race: Some(race), ..finding(Label::Raced, None, at(arg)) };
        }
        if let Some((wrong, _)) = wrong {
            if let Some((arg, _)) = outside.iter().find(|(_, c)| matches!(c, Cause::Inherited)) {
                return finding(Label::Inherited, None, at(arg));
            }
            if let Some((arg, reason)) = outside.iter().find_map(|(a, c)| match c {
                Cause::Unknown(reason) => Some((a, reason)),
                _ => None,
            }) {
                return finding(Label::Unknown, Some(reason.clone()), at(arg));
            }
            if let Some((arg, what)) = outside.iter().find_map(|(a, c)| match c {
                Cause::Fed(what) => Some((a, what)),
                _ => None,
            }) {
                return finding(Label::Fed, Some(format!("argument {} is {what}", arg.arg_index)), at(arg));
            }
            if self.is_host_write(node) {
                return self.written_by_host(task, *wrong);
            }
            if self.is_without_inputs(node) {
                return self.by_edges(task, node, *wrong);
            }
            if let Some(reason) = missing_input(node, args) {
                return finding(Label::Unknown, Some(reason), at(wrong));
            }
            return self.grown_or_wrong_here(task, *wrong);
        }
        if let Some(found) = self.misdirected(task, args).or_else(|| self.read_by_host(task, &outside)) {
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

    /// A task that is wrong although its inputs are within their rules: here, unless the error of another came with them, for
    /// right kernels make errors larger.
    fn grown_or_wrong_here(&self, task: usize, wrong: Argument<'_>) -> Finding {
        let found = self.wrong_here(task, wrong);
        match self.error_within(task).filter(|_| found.label == Label::WrongHere) {
            None => found,
            Some((arg_index, from)) => {
                let from = self.graph.task(from).task_id;
                let reason = format!(
                    "argument {arg_index} is within its rule but not equal, and came from task {from:#x}, which is wrong"
                );
                Finding { is_grown: true, ..finding(Label::Inherited, Some(reason), Some(arg_index)) }
            }
        }
    }

    /// A task that alone made a wrong output of right inputs, unless another wrote into them, or into the output, meanwhile.
    fn wrong_here(&self, task: usize, wrong: Argument<'_>) -> Finding {
        if let Some(seen) = self.graph.observations() {
            return self.observed_wrong_here(seen, task, wrong);
        }
        match self.races.overlapping(task) {
            Some(race) => Finding { race: Some(race), ..finding(Label::Raced, None, Some(wrong.arg_index)) },
            None => finding(Label::WrongHere, None, Some(wrong.arg_index)),
        }
    }

    /// Whether nothing was captured before the task, as with `--dump-stage after`, and the dump says whom it waited for.
    fn is_without_inputs(&self, node: Task<'_>) -> bool {
        node.arguments().all(|arg| arg.before.is_none()) && !self.graph.tasks().edges().is_empty()
    }

    /// A wrong task of which only outputs were captured: its inputs are as right as the outputs of the tasks it waited for.
    fn by_edges(&self, task: usize, node: Task<'_>, wrong: Argument<'_>) -> Finding {
        let carries = |edge: &&Edge| !matches!(edge.why, "write_after_write" | "write_after_read");
        let producers = node.producers().filter(carries);
        let mut places: Vec<usize> =
            producers.filter_map(|edge| self.graph.position(edge.producer())).collect();
        places.sort_unstable();
        places.dedup();
        let at = Some(wrong.arg_index);
        let wrong_producer = places.iter().find(|&&place| self.any_output(place, |s| *s == Status::Outside));
        if let Some(&place) = wrong_producer {
            let producer = self.graph.task(place).task_id;
            return finding(
                Label::Inherited,
                Some(format!("{ONLY_OUTPUTS}; task {producer:#x}, which it waited for, is wrong")),
                at,
            );
        }
        let is_known = |place: usize| self.any_output(place, |s| *s == Status::Within);
        match places.iter().find(|&&place| !is_known(place)) {
            Some(&place) => {
                let producer = self.graph.task(place).task_id;
                let reason =
                    format!("{ONLY_OUTPUTS}; nothing is known of task {producer:#x}, which it waited for");
                finding(Label::Unknown, Some(reason), at)
            }
            None => {
                let found = self.wrong_here(task, wrong);
                let reason = format!("{ONLY_OUTPUTS}; those of the tasks it waited for are right");
                Finding { reason: Some(reason), ..found }
            }
        }
    }

    fn any_output(&self, place: usize, is: impl Fn(&Status) -> bool) -> bool {
        match &self.statuses[place] {
            TaskStatus::Compared(statuses) => statuses.iter().any(|status| is(&status.after)),
            TaskStatus::Unmatched(_) => false,
        }
    }

    /// Why an input is outside its rule.
    fn cause(&self, task: usize, arg: Argument<'_>) -> Cause {
        if arg.is_scalar() {
            return Cause::Fed("a scalar that differs".into());
        }
        if let Some(seen) = self.graph.observations() {
            return self.observed_cause(seen, task, arg);
        }
        let origin = self.graph.origin(arg);
        if origin.outputs.is_empty() || self.came_from_nobody(arg) {
            if let Some(race) = self.races.overwriter(task, arg) {
                return Cause::Raced(race);
            }
            let nobody = "the dump does not say where argument";
            return match (origin.basis, arg.role) {
                (Basis::Undecided, _) => Cause::Unknown(format!(
                    "where argument {} came from is not decided: that would take too long",
                    arg.arg_index
                )),
                (Basis::Nothing, _) => Cause::Unknown(format!("{nobody} {} came from", arg.arg_index)),
                _ if self.is_rewired(task, arg) => {
                    Cause::Fed("another view of an external input than in the golden".into())
                }
                (_, Role::InOut) => Cause::Fed("an external input, or memory nobody initialised".into()),
                _ => Cause::Fed("an external input".into()),
            };
        }
        match (self.carried)(task, arg) {
            Carried::Same if self.is_rewired(task, arg) => self.of_producers(
                arg,
                Cause::Fed(format!(
                    "taken otherwise than in the golden, from task {:#x}",
                    self.graph.task(origin.outputs[0].task).task_id
                )),
            ),
            Carried::Same => self.of_producers(arg, Cause::Within),
            Carried::Changed(output) => self.changed(task, arg, output),
            Carried::Unknown(_) => {
                let [output, ..] = origin.outputs else { return Cause::Within };
                self.of_producers(arg, self.behind(task, arg, *output))
            }
        }
    }

    pub(super) fn is_rewired(&self, task: usize, arg: Argument<'_>) -> bool {
        self.inputs.rewired.contains(&(task, arg.arg_index))
    }

    fn changed(&self, task: usize, arg: Argument<'_>, output: OutputRef) -> Cause {
        match &self.graph.gap {
            Some(_) if self.alone && !self.races.started_before_end(task, output.task) => Cause::Within,
            Some(gap) if !self.races.started_before_end(task, output.task) => Cause::Unknown(format!(
                "argument {} is not what task {:#x} wrote, and {gap}: a task that was not captured may have written it",
                arg.arg_index,
                self.graph.task(output.task).task_id
            )),
            _ => self.behind(task, arg, output),
        }
    }

    /// Who is behind an input that is not what its producer wrote: another task, or else code that is none where there is such.
    fn behind(&self, task: usize, arg: Argument<'_>, output: OutputRef) -> Cause {
        let race = self.races.behind(task, arg, output);
        if race.kind != RaceKind::Changed || !self.graph.others_write {
            return Cause::Raced(race);
        }
        let producer = self.graph.task(output.task).task_id;
        Cause::Fed(format!(
            "not what task {producer:#x} left there: code that was not recorded wrote it since"
        ))
    }

    /// The error of an input that holds what its producers wrote, unless they are all within their rules.
    fn of_producers(&self, arg: Argument<'_>, if_within: Cause) -> Cause {
        let within = |output: &OutputRef| self.after(*output) == Some(&Status::Within);
        if self.graph.outputs_behind(arg).iter().all(within) { if_within } else { Cause::Inherited }
    }

    pub(super) fn after(&self, output: OutputRef) -> Option<&Status> {
        let TaskStatus::Compared(statuses) = &self.statuses[output.task] else { return None };
        let place = self.graph.task(output.task).arguments().position(|a| a.arg_index == output.arg_index)?;
        statuses.get(place).map(|s| &s.after)
    }
}

/// Why it is not known whether every input that can matter is within rule.
fn missing_input(node: Task<'_>, args: &[(Argument<'_>, &ArgStatus)]) -> Option<String> {
    let unknown = args.iter().find_map(|(arg, s)| match &s.before {
        Status::Unknown(reason) => Some(format!("argument {} before the task: {reason}", arg.arg_index)),
        _ => None,
    });
    let captured = node.arguments().len();
    let absent = node.argument_total().is_some_and(|count| (captured as u64) < u64::from(count));
    unknown.or_else(|| absent.then(|| "not all of its inputs were captured".into()))
}

/// Why it is not known whether every output is within rule.
fn missing_output(node: Task<'_>, args: &[(Argument<'_>, &ArgStatus)]) -> Option<String> {
    if node.is_unfinished() {
        return Some("it had not completed when the run ended".into());
    }
    let unknown = args.iter().find_map(|(arg, s)| match &s.after {
        Status::Unknown(reason) => Some(format!("argument {} after the task: {reason}", arg.arg_index)),
        _ => None,
    });
    let compared = args.iter().any(|(_, s)| s.after != Status::NotApplicable || s.before == Status::Within);
    // A task that writes nothing is judged by what it was given, one of which only that was captured is not.
    let lacks = node.argument_total().is_some_and(|total| u64::from(total) > node.arguments().len() as u64);
    let only_inputs = lacks && !node.arguments().any(|arg| arg.role.writes());
    unknown
        .or_else(|| {
            let nothing = (!compared || only_inputs) && node.arguments().len() > 0;
            nothing.then(|| "none of its outputs were captured".into())
        })
        .or_else(|| {
            (node.arguments().len() == 0 && node.argument_total() != Some(0))
                .then(|| "nothing of it was captured".into())
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
        is_grown: false,
        rests_on_producers: false,
    }
}
