//! Reads captured tasks from a dump or a case.

use std::collections::HashMap;
use std::path::Path;

use tensortap_abi::DumpStage;
use tensortap_format::{
    Argument, ArgumentSnapshot, DispatchArg, Dump, FormatError, IndexRecord, PayloadState, RunInfo, Task,
    TaskKey, Tasks,
};

use crate::capture::{Blob, Capture, CapturedRun, Content, bad_counts};
use crate::case::OpenCase;
use crate::foreign::{ForeignDump, ForeignOptions, doubt};
use crate::program::Program;
use crate::{ArgReport, KernelCode, ReplayError};

/// Reason for missing content in a dump made with only `--dump-args`.
const ARGS_ONLY: &str = "the dump has dispatch arguments but no tensor content; record with --dump-tensor";

/// A dump, task by task.
pub struct DumpCapture {
    dump: Dump,
    run: CapturedRun,
    /// Set if it is a case.
    case: Option<OpenCase>,
    tasks: Tasks,
    /// Tasks whose dispatches contradict their records, with the contradiction.
    contradicted: HashMap<TaskKey, String>,
    /// Set if another project made the dump and the user passed kernels.
    foreign: Option<Box<ForeignDump>>,
    /// Set if a program was recorded and the user passed kernels.
    program: Option<Box<Program>>,
}

impl DumpCapture {
    /// Opens a dump by its folder, its manifest, or a folder that contains it.
    pub fn open(path: &Path) -> Result<DumpCapture, ReplayError> {
        let dump = Dump::open(path)?;
        let (info, tasks) = (dump.info().clone(), dump.tasks()?);
        let bad = |reason| FormatError::BadCase { path: path.to_owned(), reason };
        let case = OpenCase::of(path, dump.folder(), &info).map_err(bad)?;
        let count = tasks.iter().filter(|task| task.is_recorded() && !task.contains_tasks()).count();
        if case.is_some() && count != 1 {
            return Err(bad(format!("it has {count} tasks, but a case has one")).into());
        }
        let is_foreign = case.as_ref().is_some_and(|case| case.section.captured_by.is_some());
        let golden = dump.footer().and_then(|footer| footer.golden);
        let run = CapturedRun { info, is_foreign, golden };
        let contradicted = HashMap::new();
        let mut capture = DumpCapture { dump, run, case, tasks, contradicted, foreign: None, program: None };
        if capture.dump.info().dump_args {
            capture.contradicted = capture.check_dispatches()?;
        }
        Ok(capture)
    }

    /// Applies the user's kernels, if another project made the dump or it is a recorded program.
    pub fn with_kernels(self, options: ForeignOptions<'_>) -> Result<DumpCapture, ReplayError> {
        if self.case.is_some() || options.kernels.is_empty() {
            return Ok(self);
        }
        if self.run.is_of_program() {
            let (program, tasks) = Program::new(&self.dump, &self.tasks, options.kernels)?;
            let info = RunInfo { kernels: program.kernels.clone(), ..self.run.info };
            let run = CapturedRun { info, is_foreign: true, ..self.run };
            return Ok(DumpCapture { run, tasks, program: Some(Box::new(program)), ..self });
        }
        if !self.dump.format().is_foreign() {
            return Ok(self);
        }
        let mut foreign = Box::new(ForeignDump::new(&self.dump, &self.tasks, options)?);
        let (run, tasks) = (std::mem::take(&mut foreign.run), std::mem::take(&mut foreign.tasks));
        let contradicted = std::mem::take(&mut foreign.contradicted);
        Ok(DumpCapture { run, tasks, contradicted, foreign: Some(foreign), ..self })
    }

    /// Whether its files are in this folder itself.
    pub fn is_in(&self, folder: &Path) -> bool {
        self.dump.dir() == folder
    }

    /// Whether the dump has dispatch arguments but no content.
    fn has_only_args(&self) -> bool {
        self.dump.info().dump_args && self.dump.totals().total_tensors == 0
    }

