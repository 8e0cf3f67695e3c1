//! Prepares a captured task for a replay: finds its kernels, grades its arguments and counts its memory.
//! Reads no content yet.

use std::collections::BTreeSet;
use std::path::PathBuf;

use tensortap_abi::{
    BlockContext, DType, DeviceRange, DumpStage, NO_KERNEL, SLOTS_PER_TASK, SubtaskContext, TaskId,
};
use tensortap_format::{Argument, KernelTolerance, Task};
use tensortap_scene::{KernelDef, Registry, ScalarArg, Scene, Tolerance};
use tensortap_values::Element;

use crate::capture::{Capture, CapturedRun, Content};
use crate::spans::TaskSpans;
use crate::{ArgReport, Check, Grade, OpenFolder, Outcome, ReplayError, TaskReport};

/// Limit on blocks per task. Far above any device, and low enough that a corrupt number does not run for
/// days.
const MAX_BLOCK_NUM: u32 = 1 << 20;

/// A `--set-arg` value, encoded in the element type of its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetArg {
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// Raw bits of the scalar, or of each element.
    pub bits: u64,
}

/// One dispatch of a task: a subtask slot and a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingleDispatch {
    /// Subtask slot.
    pub slot: usize,
    /// Block.
    pub block_idx: u32,
}

/// A task that can be replayed.
pub struct Item<'s> {
    /// Position in the report.
    pub place: usize,
    /// Its capture.
    pub capture: &'s dyn Capture,
    /// The task.
    pub task: Task<'s>,
    /// Its tensors; each has a valid descriptor.
    pub tensors: Vec<Argument<'s>>,
    /// The scene with its kernels.
    pub scene: &'static dyn Scene,
    /// Kernel number of each slot in this executable.
    pub func_id: [u32; SLOTS_PER_TASK],
    /// Kernel definition of each slot.
    pub kernels: Kernels,
    /// What its outputs are compared with.
    pub check: Check,
    /// Tolerance on another platform or against references; `None` for the default of each dtype.
    pub tolerance: Option<Tolerance>,
    /// The memory it touches.
    pub spans: TaskSpans,
    /// Total size of the spans in bytes.
    pub bytes: u64,
    /// Its arguments with their grades.
    pub args: Vec<ArgReport>,
    /// Arguments replaced by `--set-arg`.
    pub set: Vec<SetArg>,
    /// The one dispatch to run; `None` for all.
    pub dispatch: Option<SingleDispatch>,
}

/// The validated parts of an [`Item`].
struct TaskParts<'s> {
    kernels: Kernels,
    tensors: Vec<Argument<'s>>,
    spans: TaskSpans,
    bytes: u64,
}

/// The kernels of a captured task, as this executable has them.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// By subtask slot.
    pub slots: [Option<&'static KernelDef>; SLOTS_PER_TASK],
}

impl Kernels {
    /// Finds a task's kernels by name, because another build may number them differently.
    pub fn find(run: &CapturedRun, task: Task<'_>, scene: &'static dyn Scene) -> Result<Kernels, String> {
        let mut slots = [None; SLOTS_PER_TASK];
        for (slot, &func_id) in slots.iter_mut().zip(&task.func_id).filter(|(_, id)| **id != NO_KERNEL) {
            let info = run.kernel(func_id).ok_or(format!("the capture does not name kernel {func_id}"))?;
            let kernel = scene.kernels().iter().find(|k| k.name == info.name).ok_or_else(|| {
                let (name, scene) = (&info.name, scene.name());
                if run.is_foreign {
                    return format!("no library has kernel `{name}`; pass one with --kernel {name}=LIB");
                }
                format!("this executable has no kernel `{name}` in scene `{scene}`")
            })?;
            if kernel.core_type.name() != info.core_type {
                let (name, was, is) = (kernel.name, &info.core_type, kernel.core_type);
                return Err(format!(
                    "kernel `{name}` was captured on core type {was}, but this executable has it for {is}"
                ));
            }
            *slot = Some(kernel);
        }
        if slots.iter().all(Option::is_none) {
            return Err(match run.is_foreign {
                true if run.is_of_program() => "it does not run a kernel".into(),
                true => "the dump does not name its kernel; pass one with --kernel TASK=LIB".into(),
                false => "its kernel is unknown".into(),
            });
        }
        Ok(Kernels { slots })
    }

