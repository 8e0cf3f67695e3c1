//! Which of its two files a dump is read from: the index, or the manifest where the index is damaged and has less.

use std::path::{Path, PathBuf};

use super::{DumpFormat, Held, Indexed, Source, open_manifest};
use crate::{FormatError, MANIFEST_FILE, Tail, ThreadEnd, survey::Survey};

/// An index that a dump was not read from, although it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// The index.
    pub path: PathBuf,
    /// Why.
    pub why: WhyPassedOver,
}

/// Why the manifest was read in place of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyPassedOver {
    /// It is of an earlier version; the manifest says the same.
    Version(u32),
    /// It is damaged or cut short, and the manifest has what it lacks.
    Damaged {
        /// What is wrong with it.
        reason: String,
        /// Records that could still be read from it.
        records: u64,
    },
}

/// Opens a dump by its index, or by its manifest where that says more.
pub(crate) fn open_indexed(path: &Path) -> Result<Source, FormatError> {
    let opened = Indexed::open(path);
    let (why, held) = match &opened {
        Err(FormatError::Version { found, known, .. }) if found < known => {
            let manifest = path.with_file_name(MANIFEST_FILE);
            if !manifest.is_file() {
                return opened.map(Source::Indexed);
            }
            (WhyPassedOver::Version(*found), Some(open_manifest(&manifest)?))
        }
        Err(FormatError::HeaderDamaged { reason, .. } | FormatError::NotADump { reason, .. }) => {
            let why = WhyPassedOver::Damaged { reason: reason.clone(), records: 0 };
            (why, whole_manifest(path, None))
        }
        Ok(indexed) => {
            let Tail::Torn { reason, .. } = indexed.tail() else { return opened.map(Source::Indexed) };
            let why = WhyPassedOver::Damaged { reason, records: indexed.len() as u64 };
            (why, whole_manifest(path, Some(indexed.index.info.run_id)))
        }
        Err(_) => return opened.map(Source::Indexed),
    };
    match (opened, held) {
        (Ok(mut indexed), Some(held)) if !has_more(&held, &indexed.survey) => {
            take_end(&held, &mut indexed.survey);
            Ok(Source::Indexed(indexed))
        }
        (_, Some(mut held)) => {
            held.passed_over = Some(PassedOver { path: path.to_owned(), why });
            Ok(Source::Held(held))
        }
        (opened, None) => opened.map(Source::Indexed),
    }
}

/// The manifest beside an index, when all of it can be read, its counters are right and it is of the same run.
pub(crate) fn whole_manifest(index: &Path, run_id: Option<u64>) -> Option<Held> {
    let held = open_manifest(&index.with_file_name(MANIFEST_FILE)).ok()?;
    let is_right = held.said.iter().all(|counter| counter.said == counter.counted);
    let same_run = run_id.is_none_or(|run_id| run_id == held.info.run_id);
    (held.format == DumpFormat::Manifest && is_right && same_run).then_some(held)
}

/// Whether a manifest, with the graph beside it, has anything that an index lost.
pub(crate) fn has_more(held: &Held, survey: &Survey) -> bool {
    let edges = held.graph.as_ref().map_or(0, |(_, edges)| edges.len() as u64);
    let (records, totals) = (held.len() as u64, &survey.totals);
    let has_all = records >= totals.total_tensors;
    let lost_edges = survey.damage.is_some() && edges > totals.edges;
    records > totals.total_tensors || has_all && lost_edges
}

/// How the run ended, of an index that has every record and lost its footer alone.
pub(crate) fn take_end(held: &Held, survey: &mut Survey) {
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
