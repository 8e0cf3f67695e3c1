//! Decides which file each record goes to.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tensortap_abi::TaskId;
use tensortap_format::{Dump, Record};
use tensortap_interchange::ArrayName;

use super::{ExportError, ExportFormat, cannot};

/// How records are distributed over files and folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportLayout {
    /// One file per record, all in one folder.
    FilePerRecord,
    /// One file per record, in one folder per task.
    FolderPerTask,
    /// One file per task.
    FilePerTask,
    /// One file.
    OneFile,
}

/// What is exported, and how.
pub struct Plan<'a> {
    /// The dump.
    pub dump: &'a Dump,
    /// File format.
    pub format: ExportFormat,
    /// How records are distributed over files.
    pub layout: ExportLayout,
    /// The folder.
    pub out: &'a Path,
}

impl Plan<'_> {
    /// The file of a record, relative to the folder. It consists only of numbers and fixed words, so it
    /// cannot leave the folder.
    pub fn file(&self, record: &Record, name: &ArrayName) -> PathBuf {
        let step = name.step.map(|step| format!("step{step}_")).unwrap_or_default();
        let (task, extension) = (format!("{step}task_{}", TaskId(record.task_id)), self.format.extension());
        match self.layout {
            ExportLayout::FilePerRecord => format!("{name}.{extension}").into(),
            ExportLayout::FolderPerTask => Path::new(&task).join(format!("{name}.{extension}")),
            ExportLayout::FilePerTask => format!("{task}.{extension}").into(),
            ExportLayout::OneFile => format!("tensors.{extension}").into(),
        }
    }
}

/// Gives every record a unique name.
pub struct Names {
    /// Whether the dump has several steps, which then appear in the names.
    has_steps: bool,
    taken: HashSet<ArrayName>,
}

impl Names {
    /// A name generator for a dump's records.
    pub fn of(dump: &Dump) -> Names {
        Names { has_steps: dump.steps().len() > 1, taken: HashSet::new() }
    }

    /// The name of the next record. If a record with the same task, stage, role and argument came before,
    /// the name contains its position.
    pub fn name(&mut self, record: &Record) -> ArrayName {
        let &Record { step, task_id, stage, role, arg_index, index, .. } = record;
        let step = self.has_steps.then_some(step);
        let plain = ArrayName { step, task_id, stage, role, arg_index, index: None };
        if self.taken.insert(plain) { plain } else { ArrayName { index: Some(index), ..plain } }
    }
}

/// Creates the folder, or accepts an empty one.
pub fn prepare_folder(out: &Path, force: bool) -> Result<(), ExportError> {
    let occupied = match fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(cannot("create", out)(error)),
    };
    if occupied && !force {
        return Err(ExportError::NotEmpty { dir: out.into() });
    }
    fs::create_dir_all(out).map_err(cannot("create", out))
}

/// Creates the folder of a task. A link is rejected, because it could point elsewhere.
pub fn make_task_folder(dir: &Path) -> Result<(), ExportError> {
    let made = fs::create_dir(dir);
    let is_there = fs::symlink_metadata(dir).is_ok_and(|metadata| metadata.is_dir());
    if is_there { Ok(()) } else { made.map_err(cannot("create", dir)) }
}
