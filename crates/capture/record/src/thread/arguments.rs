//! Recording the arguments of a task.

use tensortap_abi::{DType, DumpStage, Role, UncapturedReason};
use tensortap_recorder::{Outcome, ScalarCapture, TensorCapture, UncapturedArg};

use crate::{RecordError, StringId, Task, Tensor, ThreadRecorder, tensor::check_position};

impl ThreadRecorder {
    /// Records a tensor before or after its task. The first tensor recorded after it marks the task as
    /// completed.
    ///
    /// # Errors
    /// If the task has ended, the tensor is not readable, or its view exceeds its memory, which is recorded.
    /// See also [`ThreadRecorder`].
    pub fn tensor(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
    ) -> Result<Outcome, RecordError> {
        self.tensors(task, stage, std::slice::from_ref(tensor))
    }

    /// Records several tensors with one reading of the clock. Returns the worst outcome.
    ///
    /// # Errors
    /// The first error, as in [`ThreadRecorder::tensor`]. The other tensors are recorded.
    pub fn tensors(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensors: &[Tensor<'_>],
    ) -> Result<Outcome, RecordError> {
        self.tensors_of(task, stage, tensors.len(), |at| Ok(tensors[at]))
    }

    /// Records several tensors that `describe` returns one by one, with one reading of the clock.
    ///
    /// # Errors
    /// As [`ThreadRecorder::tensors`], and those of `describe`.
    #[inline]
    pub fn tensors_of<'t>(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        count: usize,
        mut describe: impl FnMut(usize) -> Result<Tensor<'t>, RecordError>,
    ) -> Result<Outcome, RecordError> {
        self.core.check()?;
        if !task.check()? {
            return Ok(self.filtered(task, count));
        }
        let now = self.lane.begin();
        let (mut worst, mut first_error) = (Outcome::Recorded, None);
        for at in 0..count {
            match describe(at).and_then(|tensor| self.one_tensor(task, stage, &tensor)) {
                Ok(outcome) => worst = worse(worst, outcome),
                Err(error) => _ = first_error.get_or_insert(error),
            }
        }
        if stage == DumpStage::AfterCompletion {
            task.completed(now);
        }
        task.captured_for(self.lane.end());
        first_error.map_or(Ok(worst), Err)
    }

    /// Counts records of a task that a filter refused.
    pub(crate) fn filtered(&mut self, task: &Task, records: usize) -> Outcome {
        if task.is_uncounted() {
            self.lane.count_filtered(records as u64);
        }
        Outcome::Filtered
    }

    #[inline]
    fn one_tensor(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
    ) -> Result<Outcome, RecordError> {
        if !tensor.is_here {
            let remedy = "its memory is not readable here; reserve space for its content and fill it";
            return Err(RecordError::BadArgument { what: "argument", value: tensor.arg.into(), remedy });
        }
        check_position(tensor.arg)?;
        task.has_tensor(tensor.arg);
        if !tensor.is_recordable() {
            return Err(self.not_recordable(task, stage, tensor));
        }
        match self.lane.tensor(&capture(task, stage, tensor)) {
            Outcome::Uncaptured => Err(self.uncaptured(tensor)),
            outcome => Ok(outcome),
        }
    }

    /// Records an argument as too large, and returns the error.
    #[cold]
    pub(crate) fn not_recordable(
        &mut self,
        task: &Task,
        stage: DumpStage,
        tensor: &Tensor<'_>,
    ) -> RecordError {
        self.lane.uncaptured(&UncapturedArg {
            task_id: task.id(),
            stage,
            role: tensor.role,
            arg_index: tensor.arg,
            reason: UncapturedReason::of_view(tensor.desc.ndims),
            marked: tensor.marked || task.is_marked(),
            name: tensor.details.name,
        });
        self.uncaptured(tensor)
    }

