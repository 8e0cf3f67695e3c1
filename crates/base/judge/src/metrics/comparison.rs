use tensortap_abi::DType;
use tensortap_sync::parallel::map;
use tensortap_values::elements_in;
use tensortap_values::vector::Level;

use super::block::BLOCK;
use super::detail::{Detail, DetailPass};
use super::error::{CompareError, SideName};
use super::failing::FailingPass;
use super::full::{Metrics, MetricsPass};
use super::quick::{QuickPass, QuickResult};
use super::rule::{Predicate, Rule, Test};
use super::stream::{Pass, Stream};

/// Below this many elements a second thread costs more than it saves.
const MIN_PART: u64 = 1 << 16;

/// Dtype and shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Size of each axis, the outermost first.
    pub shape: Vec<u64>,
}

impl TensorType {
    /// A tensor type from its dtype and shape.
    #[must_use]
    pub fn new(dtype: DType, shape: &[u64]) -> TensorType {
        TensorType { dtype, shape: shape.into() }
    }

    /// The type as which it is compared: complex numbers become floats with a last axis in addition, of real and
    /// imaginary part.
    #[must_use]
    pub fn of_parts(&self) -> TensorType {
        let parts = self.dtype.is_complex().then_some(u64::from(self.dtype.parts()));
        TensorType { dtype: self.dtype.part(), shape: self.shape.iter().copied().chain(parts).collect() }
    }

    fn numel(&self) -> Result<u64, CompareError> {
        let TensorType { dtype, shape } = self;
        let too_large = || CompareError::TooLarge { shape: shape.clone(), dtype: *dtype };
        if shape.contains(&0) {
            return Ok(0);
        }
        let numel = shape.iter().try_fold(1_u64, |product, extent| product.checked_mul(*extent));
        // In bits, so that no size computed from it overflows.
        numel.filter(|numel| numel.checked_mul(64).is_some()).ok_or_else(too_large)
    }
}

/// A comparison of a tensor with its golden of equal shape, under a rule.
///
/// Complex numbers are compared as [their parts](TensorType::of_parts): the rule judges real and imaginary part
/// by themselves, counts are counts of parts, and coordinates end with 0 (real) or 1 (imaginary).
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_judge::{CompareError, Comparison, Rule, TensorType};
///
/// let rule = Rule::for_dtype(DType::Float32);
/// let [dump, golden] = [[2, 3], [3, 2]].map(|shape| TensorType::new(DType::Float32, &shape));
/// assert!(matches!(Comparison::new(&dump, &golden, rule), Err(CompareError::Shape { .. })));
///
/// let comparison = Comparison::new(&dump, &dump, rule)?;
/// let (dump, golden) = ([0; 24], [0; 24]);
/// assert!(comparison.quick(&dump, &golden, 2)?.passes());
/// # Ok::<(), CompareError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Comparison {
    shape: Vec<u64>,
    numel: u64,
    dump: DType,
    golden: DType,
    rule: Rule,
    level: Level,
    parts_per_element: u64,
}

impl Comparison {
    /// A comparison of tensors with equal shape and dtype.
    ///
    /// # Errors
    /// Shapes or dtypes differ, the tensor is too large to count, or the rule has a negative tolerance.
    pub fn new(dump: &TensorType, golden: &TensorType, rule: Rule) -> Result<Comparison, CompareError> {
        if dump.shape == golden.shape && dump.dtype != golden.dtype {
            return Err(CompareError::DType { dump: dump.dtype, golden: golden.dtype });
        }
        Comparison::across_dtypes(dump, golden, rule)
    }

