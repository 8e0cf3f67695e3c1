//! Writes the files, several at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tensortap_abi::TaskId;
use tensortap_format::{Dump, FormatError, PayloadState, Record};
use tensortap_interchange::{ArrayHead, ArrayName, ArrayWriter, Content, InterchangeError, SkippedRecord};

use super::content::{RecordContent, is_whole};
use super::manifest::ManifestFile;
use super::plan::{self, Names, Plan};
use super::{ExportError, ExportFormat, ExportLayout, ExportReport};
use crate::parallel;

/// A record and the name of its array.
type PlannedArray = (Record, ArrayName);

/// One file and its arrays.
struct File {
    path: PathBuf,
    arrays: Vec<PlannedArray>,
}

/// The result of writing one file.
struct FileOutcome {
    /// Its size; `None` if there was nothing to write.
    bytes: Option<u64>,
    /// Numbers of records that have left the dump of a run that is still going.
    gone: Vec<u64>,
}

/// Exports every selected record.
pub fn run(
    plan: &Plan<'_>,
    records: impl Iterator<Item = Result<Record, FormatError>>,
    jobs: usize,
    observe: &(dyn Fn(u64) -> bool + Sync),
    exported: &mut ExportReport,
) -> Result<(), ExportError> {
    let mut manifest = ManifestFile::create(plan)?;
    let mut names = Names::of(plan.dump);
    let mut skipped: Vec<SkippedRecord> = Vec::new();
    let mut last_folder = None;
    let mut selected = 0;
    let whole = records.filter_map(|record| {
        selected += 1;
        let record = match record {
            Ok(record) => record,
            Err(error) => return Some(Err(ExportError::from(error))),
        };
        let name = names.name(&record);
        if is_whole(&record) {
            return Some(Ok((record, name)));
        }
        let payload = record.payload.name().into();
        skipped.push(SkippedRecord { index: record.index, name: name.to_string(), payload });
        None
    });
    let mut gone: Vec<SkippedRecord> = Vec::new();
    let each = |file: File, written: FileOutcome| {
        exported.files += u64::from(written.bytes.is_some());
        exported.file_bytes += written.bytes.unwrap_or(0);
        for (record, name) in &file.arrays {
            if written.gone.contains(&record.index) {
                let payload = PayloadState::Gone.name().into();
                gone.push(SkippedRecord { index: record.index, name: name.to_string(), payload });
                continue;
            }
            exported.count(record);
            manifest.array(plan, record, name, &file.path)?;
        }
        Ok(())
    };
    let work = |writer: &mut ArrayWriter, file: &File| {
        let written = write_what_is_there(plan, writer, file)?;
        let goes_on = observe(file.arrays.iter().map(|(record, _)| record.bin_size).sum());
        if goes_on { Ok(written) } else { Err(ExportError::Stopped) }
    };
    if matches!(plan.layout, ExportLayout::FilePerRecord | ExportLayout::FolderPerTask) {
        let files = whole.map(|named| {
            let (record, name) = named?;
            let path = plan.file(&record, &name);
            make_folder_once(plan, &path, &mut last_folder)?;
            Ok(File { path, arrays: vec![(record, name)] })
        });
        parallel::in_order(jobs, files, ArrayWriter::new, work, each)?;
    } else {
        let mut files: BTreeMap<PathBuf, Vec<PlannedArray>> = BTreeMap::new();
        for named in whole {
            let (record, name) = named?;
            files.entry(plan.file(&record, &name)).or_default().push((record, name));
        }
        let files = files.into_iter().map(|(path, arrays)| Ok(File { path, arrays }));
        parallel::in_order(jobs, files, ArrayWriter::new, work, each)?;
    }
    skipped.extend(gone);
    skipped.sort_by_key(|record| record.index);
    manifest.finish(&skipped)?;
    (exported.selected, exported.skipped) = (selected, skipped);
    Ok(())
}

/// Records of one task usually follow each other.
fn make_folder_once(plan: &Plan<'_>, path: &Path, last: &mut Option<PathBuf>) -> Result<(), ExportError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder != last.as_deref() {
        if let Some(folder) = folder {
            plan::make_task_folder(&plan.out.join(folder))?;
        }
        *last = folder.map(Path::to_path_buf);
    }
    Ok(())
}

