//! Decides which of its two files a dump is read from: the index, or the manifest if the index is damaged
//! and has fewer records.

use std::path::{Path, PathBuf};

use super::{DumpFormat, IndexRecords, ManifestRecords, Source, open_manifest};
use crate::{FormatError, MANIFEST_FILE, Tail, ThreadEnd, survey::Survey};

/// An index that exists but was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedIndex {
    /// The index.
    pub path: PathBuf,
    /// The reason.
    pub why: SkipReason,
}

/// Why the manifest was read instead of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// It has an older version; the manifest has the same content.
    Version(u32),
    /// It is damaged or truncated, and the manifest has what it lacks.
    Damaged {
        /// What is wrong with it.
        reason: String,
        /// Number of records that could still be read from it.
        records: u64,
    },
}

/// Opens a dump by its index, or by its manifest if that has more.
pub(crate) fn open_indexed(path: &Path) -> Result<Source, FormatError> {
    let opened = IndexRecords::open(path);
    let (why, held) = match &opened {
        Err(FormatError::Version { found, known, .. }) if found < known => {
            let manifest = path.with_file_name(MANIFEST_FILE);
            if !manifest.is_file() {
                return opened.map(Source::Index);
            }
            (SkipReason::Version(*found), Some(open_manifest(&manifest)?))
        }
        Err(FormatError::HeaderDamaged { reason, .. } | FormatError::NotADump { reason, .. }) => {
            let why = SkipReason::Damaged { reason: reason.clone(), records: 0 };
            (why, whole_manifest(path, None))
        }
        Ok(indexed) => {
            let Tail::Torn { reason, .. } = indexed.tail() else { return opened.map(Source::Index) };
            let why = SkipReason::Damaged { reason, records: indexed.len() as u64 };
            (why, whole_manifest(path, Some(indexed.index.info.run_id)))
        }
        Err(_) => return opened.map(Source::Index),
    };
    match (opened, held) {
        (Ok(mut indexed), Some(held)) if !has_more(&held, &indexed.survey) => {
            take_end(&held, &mut indexed.survey);
            Ok(Source::Index(indexed))
        }
        (_, Some(mut held)) => {
            held.passed_over = Some(SkippedIndex { path: path.to_owned(), why });
            Ok(Source::Manifest(held))
        }
        (opened, None) => opened.map(Source::Index),
    }
}

/// The manifest next to an index, if it can be read completely, its counters are right, and it belongs to
/// the same run.
pub(crate) fn whole_manifest(index: &Path, run_id: Option<u64>) -> Option<ManifestRecords> {
    let held = open_manifest(&index.with_file_name(MANIFEST_FILE)).ok()?;
    let is_right = held.stated.iter().all(|counter| counter.stated == counter.counted);
    let same_run = run_id.is_none_or(|run_id| run_id == held.info.run_id);
    (held.format == DumpFormat::Manifest && is_right && same_run).then_some(held)
}

/// Whether a manifest, with its graph, has anything that the index lacks.
pub(crate) fn has_more(held: &ManifestRecords, survey: &Survey) -> bool {
    let edges = held.graph.as_ref().map_or(0, |(_, edges)| edges.len() as u64);
    let (records, totals) = (held.len() as u64, &survey.totals);
    let has_all = records >= totals.total_tensors;
    let lost_edges = survey.damage.is_some() && edges > totals.edges;
    records > totals.total_tensors || has_all && lost_edges
}

/// Takes the run's end from the manifest, for an index that has every record and only lost its footer.
pub(crate) fn take_end(held: &ManifestRecords, survey: &mut Survey) {
    if survey.footer.is_some() || held.len() as u64 != survey.totals.total_tensors {
        return;
    }
    survey.footer = held.footer.clone();
    if let Some(footer) = &mut survey.footer {
        footer.totals = survey.totals.clone();
        footer.threads = survey
            .next_seq
            .iter()
            .map(|(thread, next_seq)| ThreadEnd { thread: *thread, next_seq: *next_seq })
            .collect();
    }
}
