//! A command with the memory ranges it receives, and how it is recorded.

use std::sync::Arc;

use tensortap_record::{
    ContentDigest, DType, DumpStage, MAX_DIMS, MemorySpace, Operation, PartialContent, RecordError, Role,
    StringId, Task, TaskInfo, Tensor, ThreadRecorder, UncapturedReason,
};

use crate::{ProcessSession, Submission};

/// How a command uses a range, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRole {
    /// The kind of command determines that it reads the range, writes it, or both.
    Known(Role),
    /// Unknown. The range is captured before and after the command, and the dump says whether it changed.
    Observed,
    /// The kernel declares that it only reads the range. It may cast that away, so the range is observed, too.
    Const,
}

impl RangeRole {
    /// Whether the range is captured at a stage.
    pub fn is_captured_at(self, stage: DumpStage) -> bool {
        match (self, stage) {
            (RangeRole::Observed | RangeRole::Const | RangeRole::Known(Role::InOut), _) => true,
            (RangeRole::Known(Role::Input), stage) => stage == DumpStage::BeforeDispatch,
            (RangeRole::Known(Role::Output), stage) => stage == DumpStage::AfterCompletion,
        }
    }
}

/// Memory that a command receives.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Start address of the allocation that contains the range.
    pub base: u64,
    /// Size of that allocation in bytes.
    pub bytes: u64,
    /// Device memory, pinned host memory or managed memory.
    pub space: MemorySpace,
    /// Type of its elements. If unknown, they are bytes.
    pub dtype: Option<DType>,
    /// Number of elements in each dimension.
    pub shape: [u64; 3],
    /// Distance from one element to the next in each dimension, in elements.
    pub strides: [i64; 3],
    /// Number of dimensions in use.
    pub ndims: usize,
    /// Number of elements in the allocation before the first element.
    pub start: u64,
    /// Position among the arguments.
    pub arg: u16,
    /// Its name.
    pub name: StringId,
    /// How the command uses it.
    pub role: RangeRole,
    /// Whether it is certain that the range ends where the command's access ends.
    pub is_exact: bool,
}

impl Range {
    /// A contiguous part of an allocation. If the position or the size is no multiple of the element size, the
    /// elements are bytes.
    pub fn dense((base, bytes): (u64, u64), at: u64, size: u64, dtype: Option<DType>) -> Range {
        let fits = |dtype: &DType| {
            let width = u64::from(dtype.bits() / 8);
            width > 0 && at.is_multiple_of(width) && size.is_multiple_of(width)
        };
        let dtype = dtype.filter(fits);
        let width = dtype.map_or(1, |dtype| u64::from(dtype.bits() / 8));
        Range {
            base,
            bytes,
            space: MemorySpace::Device,
            dtype,
            shape: [size / width, 0, 0],
            strides: [1, 0, 0],
            ndims: 1,
            start: at / width,
            arg: 0,
            name: StringId::NONE,
            role: RangeRole::Observed,
            is_exact: true,
        }
    }

    /// A box of bytes in an allocation. `size` is its width in bytes, its rows and its slices. `pitch` is the distance
    /// from one row and from one slice to the next, in bytes.
    pub fn boxed((base, bytes): (u64, u64), at: u64, size: [u64; 3], pitch: [u64; 2]) -> Range {
        let stride = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut range = Range::dense((base, bytes), at, 0, None);
        range.shape = [size[2], size[1], size[0]];
        range.strides = [stride(pitch[1]), stride(pitch[0]), 1];
        range.ndims = 3;
        range
    }

    /// The same range as vectors of `lanes` elements. A range whose elements do not divide into vectors, or that has
    /// several dimensions, stays unchanged.
    #[must_use]
    pub fn of_vectors(mut self, lanes: u64) -> Range {
        if lanes > 1 && self.ndims == 1 && self.dtype.is_some() && self.shape[0].is_multiple_of(lanes) {
            let stride = i64::try_from(lanes).unwrap_or(1);
            (self.shape, self.strides, self.ndims) = ([self.shape[0] / lanes, lanes, 0], [stride, 1, 0], 2);
        }
        self
    }