/// Writes a file without records that disappear meanwhile. Each retry excludes one more record.
fn write_what_is_there(
    plan: &Plan<'_>,
    writer: &mut ArrayWriter,
    file: &File,
) -> Result<FileOutcome, ExportError> {
    let mut arrays: Vec<&PlannedArray> = file.arrays.iter().collect();
    let mut gone = Vec::new();
    while !arrays.is_empty() {
        let error = match write_file(plan, writer, &file.path, &arrays) {
            Ok(bytes) => return Ok(FileOutcome { bytes: Some(bytes), gone }),
            Err(error) => error,
        };
        let known = gone.len();
        for (record, _) in arrays.iter().filter(|_| is_gone(&error)) {
            if record.bin_size > 0 && plan.dump.record_has_left(record)? {
                gone.push(record.index);
            }
        }
        if gone.len() == known {
            return Err(error);
        }
        arrays.retain(|(record, _)| !gone.contains(&record.index));
    }
    Ok(FileOutcome { bytes: None, gone })
}

/// Whether a record could not be read because it has left the dump.
fn is_gone(error: &ExportError) -> bool {
    let ExportError::Interchange(
        InterchangeError::Content { source, .. } | InterchangeError::Io { source, .. },
    ) = error
    else {
        return false;
    };
    let why = source.get_ref().and_then(|why| why.downcast_ref::<FormatError>());
    matches!(why, Some(FormatError::RecordGone { .. }))
}

fn write_file(
    plan: &Plan<'_>,
    writer: &mut ArrayWriter,
    path: &Path,
    arrays: &[&PlannedArray],
) -> Result<u64, ExportError> {
    let path = plan.out.join(path);
    let names: Vec<String> = arrays.iter().map(|(_, name)| name.to_string()).collect();
    let contents: Vec<RecordContent<'_>> =
        arrays.iter().map(|(record, _)| RecordContent::new(plan.dump, record)).collect();
    let first = &arrays[0].0;
    let heads = arrays.iter().zip(&names).map(|((record, _), name)| ArrayHead {
        name,
        dtype: record.dtype,
        shape: record.shape(),
    });
    let arrays: Vec<(ArrayHead<'_>, &dyn Content)> =
        heads.zip(&contents).map(|(head, content)| (head, content as &dyn Content)).collect();
    let written = match (plan.format, arrays.as_slice()) {
        (ExportFormat::Npz, arrays) => writer.npz(&path, arrays),
        (ExportFormat::Safetensors, arrays) => writer.safetensors(&path, arrays, &[]),
        (ExportFormat::Npy, [(head, content)]) => writer.npy(&path, head, *content),
        (ExportFormat::Csv, [(head, content)]) => writer.csv(&path, head, *content),
        (ExportFormat::Txt, [(head, content)]) => writer.txt(&path, head, &notes(plan.dump, first), *content),
        (ExportFormat::Raw, [(head, content)]) => writer.raw(&path, head, *content),
        (ExportFormat::Npy | ExportFormat::Csv | ExportFormat::Txt | ExportFormat::Raw, _) => {
            unreachable!("these layouts have one record for each file")
        }
    };
    Ok(written?)
}

/// The header lines of a text file. They contain nothing that differs between two runs of the same program.
fn notes(dump: &Dump, record: &Record) -> Vec<(&'static str, String)> {
    vec![
        ("task_id", TaskId(record.task_id).to_string()),
        ("kernels", kernels(dump, record)),
        ("stage", record.stage.name().into()),
        ("role", record.role.name().into()),
        ("arg_index", record.arg_index.to_string()),
        ("kind", record.kind.name().into()),
        ("strides", format!("{:?}", record.strides())),
        ("start_offset", record.start_offset.to_string()),
        ("numel", record.numel.to_string()),
    ]
}

/// The names of a record's kernels, without characters that would break a line.
fn kernels(dump: &Dump, record: &Record) -> String {
    let plain = |name: String| name.replace(char::is_control, "\u{fffd}");
    let names: Vec<String> = record.func_ids().map(|id| plain(dump.info().kernel_name(id))).collect();
    if names.is_empty() { "-".into() } else { names.join("+") }
}
