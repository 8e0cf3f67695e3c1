//! What is known of a captured task, wherever it was read from: a dump or a case.

use std::path::PathBuf;

use serde_json::{Map, Value};
use tensortap_abi::{BLOCK_CONTEXT_SLOT, DType, DumpStage, MAX_PASSED_TENSORS, MAX_SCALARS, can_be_passed};
use tensortap_format::{Argument, Dump, GoldenVerdict, KernelInfo, RECORD_RUNTIME, Task, TaskKey, Tasks};
use tensortap_geometry::{GeometryError, Layout};

use crate::foreign::FOREIGN_PLATFORM;
use crate::{ArgReport, KernelCode, ReplayError};

/// The run that a task was captured in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CapturedRun {
    /// Scene, whose kernels are needed.
    pub scene: String,
    /// Platform it ran on.
    pub platform: String,
    /// Runtime it ran with.
    pub runtime: String,
    /// The scene's parameters.
    pub params: Map<String, Value>,
    /// Where device memory was mapped.
    pub device_base: u64,
    /// The kernels by `func_id`.
    pub kernels: Vec<KernelInfo>,
    /// The fault that was injected on purpose, `KERNEL=KIND`.
    pub inject_fault: Option<String>,
    /// The folder that the scene was read from.
    pub scene_folder: Option<PathBuf>,
    /// Whether another project captured it, or it is of a program that was recorded: kernels are known by name alone.
    pub is_foreign: bool,
    /// What the run's own golden says; `None` when that is not known.
    pub golden: Option<GoldenVerdict>,
}

impl CapturedRun {
    /// Where it was captured, in a word.
    pub fn captured_on(&self) -> &str {
        if self.is_foreign && !self.is_of_program() { &self.scene } else { &self.platform }
    }

    /// Whether it is of a program that was recorded, which has no scene.
    pub fn is_of_program(&self) -> bool {
        self.runtime == RECORD_RUNTIME
    }

    /// Where its tasks are run unless told: as they were captured, or, of a program, on a device of our own.
    pub fn replay_platform(&self) -> &str {
        if self.is_of_program() { FOREIGN_PLATFORM } else { &self.platform }
    }

    /// The kernel of a captured `func_id`.
    pub fn kernel(&self, func_id: u32) -> Option<&KernelInfo> {
        self.kernels.iter().find(|k| k.func_id == func_id)
    }
}

/// A scalar argument.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedScalar {
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// What the bits mean.
    pub dtype: DType,
    /// Raw bits, or why they are not known.
    pub bits: Result<u64, String>,
}

/// What is known of a tensor's content at one moment.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// All of it.
    Whole(Blob),
    /// The first bytes of it.
    Part(Blob),
    /// Noise in its place, by intent.
    Noise(Blob),
    /// Nothing, and why.
    Missing(String),
}

/// Bytes that a [`Capture`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Number by which the capture knows them.
    pub id: u64,
    /// How many.
    pub bytes: u64,
    /// Their content hash, when they are whole and it is known.
    pub hash: Option<u128>,
}

/// Captured tasks: the reader's view of them, and what it does not say.
pub trait Capture: Sync {
    /// The run they were captured in.
    fn run(&self) -> &CapturedRun;

    /// All that is known of tasks; those without a record of their own cannot be replayed.
    fn tasks(&self) -> &Tasks;

    /// What a tensor held at a stage; of no meaning before the task for an output, and after it for an input.
    fn content(&self, task: Task<'_>, tensor: Argument<'_>, stage: DumpStage) -> Content;

