//! Writes the manifest of an export, array by array.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tensortap_abi::TaskId;
use tensortap_format::Record;
use tensortap_interchange::{
    ArrayName, EXPORT_MANIFEST_FILE, ExportedArray, SkippedRecord, numpy_storage, safetensors_storage,
};

use super::plan::Plan;
use super::{ExportError, ExportFormat, cannot};

/// Writes to a temporary file, which gets its final name when it is complete.
pub struct ManifestWriter {
    path: PathBuf,
    unfinished: PathBuf,
    out: BufWriter<File>,
    separator: &'static str,
}

impl ManifestWriter {
    /// Starts the manifest. Removes the manifest of an earlier export, which no longer matches the files.
    pub fn create(plan: &Plan<'_>) -> Result<ManifestWriter, ExportError> {
        let path = plan.out.join(EXPORT_MANIFEST_FILE);
        let unfinished = plan.out.join(format!("{EXPORT_MANIFEST_FILE}.part"));
        for old in [&path, &unfinished] {
            match fs::remove_file(old) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(cannot("write", old)(error));
                }
                _ => {}
            }
        }
        let file = File::create_new(&unfinished).map_err(cannot("create", &unfinished))?;
        let mut writer = ManifestWriter { path, unfinished, out: BufWriter::new(file), separator: "" };
        let dump =
            json(&plan.dump.dir().display().to_string()).map_err(cannot("write", &writer.unfinished))?;
        let head = format!(
            "{{\n  \"schema_version\": 1,\n  \"dump\": {dump},\n  \"format\": \"{}\",\n",
            plan.format.name()
        );
        writer.put(&(head + "  \"arrays\": ["))?;
        Ok(writer)
    }

    /// Adds a written array.
    pub fn array(
        &mut self,
        plan: &Plan<'_>,
        record: &Record,
        name: &ArrayName,
        file: &Path,
    ) -> Result<(), ExportError> {
        let (dtype, shape) = (record.dtype, record.shape());
        let stored = match plan.format {
            ExportFormat::Npy | ExportFormat::Npz => numpy_storage(dtype, shape).dtype.name(),
            ExportFormat::Safetensors => safetensors_storage(dtype, shape).dtype.name(),
            ExportFormat::Csv | ExportFormat::Txt => "text",
            ExportFormat::Raw => "bytes",
        };
        let array = ExportedArray {
            name: name.to_string(),
            file: file.display().to_string(),
            dtype: dtype.name().into(),
            shape: shape.into(),
            stored_as: stored.into(),
            bytes: record.content_bytes(),
            index: record.index,
            step: record.step,
            task_id: TaskId(record.task_id).to_string(),
            kernels: record.func_ids().map(|id| plan.dump.info().kernel_name(id)).collect(),
            stage: record.stage.name().into(),
            role: record.role.name().into(),
            arg_index: record.arg_index,
            kind: record.kind.name().into(),
            hash: record.hash.map(|hash| format!("0x{hash:032x}")),
        };
        self.item(&array)
    }

    /// Adds the skipped records and gives the file its name.
    pub fn finish(mut self, skipped: &[SkippedRecord]) -> Result<(), ExportError> {
        self.put("\n  ],\n  \"skipped\": [")?;
        self.separator = "";
        skipped.iter().try_for_each(|record| self.item(record))?;
        self.put(if skipped.is_empty() { "]\n}\n" } else { "\n  ]\n}\n" })?;
        self.out.flush().map_err(cannot("write", &self.unfinished))?;
        fs::rename(&self.unfinished, &self.path).map_err(cannot("write", &self.path))
    }

    fn item(&mut self, item: &impl Serialize) -> Result<(), ExportError> {
        let line =
            format!("{}\n    {}", self.separator, json(item).map_err(cannot("write", &self.unfinished))?);
        self.separator = ",";
        self.put(&line)
    }

    fn put(&mut self, text: &str) -> Result<(), ExportError> {
        self.out.write_all(text.as_bytes()).map_err(cannot("write", &self.unfinished))
    }
}

fn json(value: &impl Serialize) -> io::Result<String> {
    serde_json::to_string(value).map_err(io::Error::from)
}
