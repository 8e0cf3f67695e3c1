//! Selectors: which records of a dump a verb is about. The same options in every verb.

mod condition;
mod empty;
mod nan;
mod options;
mod page;
mod pattern;

use tensortap::DumpStage;
use tensortap::format::{Dump, FormatError, Record};

pub use options::{SelectArgs, parse_task_choice};
pub use page::{PAGE, SelectorsArgs, run as print_page};

use condition::Condition;

/// Which records of one dump are meant: those that fit every condition.
pub struct Selection {
    conditions: Vec<Condition>,
}

impl Selection {
    /// Whether nothing is left out.
    pub fn is_all(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether a record is meant.
    pub fn holds(&self, record: &Record) -> bool {
        self.conditions.iter().all(|condition| condition.holds(record))
    }

    /// Every record that is meant, in the order of the dump.
    pub fn records(&self, dump: &Dump) -> impl Iterator<Item = Result<Record, FormatError>> {
        dump.records().filter(|record| record.as_ref().map_or(true, |record| self.holds(record)))
    }

    /// Why no record is meant, and what there is instead.
    pub fn why_empty(&self, dump: &Dump) -> Result<String, FormatError> {
        empty::explain(&self.conditions, dump)
    }

    /// What the selection could not find out; nothing when it is sure of every record.
    pub fn doubt(&self) -> Option<String> {
        self.conditions.iter().find_map(Condition::doubt)
    }
}

/// A stage as selectors spell it.
pub const fn stage_word(stage: DumpStage) -> &'static str {
    match stage {
        DumpStage::BeforeDispatch => "before",
        DumpStage::AfterCompletion => "after",
    }
}
