//! Writes the manifest of an export, array by array.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

use tensortap_abi::TaskId;
use tensortap_format::Record;
use tensortap_interchange::{
    ArrayName, EXPORT_MANIFEST_FILE, ExportManifest, ExportedArray, ManifestWriter, SkippedRecord,
    numpy_storage, safetensors_storage,
};

use super::plan::Plan;
use super::{ExportError, ExportFormat, cannot};

/// Writes to a temporary file, which gets its final name when it is complete.
pub struct ManifestFile {
    path: PathBuf,
    unfinished: PathBuf,
    writer: ManifestWriter<BufWriter<File>>,
}

impl ManifestFile {
    /// Starts the manifest. Removes the manifest of an earlier export, which no longer matches the files.
    pub fn create(plan: &Plan<'_>) -> Result<ManifestFile, ExportError> {
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
        let head = ExportManifest {
            schema_version: 1,
            dump: plan.dump.dir().display().to_string(),
            format: plan.format.name().into(),
            ..ExportManifest::default()
        };
        let writer =
            ManifestWriter::new(BufWriter::new(file), &head).map_err(cannot("write", &unfinished))?;
        Ok(ManifestFile { path, unfinished, writer })
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
        self.writer.array(&array).map_err(cannot("write", &self.unfinished))
    }

    /// Adds the skipped records and gives the file its name.
    pub fn finish(self, skipped: &[SkippedRecord]) -> Result<(), ExportError> {
        self.writer.finish(skipped).map_err(cannot("write", &self.unfinished))?;
        fs::rename(&self.unfinished, &self.path).map_err(cannot("write", &self.path))
    }
}