    fn func_id(&self) -> [u32; SLOTS_PER_TASK] {
        self.slots.map(|k| k.map_or(NO_KERNEL, |k| k.func_id))
    }

    /// The widest tolerance that its kernels declare.
    pub fn tolerance(&self) -> Option<Tolerance> {
        let declared = self.slots.iter().flatten().filter_map(|k| k.tolerance);
        declared.reduce(|a, b| Tolerance { rtol: a.rtol.max(b.rtol), atol: a.atol.max(b.atol) })
    }
}

/// Overrides and options of a replay that apply to every task.
pub struct ReplayOverrides<'c> {
    /// Registry of kernels.
    pub registry: &'c Registry,
    /// Arguments to replace: position and value as text.
    pub set_args: &'c [(u16, String)],
    /// Whether inexact arguments are allowed.
    pub allow_inexact: bool,
    /// The one dispatch to run; `None` for all.
    pub dispatch: Option<SingleDispatch>,
}

impl<'s> Item<'s> {
    /// Prepares a task and adds its arguments to `report`. The inner error is the outcome of a task that
    /// cannot run; the outer error is an invalid request.
    pub fn new(
        place: usize,
        capture: &'s dyn Capture,
        task: Task<'s>,
        overrides: &ReplayOverrides<'_>,
        report: &mut TaskReport,
    ) -> Result<Result<Item<'s>, Outcome>, ReplayError> {
        let set = set_args(capture, task, overrides.set_args)?;
        report.args = grades(capture, task, &set, report.check);
        let scene = find_scene(capture, overrides.registry)?;
        let parts = Item::parts(capture, task, scene, overrides, &report.args);
        Ok(parts.map_err(Outcome::Refused).map(|TaskParts { kernels, tensors, spans, bytes }| Item {
            place,
            capture,
            task,
            tensors,
            scene,
            func_id: kernels.func_id(),
            kernels,
            check: report.check,
            tolerance: match capture.tolerance() {
                // References always use the tolerance that the kernel declares.
                Some(KernelTolerance { rtol, atol }) if report.check != Check::Reference => {
                    Some(Tolerance { rtol, atol })
                }
                _ => kernels.tolerance(),
            },
            spans,
            bytes,
            args: report.args.clone(),
            set,
            dispatch: overrides.dispatch,
        }))
    }

    fn parts(
        capture: &dyn Capture,
        task: Task<'s>,
        scene: &'static dyn Scene,
        overrides: &ReplayOverrides<'_>,
        args: &[ArgReport],
    ) -> Result<TaskParts<'s>, String> {
        if let Some(damage) = capture.damage(task) {
            return Err(damage);
        }
        if task.block_num == 0 || task.block_num > MAX_BLOCK_NUM {
            return Err(format!("it has {} blocks; a replay takes 1 to {MAX_BLOCK_NUM}", task.block_num));
        }
        let kernels = Kernels::find(capture.run(), task, scene)?;
        let tensors = capture.tensors(task).enumerate();
        let tensors = tensors
            .map(|(index, tensor)| tensor.map_err(|why| format!("argument {index}: {why}")))
            .collect::<Result<Vec<_>, _>>()?;
        let args_given = tensors.len() + capture.scalars(task).len();
        let role = |arg_index: usize| tensors.get(arg_index).map(|tensor| tensor.role);
        for kernel in kernels.slots.iter().flatten() {
            kernel.check_args(role, args_given).map_err(|error| error.to_string())?;
        }
        let spans = TaskSpans::of(&tensors)?;
        check_abi(scene, &kernels, &tensors, &spans)?;
        let bytes = spans.bytes().ok_or("the total size of its arguments exceeds 64 bits")?;
        match args.iter().find(|arg| arg.grade != Grade::Exact) {
            Some(arg) if !overrides.allow_inexact => Err(format!(
                "argument {} is {}: {}; add --allow-inexact to replay it anyway",
                arg.arg_index,
                arg.grade.name(),
                arg.reason.as_deref().unwrap_or("not as captured")
            )),
            _ => Ok(TaskParts { kernels, tensors, spans, bytes }),
        }
    }

    /// The captured content of a tensor at a stage.
    pub fn content(&self, tensor: Argument<'_>, stage: DumpStage) -> Content {
        self.capture.content(self.task, tensor, stage)
    }

    /// The scalars to pass, with overrides applied.
    pub fn scalars(&self) -> Vec<ScalarArg> {
        let bits = |arg_index: u16, captured: &Result<u64, String>| {
            let set = self.set.iter().find(|s| s.arg_index == arg_index).map(|s| s.bits);
            set.unwrap_or(*captured.as_ref().unwrap_or(&0))
        };
        self.capture
            .scalars(self.task)
            .iter()
            .map(|s| ScalarArg { bits: bits(s.arg_index, &s.bits), dtype: s.dtype })
            .collect()
    }

    /// Kernels and blocks of the launch: all of them, or those of the one dispatch.
    pub fn shape(&self) -> ([u32; SLOTS_PER_TASK], u32) {
        match self.dispatch {
            None => (self.func_id, self.task.block_num),
            Some(SingleDispatch { slot, .. }) => {
                let mut func_id = [NO_KERNEL; SLOTS_PER_TASK];
                func_id[slot] = self.func_id[slot];
                (func_id, 1)
            }
        }
    }

    /// Context words for the kernel of the one dispatch.
    pub fn context(&self) -> Option<(BlockContext, SubtaskContext)> {
        let SingleDispatch { slot, block_idx } = self.dispatch?;
        let subtask_count = u32::try_from(self.task.func_ids().count()).ok()?;
        let subtask_id = u32::try_from(slot).ok()?;
        let block = BlockContext { block_idx, block_num: self.task.block_num };
        Some((block, SubtaskContext { subtask_id, subtask_count }))
    }

    /// The task id.
    pub fn id(&self) -> TaskId {
        TaskId(self.task.task_id)
    }
}