    /// Compares the arguments that kernels received with the records of their tasks.
    fn check_dispatches(&self) -> Result<HashMap<TaskKey, String>, FormatError> {
        let capture: &dyn Capture = self;
        let mut contradicted = HashMap::new();
        self.dump.for_each_dispatch(|dispatch| {
            let key = dispatch.task_key();
            let Some(task) = self.tasks.find(key).filter(|task| task.is_recorded()) else { return };
            if let Some(arg) = dispatch.args.iter().find(|arg| !agrees(capture, task, arg)) {
                contradicted.entry(key).or_insert_with(|| {
                    format!(
                        "argument {} of block {}, slot {} contradicts the task's record",
                        arg.arg_index(),
                        dispatch.block_idx,
                        dispatch.subtask_id
                    )
                });
            }
        })?;
        Ok(contradicted)
    }
}

impl Capture for DumpCapture {
    fn run(&self) -> &CapturedRun {
        &self.run
    }

    fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    fn facts(&self, task: Task<'_>) -> Result<Vec<IndexRecord>, FormatError> {
        self.dump.facts_of(task)
    }

    fn content(&self, task: Task<'_>, tensor: Argument<'_>, stage: DumpStage) -> Content {
        let note = self.case.as_ref().and_then(|case| case.section.note(tensor.arg_index, stage));
        if let Some(reason) = note.and_then(|note| note.reason.clone()) {
            return Content::Missing(reason);
        }
        let captured = tensor.captured(stage);
        let is_unfinished = captured.map_or(task.is_unfinished(), |captured| captured.in_flight);
        if stage == DumpStage::AfterCompletion && is_unfinished {
            return Content::Missing("the task had not completed".into());
        }
        match captured {
            Some(_) if self.has_only_args() => Content::Missing(ARGS_ONLY.into()),
            Some(captured) => match content(captured) {
                Content::Whole(blob) if note.is_some() => Content::Noise(blob),
                content => content,
            },
            None => Content::Missing(self.why_missing(task, tensor.arg_index)),
        }
    }

    fn why_missing(&self, task: Task<'_>, arg_index: u16) -> String {
        match task.uncaptured(arg_index) {
            Some(reason) => format!("it was not captured: {}", reason.text()),
            None if self.has_only_args() => ARGS_ONLY.into(),
            None => "the dump has no record of it: it was filtered out or lost".into(),
        }
    }

    fn damage(&self, task: Task<'_>) -> Option<String> {
        // Two tasks share a task id: a ring was reused with `--dump-last`, or the dump is damaged.
        let repeated = || task.arguments().find(|argument| argument.is_repeated);
        let twice =
            || repeated().map(|a| format!("argument {} has two records for the same stage", a.arg_index));
        bad_counts(task).or_else(twice).or_else(|| self.contradicted.get(&task.key()).cloned())
    }

    fn assumed(&self, task: Task<'_>) -> Vec<ArgReport> {
        let of_case = || self.case.as_ref().map_or(Vec::new(), |case| case.assumed.clone());
        let Some(foreign) = &self.foreign else { return of_case() };
        let doubtful = foreign.doubtful.get(&task.key()).into_iter().flatten();
        let mut assumed = foreign.lacks.grades(task);
        assumed.extend(doubtful.map(|arg_index| doubt(*arg_index)));
        assumed
    }

    fn case(&self) -> Option<&OpenCase> {
        self.case.as_ref()
    }

    fn library_code(&self) -> &[KernelCode] {
        let of_program = self.program.as_ref().map_or(&[][..], |program| &program.code);
        self.foreign.as_ref().map_or(of_program, |foreign| &foreign.code)
    }

    fn launches(&self) -> Option<&Dump> {
        let is_given = self.program.is_some() || self.foreign.is_some();
        (!is_given && self.dump.has_programs()).then_some(&self.dump)
    }

    fn notes(&self) -> &[String] {
        self.program.as_ref().map_or(&[], |program| &program.notes)
    }