    /// Like [`new`](Self::new), but the golden may have another float dtype. It is compared unrounded, and
    /// again after rounding to the dump's dtype, to nearest even. [`Predicate::Close`] judges the unrounded
    /// golden; the other predicates judge the rounded one.
    ///
    /// # Errors
    /// Like [`new`](Self::new); also if dtypes differ and are not both floats.
    pub fn across_dtypes(
        dump: &TensorType,
        golden: &TensorType,
        rule: Rule,
    ) -> Result<Comparison, CompareError> {
        if dump.shape != golden.shape {
            return Err(CompareError::Shape { dump: dump.shape.clone(), golden: golden.shape.clone() });
        }
        if dump.dtype != golden.dtype && !dump.dtype.is_like(golden.dtype) {
            return Err(CompareError::NotFloats { dump: dump.dtype, golden: golden.dtype });
        }
        rule.check()?;
        let parts_per_element = dump.dtype.parts().into();
        let (dump, golden) = (dump.of_parts(), golden.of_parts());
        Ok(Comparison {
            parts_per_element,
            shape: dump.shape.clone(),
            numel: dump.numel()?,
            dump: dump.dtype,
            golden: golden.dtype,
            rule,
            level: Level::detect(),
        })
    }

    /// Uses the vector instructions of another level. Results do not depend on it.
    #[must_use]
    pub fn at_level(self, level: Level) -> Comparison {
        Comparison { level, ..self }
    }

    /// Computes whether the tensor is within its rule, and the greatest error.
    ///
    /// # Errors
    /// The bytes of a side do not have the size of its shape.
    pub fn quick(&self, dump: &[u8], golden: &[u8], threads: usize) -> Result<QuickResult, CompareError> {
        self.run::<QuickPass>(dump, golden, threads)
    }

    /// Computes every metric.
    ///
    /// # Errors
    /// The bytes of a side do not have the size of its shape.
    pub fn full(&self, dump: &[u8], golden: &[u8], threads: usize) -> Result<Metrics, CompareError> {
        self.run::<MetricsPass>(dump, golden, threads)
    }

    /// Computes the worst elements, the error histogram and the distribution of errors along each axis.
    ///
    /// # Errors
    /// The bytes of a side do not have the size of its shape.
    pub fn detail(&self, dump: &[u8], golden: &[u8], threads: usize) -> Result<Detail, CompareError> {
        self.run::<DetailPass>(dump, golden, threads)
    }

    /// Lists the elements outside the rule, as sorted ranges that do not touch. A complex number is outside if
    /// one of its parts is.
    ///
    /// # Errors
    /// The bytes of a side do not have the size of its shape.
    pub fn failing(
        &self,
        dump: &[u8],
        golden: &[u8],
        threads: usize,
    ) -> Result<Vec<std::ops::Range<u64>>, CompareError> {
        self.run::<FailingPass>(dump, golden, threads)
    }