/// The registry with the scene folders of the captures added.
pub fn with_folders<'c>(
    mut registry: Registry,
    captures: impl IntoIterator<Item = &'c dyn Capture>,
    open: Option<&OpenFolder>,
) -> Result<Registry, ReplayError> {
    let mut seen = BTreeSet::new();
    for capture in captures {
        let Some((folder, open)) = capture.run().scene_folder.as_ref().zip(open) else { continue };
        let folder = PathBuf::from(folder);
        if seen.insert(folder.clone()) {
            let refused =
                |reason| ReplayError::Folder { from: capture.name(), folder: folder.clone(), reason };
            let (scene, loader) = open(&folder).map_err(refused)?;
            registry = registry.with_first(scene).with_loader(loader);
        }
    }
    Ok(registry)
}

/// The scene of a capture.
pub fn find_scene(capture: &dyn Capture, registry: &Registry) -> Result<&'static dyn Scene, ReplayError> {
    let scene = &capture.run().scene;
    let run = capture.run();
    let is_program = run.is_of_program();
    // A program may have the name of a scene.
    let found = registry.find(capture.scene_key()).filter(|_| !is_program || run.is_foreign);
    found.ok_or_else(|| ReplayError::NoScene { from: capture.name(), scene: scene.clone(), is_program })
}

fn set_args(
    capture: &dyn Capture,
    task: Task<'_>,
    given: &[(u16, String)],
) -> Result<Vec<SetArg>, ReplayError> {
    given
        .iter()
        .map(|(slot, value)| {
            let refuse = |reason: String| ReplayError::SetArg { slot: *slot, value: value.clone(), reason };
            let dtype = dtype_of(capture, task, *slot).ok_or_else(|| {
                let args = capture.tensors(task).count() + capture.scalars(task).len();
                refuse(format!(
                    "task {} has only arguments 0 to {}",
                    TaskId(task.task_id),
                    args.saturating_sub(1)
                ))
            })?;
            let element = Element::parse(dtype, value).map_err(|error| refuse(error.to_string()))?;
            let too_wide =
                |_| refuse(format!("a value of {dtype} does not fit in the 64 bits of an argument"));
            Ok(SetArg { arg_index: *slot, bits: u64::try_from(element.bits).map_err(too_wide)? })
        })
        .collect()
}

