//! A captured task made ready to be run again: kernels found, arguments graded, memory counted. No content is read yet.

use std::collections::BTreeSet;

use tensortap_abi::{
    BlockContext, DType, DeviceRange, DumpStage, NO_KERNEL, SLOTS_PER_TASK, SubtaskContext, TaskId,
};
use tensortap_format::{Argument, Task};
use tensortap_scene::{KernelDef, Registry, ScalarArg, Scene, Tolerance};
use tensortap_values::Element;

use crate::capture::{Capture, CapturedRun, Content};
use crate::spans::TaskSpans;
use crate::{ArgReport, Check, Grade, OpenFolder, Outcome, ReplayError, TaskReport};

/// Blocks that a task may have; far above what any device has, and low enough that a damaged number does not run for
/// days.
const MAX_BLOCK_NUM: u32 = 1 << 20;

/// A value given for an argument, by its element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetArg {
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// Raw bits of the scalar, or of each element.
    pub bits: u64,
}

/// One dispatch of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneDispatch {
    /// Subtask slot.
    pub slot: usize,
    /// Block.
    pub block_idx: u32,
}

/// A task that can be run.
pub struct Item<'s> {
    /// Position in the report.
    pub place: usize,
    /// Where it is from.
    pub capture: &'s dyn Capture,
    /// The task.
    pub task: Task<'s>,
    /// Its tensors, all of which have descriptors.
    pub tensors: Vec<Argument<'s>>,
    /// Whose kernels it needs.
    pub scene: &'static dyn Scene,
    /// Kernel of each slot, as this executable numbers them.
    pub func_id: [u32; SLOTS_PER_TASK],
    /// The same with all that is known of them.
    pub kernels: Kernels,
    /// What outputs are held against.
    pub check: Check,
    /// How far outputs may be from captured ones on another platform, or from references; `None` for the defaults of their dtypes.
    pub tolerance: Option<Tolerance>,
    /// The bytes it touches.
    pub spans: TaskSpans,
    /// Bytes of all spans.
    pub bytes: u64,
    /// Its arguments.
    pub args: Vec<ArgReport>,
    /// Arguments that are replaced.
    pub set: Vec<SetArg>,
    /// The only dispatch to be run.
    pub dispatch: Option<OneDispatch>,
}

/// What a task is run with.
struct Ready<'s> {
    kernels: Kernels,
    tensors: Vec<Argument<'s>>,
    spans: TaskSpans,
    bytes: u64,
}

/// The kernels of a captured task, found here.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// By subtask slot.
    pub slots: [Option<&'static KernelDef>; SLOTS_PER_TASK],
}

impl Kernels {
    /// Finds a task's kernels by name: numbers may mean something else in another build.
    pub fn find(run: &CapturedRun, task: Task<'_>, scene: &'static dyn Scene) -> Result<Kernels, String> {
        let mut slots = [None; SLOTS_PER_TASK];
        for (slot, &func_id) in slots.iter_mut().zip(&task.func_id).filter(|(_, id)| **id != NO_KERNEL) {
            let info =
                run.kernel(func_id).ok_or(format!("the capture does not say which kernel {func_id} is"))?;
            let kernel = scene.kernels().iter().find(|k| k.name == info.name).ok_or_else(|| {
                let (name, scene) = (&info.name, scene.name());
                if run.is_foreign {
                    return format!("no library is given for kernel `{name}`; --kernel {name}=LIB names one");
                }
                format!("this executable has no kernel `{name}` in scene `{scene}`")
            })?;
            if kernel.core_type.name() != info.core_type {
                let (name, was, is) = (kernel.name, &info.core_type, kernel.core_type);
                return Err(format!(
                    "kernel `{name}` was captured on {was} and is for {is} in this executable"
                ));
            }
            *slot = Some(kernel);
        }
        if slots.iter().all(Option::is_none) {
            return Err(match run.is_foreign {
                true if run.is_of_program() => "it runs no kernel".into(),
                true => "the dump does not say which kernel it runs; --kernel TASK=LIB names one".into(),
                false => "no kernel is known for it".into(),
            });
        }
        Ok(Kernels { slots })
    }

