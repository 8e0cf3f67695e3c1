use std::os::unix::fs::FileExt;

use tensortap_abi::{DumpStage, NO_KERNEL, SLOTS_PER_TASK, TaskId};
use tensortap_analysis::compare::with_kernels_of;
use tensortap_format::{ArgumentKind, DumpWriter, FormatError, IndexRecord, PayloadState, Record};
use tensortap_judge::{Comparison, QuickPass, Rule, RuleBook, Subject, TensorType};

use super::golden::{Golden, GoldenArg, form_of};
use super::task::WaitingTask;

/// Bytes of each side compared at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// How a task compares with the golden's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Everything is within rule.
    Same,
    /// Something it was given is not.
    Differs,
    /// What it was given is within rule, something it produced is not.
    WrongHere,
}

/// Compares tasks: hashes first, content by rule where they differ.
pub(super) struct Judge {
    pub(super) golden: Golden,
    book: RuleBook,
}

impl Judge {
    pub(super) fn new(golden: Golden) -> Judge {
        let book = with_kernels_of(RuleBook::default(), golden.dump.info());
        Judge { golden, book }
    }

    pub(super) fn judge(
        &self,
        writer: &DumpWriter,
        task_id: u64,
        task: &WaitingTask,
    ) -> Result<Verdict, FormatError> {
        let args = self.golden.of(task_id);
        let (mut given, mut produced) = (true, true);
        for arg in args {
            let same = self.is_same(writer, task_id, task, arg)?;
            let side = if arg.stage == DumpStage::BeforeDispatch { &mut given } else { &mut produced };
            *side &= same;
        }
        // What the golden does not have was not compared.
        let extra = task.tensors.len() + task.scalars.len() > args.len();
        Ok(match (given && !extra, produced) {
            (true, true) => Verdict::Same,
            (true, false) => Verdict::WrongHere,
            (false, _) => Verdict::Differs,
        })
    }

    /// Whether one argument is within rule; one that did not come is not.
    fn is_same(
        &self,
        writer: &DumpWriter,
        task_id: u64,
        task: &WaitingTask,
        arg: &GoldenArg,
    ) -> Result<bool, FormatError> {
        if arg.kind == ArgumentKind::Scalar {
            return Ok(task.scalar(arg.arg_index) == Some(arg.bits));
        }
        let Some(ours) = task.tensor(arg.stage, arg.arg_index) else { return Ok(false) };
        if form_of_index(ours) != Some(arg.form) {
            return Ok(false);
        }
        if ours.hash() == Some(arg.hash) {
            return Ok(true);
        }
        let golden = self.golden.record(arg)?;
        let rule = self.rule(task_id, task, &golden);
        self.is_within_rule(writer, ours, &golden, rule)
    }

    fn is_within_rule(
        &self,
        writer: &DumpWriter,
        ours: &IndexRecord,
        golden: &Record,
        rule: Rule,
    ) -> Result<bool, FormatError> {
        let stored = |state| state == PayloadState::Stored;
        let (Some((offset, bytes)), true, true) =
            (ours.stored_range(), stored(ours.payload_state()), stored(golden.payload))
        else {
            return Ok(false);
        };
        let tensor = TensorType::new(golden.dtype, golden.shape());
        let Ok(comparison) = Comparison::new(&tensor, &tensor, rule) else {
            return Ok(false);
        };
        let mut stream = comparison.stream::<QuickPass>();
        let mut chunks = self.golden.dump.payload_chunks(golden, CHUNK_BYTES)?;
        let (mut at, mut mine) = (offset, Vec::new());
        while let Some(theirs) = chunks.next_chunk()? {
            mine.resize(theirs.len(), 0);
            let read = writer.payload_file()?.read_exact_at(&mut mine, at);
            read.map_err(|source| FormatError::Io {
                action: "read",
                path: writer.payload_path().to_owned(),
                source,
            })?;
            at += theirs.len() as u64;
            if at > offset + bytes || stream.update(&mine, theirs).is_err() {
                return Ok(false);
            }
        }
        Ok(stream.finish().is_ok_and(|quick| quick.passes()))
    }

    /// Names of a task's kernels.
    pub(super) fn kernels(&self, task: &WaitingTask) -> Vec<String> {
        let func_ids = task.task.map_or([NO_KERNEL; SLOTS_PER_TASK], |task| task.func_id);
        let ran = func_ids.into_iter().filter(|&id| id != NO_KERNEL);
        ran.map(|id| self.golden.dump.info().kernel_name(id)).collect()
    }

    /// The rule that `blame` would apply.
    fn rule(&self, task_id: u64, task: &WaitingTask, golden: &Record) -> Rule {
        let kernels = self.kernels(task);
        let kernels: Vec<&str> = kernels.iter().map(String::as_str).collect();
        self.book.rule(&Subject {
            task_id: &TaskId(task_id).to_string(),
            kernels: &kernels,
            arg_index: golden.arg_index.into(),
            dtype: golden.dtype,
        })
    }
}

/// The form of a record on its way into the index.
fn form_of_index(record: &IndexRecord) -> Option<u64> {
    let fields = record.fields();
    let shape = &fields.shape[..usize::from(fields.ndims).min(fields.shape.len())];
    Some(form_of(record.role()?.tag(), fields.dtype, shape))
}
