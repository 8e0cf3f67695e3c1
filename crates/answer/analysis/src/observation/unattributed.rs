//! Finds unattributed changes: content that differs from what the last task left, with no task in between.

use tensortap_format::{Argument, Dump, FormatError};

use super::Observations;
use crate::graph::{OriginBasis, OutputRef, TaskGraph};
use crate::provenance::{InputProvenance, input_provenance};

/// An unattributed change between two tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnattributedChange {
    /// The task and argument that found the changed content.
    pub found: OutputRef,
    /// The last task and argument that used those bytes before.
    pub left: OutputRef,
    /// Whether the host may change the memory at any time.
    pub host_writable: bool,
}

/// The unattributed changes of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnattributedChanges {
    /// Changes in dependency order.
    pub changes: Vec<UnattributedChange>,
    /// Number of arguments for which it is undecided whether they changed between tasks, because not all
    /// content is stored or the byte budget is used up.
    pub undecided: u64,
}

impl TaskGraph {
    /// The unattributed change of an argument, if its content before the task differs from what the last task
    /// left, with no task in between. Reads contents if the ranges differ.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn unattributed_change(
        &self,
        dump: &Dump,
        task: usize,
        arg: Argument<'_>,
    ) -> Result<Option<UnattributedChange>, FormatError> {
        let Some(seen) = self.observations() else { return Ok(None) };
        match input_provenance(dump, self, task, arg)? {
            InputProvenance::Changed(left) => Ok(seen.unattributed(self, task, arg, left)),
            InputProvenance::Same | InputProvenance::Unknown(_) => Ok(None),
        }
    }

    /// All unattributed changes. If contents must be compared, at most `budget` bytes are.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn unattributed_changes(&self, dump: &Dump, budget: u64) -> Result<UnattributedChanges, FormatError> {
        let mut all = UnattributedChanges::default();
        let Some(seen) = self.observations() else { return Ok(all) };
        let mut left = budget;
        for task in self.tasks().iter() {
            for arg in task.inputs() {
                if seen.last_holders.get(arg.number()).basis == OriginBasis::Undecided {
                    all.undecided += 1;
                    continue;
                }
                if seen.last_holders(arg).is_empty() {
                    continue;
                }
                if seen.is_decided_by_hash(self, arg).is_none() {
                    let others = seen.last_holders(arg).iter().filter_map(|output| self.output(*output));
                    let bytes: u64 = others.filter_map(|arg| arg.content_bytes()).sum();
                    match left.checked_sub(bytes.saturating_add(arg.content_bytes().unwrap_or(0))) {
                        Some(rest) => left = rest,
                        None => {
                            all.undecided += 1;
                            continue;
                        }
                    }
                }
                match input_provenance(dump, self, task.place(), arg)? {
                    InputProvenance::Same => {}
                    InputProvenance::Unknown(_) => all.undecided += 1,
                    InputProvenance::Changed(by) => {
                        all.changes.extend(seen.unattributed(self, task.place(), arg, by))
                    }
                }
            }
        }
        Ok(all)
    }
}

impl Observations {
    /// Whether the hashes show that an argument equals what the last task left; `None` if several tasks left
    /// parts of it.
    fn is_decided_by_hash(&self, graph: &TaskGraph, arg: Argument<'_>) -> Option<bool> {
        let [output] = self.last_holders(arg) else { return None };
        let written = graph.output(*output)?;
        let is_whole = self.memory.view_of(arg)? == self.memory.view_of(written)?;
        let is_same = arg.hash_before()? == written.hash_after()?;
        is_whole.then_some(is_same)
    }

    /// The change between the content that one task left and another found, if no task can have caused it.
    pub(crate) fn unattributed(
        &self,
        graph: &TaskGraph,
        task: usize,
        arg: Argument<'_>,
        left: OutputRef,
    ) -> Option<UnattributedChange> {
        let views = self.memory.view_of(arg).zip(self.memory.view_of(graph.output(left)?));
        let (found, written) = views?;
        let (mut query_steps, ends) = (self.budget.query_steps(), ((left.task, written), (task, found)));
        let is_clear = self.touches.is_clear_between(&self.order, &self.memory, ends, &mut query_steps);
        let host_writable = self.is_host_writable(graph.task(task), arg);
        let found = OutputRef { task, arg_index: arg.arg_index };
        is_clear.then_some(UnattributedChange { found, left, host_writable })
    }
}
