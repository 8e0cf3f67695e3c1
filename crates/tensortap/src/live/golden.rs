use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use tensortap_abi::DumpStage;
use tensortap_format::{ArgumentKind, Dump, DumpFormat, FormatError, Record, RunInfo};

use super::task::WaitingTask;
use crate::Error;

/// One argument that the golden has of a task; the rest of its record is read when it is needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct GoldenArg {
    pub(super) index: u64,
    pub(super) kind: ArgumentKind,
    pub(super) stage: DumpStage,
    pub(super) arg_index: u16,
    /// Of a tensor.
    pub(super) hash: u128,
    /// Of a scalar.
    pub(super) bits: u64,
    /// Role, dtype and shape of a tensor, as [`form_of`] folds them: reading the record for every hash that agrees would
    /// cost more than the comparison.
    pub(super) form: u64,
}

/// One number for role, dtype and shape; equal content of another form is a difference.
pub(super) fn form_of(role: u8, dtype: u8, shape: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (role, dtype, shape).hash(&mut hasher);
    hasher.finish()
}

/// The dump that a run is held against.
pub(super) struct Golden {
    pub(super) dump: Dump,
    tasks: HashMap<u64, Vec<GoldenArg>>,
}

impl Golden {
    /// Opens a golden; refuses one whose tasks cannot be those of the run.
    pub(super) fn open(path: &Path, run: &RunInfo) -> Result<Golden, Error> {
        let dump = Dump::open(path)?;
        let refuse = |reason: String| Error::LiveGolden { golden: path.to_owned(), reason };
        if !matches!(dump.format(), DumpFormat::Indexed | DumpFormat::Manifest) {
            return Err(refuse("it has no content hashes; give a dump that tensortap made".into()));
        }
        let golden = dump.info();
        for (what, theirs, ours) in
            [("scene", &golden.scene, &run.scene), ("runtime", &golden.runtime, &run.runtime)]
        {
            if theirs != ours {
                let reason = format!(
                    "its {what} is `{theirs}`, that of the run is `{ours}`, so task ids mean other tasks"
                );
                return Err(refuse(reason + "; run the same, or compare afterwards with tensortap blame"));
            }
        }
        if golden.params != run.params {
            return Err(refuse("it was made with other parameters; give the run the same".into()));
        }
        let tasks = collect(&dump, path)?;
        if tasks.is_empty() {
            return Err(refuse("it holds no record".into()));
        }
        Ok(Golden { dump, tasks })
    }

    pub(super) fn tasks(&self) -> u64 {
        self.tasks.len() as u64
    }

    /// What the golden has of a task.
    pub(super) fn of(&self, task_id: u64) -> &[GoldenArg] {
        self.tasks.get(&task_id).map_or(&[], Vec::as_slice)
    }

    /// Whether all of it has come.
    pub(super) fn has_all_of(&self, task_id: u64, task: &WaitingTask) -> bool {
        let args = self.of(task_id);
        !args.is_empty()
            && args.iter().all(|arg| match arg.kind {
                ArgumentKind::Tensor => task.tensor(arg.stage, arg.arg_index).is_some(),
                ArgumentKind::Scalar => task.scalar(arg.arg_index).is_some(),
            })
    }

    pub(super) fn record(&self, arg: &GoldenArg) -> Result<Record, FormatError> {
        self.dump.record(arg.index)
    }
}

fn collect(dump: &Dump, path: &Path) -> Result<HashMap<u64, Vec<GoldenArg>>, Error> {
    let mut tasks: HashMap<u64, Vec<GoldenArg>> = HashMap::new();
    for record in dump.records() {
        let record = record?;
        let (hash, bits) = match record.kind {
            ArgumentKind::Scalar => (0, record.scalar_bits.unwrap_or(0)),
            ArgumentKind::Tensor => (record.hash.ok_or_else(|| no_hash(path, &record))?, 0),
        };
        let Record { index, kind, stage, arg_index, .. } = record;
        let form = form_of(record.role.tag(), record.dtype.tag(), record.shape());
        let arg = GoldenArg { index, kind, stage, arg_index, hash, bits, form };
        tasks.entry(record.task_id).or_default().push(arg);
    }
    Ok(tasks)
}

fn no_hash(path: &Path, record: &Record) -> Error {
    let reason = format!("{record} has no hash; make the golden at level full or hash, without losses");
    Error::LiveGolden { golden: PathBuf::from(path), reason }
}
