//! Where the records of a dump come from. What differs between formats ends here: beyond it there is one
//! [`Dump`](crate::Dump) with one kind of [`Record`](crate::Record).

mod beside;
mod choose;
mod detect;
mod dispatched;
mod entries;
mod fields;
mod held;
mod indexed;
mod manifest;
mod meaning;
mod metered;
mod normalise;
mod pairs;
mod raw_record;
mod task_graph;

use std::fmt;

pub use choose::{PassedOver, WhyPassedOver};
pub(crate) use choose::{has_more, open_indexed, take_end, whole_manifest};
pub(crate) use detect::{Detected, detect};
pub(crate) use held::{Held, SaidCounter};
pub(crate) use indexed::Indexed;
pub(crate) use manifest::open_manifest;

use crate::index::ReadAhead;

/// What a dump was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DumpFormat {
    /// This project's, through its index.
    Indexed,
    /// This project's, from `tensor_dump.json` alone: there is no index beside it.
    Manifest,
    /// The public project `simpler`, first generation: `tensor_dump_<time>.json`, views as offsets into a larger shape.
    SimplerFirst,
    /// `simpler`, second generation: `tensor_dump.json` with scalars and strides.
    SimplerSecond,
    /// `simpler`, third generation: `args_dump.json`.
    SimplerThird,
}

impl DumpFormat {
    /// In words, for heads of tables and for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DumpFormat::Indexed => "tensortap",
            DumpFormat::Manifest => "tensortap, manifest without index",
            DumpFormat::SimplerFirst => "simpler, first generation",
            DumpFormat::SimplerSecond => "simpler, second generation",
            DumpFormat::SimplerThird => "simpler, third generation",
        }
    }

    /// Whether another project wrote the dump: then run, status and content hashes are not known.
    #[must_use]
    pub const fn is_foreign(self) -> bool {
        matches!(self, DumpFormat::SimplerFirst | DumpFormat::SimplerSecond | DumpFormat::SimplerThird)
    }
}

impl fmt::Display for DumpFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The records of a dump: in an index file, or taken from a manifest and held in memory.
pub(crate) enum Source {
    Indexed(Indexed),
    Held(Held),
}

impl Source {
    /// Bytes of the record at a position, with what they do not say; `None` behind the last.
    pub(crate) fn record(&self, index: u64) -> Option<Result<crate::Record, crate::FormatError>> {
        let place = usize::try_from(index).ok()?;
        match self {
            Source::Indexed(indexed) => indexed.record(place),
            Source::Held(held) => held.record(place),
        }
    }

    /// The same, for records asked for in order.
    pub(crate) fn next_record(
        &self,
        place: usize,
        read_ahead: &mut ReadAhead,
    ) -> Option<Result<crate::Record, crate::FormatError>> {
        match self {
            Source::Indexed(indexed) => indexed.next_record(place, read_ahead),
            Source::Held(held) => held.record(place),
        }
    }

    /// What records refer to.
    pub(crate) fn names(&self) -> (&crate::join::TaskTable, &crate::join::Definitions) {
        match self {
            Source::Indexed(indexed) => (&indexed.tasks, &indexed.definitions),
            Source::Held(held) => (&held.tasks, &held.definitions),
        }
    }

    /// What a task means to its records.
    pub(crate) fn meaning(&self, task: crate::TaskKey) -> &crate::join::TaskMeaning {
        match self {
            Source::Indexed(indexed) => indexed.tasks.by_id(task.task_id),
            Source::Held(held) => held.tasks.get(task),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Source::Indexed(indexed) => indexed.len(),
            Source::Held(held) => held.len(),
        }
    }
}