    /// Starts a pass over chunks.
    #[must_use]
    pub fn stream<P: Pass>(&self) -> Stream<'_, P> {
        self.part(0).expect("every tensor has element 0 or ends there")
    }

    /// Starts a pass over a part that begins at element `first`, a multiple of [`BLOCK`]. Parts are
    /// [joined](Stream::join) in order.
    ///
    /// # Errors
    /// No part may begin there.
    pub fn part<P: Pass>(&self, first: u64) -> Result<Stream<'_, P>, CompareError> {
        Stream::starting_at(self, first)
    }

    fn run<P: Pass + Send>(
        &self,
        dump: &[u8],
        golden: &[u8],
        threads: usize,
    ) -> Result<P::Output, CompareError> {
        self.check_size(SideName::Dump, dump)?;
        self.check_size(SideName::Golden, golden)?;
        let parts = self.parts(dump, golden, threads);
        let mut streams = map(threads, &parts, |part| self.run_part::<P>(part))?.into_iter();
        let mut whole = streams.next().unwrap_or_else(|| self.stream());
        streams.try_for_each(|part| whole.join(part))?;
        whole.finish()
    }

    fn run_part<P: Pass>(&self, part: &Part<'_>) -> Result<Stream<'_, P>, CompareError> {
        let mut stream = self.part(part.first)?;
        stream.update(part.dump, part.golden)?;
        Ok(stream)
    }

    /// Splits both sides into one part per thread.
    fn parts<'a>(&self, mut dump: &'a [u8], mut golden: &'a [u8], threads: usize) -> Vec<Part<'a>> {
        let even = self.numel.div_ceil(threads.max(1) as u64).max(MIN_PART);
        let length = even.next_multiple_of(BLOCK as u64);
        let mut parts = Vec::new();
        let mut first = 0;
        while first < self.numel {
            #[expect(clippy::cast_possible_truncation, reason = "the bytes are in memory")]
            let count = length.min(self.numel - first) as usize;
            let (dump_bytes, golden_bytes) = self.bytes_of(count);
            let (head, golden_head);
            (head, dump) = dump.split_at(dump_bytes);
            (golden_head, golden) = golden.split_at(golden_bytes);
            parts.push(Part { first, dump: head, golden: golden_head });
            first += count as u64;
        }
        parts
    }

    fn check_size(&self, side: SideName, bytes: &[u8]) -> Result<(), CompareError> {
        let dtype = match side {
            SideName::Dump => self.dump,
            SideName::Golden => self.golden,
        };
        // `numel` was checked to be small enough.
        let expected = dtype.packed_bytes(self.numel).unwrap_or(u64::MAX);
        let actual = bytes.len() as u64;
        if expected == actual { Ok(()) } else { Err(CompareError::Size { side, expected, actual }) }
    }

    /// Number of elements of a chunk at `next`.
    pub(super) fn elements_of_chunk(
        &self,
        next: u64,
        dump: &[u8],
        golden: &[u8],
    ) -> Result<usize, CompareError> {
        let left = self.numel - next;
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let count = elements_in(self.dump, dump.len()).min(elements_in(self.golden, golden.len())).min(most);
        let is_last = count as u64 == left;
        // A byte that two elements share must not be split.
        let whole = |dtype: DType| is_last || dtype.bits() >= 8 || count.is_multiple_of(2);
        let fits = self.bytes_of(count) == (dump.len(), golden.len());
        if fits && whole(self.dump) && whole(self.golden) {
            Ok(count)
        } else {
            Err(CompareError::Chunk { dump: dump.len(), golden: golden.len() })
        }
    }

    /// Size of this many elements in bytes, on each side.
    pub(super) fn bytes_of(&self, count: usize) -> (usize, usize) {
        let bytes = |dtype: DType| match dtype.bits() {
            4 => count.div_ceil(2),
            bits => count * (bits as usize / 8),
        };
        (bytes(self.dump), bytes(self.golden))
    }

    /// The shape of both sides.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Number of compared numbers of each side per element: 2 for complex numbers, otherwise 1.
    pub(super) fn parts_per_element(&self) -> u64 {
        self.parts_per_element
    }

    /// Number of elements of each side.
    #[must_use]
    pub fn numel(&self) -> u64 {
        self.numel
    }

    /// Dtype of the dump.
    #[must_use]
    pub fn dump_dtype(&self) -> DType {
        self.dump
    }

    /// Dtype of the golden.
    #[must_use]
    pub fn golden_dtype(&self) -> DType {
        self.golden
    }

    /// The rule.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    pub(super) fn level(&self) -> Level {
        self.level
    }

    pub(super) fn test(&self) -> Test {
        Test::new(&self.rule, self.dump)
    }

    /// The test for the unrounded golden.
    pub(super) fn direct_test(&self) -> Test {
        if self.judges_rounded() { self.test().that_always_passes() } else { self.test() }
    }

    pub(super) fn is_mixed(&self) -> bool {
        self.dump != self.golden
    }

    /// Whether the rule judges the rounded golden.
    pub(super) fn judges_rounded(&self) -> bool {
        self.is_mixed() && !matches!(self.rule.predicate, Predicate::Close { .. })
    }
}

struct Part<'a> {
    first: u64,
    dump: &'a [u8],
    golden: &'a [u8],
}
