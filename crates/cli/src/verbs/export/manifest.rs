//! The manifest of an export, written array by array.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;
use tensortap::TaskId;
use tensortap::format::{Record, role_name};
use tensortap::interchange::{
    ArrayName, EXPORT_MANIFEST_FILE, ExportedArray, SkippedRecord, numpy_storage, safetensors_storage,
};

use super::Format;
use super::plan::Plan;

/// Writes beside the manifest's place; it gets its name when all is there.
pub struct ManifestWriter {
    path: PathBuf,
    unfinished: PathBuf,
    out: BufWriter<File>,
    separator: &'static str,
}

impl ManifestWriter {
    /// Begins it. That of an earlier export goes: what it says no longer holds.
    pub fn create(plan: &Plan<'_>) -> anyhow::Result<ManifestWriter> {
        let path = plan.out.join(EXPORT_MANIFEST_FILE);
        let unfinished = plan.out.join(format!("{EXPORT_MANIFEST_FILE}.part"));
        for old in [&path, &unfinished] {
            match fs::remove_file(old) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", old.display()));
                }
                _ => {}
            }
        }
        let file = File::create_new(&unfinished)
            .with_context(|| format!("cannot create {}", unfinished.display()))?;
        let mut writer = ManifestWriter { path, unfinished, out: BufWriter::new(file), separator: "" };
        let dump = json(&plan.dump.dir().display().to_string())?;
        let head = format!(
            "{{\n  \"schema_version\": 1,\n  \"dump\": {dump},\n  \"format\": \"{}\",\n",
            plan.format.name()
        );
        writer.put(&(head + "  \"arrays\": ["))?;
        Ok(writer)
    }

    /// Adds an array that was written.
    pub fn array(
        &mut self,
        plan: &Plan<'_>,
        record: &Record,
        name: &ArrayName,
        file: &Path,
    ) -> anyhow::Result<()> {
        let (dtype, shape) = (record.dtype, record.shape());
        let stored = match plan.format {
            Format::Npy | Format::Npz => numpy_storage(dtype, shape).dtype.name(),
            Format::Safetensors => safetensors_storage(dtype, shape).dtype.name(),
            Format::Csv | Format::Txt => "text",
            Format::Raw => "bytes",
        };
        let array = ExportedArray {
            name: name.to_string(),
            file: file.display().to_string(),
            dtype: dtype.name().into(),
            shape: shape.into(),
            stored_as: stored.into(),
            bytes: record.content_bytes(),
            index: record.index,
            task_id: TaskId(record.task_id).to_string(),
            kernels: record.func_ids().map(|id| plan.dump.info().kernel_name(id)).collect(),
            stage: record.stage.name().into(),
            role: role_name(record.role).into(),
            arg_index: record.arg_index,
            kind: record.kind.name().into(),
            hash: record.hash.map(|hash| format!("0x{hash:032x}")),
        };
        self.item(&array)
    }

    /// Ends it with what was left out, and gives it its name.
    pub fn finish(mut self, skipped: &[SkippedRecord]) -> anyhow::Result<()> {
        self.put("\n  ],\n  \"skipped\": [")?;
        self.separator = "";
        skipped.iter().try_for_each(|record| self.item(record))?;
        self.put(if skipped.is_empty() { "]\n}\n" } else { "\n  ]\n}\n" })?;
        let told = || format!("cannot write {}", self.unfinished.display());
        self.out.flush().with_context(told)?;
        fs::rename(&self.unfinished, &self.path)
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn item(&mut self, item: &impl Serialize) -> anyhow::Result<()> {
        let line = format!("{}\n    {}", self.separator, json(item)?);
        self.separator = ",";
        self.put(&line)
    }

    fn put(&mut self, text: &str) -> anyhow::Result<()> {
        let told = || format!("cannot write {}", self.unfinished.display());
        self.out.write_all(text.as_bytes()).with_context(told)
    }
}

fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(value).map_err(io::Error::from)?)
}