fn dtype_of(capture: &dyn Capture, task: Task<'_>, slot: u16) -> Option<DType> {
    let tensor = capture.tensor(task, slot).and_then(Result::ok).map(|tensor| tensor.dtype);
    tensor.or_else(|| capture.scalar(task, slot).map(|scalar| scalar.dtype))
}

fn grades(capture: &dyn Capture, task: Task<'_>, set: &[SetArg], check: Check) -> Vec<ArgReport> {
    let is_set = |arg_index: u16| set.iter().any(|s| s.arg_index == arg_index);
    let overridden = (Grade::Overridden, Some("--set-arg changed it".to_string()));
    let tensors = (0_u16..).zip(capture.tensors(task)).map(|(arg_index, tensor)| {
        let role = tensor.as_ref().ok().map(|tensor| tensor.role);
        let (grade, reason) = match tensor {
            Err(why) => (Grade::Zero, Some(why)),
            Ok(tensor) if is_set(arg_index) && tensor.role.reads() => overridden.clone(),
            Ok(tensor) => grade_of(capture, task, tensor, check),
        };
        ArgReport { arg_index, role, grade, reason }
    });
    let scalars = capture.scalars(task).into_iter().map(|scalar| {
        let (grade, reason) = match scalar.bits {
            _ if is_set(scalar.arg_index) => overridden.clone(),
            Ok(_) => (Grade::Exact, None),
            Err(why) => (Grade::Zero, Some(why)),
        };
        ArgReport { arg_index: scalar.arg_index, role: None, grade, reason }
    });
    tensors.chain(scalars).chain(capture.assumed(task)).collect()
}

/// Checks that the ABI of each kernel can describe every tensor view.
fn check_abi(
    scene: &dyn Scene,
    kernels: &Kernels,
    tensors: &[Argument<'_>],
    spans: &TaskSpans,
) -> Result<(), String> {
    let everywhere = DeviceRange { addr: 0, bytes: u64::MAX };
    for kernel in kernels.slots.iter().flatten() {
        let abi = scene.abi(kernel.func_id);
        for (tensor, view) in tensors.iter().zip(&spans.views) {
            let at = view.span.map_or(0, |span| spans.spans[span].start);
            let desc = view.descriptor(tensor.dtype, &spans.spans, at, everywhere);
            abi.check(&desc).map_err(|why| {
                format!("argument {}: {why}, so --abi {} cannot pass it", tensor.arg_index, abi.name())
            })?;
        }
    }
    Ok(())
}

/// The worse grade of its input and its expected output. A check against references needs no captured output.
fn grade_of(
    capture: &dyn Capture,
    task: Task<'_>,
    tensor: Argument<'_>,
    check: Check,
) -> (Grade, Option<String>) {
    let before = tensor.role.reads().then_some((DumpStage::BeforeDispatch, "its content before the task"));
    let expected = tensor.role.writes() && check != Check::Reference;
    let after = expected.then_some((DumpStage::AfterCompletion, "its content after the task"));
    let stages = [before, after].into_iter().flatten();
    let graded = stages.map(|(stage, which)| match capture.content(task, tensor, stage) {
        Content::Whole(_) => (Grade::Exact, None),
        Content::Part(blob) => {
            let whole = tensor.content_bytes().unwrap_or(u64::MAX);
            (Grade::Partial, Some(format!("only {} of {whole} bytes of {which} were stored", blob.bytes)))
        }
        Content::Noise(_) => {
            (Grade::Overridden, Some(format!("{which} was redacted and replaced with noise")))
        }
        Content::Missing(why) => (Grade::Zero, Some(format!("{which} is unknown: {why}"))),
    });
    graded.max_by_key(|(grade, _)| *grade).unwrap_or((Grade::Exact, None))
}
