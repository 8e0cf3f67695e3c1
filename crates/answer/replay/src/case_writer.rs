//! Writes a case: a dump of one task with a README and libraries, in a folder or one file. After an error, partial files
//! are removed.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap_abi::{
    DType, DumpStage, MAX_DIMS, RECORD_DTYPE_UNKNOWN, RECORD_HAS_HASH, RECORD_HAS_PARENT, RECORD_IN_FLIGHT,
    Role, ScalarRecord, ScopeRecord, TaskRecord, TensorRecord, TensorStats,
};
use tensortap_format::{
    Argument, Dump, DumpWriter, Footer, FormatError, GRAPH_FILE, IndexRecord, MANIFEST_FILE, Payload,
    PayloadState, RunInfo, Status, Task,
};
use tensortap_interchange::{ArrayHead, ArrayWriter, Content, InterchangeError};
use tensortap_values::{Element, content_hash};

use crate::capture::Capture;
use crate::case::{CASE_KEY, CaseLibrary, CaseSection, KERNELS_FOLDER};
use crate::{ExpectedSource, ExtractConfig, ReplayError};

/// Instructions for people.
pub const README_FILE: &str = "README.md";
/// Key of the instructions in a single-file case.
const README_KEY: &str = "readme";

/// An argument at one stage.
pub struct CaseRecord<'s> {
    pub argument: Argument<'s>,
    pub stage: DumpStage,
    pub content: CaseContent,
}

/// What a case stores of a content.
pub enum CaseContent {
    Whole(Vec<u8>),
    /// The first bytes.
    Part(Vec<u8>),
    /// Nothing, or only hash and statistics.
    Missing(Option<(u128, TensorStats)>),
}

/// A written case.
pub struct WrittenCase {
    /// Number of stored payloads.
    pub payloads: usize,
    /// Size of all files.
    pub bytes: u64,
    /// The copied libraries.
    pub libraries: Vec<PathBuf>,
}

/// Whether the case is a single file.
pub fn is_file(out: &Path) -> bool {
    out.extension().is_some_and(|e| e == "safetensors")
}

/// Writes a case. After an error, all partial files are removed.
pub fn write(
    config: &ExtractConfig,
    capture: &dyn Capture,
    task: Task<'_>,
    (mut info, section): (RunInfo, &CaseSection),
    records: &[CaseRecord<'_>],
    libraries: &[(PathBuf, String)],
) -> Result<WrittenCase, ReplayError> {
    let out = &config.out;
    let readme = readme(config, &info, (task, capture), section, records);
    info.extra.insert(CASE_KEY.into(), serde_json::to_value(section).expect("it has only string keys"));
    if !is_file(out) {
        return in_new_folder(out, |folder| {
            let libraries = copy_libraries(libraries, folder)?;
            let payloads = write_dump(folder, &info, capture, task, records)?;
            write_text(&folder.join(README_FILE), &readme)?;
            Ok(WrittenCase { payloads, bytes: folder_bytes(folder), libraries })
        });
    }
    // The folder of a dump becomes one file.
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    let unfinished = out.with_file_name(name);
    in_new_folder(&unfinished, |folder| {
        let payloads = write_dump(folder, &info, capture, task, records)?;
        let written = write_file(out, folder, &readme);
        if written.is_err() {
            let _ = std::fs::remove_file(out);
        }
        let bytes = written?;
        std::fs::remove_dir_all(folder).map_err(|source| not_written(folder, source))?;
        Ok(WrittenCase { payloads, bytes, libraries: Vec::new() })
    })
}

/// Writes into a folder that is new or empty. After an error, removes the files and the folders that it created.
pub fn in_new_folder<T>(
    folder: &Path,
    fill: impl FnOnce(&Path) -> Result<T, ReplayError>,
) -> Result<T, ReplayError> {
    let missing: Vec<&Path> =
        folder.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.is_dir()).collect();
    let created = std::fs::create_dir_all(folder).map_err(|source| not_written(folder, source));
    let written = created.and_then(|()| fill(folder)).map_err(|error| match error {
        ReplayError::Format(FormatError::Io { path, source, .. }) => not_written(&path, source),
        other => other,
    });
    if written.is_err() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
        missing.into_iter().for_each(|path| drop(std::fs::remove_dir(path)));
    }
    written
}

fn not_written(path: &Path, source: io::Error) -> ReplayError {
    ReplayError::NotWritten { path: path.to_owned(), source }
}

