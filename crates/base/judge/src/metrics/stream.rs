//! Runs a pass over chunks of any size.

use super::block::{BLOCK, Bytes};
use super::comparison::Comparison;
use super::error::CompareError;

/// One of the passes of a [`Comparison`]: [`MetricsPass`](super::MetricsPass),
/// [`QuickPass`](super::QuickPass), [`DetailPass`](super::DetailPass).
pub trait Pass: sealed::State {}

pub(super) mod sealed {
    use super::{Bytes, Comparison};

    /// The state of a pass; not for other crates to implement.
    pub trait State: Sized {
        /// The result.
        type Output;
        /// The empty state.
        fn new(comparison: &Comparison, first_block: u64) -> Self;
        /// Adds the next block.
        fn block(&mut self, bytes: &Bytes<'_>);
        /// Adds the state of the part that follows.
        fn join(&mut self, next: Self);
        /// The result.
        fn finish(self, comparison: &Comparison) -> Self::Output;
    }
}

/// A running pass over a tensor or a part of it.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_judge::{Comparison, MetricsPass, Rule, TensorType};
///
/// let tensor = TensorType::new(DType::UInt8, &[3000]);
/// let comparison = Comparison::new(&tensor, &tensor, Rule::for_dtype(DType::UInt8))?;
/// let (dump, golden) = ([7; 3000], [9; 3000]);
/// let mut stream = comparison.stream::<MetricsPass>();
/// for (dump, golden) in dump.chunks(700).zip(golden.chunks(700)) {
///     stream.update(dump, golden)?;
/// }
/// let metrics = stream.finish()?;
/// assert_eq!((metrics.failing, metrics.mean_abs), (3000, Some(2.0)));
/// assert_eq!(metrics, comparison.full(&dump, &golden, 2)?);
/// # Ok::<(), tensortap_judge::CompareError>(())
/// ```
pub struct Stream<'c, P> {
    comparison: &'c Comparison,
    pass: P,
    first: u64,
    /// First element that was not taken yet; pending elements count as taken.
    next: u64,
    /// The beginning of an incomplete block.
    pending: PendingBytes,
}

/// Bytes of both sides that wait for the rest of their block.
#[derive(Default)]
struct PendingBytes {
    dump: Vec<u8>,
    golden: Vec<u8>,
    count: usize,
}

impl<'c, P: Pass> Stream<'c, P> {
    pub(super) fn starting_at(comparison: &'c Comparison, first: u64) -> Result<Self, CompareError> {
        let (block, numel) = (BLOCK as u64, comparison.numel());
        if !first.is_multiple_of(block) || first > numel {
            return Err(CompareError::PartStart { first, block: BLOCK, numel });
        }
        let pass = P::new(comparison, first / block);
        Ok(Self { comparison, pass, first, next: first, pending: PendingBytes::default() })
    }

    /// Takes the next elements of both sides: the same number of whole elements, and whole bytes of 4-bit
    /// elements.
    ///
    /// # Errors
    /// The chunks have other sizes, or more elements than are left.
    pub fn update(&mut self, dump: &[u8], golden: &[u8]) -> Result<(), CompareError> {
        let mut left = self.comparison.elements_of_chunk(self.next, dump, golden)?;
        let (mut dump, mut golden) = (dump, golden);
        while left > 0 {
            let count = left.min(BLOCK - self.pending.count);
            let (dump_bytes, golden_bytes) = self.comparison.bytes_of(count);
            let (head, golden_head);
            (head, dump) = dump.split_at(dump_bytes);
            (golden_head, golden) = golden.split_at(golden_bytes);
            self.take(head, golden_head, count);
            left -= count;
        }
        Ok(())
    }

    /// Takes elements within one block.
    fn take(&mut self, dump: &[u8], golden: &[u8], count: usize) {
        self.next += count as u64;
        let ends_block = self.pending.count + count == BLOCK || self.next == self.comparison.numel();
        if ends_block && self.pending.count == 0 {
            self.block(dump, golden, count);
            return;
        }
        self.pending.dump.extend_from_slice(dump);
        self.pending.golden.extend_from_slice(golden);
        self.pending.count += count;
        if ends_block {
            let mut pending = std::mem::take(&mut self.pending);
            self.block(&pending.dump, &pending.golden, pending.count);
            pending.dump.clear();
            pending.golden.clear();
            self.pending = PendingBytes { count: 0, ..pending };
        }
    }

    /// Passes on a complete block.
    fn block(&mut self, dump: &[u8], golden: &[u8], count: usize) {
        let Self { comparison, next, .. } = *self;
        self.pass.block(&Bytes {
            dump,
            dump_dtype: comparison.dump_dtype(),
            golden,
            golden_dtype: comparison.golden_dtype(),
            first: next - count as u64,
            count,
        });
    }

    /// Adds a part that begins where this one ends, at a multiple of [`BLOCK`].
    ///
    /// # Errors
    /// The part begins elsewhere.
    pub fn join(&mut self, part: Stream<'c, P>) -> Result<(), CompareError> {
        if part.first != self.next || self.pending.count > 0 {
            return Err(CompareError::NotAdjacent { end: self.next, first: part.first });
        }
        self.pass.join(part.pass);
        (self.next, self.pending) = (part.next, part.pending);
        Ok(())
    }

    /// The result.
    ///
    /// # Errors
    /// Some elements are missing.
    pub fn finish(self) -> Result<P::Output, CompareError> {
        let (first, end, numel) = (self.first, self.next, self.comparison.numel());
        if first != 0 || end != numel {
            return Err(CompareError::Incomplete { first, end, numel });
        }
        Ok(self.pass.finish(self.comparison))
    }
}
