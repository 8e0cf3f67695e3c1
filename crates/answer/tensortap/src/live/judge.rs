use tensortap_abi::{DumpStage, TaskId};
use tensortap_analysis::compare::{record_side, with_kernels_of};
use tensortap_format::{Argument, DumpWriter, FormatError, IndexRecord, PayloadState, Record, Task};
use tensortap_judge::{Content, Depth, Payload, Rule, RuleBook, RuleSubject, Side, compare};

use super::golden::{GoldenTasks, captures};

/// Result of comparing a task with the golden's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agreement {
    /// Everything is within tolerance.
    Same,
    /// Some input is not within tolerance.
    Differs,
    /// All inputs are within tolerance, but some output is not.
    WrongHere,
}

/// Compares tasks: first hashes, then, if they differ, the content by its rule.
pub(super) struct Judge {
    pub(super) golden: GoldenTasks,
    book: RuleBook,
}

impl Judge {
    pub(super) fn new(golden: GoldenTasks) -> Judge {
        let book = with_kernels_of(RuleBook::default(), golden.dump.info());
        Judge { golden, book }
    }

    /// Compares a task with the golden's. `held` contains its tensors by their record numbers.
    pub(super) fn judge(
        &self,
        writer: &DumpWriter,
        task: Task<'_>,
        held: &[IndexRecord],
    ) -> Result<Agreement, FormatError> {
        let (mut given, mut produced) = (true, true);
        let golden = self.golden.find(task.key());
        for (arg, stage) in golden.iter().flat_map(Task::arguments).flat_map(captures) {
            let same = self.is_same(writer, task, held, arg, stage)?;
            let side = if stage == DumpStage::BeforeDispatch { &mut given } else { &mut produced };
            *side &= same;
        }
        // Records that the golden does not have were not compared, and repeated records are ambiguous.
        let came = task.arguments().flat_map(captures).count();
        let extra = golden.is_none_or(|golden| came > self.golden.records_of(golden))
            || task.arguments().any(|arg| arg.is_repeated);
        Ok(match (given && !extra, produced) {
            (true, true) => Agreement::Same,
            (true, false) => Agreement::WrongHere,
            (false, _) => Agreement::Differs,
        })
    }

    /// Whether one argument is within tolerance. A missing argument is not.
    fn is_same(
        &self,
        writer: &DumpWriter,
        task: Task<'_>,
        held: &[IndexRecord],
        golden: Argument<'_>,
        stage: DumpStage,
    ) -> Result<bool, FormatError> {
        let Some(ours) = task.argument(golden.arg_index) else { return Ok(false) };
        if golden.is_scalar() {
            return Ok(ours.is_scalar() && ours.scalar_bits == golden.scalar_bits);
        }
        let (Some(came), Some(expected)) = (ours.captured(stage), golden.captured(stage)) else {
            return Ok(false);
        };
        // Equal content with a different form is a difference.
        let form = |arg: Argument<'_>| (arg.kind, arg.role, arg.dtype, arg.is_consistent);
        if form(ours) != form(golden) || ours.shape() != golden.shape() {
            return Ok(false);
        }
        if came.hash() == expected.hash() && came.hash().is_some() {
            return Ok(true);
        }
        let Some(ours) = usize::try_from(came.record).ok().and_then(|number| held.get(number)) else {
            return Ok(false);
        };
        let golden = self.golden.dump.record(expected.record)?;
        let rule = self.rule(task, &golden);
        self.is_within_rule(writer, ours, &golden, rule)
    }

    fn is_within_rule(
        &self,
        writer: &DumpWriter,
        ours: &IndexRecord,
        golden: &Record,
        rule: Rule,
    ) -> Result<bool, FormatError> {
        let (Some((offset, bytes)), PayloadState::Stored) = (ours.stored_range(), ours.payload_state())
        else {
            return Ok(false);
        };
        let theirs = record_side(&self.golden.dump, golden);
        if golden.payload != PayloadState::Stored || bytes != golden.content_bytes() {
            return Ok(false);
        }
        let content = Content::Stored(StoredPayload { writer, offset });
        let ours = Side { tensor: theirs.tensor.clone(), hash: None, stats: None, content };
        Ok(compare(&ours, &theirs, &rule, false, Depth::Quick)?.passes())
    }

    /// The rule that `blame` would apply.
    fn rule(&self, task: Task<'_>, golden: &Record) -> Rule {
        let kernels = task.kernel_names();
        let kernels: Vec<&str> = kernels.iter().map(String::as_str).collect();
        self.book.rule(&RuleSubject {
            task_id: &TaskId(task.task_id).to_string(),
            kernels: &kernels,
            arg_index: golden.arg_index.into(),
            dtype: golden.dtype,
        })
    }
}

/// A payload of the dump that is being written.
struct StoredPayload<'w> {
    writer: &'w DumpWriter,
    /// Its position.
    offset: u64,
}

impl Payload for StoredPayload<'_> {
    type Error = FormatError;

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), FormatError> {
        self.writer.read_payload(self.offset + offset, buffer)
    }

    /// Its hash was checked when it was written.
    fn damage(&self) -> Result<Option<String>, FormatError> {
        Ok(None)
    }
}