pub fn write_text(path: &Path, text: &str) -> Result<(), ReplayError> {
    std::fs::write(path, text).map_err(|source| not_written(path, source))
}

/// Size of the files in a folder and its folders.
pub fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

fn copy_libraries(libraries: &[(PathBuf, String)], folder: &Path) -> Result<Vec<PathBuf>, ReplayError> {
    let folder = folder.join(KERNELS_FOLDER);
    let copy = |(from, name): &(PathBuf, String)| {
        let to = folder.join(name);
        // Restrict write permission to the owner, whatever the library's own permissions are.
        let rights = std::fs::Permissions::from_mode(0o644);
        let copied = std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::copy(from, &to))
            .and_then(|_| std::fs::set_permissions(&to, rights));
        copied.map(|()| to.clone()).map_err(|source| not_written(&to, source))
    };
    libraries.iter().map(copy).collect()
}

/// Writes the dump of a task and returns the number of its payloads.
fn write_dump(
    folder: &Path,
    info: &RunInfo,
    capture: &dyn Capture,
    task: Task<'_>,
    records: &[CaseRecord<'_>],
) -> Result<usize, FormatError> {
    let mut writer = DumpWriter::create(folder, info)?;
    let mut index: Vec<IndexRecord> = capture.facts(task)?;
    let has_parent = index.iter().any(|record| record.as_task().is_some());
    let last_string = index.iter().filter_map(|record| Some(record.as_string()?.0)).max().unwrap_or(0);
    let scopes = index.iter().filter_map(|record| Some(record.get::<ScopeRecord>()?.id));
    let own_scope = scopes.max().unwrap_or(0).saturating_add(1);
    let mut next_string = last_string;
    let mut named = |text: Option<&str>| {
        let Some(text) = text else { return 0 };
        next_string = next_string.saturating_add(1);
        index.push(IndexRecord::string(next_string, text));
        next_string
    };
    let (name, scope) = (named(task.task_name()), named(task.scope()));
    let mut fields: Vec<TensorRecord> = records.iter().map(|record| tensor(task, record)).collect();
    fields.iter_mut().for_each(|fields| fields.name = named(task.arg_name(fields.arg_index)));
    let scalars = capture.scalars(task).into_iter().filter_map(|scalar| {
        let (arg_index, dtype) = (scalar.arg_index, scalar.dtype.tag());
        let (task_id, stage) = (task.task_id, DumpStage::BeforeDispatch as u8);
        let name = named(task.arg_name(arg_index));
        Some(ScalarRecord {
            task_id,
            stage,
            arg_index,
            bits: scalar.bits.ok()?,
            name,
            dtype,
            ..ScalarRecord::default()
        })
    });
    let scalars: Vec<ScalarRecord> = scalars.collect();
    if scope != 0 {
        index.push(IndexRecord::plain(&ScopeRecord { id: own_scope, name: scope, ..ScopeRecord::default() }));
    }
    let mut stored = HashMap::new();
    for (record, fields) in records.iter().zip(&mut fields) {
        let payload = store(&mut writer, &record.content, &mut stored, fields)?;
        index.push(IndexRecord::tensor(fields, payload));
    }
    index.extend(scalars.iter().map(IndexRecord::plain));
    let scope = if scope == 0 { 0 } else { own_scope };
    index.push(IndexRecord::plain(&TaskRecord { name, scope, ..task_record(task, has_parent) }));
    writer.append(0, 0..index.len() as u64, &index)?;
    writer.finish(&Footer::new(Status::Complete))?;
    Ok(stored.len())
}

fn task_record(task: Task<'_>, has_parent: bool) -> TaskRecord {
    let unfinished = task.is_unfinished();
    let mut record = TaskRecord::from(task.facts());
    // A case of arguments has no modules.
    record.module = 0;
    if !has_parent {
        (record.flags, record.parent_task) = (record.flags & !RECORD_HAS_PARENT, 0);
    }
    if unfinished {
        (record.flags, record.completed_ns) = (record.flags | RECORD_IN_FLIGHT, 0);
    } else {
        // 0 would mean that it did not complete.
        record.completed_ns = record.completed_ns.max(1);
    }
    record
}

/// The fields of a tensor record, without those of its payload.
fn tensor(task: Task<'_>, record: &CaseRecord<'_>) -> TensorRecord {
    let CaseRecord { argument, stage, .. } = record;
    let captured = argument.captured(*stage);
    let unknown = if argument.dtype_known { 0 } else { RECORD_DTYPE_UNKNOWN };
    let in_flight = captured.is_some_and(|captured| captured.in_flight);
    let (mut shape, mut strides) = ([0; MAX_DIMS], [0; MAX_DIMS]);
    shape.iter_mut().zip(argument.shape()).for_each(|(to, from)| *to = *from);
    strides.iter_mut().zip(argument.strides()).for_each(|(to, from)| *to = *from);
    let hash = captured.and_then(|captured| captured.hash());
    TensorRecord {
        task_id: task.task_id,
        stage: *stage as u8,
        arg_index: argument.arg_index,
        flags: unknown
            | if in_flight { RECORD_IN_FLIGHT } else { 0 }
            | if hash.is_some() { RECORD_HAS_HASH } else { 0 },
        dtype: argument.dtype.tag(),
        ndims: u8::try_from(argument.shape().len()).unwrap_or(u8::MAX),
        role: if argument.is_const { Role::Input } else { argument.role }.tag(),
        hash: hash.unwrap_or_default().to_le_bytes(),
        start_offset: argument.start_offset,
        address: argument.address,
        shape,
        strides,
        ..TensorRecord::default()
    }
}

/// Stores a payload, unless an equal one is stored already, and sets its hash.
fn store(
    writer: &mut DumpWriter,
    content: &CaseContent,
    stored: &mut HashMap<(u128, u64), u64>,
    fields: &mut TensorRecord,
) -> Result<Payload, FormatError> {
    let payload = match content {
        CaseContent::Whole(payload) | CaseContent::Part(payload) => payload,
        CaseContent::Missing(None) => return Ok(Payload::None),
        CaseContent::Missing(Some((hash, stats))) => {
            (fields.hash, fields.flags) = (hash.to_le_bytes(), fields.flags | RECORD_HAS_HASH);
            return Ok(Payload::Stats(*stats));
        }
    };
    let (hash, bytes) = (content_hash(payload), payload.len() as u64);
    let known = stored.get(&(hash, bytes)).copied();
    let offset = known.unwrap_or_else(|| writer.reserve(bytes));
    if known.is_none() {
        writer.write_payload(offset, payload)?;
        stored.insert((hash, bytes), offset);
    }
    if let CaseContent::Part(_) = content {
        // The hash is that of all of the content.
        return Ok(Payload::Truncated { offset, bytes });
    }
    (fields.hash, fields.flags) = (hash.to_le_bytes(), fields.flags | RECORD_HAS_HASH);
    Ok(if known.is_some() {
        Payload::Deduplicated { offset, bytes }
    } else {
        Payload::Stored { offset, bytes }
    })
}

/// Writes the dump in a folder as one file and returns its size: manifest and graph are notes in the header, and records
/// name their payloads.
fn write_file(out: &Path, folder: &Path, readme: &str) -> Result<u64, ReplayError> {
    let dump = Dump::open(folder)?;
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).map_err(|source| not_written(&path, source))
    };
    let graph = read(GRAPH_FILE)?;
    let mut manifest: Value = serde_json::from_str(&read(MANIFEST_FILE)?).expect("this program wrote it");
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut arrays: Vec<(String, DType, Vec<u64>, Vec<u8>)> = Vec::new();
    let described = manifest["tensors"].as_array_mut().into_iter().flatten();
    for (record, described) in dump.records().zip(described) {
        let record = record?;
        if !matches!(record.payload, PayloadState::Stored | PayloadState::Truncated) {
            continue;
        }
        let name = names.entry(record.bin_offset).or_insert_with(|| {
            let stage = if record.stage == DumpStage::BeforeDispatch { "input" } else { "expected" };
            format!("arg{:02}_{stage}", record.arg_index)
        });
        described["tensor"] = name.as_str().into();
        if arrays.iter().all(|(known, ..)| known != name) {
            let bytes = dump.payload(&record)?;
            // Element types that safetensors packs differently are stored as bytes.
            let is_plain = record.payload == PayloadState::Stored && record.dtype.bits() >= 8;
            let (dtype, shape) = match is_plain {
                true => (record.dtype, record.shape().to_vec()),
                false => (DType::UInt8, vec![bytes.len() as u64]),
            };
            arrays.push((name.clone(), dtype, shape, bytes));
        }
    }
    let arrays: Vec<(ArrayHead<'_>, &dyn Content)> = arrays
        .iter()
        .map(|(name, dtype, shape, bytes)| (ArrayHead { name, dtype: *dtype, shape }, bytes as &dyn Content))
        .collect();
    let manifest = manifest.to_string();
    let notes = [(MANIFEST_FILE, manifest.as_str()), (GRAPH_FILE, &graph), (README_KEY, readme)];
    ArrayWriter::new().safetensors(out, &arrays, &notes).map_err(|error| match error {
        InterchangeError::Io { source, .. } => not_written(out, source),
        other => not_written(out, io::Error::other(other.to_string())),
    })
}

