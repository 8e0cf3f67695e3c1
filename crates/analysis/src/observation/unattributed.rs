//! Content that differs from what the last task left, with no task between.

use tensortap_format::{Argument, Dump, FormatError};

use super::Observations;
use crate::carry::{Carried, carried};
use crate::graph::{Basis, OutputRef, TaskGraph};

/// An unattributed change, by both of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unattributed {
    /// The task that found something else, and its argument.
    pub found: OutputRef,
    /// The last task that was given those bytes, and its argument.
    pub left: OutputRef,
    /// The host may change the memory at any time.
    pub host_writable: bool,
}

/// The unattributed changes of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnattributedChanges {
    /// In dependency order.
    pub changes: Vec<Unattributed>,
    /// Arguments of which it is not decided whether something changed them between tasks: not all of the content is stored, or there
    /// is more than was to be read.
    pub undecided: u64,
}

impl TaskGraph {
    /// Whether what an argument held before its task is not what the last task left there, with no task between. Contents are read
    /// where ranges differ.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn unattributed_change(
        &self,
        dump: &Dump,
        task: usize,
        arg: Argument<'_>,
    ) -> Result<Option<Unattributed>, FormatError> {
        let Some(seen) = self.observations() else { return Ok(None) };
        match carried(dump, self, task, arg)? {
            Carried::Changed(left) => Ok(seen.unattributed(self, task, arg, left)),
            Carried::Same | Carried::Unknown(_) => Ok(None),
        }
    }

    /// All of them. Where only contents can tell, at most `budget` bytes are compared.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn unattributed_changes(&self, dump: &Dump, budget: u64) -> Result<UnattributedChanges, FormatError> {
        let mut all = UnattributedChanges::default();
        let Some(seen) = self.observations() else { return Ok(all) };
        let mut left = budget;
        for task in self.tasks().iter() {
            for arg in task.inputs() {
                if seen.left_by.get(arg.number()).basis == Basis::Undecided {
                    all.undecided += 1;
                    continue;
                }
                if seen.left_by(arg).is_empty() {
                    continue;
                }
                if seen.is_decided_by_hash(self, arg).is_none() {
                    let others = seen.left_by(arg).iter().filter_map(|output| self.output(*output));
                    let bytes: u64 = others.filter_map(|arg| arg.content_bytes()).sum();
                    match left.checked_sub(bytes.saturating_add(arg.content_bytes().unwrap_or(0))) {
                        Some(rest) => left = rest,
                        None => {
                            all.undecided += 1;
                            continue;
                        }
                    }
                }
                match carried(dump, self, task.place(), arg)? {
                    Carried::Same => {}
                    Carried::Unknown(_) => all.undecided += 1,
                    Carried::Changed(by) => {
                        all.changes.extend(seen.unattributed(self, task.place(), arg, by))
                    }
                }
            }
        }
        Ok(all)
    }
}

impl Observations {
    /// What hashes say of an argument: whether it is what the last task left, where one task left all of it.
    fn is_decided_by_hash(&self, graph: &TaskGraph, arg: Argument<'_>) -> Option<bool> {
        let [output] = self.left_by(arg) else { return None };
        let written = graph.output(*output)?;
        let is_whole = self.memory.view_of(arg)? == self.memory.view_of(written)?;
        let is_same = arg.hash_before()? == written.hash_after()?;
        is_whole.then_some(is_same)
    }

    /// The change between what one task left and what another found, if no task can have made it.
    pub(crate) fn unattributed(
        &self,
        graph: &TaskGraph,
        task: usize,
        arg: Argument<'_>,
        left: OutputRef,
    ) -> Option<Unattributed> {
        let views = self.memory.view_of(arg).zip(self.memory.view_of(graph.output(left)?));
        let (found, written) = views?;
        let (mut question, ends) = (self.budget.question(), ((left.task, written), (task, found)));
        let is_clear = self.touches.is_clear_between(&self.order, &self.memory, ends, &mut question);
        let host_writable = self.is_host_writable(graph.task(task), arg);
        let found = OutputRef { task, arg_index: arg.arg_index };
        is_clear.then_some(Unattributed { found, left, host_writable })
    }
}
