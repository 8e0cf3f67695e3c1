//! Extracts one task of a dump into a case: a dump of this task that can be replayed anywhere.

use std::path::{Path, PathBuf};

use tensortap_abi::{DumpLevel, DumpStage};
use tensortap_analysis::reference::{ExpectedTensor, ReferenceError};
use tensortap_format::{
    Argument, FormatError, KernelInfo, KernelTolerance, RunInfo, StatsDocument, Task, TaskChoice,
};
use tensortap_scene::Registry;
use tensortap_values::content_hash;

use crate::capture::{Capture, Content};
use crate::case::{CaseAssumption, CaseSection, ContentNote, Libraries, RedactionNotice};
use crate::case_writer::{CaseContent, CaseRecord, is_file, write};
use crate::expect::{ExpectedSource, outside, references};
use crate::foreign::ForeignOptions;
use crate::item::{find_scene, with_folders};
use crate::launches;
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
        return Err(FormatError::BadCase { path: config.source.clone(), reason }.into());
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
    let libraries = Libraries::of(&given, task, is_file(&config.out))?;
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
        (ExpectedSource::Captured, None) if capture.expects() == ExpectedSource::Captured => {
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
    let expected = if references.is_empty() { capture.expects() } else { ExpectedSource::Reference };
    let redacted = config.redact.map(|seed| RedactionNotice { seed, note: REDACTED_NOTE.into() });
    let redacted = redacted.or_else(|| capture.case()?.section.redacted.clone());
    let mut builder = CaseBuilder {
        capture,
        task,
        allow_inexact: config.allow_inexact,
        references,
        section: CaseSection {
            expected,
            tolerance,
            redacted,
            libraries: libraries.described,
            ..CaseSection::default()
        },
        records: Vec::new(),
        noises: Vec::new(),
    };
    let info = builder.describe()?;
    let CaseBuilder { section, records, .. } = builder;
    let written = write(config, capture, task, (info, &section), &records, &libraries.copies)?;
    Ok(ExtractReport {
        out: config.out.clone(),
        task_id: task.task_id,
        kernels: task.kernel_names(),
        arguments: capture.tensors(task).count() + capture.scalars(task).len(),
        payloads: written.payloads,
        bytes: written.bytes,
        redacted: section.redacted.is_some(),
        expect: expected,
        outside,
        libraries: written.libraries,
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
) -> Option<KernelTolerance> {
    capture.tolerance().or_else(|| declared_tolerance(capture, task, scene))
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
        None => tasks.iter().copied().filter(|task| !task.contains_tasks()).collect(),
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
    allow_inexact: bool,
    /// Expected outputs from references; empty if the captured outputs are expected.
    references: Vec<ExpectedTensor>,
    section: CaseSection,
    records: Vec<CaseRecord<'s>>,
    /// The noise for each captured content: its hash, element type, and record. Equal contents get equal noise.
    noises: Vec<(u128, usize)>,
}

impl<'s> CaseBuilder<'s> {
    /// Collects records and facts. Returns the run information.
    fn describe(&mut self) -> Result<RunInfo, ReplayError> {
        let (capture, run, task) = (self.capture, self.capture.run(), self.task);
        if let Some(damage) = capture.damage(task) {
            return Err(self.refusal(damage));
        }
        let kernels = task.func_ids().map(|func_id| {
            let unnamed = || self.refusal(format!("the dump does not name kernel {func_id}"));
            Ok(KernelInfo { module: 0, ..run.kernel(func_id).cloned().ok_or_else(unnamed)? })
        });
        let kernels = kernels.collect::<Result<Vec<_>, ReplayError>>()?;
        let assumed = capture.assumed(task);
        if let Some(ArgReport { arg_index, reason, .. }) = assumed.first().filter(|_| !self.allow_inexact) {
            return Err(self.inexact(*arg_index, reason.as_deref().unwrap_or("it is unknown")));
        }
        for (index, tensor) in capture.tensors(task).enumerate() {
            let tensor = tensor.map_err(|why| self.refusal(format!("argument {index}: {why}")))?;
            if tensor.role.reads() {
                self.content(tensor, DumpStage::BeforeDispatch)?;
            }
            if tensor.role.writes() {
                self.content(tensor, DumpStage::AfterCompletion)?;
            }
        }
        let name = capture.name();
        self.section.from = Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.section.captured_by = run.is_foreign.then(|| run.scene.clone());
        self.section.assumed = assumed.into_iter().map(assumption).collect();
        Ok(RunInfo {
            run_id: fastrand::u64(..),
            platform: run.platform.clone(),
            runtime: run.runtime.clone(),
            scene: run.scene.clone(),
            params: run.params.clone(),
            device_base: run.device_base,
            dump_level: DumpLevel::Full as u32,
            kernels,
            inject_fault: run.inject_fault.clone(),
            scene_folder: run.scene_folder.clone(),
            filters: vec!["task".into()],
            ..RunInfo::default()
        })
    }

    fn refusal(&self, reason: String) -> ReplayError {
        ReplayError::NotExtracted { task: self.task.task_id, reason }
    }

    fn inexact(&self, arg_index: u16, why: &str) -> ReplayError {
        self.refusal(format!("argument {arg_index}: {why}; add --allow-inexact to extract it anyway"))
    }

    /// Adds the content of a tensor at a stage.
    fn content(&mut self, tensor: Argument<'s>, stage: DumpStage) -> Result<(), ReplayError> {
        let reference = self.references.iter().find(|expected| expected.arg_index == tensor.arg_index);
        if let Some(expected) = reference.filter(|_| stage == DumpStage::AfterCompletion) {
            self.keep(tensor, stage, CaseContent::Whole(expected.rounded(tensor.dtype)));
            return Ok(());
        }
        let content = self.capture.content(self.task, tensor, stage);
        let blob = match &content {
            Content::Whole(blob) | Content::Noise(blob) => blob,
            Content::Part(blob) if self.allow_inexact => blob,
            Content::Part(_) => return Err(self.inexact(tensor.arg_index, "only a part of it was stored")),
            Content::Missing(why) if self.allow_inexact => {
                self.missing(tensor, stage, why);
                return Ok(());
            }
            Content::Missing(why) => return Err(self.inexact(tensor.arg_index, why)),
        };
        let mut bytes = Vec::new();
        self.capture.read(blob, &mut bytes)?;
        if blob.hash.is_some_and(|hash| content_hash(&bytes) != hash) {
            return Err(self.inexact(tensor.arg_index, "its payload is corrupt (hash mismatch)"));
        }
        match (content, self.section.redacted.as_ref().map(|notice| notice.seed)) {
            (Content::Whole(_), Some(seed)) => self.redact(tensor, stage, &bytes, seed),
            (Content::Part(_), Some(_)) => {
                self.missing(tensor, stage, "only a part was stored, and the case is redacted");
            }
            (Content::Part(_), None) => self.keep(tensor, stage, CaseContent::Part(bytes)),
            (Content::Noise(_), _) => {
                let case = self.capture.case();
                let note = case.and_then(|case| case.section.note(tensor.arg_index, stage)).cloned();
                self.section.contents.extend(note);
                self.keep(tensor, stage, CaseContent::Whole(bytes));
            }
            (Content::Whole(_) | Content::Missing(_), _) => {
                self.keep(tensor, stage, CaseContent::Whole(bytes))
            }
        }
        Ok(())
    }

    fn keep(&mut self, argument: Argument<'s>, stage: DumpStage, content: CaseContent) {
        self.records.push(CaseRecord { argument, stage, content });
    }

    /// Adds a record without content, and the reason.
    fn missing(&mut self, tensor: Argument<'s>, stage: DumpStage, why: &str) {
        self.section.contents.push(ContentNote { reason: Some(why.into()), ..note(tensor, stage) });
        self.keep(tensor, stage, CaseContent::Missing(None));
    }

    /// Adds noise instead of an input, or only the hash and the statistics of an output.
    fn redact(&mut self, tensor: Argument<'s>, stage: DumpStage, content: &[u8], seed: u64) {
        let numel = tensor.shape().iter().product();
        let (found, hash) = (summary(tensor.dtype, numel, content), content_hash(content));
        let about = ContentNote { reason: Some("the case is redacted".into()), ..note(tensor, stage) };
        if stage == DumpStage::AfterCompletion {
            self.section.contents.push(about);
            return self.keep(tensor, stage, CaseContent::Missing(Some((hash, found.stats))));
        }
        let stats = serde_json::to_value(StatsDocument(found.stats)).unwrap_or_default();
        let hash_text = Some(format!("{hash:#034x}"));
        self.section.contents.push(ContentNote { reason: None, hash: hash_text, stats, ..about });
        let is_same = |place: usize| self.records[place].argument.dtype == tensor.dtype;
        let known = self.noises.iter().find(|(known, place)| *known == hash && is_same(*place));
        let made = match known.map(|(_, place)| &self.records[*place].content) {
            Some(CaseContent::Whole(noise)) => noise.clone(),
            _ => noise(tensor.dtype, numel, &found, seed.wrapping_add(self.noises.len() as u64)),
        };
        self.noises.push((hash, self.records.len()));
        self.keep(tensor, stage, CaseContent::Whole(made));
    }
}

/// An empty note on a content.
fn note(tensor: Argument<'_>, stage: DumpStage) -> ContentNote {
    ContentNote {
        arg_index: tensor.arg_index,
        stage: stage.name().into(),
        reason: None,
        hash: None,
        stats: serde_json::Value::Null,
    }
}

fn assumption(assumed: ArgReport) -> CaseAssumption {
    let ArgReport { arg_index, grade, reason, .. } = assumed;
    CaseAssumption { arg_index, grade, reason: reason.unwrap_or_default() }
}
