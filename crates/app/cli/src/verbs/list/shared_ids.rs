//! Detects task ids that several tasks share: in several dumps of a run, and in steps of some formats, ids start over.

use std::collections::HashMap;

use tensortap::format::Record;
use tensortap_query::Part;

use crate::program::program;

/// Tasks that are remembered. Ids that start over repeat long before this limit.
const REMEMBERED: usize = 1 << 16;

/// Task ids among the listed records.
#[derive(Default)]
pub struct SharedIds {
    /// The dump and the step in which an id occurred first.
    seen: HashMap<u64, (usize, u32)>,
    /// Whether tasks of several dumps share an id.
    in_dumps: bool,
    /// Whether tasks of several steps of one dump share an id.
    in_steps: bool,
}

impl SharedIds {
    /// A detector for these dumps; `None` if tasks cannot share ids, so that listing stays fast.
    pub fn among(parts: &[Part<'_>]) -> Option<SharedIds> {
        let can_be_shared = parts.len() > 1 || parts.iter().any(|part| part.dump.format().is_foreign());
        can_be_shared.then(SharedIds::default)
    }

    /// Checks the task id of a record.
    pub fn add(&mut self, part: usize, record: &Record) {
        let key = record.task_key();
        if self.seen.len() >= REMEMBERED && !self.seen.contains_key(&key.task_id) {
            return;
        }
        let (dump, step) = *self.seen.entry(key.task_id).or_insert((part, key.step));
        self.in_dumps |= dump != part;
        self.in_steps |= dump == part && step != key.step;
    }

    /// Notes about naming tasks by id.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        if self.in_dumps {
            text += "Task ids repeat in these dumps; choose a dump with --rank or --pid.\n";
        }
        if self.in_steps {
            text += &format!(
                "Task ids repeat in the steps of the dump; choose a step with `{} show STEP@TASK`.\n",
                program()
            );
        }
        text
    }
}
