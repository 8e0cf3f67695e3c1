//! A command with the ranges it is given.

use std::sync::Arc;

use tensortap_record::{
    DType, DumpStage, Found, MAX_DIMS, MemorySpace, RecordError, Role, StringId, Task, Tensor, ThreadRecorder,
};

/// What is known of how a command uses a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roles {
    /// By what the command is: it reads, writes or does both.
    Known(Role),
    /// Nothing: it is seen before and behind, and what is seen is said.
    Observed,
}

impl Roles {
    /// Whether the range is captured at a stage.
    pub fn is_seen_at(self, stage: DumpStage) -> bool {
        match (self, stage) {
            (Roles::Observed | Roles::Known(Role::InOut), _) => true,
            (Roles::Known(Role::Input), stage) => stage == DumpStage::BeforeDispatch,
            (Roles::Known(Role::Output), stage) => stage == DumpStage::AfterCompletion,
        }
    }
}

/// Memory that a command is given.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Where the memory begins that it lies in.
    pub base: u64,
    /// Size of that memory.
    pub bytes: u64,
    /// Whose memory it is.
    pub space: MemorySpace,
    /// Its elements; none when not known, which are bytes then.
    pub dtype: Option<DType>,
    /// Elements in each direction.
    pub shape: [u64; 3],
    /// Elements from one to the next in each direction.
    pub strides: [i64; 3],
    /// Directions in use.
    pub ndims: usize,
    /// Elements before the first.
    pub start: u64,
    /// Position among the arguments.
    pub arg: u16,
    /// What people call it.
    pub name: StringId,
    /// How it is used.
    pub roles: Roles,
    /// Whether it is certain to reach as far, and no farther.
    pub is_exact: bool,
}

impl Range {
    /// Part of a memory, in one piece. Elements that do not fit it are bytes.
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
            roles: Roles::Observed,
            is_exact: true,
        }
    }

    /// A box of bytes in a memory: its size in bytes, rows and slices, and from one row and slice to the next.
    pub fn boxed((base, bytes): (u64, u64), at: u64, size: [u64; 3], pitch: [u64; 2]) -> Range {
        let stride = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut range = Range::dense((base, bytes), at, 0, None);
        range.shape = [size[2], size[1], size[0]];
        range.strides = [stride(pitch[1]), stride(pitch[0]), 1];
        range.ndims = 3;
        range
    }

    /// The same as so many vectors: its elements belong together, as many to each. Where they do not come out even, or lie in rows already, it is what it was.
    #[must_use]
    pub fn of_vectors(mut self, lanes: u64) -> Range {
        if lanes > 1 && self.ndims == 1 && self.dtype.is_some() && self.shape[0].is_multiple_of(lanes) {
            let stride = i64::try_from(lanes).unwrap_or(1);
            (self.shape, self.strides, self.ndims) = ([self.shape[0] / lanes, lanes, 0], [stride, 1, 0], 2);
        }
        self
    }

    /// The tensor that it is, whose content this process reads from `content`, where its memory begins.
    ///
    /// # Errors
    /// None that its own numbers can make.
    fn tensor<'a>(&self, memory: Tensor<'a>) -> Result<Tensor<'a>, RecordError> {
        let (role, is_observed) = match self.roles {
            Roles::Known(role) => (role, false),
            Roles::Observed => (Role::InOut, true),
        };
        let ndims = self.ndims.min(MAX_DIMS);
        let view = memory.view(&self.shape[..ndims], &self.strides[..ndims], self.start)?;
        Ok(view.arg(self.arg).role(role).name(self.name).space(self.space).known_at(self.base).guessed(
            self.dtype.is_none(),
            is_observed,
            !self.is_exact,
        ))
    }

    /// The bytes of its memory from its first to its last: how many stand before them, and how many they are. Bytes between its rows are among them.
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

    /// Whether all bytes of its [span](Range::span) are its own, in order.
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

    /// What its elements are taken for.
    pub fn elements(&self) -> DType {
        self.dtype.unwrap_or(DType::UInt8)
    }
}

/// A task that was submitted to a queue, with the ranges it is given. It is recorded by whoever is there when content is: the thread that submits it, and
/// whatever runs probes.
#[derive(Debug)]
pub struct Command {
    task: Task,
    ranges: Arc<[Range]>,
}

impl Command {
    /// A task that has begun.
    pub fn new(task: Task, ranges: impl Into<Arc<[Range]>>) -> Command {
        Command { task, ranges: ranges.into() }
    }

    /// Its number.
    pub fn id(&self) -> u64 {
        self.task.id()
    }