    /// Counts an argument that could not be captured, and returns the error.
    pub(crate) fn uncaptured(&self, tensor: &Tensor<'_>) -> RecordError {
        self.core.uncaptured.next();
        tensor.fault()
    }

    /// Records a scalar argument.
    ///
    /// # Errors
    /// As [`ThreadRecorder::tensor`].
    pub fn scalar(
        &mut self,
        task: &mut Task,
        arg: u16,
        dtype: DType,
        bits: u64,
        name: StringId,
    ) -> Result<Outcome, RecordError> {
        let capture = ScalarCapture { dtype, bits, ..no_scalar(arg, name) };
        self.scalar_argument(task, capture)
    }

    /// Records an argument that is local memory of this size per work group.
    ///
    /// # Errors
    /// As [`ThreadRecorder::tensor`].
    pub fn local_memory(
        &mut self,
        task: &mut Task,
        arg: u16,
        bytes: u64,
        name: StringId,
    ) -> Result<Outcome, RecordError> {
        let capture = ScalarCapture { bits: bytes, is_local: true, ..no_scalar(arg, name) };
        self.scalar_argument(task, capture)
    }

    fn scalar_argument(&mut self, task: &mut Task, capture: ScalarCapture) -> Result<Outcome, RecordError> {
        self.core.check()?;
        if !capture.dtype.fits_scalar() {
            let (value, remedy) =
                (capture.dtype.bits().into(), "a scalar has 64; record a tensor without dimensions");
            return Err(RecordError::BadArgument { what: "scalar bits", value, remedy });
        }
        if !task.check()? {
            return Ok(self.filtered(task, 1));
        }
        check_position(capture.arg_index)?;
        task.has_scalar(capture.arg_index);
        let (task_id, marked) = (task.id(), task.is_marked());
        Ok(self.lane.scalar(&ScalarCapture { task_id, marked, ..capture }))
    }

    /// Records an argument without its content.
    ///
    /// # Errors
    /// As [`ThreadRecorder::tensor`].
    pub fn not_captured(
        &mut self,
        task: &mut Task,
        stage: DumpStage,
        (arg, role, name): (u16, Role, StringId),
        reason: UncapturedReason,
    ) -> Result<Outcome, RecordError> {
        self.core.check()?;
        if !task.check()? {
            return Ok(self.filtered(task, 1));
        }
        check_position(arg)?;
        task.has_tensor(arg);
        let (task_id, marked) = (task.id(), task.is_marked());
        Ok(self.lane.uncaptured(&UncapturedArg {
            task_id,
            stage,
            role,
            arg_index: arg,
            reason,
            marked,
            name: name.0,
        }))
    }
}

/// The capture of a tensor, for the lane's recorder.
#[inline]
pub(crate) fn capture<'t>(task: &Task, stage: DumpStage, tensor: &'t Tensor<'_>) -> TensorCapture<'t> {
    TensorCapture {
        task_id: task.id(),
        stage,
        role: tensor.role,
        arg_index: tensor.arg,
        desc: &tensor.desc,
        marked: tensor.marked || task.is_marked(),
        in_flight: false,
        details: tensor.details,
    }
}

/// An empty scalar capture.
fn no_scalar(arg_index: u16, name: StringId) -> ScalarCapture {
    let (stage, dtype) = (DumpStage::BeforeDispatch, DType::UInt64);
    ScalarCapture {
        task_id: 0,
        stage,
        arg_index,
        dtype,
        bits: 0,
        is_local: false,
        marked: false,
        name: name.0,
    }
}

/// The worse of two outcomes.
#[inline]
pub(crate) fn worse(a: Outcome, b: Outcome) -> Outcome {
    let rank = |outcome: &Outcome| match outcome {
        Outcome::Recorded => 0,
        Outcome::NotWanted => 1,
        Outcome::Filtered => 2,
        Outcome::Uncaptured => 3,
        Outcome::Dropped(_) => 4,
    };
    if rank(&b) > rank(&a) { b } else { a }
}
