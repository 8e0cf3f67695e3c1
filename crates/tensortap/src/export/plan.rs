//! Which file each record goes to.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tensortap_abi::TaskId;
use tensortap_format::{Dump, Record};
use tensortap_interchange::ArrayName;

use super::{ExportError, ExportFormat, cannot};

/// How records share files and folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportLayout {
    /// A file for each record, all in one folder.
    FilePerRecord,
    /// A file for each record, in a folder for each task.
    FolderPerTask,
    /// A file for each task.
    FilePerTask,
    /// One file.
    OneFile,
}

/// What is exported, how and where to.
pub struct Plan<'a> {
    /// The dump.
    pub dump: &'a Dump,
    /// What files are written.
    pub format: ExportFormat,
    /// How records share them.
    pub layout: ExportLayout,
    /// The folder.
    pub out: &'a Path,
}

impl Plan<'_> {
    /// The file of a record, below the folder. Every part of it is made here, from numbers and fixed words, so none can
    /// lead out of the folder.
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

/// Gives every record a name of its own.
pub struct Names {
    /// Whether the dump has several steps, which then stand in the names.
    has_steps: bool,
    taken: HashSet<ArrayName>,
}

impl Names {
    /// Names for the records of a dump.
    pub fn of(dump: &Dump) -> Names {
        Names { has_steps: dump.steps().len() > 1, taken: HashSet::new() }
    }

    /// The name of the next record. A second one of the same task, stage, role and argument has its position in it.
    pub fn name(&mut self, record: &Record) -> ArrayName {
        let &Record { step, task_id, stage, role, arg_index, index, .. } = record;
        let step = self.has_steps.then_some(step);
        let plain = ArrayName { step, task_id, stage, role, arg_index, index: None };
        if self.taken.insert(plain) { plain } else { ArrayName { index: Some(index), ..plain } }
    }
}

/// Makes the folder, or takes an empty one.
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

/// Makes the folder of a task. A link in its place would lead elsewhere.
pub fn make_task_folder(dir: &Path) -> Result<(), ExportError> {
    let made = fs::create_dir(dir);
    let is_there = fs::symlink_metadata(dir).is_ok_and(|metadata| metadata.is_dir());
    if is_there { Ok(()) } else { made.map_err(cannot("create", dir)) }
}
