//! A captured task, read from a dump or a case.

use std::ops::Deref;
use std::path::Path;

use tensortap_abi::{BLOCK_CONTEXT_SLOT, DType, DumpStage, MAX_PASSED_TENSORS, MAX_SCALARS, can_be_passed};
use tensortap_format::{
    Argument, Dump, FormatError, GoldenVerdict, IndexRecord, KernelInfo, KernelTolerance, RunInfo, Task,
    TaskKey, Tasks, quoted,
};
use tensortap_geometry::{GeometryError, Layout};

use crate::case::OpenCase;
use crate::foreign::FOREIGN_PLATFORM;
use crate::{ArgReport, ExpectedSource, KernelCode, ReplayError};

/// The run that captured the task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CapturedRun {
    /// What its dump records about it.
    pub info: RunInfo,
    /// Whether another project captured it or it is a recorded program. Kernels are then known by name only.
    pub is_foreign: bool,
    /// Verdict of the run's own golden; `None` if unknown.
    pub golden: Option<GoldenVerdict>,
}

impl Deref for CapturedRun {
    type Target = RunInfo;

    fn deref(&self) -> &RunInfo {
        &self.info
    }
}

impl CapturedRun {
    /// Name of the place of capture: the platform, or the other project.
    pub fn captured_on(&self) -> &str {
        if self.is_foreign && !self.is_of_program() { &self.scene } else { &self.platform }
    }

    /// Default platform of a replay: the captured one, or a simulated device for a recorded program.
    pub fn replay_platform(&self) -> &str {
        if self.is_of_program() { FOREIGN_PLATFORM } else { &self.platform }
    }

    /// The kernel with this captured `func_id`.
    pub fn kernel(&self, func_id: u32) -> Option<&KernelInfo> {
        self.kernels.iter().find(|k| k.func_id == func_id)
    }
}

/// A scalar argument.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedScalar {
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// Element type of the bits.
    pub dtype: DType,
    /// Raw bits, or why they are unknown.
    pub bits: Result<u64, String>,
}

/// The captured content of a tensor at one stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// All of it.
    Whole(Blob),
    /// The first bytes of it.
    Part(Blob),
    /// Noise instead of the content: the case is redacted.
    Noise(Blob),
    /// Nothing, and why.
    Missing(String),
}

/// Bytes that a [`Capture`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The capture's number for them.
    pub id: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Their content hash, if the content is complete and the hash is known.
    pub hash: Option<u128>,
}

/// Source of captured tasks, with the facts that the reader's [`Tasks`] do not have.
pub trait Capture: Sync {
    /// The run that captured the tasks.
    fn run(&self) -> &CapturedRun;

    /// All known tasks. Tasks without a record of their own cannot be replayed.
    fn tasks(&self) -> &Tasks;

    /// Content of a tensor at a stage. Meaningless before the task for an output, and after it for an input.
    fn content(&self, task: Task<'_>, tensor: Argument<'_>, stage: DumpStage) -> Content;

    /// Why an argument of a task is missing.
    fn why_missing(&self, task: Task<'_>, arg_index: u16) -> String;

    /// Why the records of a task contradict each other; `None` if they do not.
    fn damage(&self, task: Task<'_>) -> Option<String>;

    /// The facts of a case; `None` for a dump.
    fn case(&self) -> Option<&OpenCase> {
        None
    }

    /// Records about a task besides its own record and its arguments; see [`Dump::facts_of`](tensortap_format::Dump::facts_of).
    ///
    /// # Errors
    /// If the dump cannot be read.
    fn facts(&self, _task: Task<'_>) -> Result<Vec<IndexRecord>, FormatError> {
        Ok(Vec::new())
    }

    /// Facts that the capture lacks, with the assumption made for each.
    fn assumed(&self, _task: Task<'_>) -> Vec<ArgReport> {
        Vec::new()
    }

    /// The recorded argument that is passed at this position. Recorded programs number arguments in their own
    /// order.
    fn recorded_index(&self, _task: TaskKey, arg_index: u16) -> u16 {
        arg_index
    }

    /// Notes for the report.
    fn notes(&self) -> &[String] {
        &[]
    }

    /// The dump, if its tasks are launches whose programs it stores.
    fn launches(&self) -> Option<&Dump> {
        None
    }

    /// The user's libraries for the kernels of a capture that has no others.
    fn library_code(&self) -> &[KernelCode] {
        &[]
    }

    /// Replaces `into` with the bytes of a blob.
    fn read(&self, blob: &Blob, into: &mut Vec<u8>) -> Result<(), ReplayError>;

    /// Its path, for messages.
    fn name(&self) -> String;
}

impl dyn Capture + '_ {
    /// The libraries that the case contains.
    pub fn case_code(&self) -> &[KernelCode] {
        self.case().map_or(&[], |case| &case.code)
    }

    /// Key of its scene in the registry.
    pub fn scene_key(&self) -> &str {
        self.case().map_or(&self.run().scene, |case| &case.scene_key)
    }

    /// Tolerance for the outputs on another platform, if a case states one.
    pub fn tolerance(&self) -> Option<KernelTolerance> {
        self.case()?.section.tolerance
    }

    /// Source of the expected outputs.
    pub fn expects(&self) -> ExpectedSource {
        self.case().map_or(ExpectedSource::Captured, |case| case.section.expected)
    }

    /// Whether content was replaced with noise, so that outputs cannot be checked.
    pub fn is_redacted(&self) -> bool {
        self.case().is_some_and(|case| case.section.redacted.is_some())
    }

    /// The tasks that can be replayed, in capture order.
    pub fn recorded(&self) -> impl Iterator<Item = Task<'_>> {
        self.tasks().iter().filter(|task| task.is_recorded())
    }

