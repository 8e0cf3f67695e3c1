//! Whether ids of tasks mean one task: in several dumps of a run, and in steps of some formats, they begin anew.

use std::collections::HashMap;

use tensortap::format::Record;
use tensortap_query::Part;

use crate::program::program;

/// Tasks that are remembered: ids that begin anew are seen again long before.
const REMEMBERED: usize = 1 << 16;

/// Tasks among the records that were listed.
#[derive(Default)]
pub struct SharedIds {
    /// The dump and the step in which an id was first.
    seen: HashMap<u64, (usize, u32)>,
    /// Of tasks of several dumps.
    in_dumps: bool,
    /// Of tasks of several steps of one dump.
    in_steps: bool,
}

impl SharedIds {
    /// For records of these; nothing where an id cannot be that of several tasks, so that nobody pays for looking.
    pub fn among(parts: &[Part<'_>]) -> Option<SharedIds> {
        let can_be_shared = parts.len() > 1 || parts.iter().any(|part| part.dump.format().is_foreign());
        can_be_shared.then(SharedIds::default)
    }

    /// Takes note of a record of a dump.
    pub fn add(&mut self, part: usize, record: &Record) {
        let key = record.task_key();
        if self.seen.len() >= REMEMBERED && !self.seen.contains_key(&key.task_id) {
            return;
        }
        let (dump, step) = *self.seen.entry(key.task_id).or_insert((part, key.step));
        self.in_dumps |= dump != part;
        self.in_steps |= dump == part && step != key.step;
    }

    /// What to know before naming a task by its id alone.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        if self.in_dumps {
            text += "Task ids are of their dump: several of these have tasks of the same id; --rank or --pid says which is meant.\n";
        }
        if self.in_steps {
            text += &format!(
                "Task ids are of their step: several have tasks of the same id; `{} show STEP@TASK` shows that of one.\n",
                program()
            );
        }
        text
    }
}
