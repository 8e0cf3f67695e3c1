//! Selection of dispatches by id, core and block.

use std::collections::HashSet;

use tensortap::format::{DispatchFacts, Dump, FormatError, Record, TaskKey, dispatch_id};

use super::condition::{Facet, ids_text, ranges_text};
use crate::ids::{IdRange, holds};

/// Conditions on a dispatch. All must match.
pub struct Dispatches {
    ids: Vec<IdRange>,
    cores: Vec<IdRange>,
    blocks: Vec<IdRange>,
    /// Tasks with a matching dispatch, for records that belong to no dispatch.
    tasks: HashSet<TaskKey>,
    /// Whether the dump has dispatches.
    any: bool,
}

impl Dispatches {
    /// Finds the tasks with matching dispatches, unless records contain their dispatch.
    pub fn of(
        ids: &[IdRange],
        cores: &[IdRange],
        blocks: &[IdRange],
        dump: &Dump,
    ) -> Result<Dispatches, FormatError> {
        let mut wanted = Dispatches {
            ids: ids.to_vec(),
            cores: cores.to_vec(),
            blocks: blocks.to_vec(),
            tasks: HashSet::new(),
            any: dump.totals().dispatches > 0,
        };
        let says_itself = dump.records().next().transpose()?.is_some_and(|record| record.dispatch.is_some());
        if wanted.any && !says_itself {
            let mut tasks = HashSet::new();
            dump.for_each_dispatch(|dispatch| {
                let facts = DispatchFacts {
                    subtask_id: dispatch.subtask_id,
                    block_idx: dispatch.block_idx,
                    func_id: dispatch.func_id,
                    core_id: dispatch.core_id,
                };
                if wanted.fits(dispatch.task_id, &facts) {
                    tasks.insert(dispatch.task_key());
                }
            })?;
            wanted.tasks = tasks;
        }
        Ok(wanted)
    }

    fn fits(&self, task_id: u64, of: &DispatchFacts) -> bool {
        holds(&self.ids, dispatch_id(task_id, of.subtask_id, of.block_idx))
            && holds(&self.cores, of.core_id.into())
            && holds(&self.blocks, of.block_idx.into())
    }

    /// Whether a record belongs to a matching dispatch, or to a task with one.
    pub fn holds(&self, record: &Record) -> bool {
        match &record.dispatch {
            Some(dispatch) => self.fits(record.task_id, dispatch),
            None => self.tasks.contains(&record.task_key()),
        }
    }

    /// The requested values.
    pub fn asked(&self) -> String {
        if !self.any {
            return "dispatch (--dump-args records them)".into();
        }
        let mut words = Vec::new();
        let ids: Vec<String> =
            self.ids.iter().map(|range| ids_text(range, |id| format!("{id:#x}"))).collect();
        if !ids.is_empty() {
            words.push(format!("dispatch {}", ids.join(",")));
        }
        for (word, ranges) in [("core", &self.cores), ("block", &self.blocks)] {
            if !ranges.is_empty() {
                words.push(format!("{word} {}", ranges_text(ranges)));
            }
        }
        words.join(" with ")
    }

    /// The record's value for the first requested property; `None` if it has no dispatch.
    pub fn facet(&self, record: &Record) -> Option<Facet> {
        let of = record.dispatch?;
        Some(if !self.ids.is_empty() {
            let id = record.dispatch_id()?;
            (id, format!("{id:#x}"))
        } else if !self.cores.is_empty() {
            (of.core_id.into(), of.core_id.to_string())
        } else {
            (of.block_idx.into(), of.block_idx.to_string())
        })
    }

    /// The category of the values.
    pub fn all(&self) -> &'static str {
        match (self.ids.is_empty(), self.cores.is_empty()) {
            (false, _) => "dispatches",
            (true, false) => "cores",
            (true, true) => "blocks",
        }
    }
}
