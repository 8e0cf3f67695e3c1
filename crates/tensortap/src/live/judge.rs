use std::os::unix::fs::FileExt;

use tensortap_abi::{DumpStage, NO_KERNEL, Role};
use tensortap_analysis::metrics::{Comparison, QuickPass, Rule, TensorType};
use tensortap_format::{ArgumentKind, DumpWriter, FormatError, IndexRecord, PayloadState, Record};
use tensortap_scene::Scene;

use super::golden::{Golden, GoldenArg};
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
    /// The golden does not have it.
    Unmatched,
}

/// Compares tasks: hashes first, content by rule where they differ.
pub(super) struct Judge {
    pub(super) golden: Golden,
    scene: &'static dyn Scene,
}

impl Judge {
    pub(super) fn new(golden: Golden, scene: &'static dyn Scene) -> Judge {
        Judge { golden, scene }
    }

    pub(super) fn judge(
        &self,
        writer: &DumpWriter,
        task_id: u64,
        task: &WaitingTask,
    ) -> Result<Verdict, FormatError> {
        let args = self.golden.of(task_id);
        if args.is_empty() {
            return Ok(Verdict::Unmatched);
        }
        let (mut given, mut produced) = (true, true);
        for arg in args {
            let same = self.is_same(writer, task, arg)?;
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
    fn is_same(&self, writer: &DumpWriter, task: &WaitingTask, arg: &GoldenArg) -> Result<bool, FormatError> {
        if arg.kind == ArgumentKind::Scalar {
            return Ok(task.scalar(arg.arg_index) == Some(arg.bits));
        }
        let Some(ours) = task.tensor(arg.stage, arg.arg_index) else { return Ok(false) };
        let golden = self.golden.record(arg)?;
        if !same_type(ours, &golden) {
            return Ok(false);
        }
        if ours.hash() == Some(arg.hash) {
            return Ok(true);
        }
        self.is_within_rule(writer, task, ours, &golden)
    }

    fn is_within_rule(
        &self,
        writer: &DumpWriter,
        task: &WaitingTask,
        ours: &IndexRecord,
        golden: &Record,
    ) -> Result<bool, FormatError> {
        let stored = |state| state == PayloadState::Stored;
        let (Some((offset, bytes)), true, true) =
            (ours.stored_range(), stored(ours.payload_state()), stored(golden.payload))
        else {
            return Ok(false);
        };
        let tensor = TensorType::new(golden.dtype, golden.shape());
        let Ok(comparison) = Comparison::new(&tensor, &tensor, self.rule(task, golden)) else {
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

    /// The tolerance of the kernel; of a mix task the widest, for nobody knows which of them wrote what.
    fn rule(&self, task: &WaitingTask, golden: &Record) -> Rule {
        let func_ids = task.task.map_or([NO_KERNEL; 3], |task| task.func_id);
        let kernels = self.scene.kernels().iter().filter(|kernel| func_ids.contains(&kernel.func_id));
        let widest = kernels
            .filter_map(|kernel| kernel.tolerance)
            .reduce(|a, b| if (b.rtol, b.atol) > (a.rtol, a.atol) { b } else { a });
        widest.map_or_else(
            || Rule::for_dtype(golden.dtype),
            |tolerance| Rule::close(golden.dtype, tolerance.rtol, tolerance.atol),
        )
    }
}

fn same_type(ours: &IndexRecord, golden: &Record) -> bool {
    let fields = ours.fields();
    let shape = &fields.shape[..usize::from(fields.ndims).min(fields.shape.len())];
    fields.dtype == golden.dtype.tag()
        && shape == golden.shape()
        && ours.role().map(Role::tag) == Some(golden.role.tag())
}
