//! Why an argument differs, where roles are not known: who was ordered, what the last task left, who else may have written.

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Task};

use super::labeller::{Cause, Labeller, finding};
use super::{ArgStatus, Finding, Label, Race, RaceKind, Status};
use crate::carry::Carried;
use crate::graph::{Basis, OutputRef};
use crate::observation::{Observations, Unordered};

impl<C: Fn(usize, Argument<'_>) -> Carried> Labeller<'_, C> {
    /// Why what an argument held before its task is outside its rule.
    pub(super) fn observed_cause(&self, seen: &Observations, task: usize, arg: Argument<'_>) -> Cause {
        let node = self.graph.task(task);
        let left: Vec<OutputRef> =
            seen.left_by(arg).iter().copied().filter(|output| !self.aside.contains(output)).collect();
        if self.graph.origin(arg).basis == Basis::Undecided {
            return Cause::Unknown(format!(
                "who wrote argument {} before is not decided: {TOO_WIDE}",
                arg.arg_index
            ));
        }
        if left.is_empty() {
            return self.of_nobody(seen, node, arg);
        }
        let is_wrong = left.iter().any(|output| self.after(*output) == Some(&Status::Outside));
        match (self.carried)(task, arg) {
            Carried::Changed(output) => match seen.unattributed(self.graph, task, arg, output) {
                Some(_) => self.of_unattributed(arg, output),
                None => self.of_unordered(seen, node, arg),
            },
            _ if is_wrong => Cause::Inherited,
            Carried::Same if seen.unordered(node, arg).is_none() => match self.is_rewired(task, arg) {
                true if self.inputs.elsewhere.contains_key(&(task, arg.arg_index)) => {
                    self.of_elsewhere(task, arg)
                }
                true => Cause::Fed(self.other_buffer(task, arg).unwrap_or_else(|| {
                    let from = self.graph.task(left[0].task).task_id;
                    format!("taken otherwise than in the golden, from task {from:#x}")
                })),
                false => Cause::Within,
            },
            Carried::Unknown(reason) if seen.unordered(node, arg).is_none() => Cause::Unknown(reason),
            Carried::Same | Carried::Unknown(_) => self.of_unordered(seen, node, arg),
        }
    }

    /// Of an argument that no task ordered before has written.
    fn of_nobody(&self, seen: &Observations, task: Task<'_>, arg: Argument<'_>) -> Cause {
        let key = (task.place(), arg.arg_index);
        if !seen.unordered(task, arg).is_none() {
            return self.of_unordered(seen, task, arg);
        }
        match self.inputs.uninitialised.contains(&key) {
            _ if self.inputs.other_buffers.contains_key(&key) => {
                Cause::Fed(self.other_buffer(task.place(), arg).unwrap_or_default())
            }
            _ if self.inputs.elsewhere.contains_key(&key) => self.of_elsewhere(task.place(), arg),
            true => Cause::Fed(UNINITIALISED.into()),
            false => Cause::Fed(match &self.graph.gap {
                None => "memory that no recorded task wrote before".into(),
                Some(gap) => format!(
                    "memory that no recorded task wrote before, and {gap}: a task that was not captured may have written it"
                ),
            }),
        }
    }

    /// Of an argument that tasks may have written which are unordered with its own: a race where the golden orders them. Where it does
    /// not either, what was captured is no evidence against anybody.
    fn of_unordered(&self, seen: &Observations, task: Task<'_>, arg: Argument<'_>) -> Cause {
        if let Some(&other) = self.inputs.lost_order.get(&(task.place(), arg.arg_index)) {
            return Cause::Raced(Race { other, kind: RaceKind::Unordered });
        }
        let Unordered { tasks: others, is_decided } = seen.unordered(task, arg);
        match others.is_empty() {
            true if !is_decided => Cause::Unknown(format!(
                "argument {} is ambiguous: who else may have written it is not decided: {TOO_WIDE}",
                arg.arg_index
            )),
            true => Cause::Unknown(format!("argument {} changed between tasks", arg.arg_index)),
            false => Cause::Unknown(format!(
                "argument {} is ambiguous: {}",
                arg.arg_index,
                self.unordered_words(&others)
            )),
        }
    }

    /// Of an argument that other tasks wrote last than in the golden.
    fn of_elsewhere(&self, task: usize, arg: Argument<'_>) -> Cause {
        match self.inputs.elsewhere.get(&(task, arg.arg_index)).cloned().flatten() {
            Some(words) => Cause::Fed(words),
            None => Cause::Inherited,
        }
    }

    /// Of content that is not what the last task left. Where something was not captured, that may have written it.
    fn of_unattributed(&self, arg: Argument<'_>, output: OutputRef) -> Cause {
        match &self.graph.gap {
            None => Cause::Raced(Race { other: output.task, kind: RaceKind::Unattributed }),
            Some(gap) => Cause::Unknown(format!(
                "argument {} is not what task {:#x} left, and {gap}: a task that was not captured may have written it",
                arg.arg_index,
                self.graph.task(output.task).task_id
            )),
        }
    }

    /// Whether the host gives the content that a task writes: no code runs, and nothing is read.
    pub(super) fn is_host_write(&self, node: Task<'_>) -> bool {
        let mut args = node.arguments().filter(|arg| !arg.is_scalar());
        self.graph.observations().is_some()
            && node.kernel_names().is_empty()
            && args.all(|arg| arg.role_known && !arg.role.reads())
    }

    /// Whether the host is given what a task reads: no code runs, and nothing is written.
    pub(super) fn is_host_read(&self, task: usize) -> bool {
        let node = self.graph.task(task);
        self.graph.observations().is_some()
            && node.kernel_names().is_empty()
            && node.arguments().len() > 0
            && node.arguments().all(|arg| arg.role_known && !arg.role.writes())
    }

    /// The host wrote something else than in the golden: of its own, or because it had read something wrong.
    pub(super) fn written_by_host(&self, task: usize, wrong: Argument<'_>) -> Finding {
        let at = Some(wrong.arg_index);
        if let Some(&other) = self.inputs.lost_order.get(&(task, wrong.arg_index)) {
            let race = Some(Race { other, kind: RaceKind::Unordered });
            return Finding { race, ..finding(Label::Raced, None, at) };
        }
        match self.host_read {
            None => finding(Label::Fed, Some("the host wrote other data than in the golden".into()), at),
            Some(read) => {
                let read = self.graph.task(read).task_id;
                let reason = format!(
                    "the host wrote other data, and had read what is wrong before, in task {read:#x}"
                );
                finding(Label::Inherited, Some(reason), at)
            }
        }
    }

    /// What the host reads is the end of a way: nothing is made of it.
    pub(super) fn read_by_host(&self, task: usize, outside: &[(Argument<'_>, Cause)]) -> Option<Finding> {
        let (arg, cause) = outside.first().filter(|_| self.is_host_read(task))?;
        let at = Some(arg.arg_index);
        match cause {
            Cause::Inherited => Some(finding(Label::Inherited, None, at)),
            Cause::Fed(what) => {
                Some(finding(Label::Fed, Some(format!("argument {} is {what}", arg.arg_index)), at))
            }
            Cause::Unknown(reason) => Some(finding(Label::Unknown, Some(reason.clone()), at)),
            Cause::Raced(_) | Cause::Within => None,
        }
    }

    /// A task that is right, but left what it made in another buffer, so that somebody else misses it.
    pub(super) fn misdirected(&self, task: usize, args: &[(Argument<'_>, &ArgStatus)]) -> Option<Finding> {
        args.iter().find_map(|(arg, _)| {
            let misses = self.inputs.misdirected.get(&(task, arg.arg_index))?;
            let buffer = self.other_buffer(task, *arg)?;
            let misses = self.graph.task(*misses).task_id;
            let reason = format!(
                "argument {} is {buffer}; what it left there is missing in task {misses:#x}",
                arg.arg_index
            );
            Some(finding(Label::Fed, Some(reason), Some(arg.arg_index)))
        })
    }

    /// `another buffer than in the golden: the one that is argument 1 there`.
    fn other_buffer(&self, task: usize, arg: Argument<'_>) -> Option<String> {
        let as_arg = self.inputs.other_buffers.get(&(task, arg.arg_index))?;
        let swapped = as_arg.map(|as_arg| format!(": the one that is argument {as_arg} there"));
        Some(format!("another buffer than in the golden{}", swapped.unwrap_or_default()))
    }

    /// A task whose arguments were all right before it, and one is not after: it did that, unless others may have.
    pub(super) fn observed_wrong_here(
        &self,
        seen: &Observations,
        task: usize,
        wrong: Argument<'_>,
    ) -> Finding {
        let key = (task, wrong.arg_index);
        if let Some(&other) = self.inputs.lost_order.get(&key) {
            let race = Some(Race { other, kind: RaceKind::Unordered });
            return Finding { race, ..finding(Label::Raced, None, Some(wrong.arg_index)) };
        }
        let ambiguity = seen.ambiguity(wrong);
        // Contents show whose bytes differ, and have been asked; hashes do not.
        let has_content =
            wrong.captured(DumpStage::AfterCompletion).is_none_or(|captured| captured.is_stored());
        let may_be_others = ambiguity.as_ref().is_some_and(|why| !why.others.is_empty()) && !has_content;
        let reason = ambiguity.map(|why| {
            let host = why.host_writable.then(|| HOST_WRITABLE.to_owned());
            let others = (!why.others.is_empty()).then(|| self.unordered_words(&why.others));
            let cut = why.is_cut.then(|| format!("who else may have written it is not decided: {TOO_WIDE}"));
            let hashes = may_be_others.then(|| BY_CONTENT.to_owned());
            let whys: Vec<String> = [others, host, cut, hashes].into_iter().flatten().collect();
            format!("argument {} is ambiguous: {}", wrong.arg_index, whys.join("; "))
        });
        let never_written = || format!("argument {} is {UNINITIALISED}", wrong.arg_index);
        let reason = reason.or_else(|| self.inputs.uninitialised.contains(&key).then(never_written));
        let label = if may_be_others { Label::Unknown } else { Label::WrongHere };
        finding(label, reason, Some(wrong.arg_index))
    }

    /// The same where it was also given memory that nobody initialised and that it left alone: whether it read that is not known.
    pub(super) fn fed_aside(&self, set_aside: &[u16], node: Task<'_>, found: Finding) -> Finding {
        let is_unknown = |&&index: &&u16| node.argument(index).is_some_and(|arg| !arg.role_known);
        let Some(&arg_index) = set_aside.iter().find(is_unknown) else { return found };
        if found.label != Label::WrongHere {
            return found;
        }
        let reason = format!("argument {arg_index} is {UNINITIALISED}");
        Finding { reason: found.reason.or(Some(reason)), ..found }
    }

    /// A task that is wrong here, or cannot be judged, and of which a race is likely: what is ambiguous, here or in the golden, is evidence against
    /// nobody.
    pub(super) fn but_raced(
        &self,
        task: usize,
        args: &[(Argument<'_>, &ArgStatus)],
        found: Finding,
    ) -> Finding {
        if !matches!(found.label, Label::WrongHere | Label::Unknown) {
            return found;
        }
        let of = |arg_index: u16| {
            let (race, words) = self.inputs.likely_races.get(&(task, arg_index))?;
            Some((arg_index, *race, words.clone()))
        };
        let first = || args.iter().find_map(|(arg, _)| of(arg.arg_index));
        match found.arg_index.and_then(of).or_else(first) {
            None => found,
            Some((arg_index, race, words)) => {
                Finding { likely_race: Some(race), ..finding(Label::Unknown, Some(words), Some(arg_index)) }
            }
        }
    }

    /// `nothing orders it with task 0x3, task 0x4, which may have written there`.
    fn unordered_words(&self, others: &[usize]) -> String {
        let named = others.iter().take(crate::observation::NAMED);
        let named: Vec<String> =
            named.map(|&other| format!("task {:#x}", self.graph.task(other).task_id)).collect();
        let more = match others.len().saturating_sub(crate::observation::NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("nothing orders it with {}{more}, which may have written there", named.join(", "))
    }
}

/// What memory is that differs between two runs though no task of either ever wrote it.
const UNINITIALISED: &str =
    "an uninitialised buffer: no task ever wrote it, in both runs. If the task reads it, that may be why";
/// Why something is not decided.
const TOO_WIDE: &str = "too many tasks share memory without being ordered";
/// How it can be told.
const BY_CONTENT: &str = "hashes do not tell whose bytes differ, contents do (--dump-tensor=full)";
const HOST_WRITABLE: &str = "the host may change this memory at any time";
