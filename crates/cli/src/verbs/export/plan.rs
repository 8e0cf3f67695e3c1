//! Which file each record goes to.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tensortap::TaskId;
use tensortap::format::{Dump, FormatError, Record};
use tensortap::interchange::ArrayName;

use super::Format;
use crate::select::Selection;

/// How records share files and folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
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
    pub format: Format,
    /// How records share them.
    pub layout: Layout,
    /// The folder.
    pub out: &'a Path,
}

impl Plan<'_> {
    /// The file of a record, below the folder. Every part of it is made here, from numbers and fixed words, so none can
    /// lead out of the folder.
    pub fn file(&self, record: &Record, name: &ArrayName) -> PathBuf {
        let (task, extension) = (format!("task_{}", TaskId(record.task_id)), self.format.extension());
        match self.layout {
            Layout::FilePerRecord => format!("{name}.{extension}").into(),
            Layout::FolderPerTask => Path::new(&task).join(format!("{name}.{extension}")),
            Layout::FilePerTask => format!("{task}.{extension}").into(),
            Layout::OneFile => format!("tensors.{extension}").into(),
        }
    }
}

/// Gives every record a name of its own.
#[derive(Default)]
pub struct Names {
    taken: HashSet<ArrayName>,
}

impl Names {
    /// The name of the next record. A second one of the same task, stage, role and argument has its position in it.
    pub fn name(&mut self, record: &Record) -> ArrayName {
        let &Record { task_id, stage, role, arg_index, index, .. } = record;
        let plain = ArrayName { task_id, stage, role, arg_index, index: None };
        if self.taken.insert(plain) { plain } else { ArrayName { index: Some(index), ..plain } }
    }
}

/// Records selected, and the bytes to be read for them.
pub struct Extent {
    /// Records.
    pub records: u64,
    /// Bytes stored.
    pub bytes: u64,
}

impl Extent {
    /// Reads the index once more rather than keep records in memory.
    pub fn of(dump: &Dump, selection: &Selection) -> Result<Extent, FormatError> {
        let mut extent = Extent { records: 0, bytes: 0 };
        for record in selection.records(dump) {
            extent.records += 1;
            extent.bytes = extent.bytes.saturating_add(record?.bin_size);
        }
        Ok(extent)
    }
}

/// Makes the folder, or takes an empty one.
pub fn prepare_folder(out: &Path, force: bool) -> anyhow::Result<()> {
    let occupied = match fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => {
            return Err(error).with_context(|| format!("cannot use {} for the files", out.display()));
        }
    };
    if occupied && !force {
        return Err(crate::error::UsageError {
            message: format!("{} exists and is not empty", out.display()),
            hint: "name another folder with --out, or use --force to replace files of the same name".into(),
        }
        .into());
    }
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))
}

/// Makes the folder of a task. A link in its place would lead elsewhere.
pub fn make_task_folder(dir: &Path) -> anyhow::Result<()> {
    let made = fs::create_dir(dir);
    let is_there = fs::symlink_metadata(dir).is_ok_and(|metadata| metadata.is_dir());
    if made.is_err() && !is_there {
        made.with_context(|| format!("cannot create {}", dir.display()))?;
    }
    Ok(())
}
