//! Labels for arguments with unknown roles. Evidence: which tasks are ordered, what the last task left in
//! memory, and which unordered tasks may have written.

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Task};

use super::labeler::{Cause, Labeler, finding};
use super::{ArgStatus, Finding, Label, Race, RaceKind, Status};
use crate::evidence::UninitializedUse;
use crate::graph::{OriginBasis, OutputRef};
use crate::observation::{Observations, UnorderedTasks};
use crate::provenance::InputProvenance;

impl<C: Fn(usize, Argument<'_>) -> InputProvenance> Labeler<'_, C> {
    /// The cause if an argument is outside its rule before its task.
    pub(super) fn observed_cause(&self, seen: &Observations, task: usize, arg: Argument<'_>) -> Cause {
        let node = self.graph.task(task);
        let left: Vec<OutputRef> = seen
            .last_holders(arg)
            .iter()
            .copied()
            .filter(|output| !self.set_aside.contains(output))
            .collect();
        if self.graph.origin(arg).basis == OriginBasis::Undecided {
            return Cause::Unknown(format!(
                "the task that wrote argument {} was not determined: {TOO_WIDE}",
                arg.arg_index
            ));
        }
        if left.is_empty() {
            return self.without_producer_cause(seen, node, arg);
        }
        let is_wrong = left.iter().any(|output| self.after(*output) == Some(&Status::Outside));
        match (self.provenance)(task, arg) {
            InputProvenance::Changed(output) => match seen.unattributed(self.graph, task, arg, output) {
                Some(_) => self.unattributed_cause(task, arg, output),
                None => self.unordered_cause(seen, node, arg),
            },
            _ if is_wrong => Cause::Inherited,
            InputProvenance::Same if seen.unordered(node, arg).is_none() => {
                match self.has_other_wiring(task, arg) {
                    true if self.inputs.other_sources.contains_key(&(task, arg.arg_index)) => {
                        self.other_source_cause(task, arg)
                    }
                    true => Cause::Fed(self.other_buffer(task, arg).unwrap_or_else(|| {
                        let from = self.graph.task(left[0].task).task_id;
                        format!("taken differently than in the golden, from task {from:#x}")
                    })),
                    false => Cause::Within,
                }
            }
            InputProvenance::Unknown(reason) if seen.unordered(node, arg).is_none() => Cause::Unknown(reason),
            InputProvenance::Same | InputProvenance::Unknown(_) => self.unordered_cause(seen, node, arg),
        }
    }

    /// The cause for an argument that no earlier task has written.
    pub(super) fn without_producer_cause(
        &self,
        seen: &Observations,
        task: Task<'_>,
        arg: Argument<'_>,
    ) -> Cause {
        let key = (task.place(), arg.arg_index);
        if !seen.unordered(task, arg).is_none() {
            return self.unordered_cause(seen, task, arg);
        }
        match self.inputs.uninitialized.contains(&key) {
            _ if self.inputs.other_buffers.contains_key(&key) => {
                Cause::Fed(self.other_buffer(task.place(), arg).unwrap_or_default())
            }
            _ if self.inputs.other_sources.contains_key(&key) => self.other_source_cause(task.place(), arg),
            true => Cause::Fed(UNINITIALIZED.into()),
            false => Cause::Fed(match &self.graph.gap {
                None => "memory that no earlier recorded task wrote".into(),
                Some(gap) => {
                    format!(
                        "memory that no earlier recorded task wrote; {gap}, so an uncaptured task may have \
                         written it"
                    )
                }
            }),
        }
    }

    /// The cause for an argument that unordered tasks may have written: a race if the golden orders them.
    /// Otherwise the captured content is no evidence against any task.
    pub(super) fn unordered_cause(&self, seen: &Observations, task: Task<'_>, arg: Argument<'_>) -> Cause {
        if let Some(&other) = self.inputs.lost_order.get(&(task.place(), arg.arg_index)) {
            return Cause::Raced(Race { other, kind: RaceKind::Unordered });
        }
        let UnorderedTasks { tasks: others, is_decided } = seen.unordered(task, arg);
        match others.is_empty() {
            true if !is_decided => Cause::Unknown(format!(
                "argument {} is ambiguous: the other tasks that may have written it were not determined: \
                 {TOO_WIDE}",
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

    /// The cause for an argument with another last writer than in the golden.
    pub(super) fn other_source_cause(&self, task: usize, arg: Argument<'_>) -> Cause {
        match self.inputs.other_sources.get(&(task, arg.arg_index)).cloned().flatten() {
            Some(words) => Cause::Fed(words),
            None => Cause::Inherited,
        }
    }

    /// The cause for content that is not what the last task left. If the capture has gaps, a missing task may
    /// have written it.
    fn unattributed_cause(&self, task: usize, arg: Argument<'_>, output: OutputRef) -> Cause {
        match &self.graph.gap {
            None => Cause::Fed(self.unattributed_words(task, arg, (output, None))),
            Some(gap) => Cause::Unknown(format!(
                "argument {} is not what task {:#x} left; {gap}, so an uncaptured task may have written it",
                arg.arg_index,
                self.graph.task(output.task).task_id
            )),
        }
    }

    /// Whether a task is a write by the host: it runs no kernel and reads nothing.
    pub(super) fn is_host_write(&self, node: Task<'_>) -> bool {
        let mut args = node.arguments().filter(|arg| !arg.is_scalar());
        self.graph.others_write
            && node.kernel_names().is_empty()
            && args.all(|arg| arg.role_known && !arg.role.reads())
    }

    /// Whether a task is a read by the host: it runs no kernel and writes nothing.
    pub(super) fn is_host_read(&self, task: usize) -> bool {
        let node = self.graph.task(task);
        self.graph.others_write
            && node.kernel_names().is_empty()
            && node.arguments().len() > 0
            && node.arguments().all(|arg| arg.role_known && !arg.role.writes())
    }

    /// The label of a host write that differs from the golden: `fed`, or `inherited` if the host had read
    /// something wrong before.
    pub(super) fn written_by_host(&self, task: usize, wrong: Argument<'_>) -> Finding {
        let at = Some(wrong.arg_index);
        if let Some(&other) = self.inputs.lost_order.get(&(task, wrong.arg_index)) {
            let race = Some(Race { other, kind: RaceKind::Unordered });
            return Finding { race, ..finding(Label::Raced, None, at) };
        }
        const OTHER: &str = "the host wrote other data than in the golden";
        let id = |place: usize| self.graph.task(place).task_id;
        if let Some(read) = self.host_read {
            let reason = format!("{OTHER}, after it read wrong data in task {:#x}", id(read));
            return finding(Label::Inherited, Some(reason), at);
        }
        // The host can also read memory in ways that are not recorded.
        let is_right = |label: &Label| matches!(label, Label::Ok | Label::Masked);
        let maybe_wrong = self.labels.iter().position(|label| !is_right(label));
        let why = match (maybe_wrong, &self.graph.gap) {
            (Some(earlier), _) => format!("task {:#x} before it may have given it wrong data", id(earlier)),
            (None, Some(gap)) => format!("{gap}, so it may have read something wrong before"),
            (None, None) => return finding(Label::Fed, Some(OTHER.into()), at),
        };
        finding(Label::Unknown, Some(format!("{OTHER}; {why}")), at)
    }

    /// The label of a host read: it has no output, so its input decides.
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

    /// The label of a right task that wrote its output into another buffer, so that another task misses it.
    pub(super) fn misdirected(&self, task: usize, args: &[(Argument<'_>, &ArgStatus)]) -> Option<Finding> {
        args.iter().find_map(|(arg, _)| {
            let misses = self.inputs.misdirected.get(&(task, arg.arg_index))?;
            let buffer = self.other_buffer(task, *arg)?;
            let misses = self.graph.task(*misses).task_id;
            let reason = format!(
                "argument {} is {buffer}; task {misses:#x} misses the content that was written there",
                arg.arg_index
            );
            Some(finding(Label::Fed, Some(reason), Some(arg.arg_index)))
        })
    }

    /// Example: `a different buffer than in the golden: the one that is argument 1 there`.
    pub(super) fn other_buffer(&self, task: usize, arg: Argument<'_>) -> Option<String> {
        let as_arg = self.inputs.other_buffers.get(&(task, arg.arg_index))?;
        let swapped = as_arg.map(|as_arg| format!(": the one that is argument {as_arg} there"));
        Some(format!("a different buffer than in the golden{}", swapped.unwrap_or_default()))
    }

    /// The label of a task whose arguments were right before and one is wrong after: `wrong_here`, unless an
    /// unordered task may have written it.
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
        let evidence = self.inputs.evidence.as_ref();
        let is_stray = evidence.is_some_and(|found| found.is_changed_only_here(task, wrong.arg_index));
        let meanwhile =
            || self.races.meanwhile(task).into_iter().find(|&other| seen.order().are_unordered(task, other));
        if let Some(other) = is_stray.then(meanwhile).flatten() {
            let reason = format!(
                "argument {} is only read in the golden; task {:#x} ran at the same time and may have written past its own memory",
                wrong.arg_index,
                self.graph.task(other).task_id
            );
            return finding(Label::Unknown, Some(reason), Some(wrong.arg_index));
        }
        let ambiguity = seen.ambiguity(wrong);
        // With contents, likely races were already checked byte by byte. Hashes do not show which bytes
        // differ.
        let has_content =
            wrong.captured(DumpStage::AfterCompletion).is_none_or(|captured| captured.is_stored());
        let is_checked = has_content && self.inputs.likely_races.is_some();
        let may_be_others = ambiguity.as_ref().is_some_and(|why| !why.others.is_empty()) && !is_checked;
        let reason = ambiguity.map(|why| {
            let host = why.host_writable.then(|| HOST_WRITABLE.to_owned());
            let others = (!why.others.is_empty()).then(|| self.unordered_words(&why.others));
            let cut = why
                .is_cut
                .then(|| format!("the other tasks that may have written it were not determined: {TOO_WIDE}"));
            let hashes = (may_be_others && !has_content).then(|| BY_CONTENT.to_owned());
            let whys: Vec<String> = [others, host, cut, hashes].into_iter().flatten().collect();
            format!("argument {} is ambiguous: {}", wrong.arg_index, whys.join("; "))
        });
        let never_written = || format!("argument {} is {UNINITIALIZED}", wrong.arg_index);
        let input = self.inputs.evidence.as_ref().and_then(|found| found.input(task, wrong.arg_index));
        let is_left = input.is_none_or(|input| input.uninitialized != UninitializedUse::Overwritten);
        let is_noted = is_left && self.inputs.uninitialized.contains(&key);
        let reason = reason.or_else(|| is_noted.then(never_written));
        let label = if may_be_others { Label::Unknown } else { Label::WrongHere };
        finding(label, reason, Some(wrong.arg_index))
    }

    /// Replaces the label of a task with a likely race by `unknown`: ambiguous content, here or in the
    /// golden, is no evidence against a task.
    pub(super) fn replace_by_likely_race(
        &self,
        task: usize,
        args: &[(Argument<'_>, &ArgStatus)],
        found: Finding,
    ) -> Finding {
        if !matches!(found.label, Label::WrongHere | Label::Unknown) && !found.is_amplified {
            return found;
        }
        let of = |arg_index: u16| {
            let (race, words) = self.inputs.likely_races.as_ref()?.get(&(task, arg_index))?;
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

    /// Example: `nothing orders it with task 0x3, task 0x4, which may have written there`.
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

/// Describes memory that differs between two runs although no task of either run wrote it.
const UNINITIALIZED: &str =
    "an uninitialized buffer: no task of either run wrote it. If the task reads it, that may be the cause";
/// Why a question is undecided.
const TOO_WIDE: &str = "too many tasks share memory without being ordered";
/// What to do if only hashes were captured.
const BY_CONTENT: &str =
    "hashes do not show which bytes differ; record with --dump-tensor=full to compare contents";
const HOST_WRITABLE: &str = "the host may change this memory at any time";