    /// The range as a tensor view of its allocation.
    fn tensor<'a>(&self, memory: Tensor<'a>) -> Result<Tensor<'a>, RecordError> {
        let (role, is_observed) = match self.role {
            RangeRole::Known(role) => (role, false),
            RangeRole::Observed => (Role::InOut, true),
            RangeRole::Const => (Role::Input, true),
        };
        let ndims = self.ndims.min(MAX_DIMS);
        let view = memory.view(&self.shape[..ndims], &self.strides[..ndims], self.start)?;
        Ok(view.arg(self.arg).role(role).name(self.name).space(self.space).known_at(self.base).guessed(
            self.dtype.is_none(),
            is_observed,
            !self.is_exact,
        ))
    }

    /// The range as a tensor in device memory, which this process does not read.
    fn tensor_on_device(&self) -> Result<Tensor<'static>, RecordError> {
        self.tensor(Tensor::elsewhere(self.base, self.bytes, self.elements(), self.space))
    }

    /// The bytes from the first to the last element: their offset in the allocation, and their number. Gaps between
    /// rows are included.
    pub fn span(&self) -> (u64, u64) {
        let width = u64::from(self.elements().bits()).div_ceil(8);
        let (shape, strides) = (&self.shape[..self.ndims.min(3)], &self.strides[..self.ndims.min(3)]);
        let last =
            |(&size, &stride): (&u64, &i64)| size.saturating_sub(1).saturating_mul(stride.unsigned_abs());
        let elements = match shape.contains(&0) {
            true => 0,
            false => shape.iter().zip(strides).map(last).fold(1, u64::saturating_add),
        };
        (self.start.saturating_mul(width), elements.saturating_mul(width))
    }

    /// Whether the range consists of all bytes of its [span](Range::span), in order.
    pub fn is_dense(&self) -> bool {
        let ndims = self.ndims.min(3);
        let mut next = 1_u64;
        for (&size, &stride) in self.shape[..ndims].iter().zip(&self.strides[..ndims]).rev() {
            if size > 1 && u64::try_from(stride) != Ok(next) {
                return false;
            }
            next = next.saturating_mul(size);
        }
        true
    }

    /// The type that its elements are recorded with.
    pub fn elements(&self) -> DType {
        self.dtype.unwrap_or(DType::UInt8)
    }

    /// Number of records that a command makes for these ranges and for `values` arguments passed by value.
    pub fn record_count<'r>(ranges: impl Iterator<Item = &'r Range>, values: usize) -> u32 {
        let stages = |range: &Range| {
            DumpStage::ALL.into_iter().filter(|&stage| range.role.is_captured_at(stage)).count()
        };
        u32::try_from(ranges.map(stages).sum::<usize>() + values).unwrap_or(u32::MAX)
    }
}

/// Where the dump gets the content of a range that a device has hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentSource {
    /// Nowhere: only hash and statistics are recorded.
    None,
    /// The dump has it already.
    Dump,
    /// The device has it, and it is new.
    Device,
}

/// A task that was submitted to a queue, with the memory ranges it receives. Two kinds of threads record it: the
/// thread that submits the command, and the thread that reads its snapshots.
#[derive(Debug)]
pub struct Command {
    task: Task,
    ranges: Arc<[Range]>,
}

impl Command {
    /// A command whose task has begun.
    pub fn new(task: Task, ranges: impl Into<Arc<[Range]>>) -> Command {
        Command { task, ranges: ranges.into() }
    }

    /// Number of its task.
    pub fn id(&self) -> u64 {
        self.task.id()
    }

    /// Its task, to record with.
    pub fn task(&mut self) -> &mut Task {
        &mut self.task
    }

    /// The ranges it receives.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// The ranges that are captured at a stage.
    pub fn captured_at(&self, stage: DumpStage) -> impl Iterator<Item = &Range> {
        self.ranges.iter().filter(move |range| range.role.is_captured_at(stage))
    }