/// Text of the README: what the case is, what it contains, and how to replay it.
fn readme(
    config: &ExtractConfig,
    info: &RunInfo,
    (task, capture): (Task<'_>, &dyn Capture),
    section: &CaseSection,
    records: &[CaseRecord<'_>],
) -> String {
    let name = config.out.file_name().map_or_else(|| "CASE".into(), |n| n.to_string_lossy().into_owned());
    let (scene, program, kernels) = (&info.scene, &config.program, task.kernel_names().join(" + "));
    let from_reference = section.expected == ExpectedSource::Reference;
    let outputs = if from_reference { "the outputs it should produce" } else { "the outputs it produced" };
    let captured = match &section.captured_by {
        Some(by) => format!("by `{by}`"),
        None => format!("on `{}` with runtime `{}`", info.platform, info.runtime),
    };
    let mut text = format!(
        "# Task {:#018x} of `{scene}`: {kernels}\n\n\
         One task with its captured arguments and {outputs}, captured {captured}.\n\
         It needs no other file.\n\n\
         ```sh\n{program} replay {name}\n{program} replay {name} --platform a5sim\n{program} replay {name} --debugger --trust\n\
         {program} list {name}\n```\n\n",
        task.task_id
    );
    for CaseLibrary { kernel, file, symbol, abi, build_id } in &section.libraries {
        let library = format!("{KERNELS_FOLDER}/{file}");
        let _ = writeln!(
            text,
            "Kernel `{kernel}` is `{symbol}` of `{library}` (ABI `{abi}`, {build_id}). On another machine this code\n\
             runs only if you name it: add `--kernel {kernel}={name}/{library}:{symbol}`.\n"
        );
    }
    if from_reference {
        text += "The f64 references of its kernels computed the expected outputs from the inputs, rounded to the element type.\n\
                 On every platform outputs are compared by the kernel's rule, not bit by bit.\n\n";
    }
    if section.redacted.is_some() {
        text += "**Redacted.** Tensor contents are seeded noise in the range of the captured values. Shapes, dtypes,\n\
                 scalars, statistics and hashes are the captured ones. Outputs cannot be checked; replay with\n\
                 `--allow-inexact`.\n\n";
    }
    text += "| argument | stage | role | dtype | shape | content |\n| --- | --- | --- | --- | --- | --- |\n";
    for CaseRecord { argument, stage, content } in records {
        let is_noise = section.note(argument.arg_index, *stage).is_some();
        let content = match content {
            CaseContent::Whole(_) if is_noise => "noise",
            CaseContent::Whole(_) => "stored",
            CaseContent::Part(_) => "truncated",
            CaseContent::Missing(_) => "missing",
        };
        let (arg_index, role, dtype) = (argument.arg_index, argument.role.name(), argument.dtype);
        let _ = writeln!(
            text,
            "| {arg_index} | {} | {role} | {dtype} | {:?} | {content} |",
            stage.name(),
            argument.shape()
        );
    }
    for scalar in capture.scalars(task) {
        let dtype = scalar.dtype;
        let value = scalar
            .bits
            .map_or_else(|_| "unknown".into(), |bits| Element { dtype, bits: bits.into() }.to_string());
        let _ = writeln!(text, "| {} | | scalar | {dtype} | | {value} |", scalar.arg_index);
    }
    if let Some(tolerance) = section.tolerance {
        let (rtol, atol) = (tolerance.rtol, tolerance.atol);
        let when = if from_reference { "Outputs" } else { "On another platform outputs" };
        let _ = writeln!(text, "\n{when} may differ by rtol {rtol:e}, atol {atol:e}.");
    }
    text
}