    /// A tensor argument of a task, or why it is unusable; `None` if the argument is not a tensor.
    pub fn tensor<'t>(&self, task: Task<'t>, arg_index: u16) -> Option<Result<Argument<'t>, String>> {
        (arg_index < counts(task).0).then(|| {
            let tensor = task.argument(arg_index).filter(|argument| !argument.is_scalar());
            let tensor = tensor.ok_or_else(|| self.why_missing(task, arg_index))?;
            let differ = "its records before and after the task have different shapes, strides or addresses";
            if tensor.is_consistent { Ok(tensor) } else { Err(differ.into()) }
        })
    }

    /// All tensor arguments, by position.
    pub fn tensors<'t>(&self, task: Task<'t>) -> impl Iterator<Item = Result<Argument<'t>, String>> {
        (0..counts(task).0).filter_map(move |arg_index| self.tensor(task, arg_index))
    }

    /// A scalar argument of a task; `None` if the argument is not a scalar.
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

    /// All scalar arguments. They follow the tensors.
    pub fn scalars(&self, task: Task<'_>) -> Vec<CapturedScalar> {
        let (tensors, scalars) = counts(task);
        (tensors..tensors + scalars).filter_map(|arg_index| self.scalar(task, arg_index)).collect()
    }
}

/// Number of tensors and scalars of a task; zero if its record has more than a kernel can take.
fn counts(task: Task<'_>) -> (u16, u16) {
    let small = |count: u32| u16::try_from(count).ok();
    let fit = |&(tensors, scalars): &(u16, u16)| can_be_passed(tensors.into(), scalars.into());
    small(task.tensor_count).zip(small(task.scalar_count)).filter(fit).unwrap_or((0, 0))
}

/// Why the number of arguments in a task's record is invalid; `None` if it is valid.
pub fn bad_counts(task: Task<'_>) -> Option<String> {
    let (tensors, scalars) = (task.tensor_count, task.scalar_count);
    let (known_tensors, known_scalars) = counts(task);
    let is_bad = (tensors, scalars) != (u32::from(known_tensors), u32::from(known_scalars));
    is_bad.then(|| {
        format!(
            "its record has {tensors} tensors and {scalars} scalars; the limit is {MAX_PASSED_TENSORS} tensors, \
              {MAX_SCALARS} scalars and {BLOCK_CONTEXT_SLOT} in total"
        )
    })
}

/// The view of a tensor.
pub fn layout(tensor: Argument<'_>) -> Result<Layout, GeometryError> {
    Layout::new(tensor.shape(), tensor.strides(), tensor.start_offset, tensor.dtype.bits())
}

/// Explains a payload whose hash does not match. `name` is the folder of its dump.
pub fn hash_mismatch(name: &str) -> String {
    let dump = quoted(Path::new(name));
    format!("its payload is corrupt (hash mismatch); run `tensortap verify {dump}` for details")
}

#[cfg(test)]
pub mod testing {
    use tensortap_abi::{NO_KERNEL, Role, SLOTS_PER_TASK};
    use tensortap_format::{
        ArgumentKind, ArgumentRecord, Assembler, PayloadState, TaskFacts, TaskKey, TaskPart,
    };

    use super::*;

    /// Builds a capture of one task without stored content, one argument at a time.
    #[derive(Default)]
    pub struct TestCapture {
        assembler: Assembler,
        tensors: u32,
        scalars: u32,
        tasks: Tasks,
        run: CapturedRun,
    }

    impl TestCapture {
        /// Adds a tensor of 32-bit floats.
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

        /// Adds a scalar.
        pub fn scalar(&mut self, dtype: DType, bits: u64) {
            let number = self.next(Role::Input, ArgumentKind::Scalar, dtype);
            self.assembler.take(TaskPart::Argument(ArgumentRecord { scalar_bits: Some(bits), ..number }));
            self.scalars += 1;
        }

        /// Finishes the task.
        pub fn done(mut self) -> TestCapture {
            self.assembler.take(TaskPart::Task(TaskFacts {
                func_id: [0, NO_KERNEL, NO_KERNEL],
                completed_ns: Some(1),
                tensor_count: self.tensors,
                scalar_count: self.scalars,
                ..TaskFacts::unknown(TaskKey::default())
            }));
            let tasks = std::mem::take(&mut self.assembler).finish(&[]);
            TestCapture { tasks, ..self }
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

    impl Capture for TestCapture {
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
