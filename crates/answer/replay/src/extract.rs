//! Extracts one task of a dump into a case that can be replayed anywhere.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tensortap_abi::{DType, DumpStage, NO_KERNEL};
use tensortap_analysis::reference::{ExpectedTensor, ReferenceError};
use tensortap_format::{Argument, Task, TaskChoice};
use tensortap_scene::Registry;
use tensortap_values::{Element, content_hash};

use crate::capture::{Blob, Capture, CapturedScalar, Content};
use crate::case_file::{
    CASE_KIND, CASE_VERSION, CaseAssumption, CaseContent, CaseFile, CaseScalar, CaseStats, CaseSubtask,
    CaseTensor, CaseTolerance, EXPECTS_CAPTURED, EXPECTS_REFERENCE, RedactionNotice, hex64,
};
use crate::case_writer::{Payload, is_file, readme, write};
use crate::expect::{ExpectedSource, outside, references};
use crate::foreign::ForeignOptions;
use crate::item::{find_scene, with_folders};
use crate::launches;
use crate::libraries::Libraries;
use crate::library_kernels::{check_block_num, load_library_kernels};
use crate::noise::{noise, summary};
use crate::open::open;
use crate::replay::{declared_tolerance, in_steps, is_chosen, names_kernel, one_step, unknown_task};
use crate::{ArgReport, KernelCode, LoadKernels, OpenFolder, ReplayError};

/// Options of `tensortap extract`.
#[derive(Clone)]
pub struct ExtractConfig {
    /// A dump, or a case.
    pub source: PathBuf,
    /// The task. Must select exactly one; `None` if the source has only one.
    pub task: Option<TaskChoice>,
    /// Only tasks of these steps; empty for all.
    pub steps: Vec<(u64, u64)>,
    /// A new folder, or a file whose name ends in `.safetensors`.
    pub out: PathBuf,
    /// Source of the expected outputs.
    pub expect: ExpectedSource,
    /// Replaces content with noise of this seed.
    pub redact: Option<u64>,
    /// Also extracts a task with missing or inexact arguments.
    pub allow_inexact: bool,
    /// Scene folder to use instead of the one in the dump.
    pub scene_folder: Option<PathBuf>,
    /// Opens scene folders; `None` if the program cannot.
    pub open_folder: Option<OpenFolder>,
    /// Kernels from libraries; the libraries are copied into the case.
    pub kernels: Vec<KernelCode>,
    /// Number of blocks of the task, for dumps of another project.
    pub block_num: Option<u32>,
    /// Makes scenes from libraries; `None` if the program cannot.
    pub load_kernels: Option<LoadKernels>,
    /// Known scenes with their kernels.
    pub registry: Registry,
    /// Name of the program with these scenes, for the README of the case.
    pub program: String,
}

/// The written case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractReport {
    /// Folder or file.
    pub out: PathBuf,
    /// The task.
    pub task_id: u64,
    /// Its kernels.
    pub kernels: Vec<String>,
    /// Tensor and scalar arguments.
    pub arguments: usize,
    /// Number of stored payloads; equal ones are stored once.
    pub payloads: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Whether content was replaced with noise.
    pub redacted: bool,
    /// Source of the expected outputs.
    pub expect: ExpectedSource,
    /// How a captured output violates the rule of its reference, if the case expects the captured outputs.
    pub outside: Option<String>,
    /// The copied libraries, by their path in the case.
    pub libraries: Vec<PathBuf>,
}