    fn recorded_index(&self, task: TaskKey, arg_index: u16) -> u16 {
        self.program.as_ref().map_or(arg_index, |program| program.recorded_index(task, arg_index))
    }

    fn read(&self, blob: &Blob, into: &mut Vec<u8>) -> Result<(), ReplayError> {
        let record = self.dump.record(blob.id)?;
        Ok(self.dump.payload_into(&record, into)?)
    }

    fn name(&self) -> String {
        self.dump.dir().display().to_string()
    }
}

/// Whether the argument of a dispatch matches the task's record; true if the record is missing.
fn agrees(capture: &dyn Capture, task: Task<'_>, arg: &DispatchArg) -> bool {
    let arg_index = arg.arg_index();
    match arg {
        DispatchArg::Tensor { desc, .. } => match capture.tensor(task, arg_index) {
            Some(Ok(tensor)) => {
                (desc.buffer_addr, desc.start_offset, desc.dtype)
                    == (tensor.address, tensor.start_offset, tensor.dtype.tag())
                    && (desc.dims(), desc.dim_strides()) == (tensor.shape(), tensor.strides())
            }
            Some(Err(_)) => true,
            None => false,
        },
        DispatchArg::Scalar { bits, .. } => {
            let scalar = capture.scalar(task, arg_index);
            scalar.is_some_and(|scalar| scalar.bits.as_ref().map_or(true, |known| known == bits))
        }
    }
}

fn content(captured: &ArgumentSnapshot) -> Content {
    let blob = Blob { id: captured.record, bytes: captured.bytes, hash: captured.hash() };
    match captured.payload {
        PayloadState::Stored => Content::Whole(blob),
        // The hash is that of the complete content, which is not stored.
        PayloadState::Truncated => Content::Part(Blob { hash: None, ..blob }),
        PayloadState::None => {
            Content::Missing("its payload was not captured, because of the dump level or a filter".into())
        }
        PayloadState::Dropped => Content::Missing("its payload was dropped: out of space".into()),
        PayloadState::Missing => Content::Missing("its payload is missing from the payload file".into()),
        PayloadState::Gone => Content::Missing("its payload was discarded while the run continued".into()),
        PayloadState::Overwritten => {
            Content::Missing("its payload was overwritten before the host read it".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use tensortap_abi::{DType, Role, TensorDesc};

    use super::*;
    use crate::capture::testing::TestCapture;

    #[test]
    fn detects_a_dispatch_that_contradicts_its_record() {
        let mut made = TestCapture::default();
        made.tensor(Role::Input, 0x1000, 1, &[4], &[2]);
        made.scalar(DType::UInt32, 7);
        let made = made.done();
        let (capture, task): (&dyn Capture, _) = (&made, made.tasks().at(0));
        let mut desc =
            TensorDesc { buffer_addr: 0x1000, start_offset: 1, dtype: 2, ndims: 1, ..TensorDesc::default() };
        (desc.shape[0], desc.strides[0]) = (4, 2);
        let tensor = |desc| DispatchArg::Tensor { arg_index: 0, desc_addr: 0, desc };
        let scalar = |bits| DispatchArg::Scalar { arg_index: 1, bits, dtype: None };
        assert!(agrees(capture, task, &tensor(desc)) && agrees(capture, task, &scalar(7)));
        assert!(!agrees(capture, task, &scalar(8)));
        assert!(!agrees(capture, task, &DispatchArg::Scalar { arg_index: 2, bits: 7, dtype: None }));
        for change in [
            |d: &mut TensorDesc| d.buffer_addr += 4,
            |d: &mut TensorDesc| d.start_offset = 0,
            |d: &mut TensorDesc| d.dtype = 3,
            |d: &mut TensorDesc| d.shape[0] = 3,
            |d: &mut TensorDesc| d.strides[0] = -2,
        ] {
            let mut other = desc;
            change(&mut other);
            assert!(!agrees(capture, task, &tensor(other)), "{other:?}");
        }
    }
}