    /// Why an argument that a task should have is not there.
    fn why_missing(&self, task: Task<'_>, arg_index: u16) -> String;

    /// Why the records of a task make no sense together, if they do not.
    fn damage(&self, task: Task<'_>) -> Option<String>;

    /// How far the outputs of a task may be from the captured ones on another platform, where the capture says it.
    fn tolerance(&self, _task: Task<'_>) -> Option<(f64, f64)> {
        None
    }

    /// What the capture does not say of a task, and what is assumed in its place.
    fn assumed(&self, _task: Task<'_>) -> Vec<ArgReport> {
        Vec::new()
    }

    /// Which argument of the dump is passed at a position, where programs number theirs in another order.
    fn recorded_index(&self, _task: TaskKey, arg_index: u16) -> u16 {
        arg_index
    }

    /// What whoever reads a report should know of it.
    fn notes(&self) -> &[String] {
        &[]
    }

    /// The dump, where its tasks are launches whose programs it keeps.
    fn launches(&self) -> Option<&Dump> {
        None
    }

    /// The libraries that the user names for its kernels, where it has no others.
    fn given_code(&self) -> &[KernelCode] {
        &[]
    }

    /// The libraries that it brought itself.
    fn brought_code(&self) -> &[KernelCode] {
        &[]
    }

    /// Under which name the registry has the scene of its kernels.
    fn scene_key(&self) -> &str {
        &self.run().scene
    }

    /// Replaces `into` by the bytes of a blob.
    fn read(&self, blob: &Blob, into: &mut Vec<u8>) -> Result<(), ReplayError>;

    /// Where it is, for messages.
    fn name(&self) -> String;

    /// Whether expected outputs are those of references, so that a rule judges them on every platform.
    fn expects_reference(&self) -> bool {
        false
    }

    /// Whether content was replaced by noise, so that outputs mean nothing.
    fn redacted(&self) -> bool {
        false
    }
}

impl dyn Capture + '_ {
    /// The tasks that can be replayed, in the order of the capture.
    pub fn recorded(&self) -> impl Iterator<Item = Task<'_>> {
        self.tasks().iter().filter(|task| task.is_recorded())
    }

    /// A tensor argument of a task, or why it cannot be made up; `None` where the task has no tensor.
    pub fn tensor<'t>(&self, task: Task<'t>, arg_index: u16) -> Option<Result<Argument<'t>, String>> {
        (arg_index < counts(task).0).then(|| {
            let tensor = task.argument(arg_index).filter(|argument| !argument.is_scalar());
            let tensor = tensor.ok_or_else(|| self.why_missing(task, arg_index))?;
            let differ = "its records before and after the task describe different views";
            if tensor.is_consistent { Ok(tensor) } else { Err(differ.into()) }
        })
    }

    /// All of them, by position.
    pub fn tensors<'t>(&self, task: Task<'t>) -> impl Iterator<Item = Result<Argument<'t>, String>> {
        (0..counts(task).0).filter_map(move |arg_index| self.tensor(task, arg_index))
    }

    /// A scalar argument of a task; `None` where the task has no scalar.
    pub fn scalar(&self, task: Task<'_>, arg_index: u16) -> Option<CapturedScalar> {
        let (tensors, scalars) = counts(task);
        (tensors..tensors + scalars).contains(&arg_index).then(|| {
            let scalar = task.argument(arg_index).filter(|a| a.is_scalar() && a.before.is_some());
            let bits = scalar.and_then(|scalar| scalar.scalar_bits);
            CapturedScalar {
                arg_index,
                dtype: scalar.map_or(DType::UInt64, |scalar| scalar.dtype),
                bits: bits.ok_or_else(|| self.why_missing(task, arg_index)),
            }
        })
    }

    /// All of them, behind the tensors.
    pub fn scalars(&self, task: Task<'_>) -> Vec<CapturedScalar> {
        let (tensors, scalars) = counts(task);
        (tensors..tensors + scalars).filter_map(|arg_index| self.scalar(task, arg_index)).collect()
    }
}

/// Tensors and scalars of a task; none where its record says more than a task can have.
fn counts(task: Task<'_>) -> (u16, u16) {
    let small = |count: u32| u16::try_from(count).ok();
    let fit = |&(tensors, scalars): &(u16, u16)| can_be_passed(tensors.into(), scalars.into());
    small(task.tensor_count).zip(small(task.scalar_count)).filter(fit).unwrap_or((0, 0))
}

