//! The golden that a dump is compared with: another dump, or arrays in files.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tensortap::DType;
use tensortap::analysis::diff::{Diff, DiffOptions, DiffRow, Partner, diff_arrays, diff_dumps, row_detail};
use tensortap::format::{Dump, FormatError, GoldenVerdict, Record, RunInfo};
use tensortap::interchange::{InterchangeError, NamedArrays};
use tensortap::judge::Detail;

use crate::QueryError;
use crate::module_words::{OtherProgram, other_programs};
use crate::summary::early_end;
use crate::words::{printable, printable_path};

/// What the records of a dump are compared with.
pub enum Golden {
    /// The dump of another run.
    Dump(Box<Dump>),
    /// Arrays named after records, arguments, or outputs of the run.
    Files(NamedArrays),
}

impl Golden {
    /// Compares records.
    pub fn diff(
        &self,
        dump: &Dump,
        records: &[Record],
        options: &DiffOptions<'_>,
    ) -> Result<Diff, QueryError> {
        match self {
            Golden::Dump(golden) => Ok(diff_dumps(dump, golden, records, options)?),
            Golden::Files(files) => Ok(diff_arrays(dump, files, records, options)?),
        }
    }

    /// The golden dump, if it is one.
    pub fn dump(&self) -> Option<&Dump> {
        match self {
            Golden::Dump(dump) => Some(dump),
            Golden::Files(_) => None,
        }
    }

    /// The dtype of the golden side of a row.
    pub fn dtype(&self, row: &DiffRow) -> Option<DType> {
        match (self, row.partner.as_ref()?) {
            (_, Partner::Record(theirs)) => Some(theirs.dtype),
            (Golden::Files(files), Partner::Array(name)) => files.get(name).map(|array| array.dtype),
            (Golden::Dump(_), Partner::Array(_)) => None,
        }
    }

    /// Where the errors of a row are.
    pub fn detail(
        &self,
        dump: &Dump,
        diff: &Diff,
        row: &DiffRow,
        options: &DiffOptions<'_>,
    ) -> Result<Option<Detail>, QueryError> {
        let golden = match (self, &diff.arrays) {
            (Golden::Dump(golden), _) => return Ok(diff.detail(dump, golden, row, options)?),
            (Golden::Files(files), Some(arrays)) => {
                arrays.side(files, &row.record)?.map(|(_, golden)| golden)
            }
            (Golden::Files(_), None) => None,
        };
        Ok(golden.map(|golden| row_detail(dump, row, &golden, options)).transpose()?.flatten())
    }
}

/// Opens a golden: a dump if there is one, else array files.
pub fn open(path: &Path) -> Result<Golden, QueryError> {
    let is_array_file =
        path.extension().is_some_and(|e| ["npy", "npz", "safetensors"].iter().any(|k| e == *k));
    if is_array_file {
        return Ok(Golden::Files(NamedArrays::open(path)?));
    }
    match Dump::open(path) {
        Ok(dump) => Ok(Golden::Dump(Box::new(dump))),
        Err(error) => match NamedArrays::open(path) {
            Ok(files) if !files.arrays().is_empty() => Ok(Golden::Files(files)),
            // Report the unreadable array instead of a missing dump.
            Err(bad) if path.is_dir() && !matches!(bad, InterchangeError::NoArrays { .. }) => Err(bad.into()),
            _ if path.is_file() && matches!(error, FormatError::NoDump { .. }) => Err(QueryError::Record {
                message: format!("{} is neither a dump nor a file of arrays", printable_path(path)),
                hint: "name the folder of a dump, or a file that ends in .npy, .npz or .safetensors".into(),
            }),
            _ => Err(error.into()),
        },
    }
}

/// The message that dump and golden are of different scenes.
#[must_use]
pub fn other_scene(dump: &Dump, golden: &Dump) -> Option<String> {
    let (here, there) = (&dump.info().scene, &golden.info().scene);
    let differ = here != there && !here.is_empty() && !there.is_empty();
    differ.then(|| format!("the dump is of scene {}, the golden of {}", printable(here), printable(there)))
}

/// Remarks about a golden that qualify a comparison: it is of a different scene, the dump itself, itself
/// wrong, or made with different parameters. If nothing was compared, a different scene is the reason and not
/// a remark.
#[must_use]
pub fn remarks(dump: &Dump, golden: &Dump, compared: u64) -> Vec<String> {
    let other = other_scene(dump, golden).filter(|_| compared > 0);
    let same = other.into_iter().chain(itself(dump, golden));
    let programs = other_programs(dump, golden).into_iter().map(|other| program_words(&other));
    let itself_wrong = wrong_itself(golden).into_iter().chain(golden_end(golden));
    same.chain(itself_wrong).chain(other_params(dump, golden)).chain(programs).collect()
}

/// The remark about a golden whose run ended early, so that it lacks records.
#[must_use]
pub fn golden_end(golden: &Dump) -> Option<String> {
    early_end(golden).map(|words| format!("in the golden, {words}"))
}

/// Maximum number of kernels in a remark.
const KERNELS: usize = 8;

/// `kernel shift: built with -DWRONG=1, in the golden with -DWRONG=0`.
fn program_words(other: &OtherProgram) -> String {
    let names: Vec<_> = other.kernels.iter().take(KERNELS).map(|name| printable(name)).collect();
    let more = match other.kernels.len().saturating_sub(KERNELS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let kernels = if other.kernels.len() == 1 { "kernel" } else { "kernels" };
    format!("{kernels} {}{more}: {}", names.join(", "), other.words)
}

fn itself(dump: &Dump, golden: &Dump) -> Option<String> {
    let folder = |dump: &Dump| dump.dir().canonicalize().ok();
    let same = folder(dump).is_some_and(|here| Some(here) == folder(golden));
    same.then(|| "the dump is compared with itself, so nothing can differ".to_owned())
}

fn wrong_itself(golden: &Dump) -> Option<String> {
    let failed = golden.footer().is_some_and(|footer| footer.golden == Some(GoldenVerdict::Fail));
    match &golden.info().inject_fault {
        Some(fault) => {
            Some(format!("the golden is itself wrong: it ran with the injected fault {}", printable(fault)))
        }
        None if failed => {
            Some("the golden is itself wrong: its run failed the golden of its scene".to_owned())
        }
        None => None,
    }
}

/// The remark about differing parameters of the same scene.
fn other_params(dump: &Dump, golden: &Dump) -> Option<String> {
    let (here, there) = (dump.info(), golden.info());
    let names: BTreeSet<&String> = here.params.keys().chain(there.params.keys()).collect();
    let differing: Vec<String> = names
        .into_iter()
        .filter(|name| here.params.get(*name) != there.params.get(*name))
        .map(|name| format!("{} {}, not {}", printable(name), value(there, name), value(here, name)))
        .collect();
    (here.scene == there.scene && !differing.is_empty())
        .then(|| format!("the golden ran with different parameters: {}", differing.join("; ")))
}

fn value(info: &RunInfo, name: &str) -> String {
    match info.params.get(name) {
        Some(Value::String(text)) => printable(text).into_owned(),
        Some(value) => printable(&value.to_string()).into_owned(),
        None => "unset".into(),
    }
}
