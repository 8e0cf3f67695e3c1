//! The sources of a dump's records: an index or a manifest of any format. Differences between formats end
//! in this module. Outside it there is one [`Dump`](crate::Dump) with one kind of
//! [`Record`](crate::Record).

mod case;
mod choose;
mod detect;
mod dispatch_table;
mod entries;
mod fields;
mod graph_facts;
mod index_records;
mod manifest;
mod manifest_records;
mod meaning;
mod metered_reader;
mod neighbors;
mod normalize;
mod old_case;
mod raw_record;
pub(crate) mod simpler;
mod task_graph;

use std::fmt;

pub(crate) use case::{case_at, is_case_file, is_single_file, open_case};
pub use choose::{SkipReason, SkippedIndex};
pub(crate) use choose::{has_more, open_indexed, take_end, whole_manifest};
pub(crate) use detect::{JsonKind, detect};
pub(crate) use index_records::{IndexRecords, Threads};
pub(crate) use manifest::open_manifest;
pub(crate) use manifest_records::{ManifestRecords, StatedCounter};

use crate::index::ReadAhead;

/// The format that a dump was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DumpFormat {
    /// tensortap's own format, through its index.
    Indexed,
    /// tensortap's own format, from `tensor_dump.json` only, because there is no index next to it.
    Manifest,
    /// The public project `simpler`, first generation: `tensor_dump_<time>.json`, views as offsets into a larger shape.
    SimplerFirst,
    /// `simpler`, second generation: `tensor_dump.json` with scalars and strides.
    SimplerSecond,
    /// `simpler`, third generation: `args_dump.json`.
    SimplerThird,
}

impl DumpFormat {
    /// The name in table headings and messages.
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

    /// Whether another project wrote the dump. Its run, status and content hashes are then not known.
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

/// The records of a dump: in an index file, or read from a manifest into memory.
pub(crate) enum Source {
    Index(IndexRecords),
    Manifest(ManifestRecords),
}

impl Source {
    /// The record at a position; `None` past the last one.
    pub(crate) fn record(&self, index: u64) -> Option<Result<crate::Record, crate::FormatError>> {
        let place = usize::try_from(index).ok()?;
        match self {
            Source::Index(indexed) => indexed.record(place),
            Source::Manifest(held) => held.record(place),
        }
    }

    /// As `record`, for records that are read in order.
    pub(crate) fn next_record(
        &self,
        place: usize,
        read_ahead: &mut ReadAhead,
    ) -> Option<Result<crate::Record, crate::FormatError>> {
        match self {
            Source::Index(indexed) => indexed.next_record(place, read_ahead),
            Source::Manifest(held) => held.record(place),
        }
    }

    /// Tasks and definitions that records refer to.
    pub(crate) fn names(&self) -> (&crate::join::TaskTable, &crate::join::Definitions) {
        match self {
            Source::Index(indexed) => (&indexed.tasks, &indexed.definitions),
            Source::Manifest(held) => (&held.tasks, &held.definitions),
        }
    }

    /// The information that the records of a task share.
    pub(crate) fn meaning(&self, task: crate::TaskKey) -> &crate::join::TaskMeaning {
        match self {
            Source::Index(indexed) => indexed.tasks.by_id(task.task_id),
            Source::Manifest(held) => held.tasks.get(task),
        }
    }

    /// Whether there may be several payload files.
    pub(crate) fn is_segmented(&self) -> bool {
        match self {
            Source::Index(indexed) => indexed.index.is_segmented(),
            Source::Manifest(held) => held.is_segmented,
        }
    }

    /// What was known about the run at its start.
    pub(crate) fn info(&self) -> &crate::RunInfo {
        match self {
            Source::Index(indexed) => &indexed.index.info,
            Source::Manifest(held) => &held.info,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Source::Index(indexed) => indexed.len(),
            Source::Manifest(held) => held.len(),
        }
    }
}