/// Writes a case.
pub fn extract(config: &ExtractConfig) -> Result<ExtractReport, ReplayError> {
    let options = ForeignOptions { kernels: &config.kernels, block_num: config.block_num };
    let opened = open(&config.source, options)?;
    let [capture] = opened.captures.as_slice() else {
        let reason = "pass one dump or one case, not a folder of cases".to_string();
        return Err(ReplayError::BadCase { path: config.source.clone(), reason });
    };
    let capture = &**capture;
    let task = find_task(capture, config.task.as_ref(), &config.steps)?;
    refuse_taken(&config.out)?;
    if let Some(dump) = capture.launches() {
        return launches::extract(config, capture, dump, task);
    }
    let mut registry = with_folders(config.registry.clone(), [capture], config.open_folder.as_ref())?;
    check_block_num(config.block_num, &opened.captures)?;
    let give = config.load_kernels.as_ref();
    let given = load_library_kernels(&mut registry, give, &config.kernels, &opened.captures)?;
    let libraries = Libraries::of(&given, task, &config.out)?;
    let scene = find_scene(capture, &registry)?;
    let tolerance = scene_tolerance(capture, task, scene);
    let (references, outside) = match (config.expect, config.redact) {
        (ExpectedSource::Reference, Some(_)) => {
            let reason = "a redacted case has no expected outputs; remove --redact".to_string();
            return Err(ReplayError::Option { option: "--expect reference", reason });
        }
        (ExpectedSource::Reference, None) => {
            (references(capture, task, scene).map_err(|error| refuse(task, &error))?, None)
        }
        (ExpectedSource::Captured, None) if !capture.expects_reference() => {
            let references = match references(capture, task, scene) {
                Ok(references) => references,
                // Such a case would call the kernel with arguments that it does not accept.
                Err(error @ ReferenceError::Arguments { .. }) => return Err(refuse(task, &error)),
                // Without references there is nothing to check.
                Err(_) => Vec::new(),
            };
            (Vec::new(), outside(capture, task, &references, tolerance)?)
        }
        (ExpectedSource::Captured, _) => (Vec::new(), None),
    };
    let expect = if references.is_empty() && !capture.expects_reference() {
        ExpectedSource::Captured
    } else {
        ExpectedSource::Reference
    };
    let mut builder = CaseBuilder {
        redact: config.redact,
        allow_inexact: config.allow_inexact,
        references,
        ..CaseBuilder::new(capture, task)
    };
    let mut case = builder.describe(tolerance)?;
    case.libraries.clone_from(&libraries.described);
    if expect == ExpectedSource::Reference {
        case.expected = EXPECTS_REFERENCE.into();
    }
    if let Some(seed) = config.redact {
        case.redacted = Some(RedactionNotice { seed, note: REDACTED_NOTE.into() });
    }
    let text = serde_json::to_string_pretty(&case).expect("a description has only string keys") + "\n";
    let readme = readme(&case, &config.out, &config.program);
    let bytes = write(&config.out, &text, &readme, &builder.payloads, &libraries.copies)?;
    Ok(ExtractReport {
        out: config.out.clone(),
        task_id: task.task_id,
        kernels: task.kernel_names(),
        arguments: capture.tensors(task).count() + capture.scalars(task).len(),
        payloads: builder.payloads.len(),
        bytes,
        redacted: config.redact.is_some(),
        expect,
        outside,
        libraries: libraries.copies.into_iter().map(|(_, to)| to).collect(),
    })
}

fn refuse(task: Task<'_>, error: &ReferenceError) -> ReplayError {
    ReplayError::NotExtracted { task: task.task_id, reason: error.to_string() }
}

const REDACTED_NOTE: &str = "tensor contents are seeded noise in the range of the captured values; shapes, dtypes, \
  scalars, statistics and hashes are the captured ones; outputs cannot be checked";

fn scene_tolerance(
    capture: &dyn Capture,
    task: Task<'_>,
    scene: &'static dyn tensortap_scene::Scene,
) -> Option<(f64, f64)> {
    capture.tolerance(task).or_else(|| declared_tolerance(capture, task, scene))
}

