//! Which records outside their rules count for the verdict.

use std::collections::HashSet;

use tensortap_abi::DumpStage;
use tensortap_format::Argument;
use tensortap_judge::Verdict;

use super::values::is_value;
use super::{Blame, ComparedArg};
use crate::graph::{OriginBasis, OutputRef, TaskGraph};
use crate::labels::Label;

impl Blame {
    /// Whether a record outside its rule counts for the verdict. These do not count, because they may differ
    /// between two correct runs, or left no mark:
    ///
    /// - elements that no task of the run is the reason for, such as uninitialized memory, unless the task is accused;
    /// - bytes that a task changed which nothing orders with this one;
    /// - tasks of incomplete dumps of programs that received something else for an unknown reason;
    /// - arguments that were set aside;
    /// - memory that no task of either run wrote;
    /// - values passed by copy, which may hold addresses, and scalars of programs whose arguments have unknown
    ///   roles, because such a scalar may be part of a value;
    /// - external inputs of a task whose outputs are right.
    #[must_use]
    pub fn counts(&self, task: usize, compared: &ComparedArg) -> bool {
        let finding = &self.findings[task];
        let is_accused = !matches!(finding.label, Label::Ok | Label::Masked | Label::Unknown);
        let has_reason =
            |counting: &HashSet<_>| counting.contains(&(task, compared.arg_index, compared.stage));
        if !is_accused && self.counting.as_ref().is_some_and(|counting| !has_reason(counting)) {
            return false;
        }
        if self.is_ambiguous(task, compared) || self.may_have_other_partner(task) {
            return false;
        }
        let node = self.graph.task(task);
        let Some(arg) = node.argument(compared.arg_index) else { return true };
        let is_left =
            || is_left_alone(arg) && self.partner_argument(task, arg.arg_index).is_none_or(is_left_alone);
        let is_input = compared.stage == DumpStage::BeforeDispatch || is_left();
        let is_never_written = is_input && self.never_written.contains(&(task, compared.arg_index));
        let may_be_value =
            self.graph.observations().is_some() && arg.is_scalar() || is_value(&self.graph, node, arg);
        let left_no_mark = is_input && finding.label == Label::Masked && self.has_no_counting_producer(arg);
        !(finding.set_aside.contains(&compared.arg_index) || is_never_written || may_be_value || left_no_mark)
    }

    /// Whether it is not known if a record outside its rule counts: it shows content after a task, and the dump does not show
    /// whether the task wrote it. The content before the task was not recorded, so it may be what the task left alone; or
    /// another task may have written it.
    #[must_use]
    pub fn is_open(&self, task: usize, compared: &ComparedArg) -> bool {
        let outputs = self.wrong_outputs.as_ref();
        let key = (task, compared.arg_index);
        let may_be_written = outputs
            .is_none_or(|outputs| outputs.written.contains(&key) || outputs.written_by_hash.contains(&key));
        let is_of_others = self.is_ambiguous(task, compared) || self.may_have_other_partner(task);
        let is_undecided =
            outputs.is_some_and(|outputs| outputs.open.contains(&key)) || may_be_written && is_of_others;
        let lacks_before = |arg: Argument<'_>| !arg.role_known && arg.hash_before().is_none();
        let node = self.graph.task(task);
        if self.is_unknown_result(task, compared) {
            return true;
        }
        compared.stage == DumpStage::AfterCompletion
            && !self.counts(task, compared)
            && !self.findings[task].set_aside.contains(&compared.arg_index)
            && node.argument(compared.arg_index).is_some_and(|arg| {
                !arg.is_scalar()
                    && (is_undecided
                        || lacks_before(arg)
                        || self.partner_argument(task, arg.arg_index).is_some_and(lacks_before))
            })
    }

    /// Whether a task that nothing orders with this one changed the bytes that differ.
    fn is_ambiguous(&self, task: usize, compared: &ComparedArg) -> bool {
        let finding = &self.findings[task];
        finding.likely_race.is_some() && finding.arg_index == Some(compared.arg_index)
    }

    /// Whether the host read something that differs, and it is not known why. What the host reads is a result of the run.
    fn is_unknown_result(&self, task: usize, compared: &ComparedArg) -> bool {
        let node = self.graph.task(task);
        let is_read = |arg: Argument<'_>| arg.role_known && !arg.role.writes() && !arg.is_scalar();
        self.graph.others_write
            && self.findings[task].label == Label::Unknown
            && node.kernel_names().is_empty()
            && node.arguments().all(is_read)
            && !self.counts(task, compared)
    }

    /// Whether a task of a program received something else than its partner, and nothing shows why because a dump is
    /// incomplete. Threads number their tasks as they come, so the partner may be that of another task, unless its name
    /// or kernel identifies it.
    fn may_have_other_partner(&self, task: usize) -> bool {
        let any = |is: fn(&TaskGraph) -> bool| is(&self.graph) || self.golden.as_ref().is_some_and(is);
        let is_outside = |record: &ComparedArg| {
            record.stage == DumpStage::BeforeDispatch && record.outcome.verdict == Verdict::Outside
        };
        self.matching.may_be_reordered
            && self.findings[task].label == Label::Unknown
            && !self.matching.identified.contains(&task)
            && any(|graph| graph.gap.is_some())
            && self.compared_args[task].iter().any(is_outside)
    }

    /// The same argument of the golden's task.
    fn partner_argument(&self, task: usize, arg_index: u16) -> Option<Argument<'_>> {
        let partner = (*self.matching.partner.get(task)?)?;
        self.golden.as_ref()?.task(partner).counterpart(self.graph.task(task).argument(arg_index)?)
    }

    /// Whether no task wrote an input, except tasks that left what was there and set it aside.
    fn has_no_counting_producer(&self, arg: Argument<'_>) -> bool {
        let origin = self.graph.origin(arg);
        let is_aside = |output: &OutputRef| self.findings[output.task].set_aside.contains(&output.arg_index);
        !matches!(origin.basis, OriginBasis::Nothing | OriginBasis::Undecided)
            && origin.outputs.iter().all(is_aside)
    }
}

/// Whether a task with unknown roles left an argument as it was, so its content after the task is still that
/// of an input.
fn is_left_alone(arg: Argument<'_>) -> bool {
    !arg.role_known && arg.is_unchanged()
}