    /// Records the ranges of a stage without content, for levels that record none.
    ///
    /// # Errors
    /// The first error of [`ThreadRecorder::reserve`]. The other ranges are recorded nevertheless.
    pub fn record_without_content(
        &mut self,
        recorder: &mut ThreadRecorder,
        stage: DumpStage,
    ) -> Result<(), RecordError> {
        let Command { task, ranges } = self;
        let ranges = ranges.iter().filter(|range| range.role.is_captured_at(stage));
        recorder.together(task, |recorder, task| {
            let mut result = Ok(());
            for range in ranges {
                let reserved =
                    range.tensor_on_device().and_then(|tensor| recorder.reserve(task, stage, &tensor));
                // The level may reserve space nevertheless. No content will fill it.
                let settled = match reserved {
                    Ok(Some(ticket)) => recorder.give_up(ticket.number).map(|_| ()),
                    Ok(None) => Ok(()),
                    Err(error) => Err(error),
                };
                result = result.and(settled);
            }
            result
        })
    }

    /// Records hashes and statistics of the ranges of a stage. `found` has them in the order of the ranges; ranges
    /// beyond its end are skipped.
    ///
    /// # Errors
    /// The first error of [`ThreadRecorder::found`]. The other ranges are recorded nevertheless.
    pub fn record_hashes(
        &mut self,
        recorder: &mut ThreadRecorder,
        stage: DumpStage,
        found: impl Iterator<Item = ContentDigest>,
    ) -> Result<(), RecordError> {
        let Command { task, ranges } = self;
        let ranges = ranges.iter().filter(|range| range.role.is_captured_at(stage));
        recorder.together(task, |recorder, task| {
            let mut result = Ok(());
            for (range, found) in ranges.zip(found) {
                let recorded =
                    range.tensor_on_device().and_then(|tensor| recorder.found(task, stage, &tensor, &found));
                result = result.and(recorded.map(|_| ()));
            }
            result
        })
    }

    /// Records a range that a device has hashed: the one at `place` among [those of the stage](Command::captured_at).
    /// Returns the content to fill in if it is new and the dump wants it.
    ///
    /// # Errors
    /// If the range leaves its allocation, and those of [`ThreadRecorder::incoming`].
    pub fn record_found(
        &mut self,
        recorder: &mut ThreadRecorder,
        (stage, place): (DumpStage, usize),
        found: &ContentDigest,
        source: ContentSource,
    ) -> Result<Option<PartialContent>, RecordError> {
        let Some(range) = self.captured_at(stage).nth(place).copied() else { return Ok(None) };
        let tensor = range.tensor_on_device()?;
        match source {
            ContentSource::None => recorder.found(&mut self.task, stage, &tensor, found).map(|_| None),
            ContentSource::Dump => recorder.found_again(&mut self.task, stage, &tensor, found).map(|()| None),
            ContentSource::Device => recorder.incoming(&mut self.task, stage, &tensor, found),
        }
    }

    /// Call when all ranges of a stage are recorded. Before the command this records that it starts, after it that
    /// it has ended.
    ///
    /// # Errors
    /// Those of [`ThreadRecorder::starts`] and [`ThreadRecorder::end`].
    pub fn finish_stage(
        &mut self,
        recorder: &mut ThreadRecorder,
        stage: DumpStage,
    ) -> Result<(), RecordError> {
        match stage {
            DumpStage::BeforeDispatch => recorder.starts(&mut self.task),
            DumpStage::AfterCompletion => recorder.end(&mut self.task).map(|_| ()),
        }
    }