/// Why the number of arguments that a task's record says makes no sense.
pub fn bad_counts(task: Task<'_>) -> Option<String> {
    let (tensors, scalars) = (task.tensor_count, task.scalar_count);
    let (known_tensors, known_scalars) = counts(task);
    let is_bad = (tensors, scalars) != (u32::from(known_tensors), u32::from(known_scalars));
    is_bad.then(|| {
        format!(
            "its record says {tensors} tensors and {scalars} scalars; {MAX_PASSED_TENSORS} and {MAX_SCALARS}, together \
             {BLOCK_CONTEXT_SLOT}, can be passed"
        )
    })
}

/// The view of a tensor.
pub fn layout(tensor: Argument<'_>) -> Result<Layout, GeometryError> {
    Layout::new(tensor.shape(), tensor.strides(), tensor.start_offset, tensor.dtype.bits())
}

#[cfg(test)]
pub mod testing {
    use tensortap_abi::{NO_KERNEL, Role, SLOTS_PER_TASK};
    use tensortap_format::{
        ArgumentKind, ArgumentRecord, Assembler, PayloadState, TaskFacts, TaskKey, TaskPart,
    };

    use super::*;

    /// A task of which nothing is stored, argument after argument.
    #[derive(Default)]
    pub struct Made {
        assembler: Assembler,
        tensors: u32,
        scalars: u32,
        tasks: Tasks,
        run: CapturedRun,
    }

    impl Made {
        /// A view of floats.
        pub fn tensor(
            &mut self,
            role: Role,
            address: u64,
            start_offset: u64,
            shape: &[u64],
            strides: &[i64],
        ) {
            let number = self.next(role, ArgumentKind::Tensor, DType::Float32);
            let record = ArgumentRecord { shape, strides, address, start_offset, ..number };
            self.assembler.take(TaskPart::Argument(record));
            self.tensors += 1;
        }

        /// A scalar.
        pub fn scalar(&mut self, dtype: DType, bits: u64) {
            let number = self.next(Role::Input, ArgumentKind::Scalar, dtype);
            self.assembler.take(TaskPart::Argument(ArgumentRecord { scalar_bits: Some(bits), ..number }));
            self.scalars += 1;
        }

        /// The task is whole.
        pub fn done(mut self) -> Made {
            self.assembler.take(TaskPart::Task(TaskFacts {
                func_id: [0, NO_KERNEL, NO_KERNEL],
                completed_ns: Some(1),
                tensor_count: self.tensors,
                scalar_count: self.scalars,
                ..TaskFacts::unknown(TaskKey::default())
            }));
            let tasks = std::mem::take(&mut self.assembler).finish(&[]);
            Made { tasks, ..self }
        }

        fn next(&self, role: Role, kind: ArgumentKind, dtype: DType) -> ArgumentRecord<'static> {
            ArgumentRecord {
                number: 0,
                task: TaskKey::default(),
                func_id: [NO_KERNEL; SLOTS_PER_TASK],
                stage: DumpStage::BeforeDispatch,
                arg_index: u16::try_from(self.tensors + self.scalars).unwrap(),
                kind,
                role,
                dtype,
                dtype_known: true,
                role_known: true,
                extent_known: true,
                host_writable: false,
                shape: &[],
                strides: &[],
                start_offset: 0,
                address: 0,
                scalar_bits: None,
                hash: None,
                payload: PayloadState::None,
                bytes: 0,
                in_flight: false,
                name: 0,
            }
        }
    }

    impl Capture for Made {
        fn run(&self) -> &CapturedRun {
            &self.run
        }

        fn tasks(&self) -> &Tasks {
            &self.tasks
        }

        fn content(&self, _: Task<'_>, _: Argument<'_>, _: DumpStage) -> Content {
            Content::Missing(String::new())
        }

        fn why_missing(&self, _: Task<'_>, _: u16) -> String {
            String::new()
        }

        fn damage(&self, _: Task<'_>) -> Option<String> {
            None
        }

        fn read(&self, _: &Blob, into: &mut Vec<u8>) -> Result<(), ReplayError> {
            into.clear();
            Ok(())
        }

        fn name(&self) -> String {
            "made".into()
        }
    }
}