/// The one selected task.
fn find_task<'s>(
    capture: &'s dyn Capture,
    wanted: Option<&TaskChoice>,
    steps: &[(u64, u64)],
) -> Result<Task<'s>, ReplayError> {
    let tasks: Vec<Task<'_>> = in_steps(capture, steps);
    if let Some(TaskChoice::Ids(first, last)) = wanted
        && first == last
    {
        one_step(capture, &tasks, *first)?;
    }
    let chosen: Vec<Task<'_>> = match wanted {
        None => tasks.clone(),
        Some(choice) => {
            let one = std::slice::from_ref(choice);
            tasks.iter().copied().filter(|task| is_chosen(*task, capture, one)).collect()
        }
    };
    match (chosen.as_slice(), wanted) {
        ([task], _) => Ok(*task),
        ([], Some(choice @ TaskChoice::Named(name))) if !names_kernel(choice, capture) => {
            Err(unknown_task(name, std::iter::once(capture)))
        }
        ([], Some(TaskChoice::Ids(task, _) | TaskChoice::InStep { first: task, .. })) => {
            Err(ReplayError::NoTask {
                from: capture.name(),
                task: *task,
                tasks: tasks.len(),
                first: tasks.first().map(|t| t.task_id),
            })
        }
        (several, _) => {
            Err(ReplayError::Option { option: "--task", reason: say_which(capture, several, wanted) })
        }
    }
}

/// Number of tasks that an error message lists.
const NAMED: usize = 8;

fn say_which(capture: &dyn Capture, tasks: &[Task<'_>], wanted: Option<&TaskChoice>) -> String {
    let mut ids: Vec<u64> = tasks.iter().map(|t| t.task_id).collect();
    ids.sort_unstable();
    let mut ids: Vec<String> = ids.iter().take(NAMED).map(|id| format!("{id:#x}")).collect();
    if tasks.len() > NAMED {
        ids.push(format!("{} more", tasks.len() - NAMED));
    }
    let of = match wanted {
        Some(choice @ TaskChoice::Named(name)) => {
            let what = if names_kernel(choice, capture) { "kernel" } else { "name" };
            format!(" with the {what} `{name}`")
        }
        Some(TaskChoice::Ids(..) | TaskChoice::InStep { .. }) => " in that range".into(),
        None => String::new(),
    };
    let count = if tasks.is_empty() { "no".into() } else { tasks.len().to_string() };
    let which = if ids.is_empty() { String::new() } else { format!(": {}", ids.join(", ")) };
    format!("{} has {count} tasks{of}, and a case holds one; select one with --task{which}", capture.name())
}

fn refuse_taken(out: &Path) -> Result<(), ReplayError> {
    let empty_folder =
        !is_file(out) && std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
    if out.symlink_metadata().is_err() || empty_folder {
        return Ok(());
    }
    let reason = format!(
        "{} already exists; choose a new folder, or a new file that ends in .safetensors",
        out.display()
    );
    Err(ReplayError::Option { option: "--out", reason })
}

/// Builds a case from one task.
struct CaseBuilder<'s> {
    capture: &'s dyn Capture,
    task: Task<'s>,
    redact: Option<u64>,
    allow_inexact: bool,
    /// Expected outputs from references; empty if the captured outputs are expected.
    references: Vec<ExpectedTensor>,
    payloads: Vec<(String, Payload)>,
    /// Names of stored payloads by captured hash, size and element type.
    names: HashMap<(u128, u64, DType), String>,
}