    /// Records the content of some ranges of a stage. Each entry of `contents` is a position among
    /// [the ranges of the stage](Command::captured_at) and memory of this process that can be read now.
    ///
    /// # Errors
    /// The first error of [`ThreadRecorder::tensor`]. The other ranges are recorded nevertheless.
    pub fn record_contents(
        &mut self,
        recorder: &mut ThreadRecorder,
        stage: DumpStage,
        contents: &[(usize, Tensor<'_>)],
    ) -> Result<(), RecordError> {
        let ranges: Vec<Range> = self.captured_at(stage).copied().collect();
        let recorded = recorder.tensors_of(&mut self.task, stage, contents.len(), |at| {
            let (place, memory) = contents[at];
            ranges[place].tensor(memory)
        });
        recorded.map(|_| ())
    }

    /// Records that ranges of a stage are not captured. `reason` gives the reason by the position of a range among
    /// [those of the stage](Command::captured_at), or none if the range is captured.
    pub fn record_uncaptured(
        &mut self,
        session: &ProcessSession,
        stage: DumpStage,
        reason: impl Fn(usize) -> Option<UncapturedReason>,
    ) {
        let Command { task, ranges } = self;
        let ranges = ranges.iter().filter(|range| range.role.is_captured_at(stage)).enumerate();
        let mut missing = ranges.filter_map(|(place, range)| Some((reason(place)?, range))).peekable();
        if missing.peek().is_none() {
            return;
        }
        let mut has_no_room = false;
        session.record(|recorder| {
            missing.try_for_each(|(reason, range)| {
                has_no_room |= reason == UncapturedReason::NoRoom;
                recorder.not_captured(task, stage, (range.arg, Role::InOut, range.name), reason).map(drop)
            })
        });
        if has_no_room {
            session.note_no_room();
        }
    }

    /// Records that the driver refused the command: it did nothing.
    ///
    /// # Errors
    /// Those of [`ThreadRecorder::refused`].
    pub fn refuse(
        &mut self,
        recorder: &mut ThreadRecorder,
        name: &str,
        status: i32,
    ) -> Result<(), RecordError> {
        let name = recorder.string(&format!("{name}, refused by the driver with status {status}"))?;
        recorder.refused(&mut self.task, name).map(drop)
    }
}

impl Submission {
    /// Records what the command waits for, and the tasks that join many waits.
    ///
    /// # Errors
    /// Those of [`ThreadRecorder::begin`], [`ThreadRecorder::end`] and [`ThreadRecorder::edge`].
    pub fn record(&self, recorder: &mut ThreadRecorder) -> Result<(), RecordError> {
        for (task, waits) in &self.barriers {
            let info = TaskInfo { id: *task, operation: Operation::Barrier, ..TaskInfo::default() };
            let mut barrier = recorder.begin(&info)?;
            recorder.end(&mut barrier)?;
            for wait in waits {
                recorder.edge(wait.on, *task, wait.cause, 0)?;
            }
        }
        for wait in &self.waits {
            recorder.edge(wait.on, self.token.task, wait.cause, 0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_covers_a_range_from_its_first_byte_to_its_last() {
        let place = (4096, 1000);
        assert_eq!(Range::dense(place, 16, 40, Some(DType::Float32)).span(), (16, 40));
        assert_eq!(Range::dense(place, 3, 0, None).span(), (3, 0));
        assert_eq!(Range::boxed(place, 5, [4, 3, 2], [10, 50]).span(), (5, 50 + 20 + 4));
        assert_eq!(Range::boxed(place, 5, [4, 1, 1], [10, 50]).span(), (5, 4));
        let vectors = Range::dense(place, 16, 40, Some(DType::Float32)).of_vectors(2);
        assert_eq!((vectors.span(), vectors.shape, vectors.ndims), ((16, 40), [5, 2, 0], 2));
        assert!(vectors.is_dense() && Range::dense(place, 3, 0, None).is_dense());
        assert!(!Range::boxed(place, 5, [4, 3, 2], [10, 50]).is_dense());
        assert!(Range::boxed(place, 5, [10, 5, 2], [10, 50]).is_dense());
        let odd = Range::dense(place, 16, 40, Some(DType::Float32)).of_vectors(4);
        assert_eq!(odd.ndims, 1, "10 elements are no whole number of vectors of 4");
    }
}