    fn func_id(&self) -> [u32; SLOTS_PER_TASK] {
        self.slots.map(|k| k.map_or(NO_KERNEL, |k| k.func_id))
    }

    /// The widest of what the kernels declare.
    pub fn tolerance(&self) -> Option<Tolerance> {
        let declared = self.slots.iter().flatten().filter_map(|k| k.tolerance);
        declared.reduce(|a, b| Tolerance { rtol: a.rtol.max(b.rtol), atol: a.atol.max(b.atol) })
    }
}

/// What a replay changes or demands, the same for every task.
pub struct Wishes<'c> {
    /// Where kernels are found.
    pub registry: &'c Registry,
    /// Arguments to replace, as text.
    pub set_args: &'c [(u16, String)],
    /// Whether inexact arguments are allowed.
    pub allow_inexact: bool,
    /// The only dispatch to be run.
    pub dispatch: Option<OneDispatch>,
}

impl<'s> Item<'s> {
    /// Makes a task ready. `report` is completed with its arguments; the error is the outcome of a task that cannot be
    /// run, or a request that makes no sense.
    pub fn new(
        place: usize,
        capture: &'s dyn Capture,
        task: Task<'s>,
        wishes: &Wishes<'_>,
        report: &mut TaskReport,
    ) -> Result<Result<Item<'s>, Outcome>, ReplayError> {
        let set = set_args(capture, task, wishes.set_args)?;
        report.args = grades(capture, task, &set, report.check);
        let scene = find_scene(capture, wishes.registry)?;
        let ready = Item::ready(capture, task, scene, wishes, &report.args);
        Ok(ready.map_err(Outcome::Refused).map(|Ready { kernels, tensors, spans, bytes }| Item {
            place,
            capture,
            task,
            tensors,
            scene,
            func_id: kernels.func_id(),
            kernels,
            check: report.check,
            tolerance: match capture.tolerance(task) {
                // References are judged as they are everywhere: by what the kernel declares.
                Some((rtol, atol)) if report.check != Check::Reference => Some(Tolerance { rtol, atol }),
                _ => kernels.tolerance(),
            },
            spans,
            bytes,
            args: report.args.clone(),
            set,
            dispatch: wishes.dispatch,
        }))
    }

    fn ready(
        capture: &dyn Capture,
        task: Task<'s>,
        scene: &'static dyn Scene,
        wishes: &Wishes<'_>,
        args: &[ArgReport],
    ) -> Result<Ready<'s>, String> {
        if let Some(damage) = capture.damage(task) {
            return Err(damage);
        }
        if task.block_num == 0 || task.block_num > MAX_BLOCK_NUM {
            return Err(format!("it has {} blocks; 1 to {MAX_BLOCK_NUM} can be replayed", task.block_num));
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
        let bytes = spans.bytes().ok_or("its arguments span more than 64 bits can count")?;
        match args.iter().find(|arg| arg.grade != Grade::Exact) {
            Some(arg) if !wishes.allow_inexact => Err(format!(
                "argument {} is {}: {}; --allow-inexact replays it all the same",
                arg.arg_index,
                arg.grade.name(),
                arg.reason.as_deref().unwrap_or("not as captured")
            )),
            _ => Ok(Ready { kernels, tensors, spans, bytes }),
        }
    }

    /// What a tensor held at a stage, as captured.
    pub fn content(&self, tensor: Argument<'_>, stage: DumpStage) -> Content {
        self.capture.content(self.task, tensor, stage)
    }

    /// The scalars as they are passed.
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
            Some(OneDispatch { slot, .. }) => {
                let mut func_id = [NO_KERNEL; SLOTS_PER_TASK];
                func_id[slot] = self.func_id[slot];
                (func_id, 1)
            }
        }
    }

    /// What the kernel of the one dispatch finds behind its context slots.
    pub fn context(&self) -> Option<(BlockContext, SubtaskContext)> {
        let OneDispatch { slot, block_idx } = self.dispatch?;
        let subtask_count = u32::try_from(self.task.func_ids().count()).ok()?;
        let subtask_id = u32::try_from(slot).ok()?;
        let block = BlockContext { block_idx, block_num: self.task.block_num };
        Some((block, SubtaskContext { subtask_id, subtask_count }))
    }

    /// Identity.
    pub fn id(&self) -> TaskId {
        TaskId(self.task.task_id)
    }
}

