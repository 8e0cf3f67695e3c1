//! What a dump is compared with: another dump, or arrays in files.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use tensortap::DType;
use tensortap::analysis::compare::{Side, record_side};
use tensortap::analysis::diff::{
    Diff, DiffOptions, DiffRow, Lonely, Partner, diff_arrays, diff_dumps, row_detail,
};
use tensortap::format::{Dump, Record};
use tensortap::interchange::{self, ArrayName, InterchangeError, NamedArray};
use tensortap::judge::{Content, Detail};

use crate::QueryError;

/// What the records of a dump are compared with.
pub enum Golden {
    /// Those of another run.
    Dump(Box<Dump>),
    /// Arrays that are named after them.
    Files(GoldenFiles),
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
            Golden::Files(files) => files.diff(dump, records, options),
        }
    }

    /// The dump, if it is one.
    pub fn dump(&self) -> Option<&Dump> {
        match self {
            Golden::Dump(dump) => Some(dump),
            Golden::Files(_) => None,
        }
    }

    /// The dtype of what a row was compared with.
    pub fn dtype(&self, row: &DiffRow) -> Option<DType> {
        match (self, row.partner.as_ref()?) {
            (_, Partner::Record(theirs)) => Some(theirs.dtype),
            (Golden::Files(files), Partner::Array(name)) => {
                files.files.arrays().iter().find(|array| array.name == *name).map(|array| array.dtype)
            }
            (Golden::Dump(_), Partner::Array(_)) => None,
        }
    }

    /// Where the errors of a row sit.
    pub fn detail(
        &self,
        dump: &Dump,
        row: &DiffRow,
        options: &DiffOptions<'_>,
    ) -> Result<Option<Detail>, QueryError> {
        let golden = match (self, &row.partner) {
            (Golden::Dump(golden), Some(Partner::Record(theirs))) => Some(record_side(golden, theirs)),
            (Golden::Files(files), Some(Partner::Array(name))) => files.array(name)?,
            _ => None,
        };
        Ok(golden.map(|golden| row_detail(dump, row, &golden, options)).transpose()?.flatten())
    }
}

/// Arrays by the record that their name stands for.
pub struct GoldenFiles {
    files: interchange::NamedArrays,
}

/// Opens a golden: a dump when there is one, else files.
pub fn open(path: &Path) -> Result<Golden, QueryError> {
    let is_array_file =
        path.extension().is_some_and(|e| ["npy", "npz", "safetensors"].iter().any(|k| e == *k));
    if is_array_file {
        return Ok(Golden::Files(GoldenFiles { files: interchange::NamedArrays::open(path)? }));
    }
    match Dump::open(path) {
        Ok(dump) => Ok(Golden::Dump(Box::new(dump))),
        Err(error) => match interchange::NamedArrays::open(path) {
            Ok(files) if !files.arrays().is_empty() => Ok(Golden::Files(GoldenFiles { files })),
            // A folder of arrays of which one cannot be read is no folder without a dump.
            Err(bad) if path.is_dir() && !matches!(bad, InterchangeError::NoArrays { .. }) => Err(bad.into()),
            _ => Err(error.into()),
        },
    }
}

impl GoldenFiles {
    /// Compares records with the arrays of their names.
    pub fn diff(
        &self,
        dump: &Dump,
        records: &[Record],
        options: &DiffOptions<'_>,
    ) -> Result<Diff, QueryError> {
        let by_name: HashMap<ArrayName, &NamedArray> =
            self.files.arrays().iter().filter_map(|a| Some((a.record_name()?, a))).collect();
        if by_name.is_empty() {
            return Err(QueryError::UnnamedArrays);
        }
        let find = |record: &Record| -> Result<Option<(String, Side<'_>)>, QueryError> {
            let Some(array) = find(&by_name, record) else { return Ok(None) };
            Ok(Some((array.name.clone(), side_of(array)?)))
        };
        let mut diff = diff_arrays(dump, records, find, options)?;
        let used: HashSet<&str> = records.iter().filter_map(|r| find_name(&by_name, r)).collect();
        let unused = by_name.values().filter(|a| !used.contains(a.name.as_str()) && is_absent(dump, a));
        diff.unmatched.extend(unused.map(|array| Lonely {
            what: format!("the golden's array {}", array.name),
            reason: "the dump has no such record".into(),
        }));
        Ok(diff)
    }

    fn array(&self, name: &str) -> Result<Option<Side<'_>>, InterchangeError> {
        self.files.arrays().iter().find(|array| array.name == name).map(side_of).transpose()
    }
}

fn side_of(array: &NamedArray) -> Result<Side<'_>, InterchangeError> {
    let mut side = Side::of_bytes(array.dtype, &array.shape, Vec::new());
    side.content = Content::Bytes(array.content()?.into());
    Ok(side)
}

/// Whether no record of the dump, selected or not, has the name of an array.
fn is_absent(dump: &Dump, array: &NamedArray) -> bool {
    let Some(name) = array.record_name() else { return true };
    !dump.records().flatten().any(|r| names(&r).contains(&name))
}

fn find<'a>(by_name: &HashMap<ArrayName, &'a NamedArray>, record: &Record) -> Option<&'a NamedArray> {
    names(record).iter().find_map(|name| by_name.get(name).copied())
}

fn find_name<'a>(by_name: &HashMap<ArrayName, &'a NamedArray>, record: &Record) -> Option<&'a str> {
    find(by_name, record).map(|array| array.name.as_str())
}

/// The names that a record may have: with its step where the dump has several, and with its position where another has the
/// rest in common.
fn names(record: &Record) -> [ArrayName; 4] {
    let Record { step, task_id, stage, role, arg_index, .. } = *record;
    let (with_step, with_index) = (Some(step), Some(record.index));
    [(with_step, with_index), (with_step, None), (None, with_index), (None, None)]
        .map(|(step, index)| ArrayName { step, task_id, stage, role, arg_index, index })
}