impl<'s> CaseBuilder<'s> {
    fn new(capture: &'s dyn Capture, task: Task<'s>) -> CaseBuilder<'s> {
        CaseBuilder {
            capture,
            task,
            redact: None,
            allow_inexact: false,
            references: Vec::new(),
            payloads: Vec::new(),
            names: HashMap::new(),
        }
    }

    fn describe(&mut self, tolerance: Option<(f64, f64)>) -> Result<CaseFile, ReplayError> {
        let (run, task) = (self.capture.run(), self.task);
        let refuse = |reason: String| ReplayError::NotExtracted { task: task.task_id, reason };
        if let Some(damage) = self.capture.damage(task) {
            return Err(refuse(damage));
        }
        let mut subtasks = Vec::new();
        for (subtask_id, func_id) in (0..).zip(task.func_id).filter(|(_, id)| *id != NO_KERNEL) {
            let kernel = run.kernel(func_id).cloned();
            let kernel = kernel.ok_or_else(|| refuse(format!("the dump does not name kernel {func_id}")))?;
            subtasks.push(CaseSubtask { subtask_id, kernel });
        }
        let assumed = self.capture.assumed(task);
        if let Some(ArgReport { arg_index, reason, .. }) = assumed.first().filter(|_| !self.allow_inexact) {
            let why = reason.as_deref().unwrap_or("it is unknown");
            return Err(refuse(format!(
                "argument {arg_index}: {why}; add --allow-inexact to extract it anyway"
            )));
        }
        let mut tensors = Vec::new();
        for (index, tensor) in self.capture.tensors(task).enumerate() {
            let tensor = tensor.map_err(|why| refuse(format!("argument {index}: {why}")))?;
            tensors.push(self.tensor(tensor)?);
        }
        Ok(CaseFile {
            kind: CASE_KIND.into(),
            schema_version: CASE_VERSION,
            from: Path::new(&self.capture.name())
                .file_name()
                .map_or_else(String::new, |n| n.to_string_lossy().into()),
            scene: run.scene.clone(),
            platform: run.platform.clone(),
            runtime: run.runtime.clone(),
            params: run.params.clone(),
            inject_fault: run.inject_fault.clone(),
            scene_folder: run.scene_folder.as_ref().map(|folder| folder.display().to_string()),
            captured_by: run.is_foreign.then(|| run.scene.clone()),
            libraries: Vec::new(),
            assumed: assumed.iter().map(assumption).collect(),
            device_base: run.device_base,
            task_id: task.task_id,
            block_num: task.block_num,
            subtasks,
            tensors,
            scalars: self.capture.scalars(task).iter().map(scalar).collect(),
            expected: EXPECTS_CAPTURED.into(),
            tolerance: tolerance.map(|(rtol, atol)| CaseTolerance { rtol, atol }),
            redacted: None,
        })
    }

    fn tensor(&mut self, tensor: Argument<'_>) -> Result<CaseTensor, ReplayError> {
        let before =
            tensor.role.reads().then(|| self.content(tensor, DumpStage::BeforeDispatch)).transpose()?;
        let after = tensor.role.writes().then(|| self.after(tensor)).transpose()?;
        Ok(CaseTensor {
            arg_index: tensor.arg_index,
            role: tensor.role.name().into(),
            dtype: tensor.dtype.name().into(),
            dtype_known: tensor.dtype_known,
            shape: tensor.shape().to_vec(),
            strides: tensor.strides().to_vec(),
            start_offset: tensor.start_offset,
            address: tensor.address,
            before,
            after,
        })
    }

    fn after(&mut self, tensor: Argument<'_>) -> Result<CaseContent, ReplayError> {
        let reference = self.references.iter().find(|e| e.arg_index == tensor.arg_index);
        let Some(bytes) = reference.map(|expected| expected.rounded(tensor.dtype)) else {
            return self.content(tensor, DumpStage::AfterCompletion);
        };
        Ok(self.stored(tensor, bytes, true, "stored"))
    }

    fn content(&mut self, tensor: Argument<'_>, stage: DumpStage) -> Result<CaseContent, ReplayError> {
        let (content, is_output) =
            (self.capture.content(self.task, tensor, stage), stage == DumpStage::AfterCompletion);
        let refuse = |why: &str| ReplayError::NotExtracted {
            task: self.task.task_id,
            reason: format!("argument {}: {why}; add --allow-inexact to extract it anyway", tensor.arg_index),
        };
        let mut bytes = Vec::new();
        let (payload, blob) = match &content {
            Content::Whole(blob) => ("stored", blob),
            Content::Noise(blob) => ("noise", blob),
            Content::Part(blob) if self.allow_inexact => ("truncated", blob),
            Content::Part(_) => return Err(refuse("only a part of it was stored")),
            Content::Missing(why) if self.allow_inexact => return Ok(missing(why)),
            Content::Missing(why) => return Err(refuse(why)),
        };
        self.capture.read(blob, &mut bytes)?;
        if blob.hash.is_some_and(|hash| content_hash(&bytes) != hash) {
            return Err(refuse("its payload is corrupt (hash mismatch)"));
        }
        match self.redact {
            Some(seed) if payload == "stored" => Ok(self.redacted(tensor, blob, &bytes, is_output, seed)),
            Some(_) if payload == "truncated" => {
                Ok(missing("only a part was stored, and the case is redacted"))
            }
            _ => Ok(self.stored(tensor, bytes, is_output, payload)),
        }
    }

    fn stored(
        &mut self,
        tensor: Argument<'_>,
        bytes: Vec<u8>,
        is_output: bool,
        payload: &str,
    ) -> CaseContent {
        let hash = content_hash(&bytes);
        let name = self.store(tensor, hash, is_output, bytes, payload == "truncated");
        let hash = (payload == "stored").then(|| format!("{hash:#034x}"));
        CaseContent { payload: payload.into(), tensor: Some(name), hash, reason: None, stats: None }
    }

    fn redacted(
        &mut self,
        tensor: Argument<'_>,
        blob: &Blob,
        content: &[u8],
        is_output: bool,
        seed: u64,
    ) -> CaseContent {
        let numel = tensor.shape().iter().product();
        let found = summary(tensor.dtype, numel, content);
        let hash = blob.hash.unwrap_or_else(|| content_hash(content));
        let finite = |value: f64| value.is_finite().then_some(value);
        let s = &found.stats;
        let stats = CaseStats {
            min: finite(s.min),
            max: finite(s.max),
            mean: finite(s.mean),
            std: finite(s.std),
            zeros: s.zeros,
            nan: s.nan,
            inf: s.inf,
        };
        let about = CaseContent {
            payload: "missing".into(),
            tensor: None,
            hash: Some(format!("{hash:#034x}")),
            reason: Some("the case is redacted".into()),
            stats: Some(stats),
        };
        if is_output {
            return about;
        }
        let made = noise(tensor.dtype, numel, &found, seed.wrapping_add(self.payloads.len() as u64));
        let name = self.store(tensor, hash, is_output, made, false);
        CaseContent { payload: "noise".into(), tensor: Some(name), reason: None, ..about }
    }

    /// Stores a payload unless an equal one is stored already; returns its name.
    fn store(
        &mut self,
        tensor: Argument<'_>,
        hash: u128,
        is_output: bool,
        bytes: Vec<u8>,
        cut: bool,
    ) -> String {
        let key = (hash, bytes.len() as u64, tensor.dtype);
        if let Some(name) = self.names.get(&key) {
            return name.clone();
        }
        let stage = if is_output { "expected" } else { "input" };
        let name = format!("arg{:02}_{stage}", tensor.arg_index);
        self.names.insert(key, name.clone());
        self.payloads.push((name.clone(), Payload::new(tensor, bytes, cut)));
        name
    }
}

fn assumption(assumed: &ArgReport) -> CaseAssumption {
    let ArgReport { arg_index, grade, reason, .. } = assumed;
    CaseAssumption {
        arg_index: *arg_index,
        grade: grade.name().into(),
        reason: reason.clone().unwrap_or_default(),
    }
}

fn missing(why: &str) -> CaseContent {
    CaseContent { payload: "missing".into(), tensor: None, hash: None, reason: Some(why.into()), stats: None }
}

fn scalar(scalar: &CapturedScalar) -> CaseScalar {
    let bits = scalar.bits.as_ref().ok().copied();
    CaseScalar {
        arg_index: scalar.arg_index,
        dtype: scalar.dtype.name().into(),
        bits: bits.map(hex64),
        value: bits.map(|bits| Element { dtype: scalar.dtype, bits: bits.into() }.to_string()),
    }
}