/// The registry with the scene folders that captures name.
pub fn with_folders<'c>(
    mut registry: Registry,
    captures: impl IntoIterator<Item = &'c dyn Capture>,
    open: Option<&OpenFolder>,
) -> Result<Registry, ReplayError> {
    let mut seen = BTreeSet::new();
    for capture in captures {
        let Some((folder, open)) = capture.run().scene_folder.as_ref().zip(open) else { continue };
        if seen.insert(folder.clone()) {
            let refused =
                |reason| ReplayError::Folder { from: capture.name(), folder: folder.clone(), reason };
            let (scene, loader) = open(folder).map_err(refused)?;
            registry = registry.with_first(scene).with_loader(loader);
        }
    }
    Ok(registry)
}

/// The scene that a capture was made of.
pub fn find_scene(capture: &dyn Capture, registry: &Registry) -> Result<&'static dyn Scene, ReplayError> {
    let scene = &capture.run().scene;
    let run = capture.run();
    let is_program = run.is_of_program();
    // A program may be called like a scene.
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
                refuse(format!("task {} has arguments 0 to {}", TaskId(task.task_id), args.saturating_sub(1)))
            })?;
            let element = Element::parse(dtype, value).map_err(|error| refuse(error.to_string()))?;
            Ok(SetArg { arg_index: *slot, bits: element.bits })
        })
        .collect()
}

fn dtype_of(capture: &dyn Capture, task: Task<'_>, slot: u16) -> Option<DType> {
    let tensor = capture.tensor(task, slot).and_then(Result::ok).map(|tensor| tensor.dtype);
    tensor.or_else(|| capture.scalar(task, slot).map(|scalar| scalar.dtype))
}

fn grades(capture: &dyn Capture, task: Task<'_>, set: &[SetArg], check: Check) -> Vec<ArgReport> {
    let is_set = |arg_index: u16| set.iter().any(|s| s.arg_index == arg_index);
    let overridden = (Grade::Overridden, Some("set by --set-arg".to_string()));
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

/// Kernels with another ABI must be able to say every view.
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

/// The worse of what goes in and what is expected to come out, which a reference knows by itself.
fn grade_of(
    capture: &dyn Capture,
    task: Task<'_>,
    tensor: Argument<'_>,
    check: Check,
) -> (Grade, Option<String>) {
    let before = tensor.role.reads().then_some((DumpStage::BeforeDispatch, "what it held before the task"));
    let expected = tensor.role.writes() && check != Check::Reference;
    let after = expected.then_some((DumpStage::AfterCompletion, "what the task wrote"));
    let stages = [before, after].into_iter().flatten();
    let graded = stages.map(|(stage, which)| match capture.content(task, tensor, stage) {
        Content::Whole(_) => (Grade::Exact, None),
        Content::Part(blob) => {
            let whole = tensor.content_bytes().unwrap_or(u64::MAX);
            (Grade::Partial, Some(format!("of {which}, {} of {whole} bytes were stored", blob.bytes)))
        }
        Content::Noise(_) => {
            (Grade::Overridden, Some(format!("{which} was redacted; noise is in its place")))
        }
        Content::Missing(why) => (Grade::Zero, Some(format!("{which} is not known: {why}"))),
    });
    graded.max_by_key(|(grade, _)| *grade).unwrap_or((Grade::Exact, None))
}