    /// Its task, to be recorded with.
    pub fn task(&mut self) -> &mut Task {
        &mut self.task
    }

    /// The ranges it is given.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// The ranges that are captured at a stage.
    pub fn seen_at(&self, stage: DumpStage) -> impl Iterator<Item = &Range> {
        self.ranges.iter().filter(move |range| range.roles.is_seen_at(stage))
    }

    /// Records the ranges of a stage without their content, for levels that want none.
    ///
    /// # Errors
    /// The first of [`ThreadRecorder::reserve`]'s; the rest is recorded all the same.
    pub fn mention(&mut self, recorder: &mut ThreadRecorder, stage: DumpStage) -> Result<(), RecordError> {
        let Command { task, ranges } = self;
        let ranges = ranges.iter().filter(|range| range.roles.is_seen_at(stage));
        recorder.together(task, |recorder, task| {
            let mut told = Ok(());
            for range in ranges {
                let memory = Tensor::elsewhere(range.base, range.bytes, range.elements(), range.space);
                let reserved = range.tensor(memory).and_then(|tensor| recorder.reserve(task, stage, &tensor));
                // Where space was reserved after all, nothing comes to fill it.
                let settled = match reserved {
                    Ok(Some(ticket)) => recorder.give_up(ticket.number).map(|_| ()),
                    Ok(None) => Ok(()),
                    Err(error) => Err(error),
                };
                told = told.and(settled);
            }
            told
        })
    }

    /// Records what was found of the ranges of a stage, in their order; those for which there is nothing are left.
    ///
    /// # Errors
    /// The first of [`ThreadRecorder::found`]'s; the rest is recorded all the same.
    pub fn found(
        &mut self,
        recorder: &mut ThreadRecorder,
        stage: DumpStage,
        found: impl Iterator<Item = Found>,
    ) -> Result<(), RecordError> {
        let Command { task, ranges } = self;
        let ranges = ranges.iter().filter(|range| range.roles.is_seen_at(stage));
        recorder.together(task, |recorder, task| {
            let mut told = Ok(());
            for (range, found) in ranges.zip(found) {
                let memory = Tensor::elsewhere(range.base, range.bytes, range.elements(), range.space);
                let recorded =
                    range.tensor(memory).and_then(|tensor| recorder.found(task, stage, &tensor, &found));
                told = told.and(recorded.map(|_| ()));
            }
            told
        })
    }

    /// A range that is captured at a stage, by its place among [them](Command::seen_at), as a tensor that this process does not read, with the task to record it for.
    ///
    /// # Errors
    /// None that its own numbers can make.
    pub fn elsewhere(
        &mut self,
        stage: DumpStage,
        place: usize,
    ) -> Result<Option<(&mut Task, Tensor<'static>)>, RecordError> {
        let Some(range) = self.seen_at(stage).nth(place).copied() else { return Ok(None) };
        let memory = Tensor::elsewhere(range.base, range.bytes, range.elements(), range.space);
        Ok(Some((&mut self.task, range.tensor(memory)?)))
    }

    /// All ranges of a stage are recorded: it starts, or has ended.
    ///
    /// # Errors
    /// Those of [`ThreadRecorder::starts`] and [`ThreadRecorder::end`].
    pub fn seen(&mut self, recorder: &mut ThreadRecorder, stage: DumpStage) -> Result<(), RecordError> {
        match stage {
            DumpStage::BeforeDispatch => recorder.starts(&mut self.task),
            DumpStage::AfterCompletion => recorder.end(&mut self.task).map(|_| ()),
        }
    }

    /// Records some of the ranges that it is given, or what it left there: places among [those that are captured at this stage](Command::seen_at), each with its
    /// memory, which can be read now. With the last of them it starts, or has ended.
    ///
    /// # Errors
    /// The first of [`ThreadRecorder::tensor`]'s; the rest is recorded all the same.
    pub fn observe(
        &mut self,
        recorder: &mut ThreadRecorder,
        stage: DumpStage,
        seen: &[(usize, Tensor<'_>)],
        is_last: bool,
    ) -> Result<(), RecordError> {
        let ranges: Vec<Range> = self.seen_at(stage).copied().collect();
        let told = recorder.tensors_of(&mut self.task, stage, seen.len(), |at| {
            let (place, memory) = seen[at];
            ranges[place].tensor(memory)
        });
        let after = if is_last { self.seen(recorder, stage) } else { Ok(()) };
        told.map(|_| ()).and(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_goes_from_the_first_byte_of_a_range_to_its_last() {
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
        assert_eq!(Range::dense(place, 16, 40, Some(DType::Float32)).of_vectors(4).ndims, 1, "not even");
    }
}
