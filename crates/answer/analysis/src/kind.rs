//! Describes what kind of error a tensor shows: how wrong values relate to the expected ones, and which
//! elements are wrong.
//!
//! A relation is reported only if the bytes prove it: it holds for every element outside the rule, and
//! applying it leaves none outside. Of several, the most specific is chosen. Few elements prove little, so a
//! factor or offset needs at least [`FEW`] of them.

mod inputs;
mod region;
mod relation;
#[cfg(test)]
mod tests;

use tensortap_abi::{DType, DumpStage, Role};
use tensortap_format::{Argument, Dump, FormatError, Task};
use tensortap_judge::{Content, Payload, Predicate, Rule, TensorType};
use tensortap_values::{decode_block, from_f64, ulp_distance};

use crate::blame::{Baseline, Blame, BlameOptions, ComparedArg};
use crate::compare::{Side, unless_gone};
use crate::error::AnalysisError;
use crate::graph::TaskGraph;
use crate::labels::Label;

pub use region::ErrorRegion;

/// Limit on the number of elements examined, from the first.
pub const MOST_ELEMENTS: u64 = 1 << 22;
/// The least number of wrong elements that proves a relation with a parameter.
pub const FEW: usize = 4;

/// The kind of error that a tensor shows.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorKind {
    /// How the wrong elements relate to the expected ones.
    pub relation: Relation,
    /// Which elements are wrong.
    pub spot: ErrorRegion,
    /// Number of wrong elements.
    pub failing: u64,
    /// Number of elements of the tensor.
    pub elements: u64,
    /// Number of elements examined, from the first.
    pub looked_at: u64,
}

/// How wrong elements relate to the expected ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// The task left the argument unchanged.
    AsItCame,
    /// NaN instead of a number.
    Nan,
    /// Infinite instead of finite.
    Infinite,
    /// Some are NaN and some are infinite; the others are wrong in other ways.
    NotFinite {
        /// Number of NaN.
        nan: u64,
        /// Number of infinities.
        infinite: u64,
    },
    /// An integer off by half the range of its dtype: it overflowed.
    Wrapped,
    /// The negated expected values.
    Sign,
    /// Zeros.
    Zero,
    /// One value everywhere.
    Constant(f64),
    /// The bytes of an argument of an earlier task.
    Earlier {
        /// Position of that task in the graph.
        task: usize,
        /// The argument of that task.
        arg_index: u16,
        /// The stage of that content.
        stage: DumpStage,
    },
    /// The expected values from this many elements later.
    Shifted(i64),
    /// The expected values with the last two axes exchanged.
    Transposed,
    /// The expected values times this factor.
    Scaled(f64),
    /// The expected values plus this offset.
    Offset(f64),
    /// The expected values in other positions.
    Moved,
    /// The output that the kernel's reference computes if all inputs are read this many elements later.
    InputsShifted(i64),
    /// Close: the relative error is at most this.
    Near(f64),
    /// None of the above.
    Other,
}

impl Relation {
    /// The name in JSON.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Relation::AsItCame => "as_it_came",
            Relation::Nan => "nan",
            Relation::Infinite => "infinite",
            Relation::NotFinite { .. } => "not_finite",
            Relation::Wrapped => "wrapped",
            Relation::Sign => "sign",
            Relation::Zero => "zero",
            Relation::Constant(_) => "constant",
            Relation::Earlier { .. } => "earlier",
            Relation::Shifted(_) => "shifted",
            Relation::Transposed => "transposed",
            Relation::Scaled(_) => "scaled",
            Relation::Offset(_) => "offset",
            Relation::Moved => "moved",
            Relation::InputsShifted(_) => "inputs_shifted",
            Relation::Near(_) => "near",
            Relation::Other => "other",
        }
    }
}

/// The values of two tensors, decoded.
struct ComparedValues {
    dtype: DType,
    /// Whether the values are the parts of complex numbers. The shape then ends with an axis of 2.
    is_complex: bool,
    shape: Vec<u64>,
    dump: Vec<f64>,
    golden: Vec<f64>,
    /// Positions of the elements outside the rule.
    failing: Vec<usize>,
    rule: Rule,
}

impl ComparedValues {
    /// `None` without bytes, or if the shapes differ.
    fn read(dump: &Side<'_>, golden: &Side<'_>, rule: Rule) -> Result<Option<ComparedValues>, FormatError> {
        if dump.tensor.shape != golden.tensor.shape {
            return Ok(None);
        }
        // Complex numbers are compared by parts.
        let TensorType { dtype, shape } = dump.tensor.of_parts();
        let numel = shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
        let Some(count) = numel.and_then(|numel| usize::try_from(numel.min(MOST_ELEMENTS)).ok()) else {
            return Ok(None);
        };
        let (Some(ours), Some(theirs)) = (elements(dump, count)?, elements(golden, count)?) else {
            return Ok(None);
        };
        let is_complex = dump.tensor.dtype.is_complex();
        let mut values = ComparedValues {
            dtype,
            is_complex,
            shape,
            dump: ours,
            golden: theirs,
            failing: Vec::new(),
            rule,
        };
        values.failing = (0..count).filter(|&at| !values.agree(values.dump[at], values.golden[at])).collect();
        Ok(Some(values))
    }

    /// Whether a value is within the rule of its expected value.
    fn agree(&self, dump: f64, golden: f64) -> bool {
        if dump.is_nan() || golden.is_nan() {
            return dump.is_nan() && golden.is_nan() && self.rule.nan_equal;
        }
        if dump.is_infinite() || golden.is_infinite() {
            return dump == golden;
        }
        match self.rule.predicate {
            Predicate::Close { rtol, atol } => (dump - golden).abs() <= atol + rtol * golden.abs(),
            Predicate::Ulps(most) => {
                let (one, other) = (from_f64(self.dtype, dump), from_f64(self.dtype, golden));
                ulp_distance(self.dtype, one, other).is_some_and(|apart| apart <= most)
            }
            Predicate::BitExact => from_f64(self.dtype, dump) == from_f64(self.dtype, golden),
        }
    }

    /// Number of elements of the whole tensor.
    fn numel(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// The first `count` elements of a tensor as numbers; `None` if its bytes are missing.
fn elements(side: &Side<'_>, count: usize) -> Result<Option<Vec<f64>>, FormatError> {
    let dtype = side.tensor.dtype.part();
    let size = dtype.packed_bytes(count as u64).and_then(|size| usize::try_from(size).ok());
    let Some(size) = size else { return Ok(None) };
    let mut values = vec![0.0; count];
    let bytes = match &side.content {
        Content::Missing(_) => return Ok(None),
        Content::Bytes(bytes) => match bytes.get(..size) {
            Some(bytes) => std::borrow::Cow::Borrowed(bytes),
            None => return Ok(None),
        },
        Content::Stored(payload) => {
            let mut bytes = vec![0; size];
            if unless_gone(payload.read_at(0, &mut bytes))?.is_none() {
                return Ok(None);
            }
            bytes.into()
        }
    };
    decode_block(dtype, &bytes, &mut values);
    Ok(Some(values))
}

impl Blame {
    /// The kind of error that a record of a task shows; `None` without bytes, or if no element is outside its
    /// rule.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn kind(
        &self,
        dump: &Dump,
        baseline: &Baseline<'_>,
        task: usize,
        compared: &ComparedArg,
        options: &BlameOptions<'_>,
    ) -> Result<Option<ErrorKind>, AnalysisError> {
        let Some((ours, golden)) = self.sides(dump, baseline, task, compared)? else { return Ok(None) };
        let Some(values) = ComparedValues::read(&ours, &golden, compared.rule)? else { return Ok(None) };
        if values.failing.is_empty() {
            return Ok(None);
        }
        let mut relation = match left_alone(&self.graph, task, compared) {
            true => Relation::AsItCame,
            false => of_elements(relation::of(&values), values.is_complex),
        };
        // If the values do not explain the error, the source of the bytes may.
        let is_open =
            matches!(relation, Relation::Other | Relation::Near(_) | Relation::Moved | Relation::Constant(_));
        if is_open && relation::are_different(&values) {
            relation = earlier(self, task, compared).unwrap_or(relation);
        }
        let scene = match baseline {
            Baseline::Reference(scene) => Some(*scene),
            Baseline::Golden(_) | Baseline::Arrays(_) => options.scene,
            Baseline::Rerun(_) => None,
        };
        let began_here = self.findings[task].label == Label::WrongHere;
        let may_be_shifted = began_here && relation == Relation::Other && !values.is_complex;
        if let Some(scene) = scene.filter(|_| may_be_shifted) {
            let shifted = inputs::shifted(dump, self.graph.task(task), compared, &values, scene)?;
            relation = shifted.map_or(relation, Relation::InputsShifted);
        }
        Ok(Some(ErrorKind {
            relation,
            spot: ErrorRegion::of(&values.failing, values.dump.len(), &values.shape),
            failing: values.failing.len() as u64,
            elements: values.numel(),
            looked_at: values.dump.len() as u64,
        }))
    }
}

/// The relation of elements from that of values. Of complex numbers, the values are parts: positions among parts
/// are positions of elements only if they are even.
fn of_elements(relation: Relation, is_complex: bool) -> Relation {
    match relation {
        Relation::Shifted(by) if is_complex && by % 2 == 0 => Relation::Shifted(by / 2),
        Relation::Shifted(_) | Relation::Transposed if is_complex => Relation::Other,
        other => other,
    }
}

/// Whether the task left an in-out argument unchanged.
fn left_alone(graph: &TaskGraph, task: usize, compared: &ComparedArg) -> bool {
    let arg = graph.task(task).argument(compared.arg_index);
    compared.stage == DumpStage::AfterCompletion
        && arg.is_some_and(|arg| arg.role == Role::InOut && arg.is_unchanged())
}

/// The last `ok` task that ended before this one started and that has the same bytes of the same type as an
/// argument. A wrong task is no explanation, because both may have the same error.
fn earlier(blame: &Blame, task: usize, compared: &ComparedArg) -> Option<Relation> {
    let graph = &blame.graph;
    let arg = graph.task(task).argument(compared.arg_index)?;
    let hash = arg.captured(compared.stage)?.hash()?;
    let start = graph.task(task).start_time()?;
    let is_over = |place: &usize| graph.task(*place).end_time().is_some_and(|end| end <= start);
    let is_right = |place: &usize| blame.findings[*place].label == Label::Ok;
    let before = (0..graph.len()).filter(|place| is_right(place) && is_over(place));
    let last = before.filter_map(|place| Some((place, holding(graph.task(place), arg, hash)?)));
    let (place, (arg_index, stage)) = last.max_by_key(|(place, _)| graph.task(*place).end_time())?;
    Some(Relation::Earlier { task: place, arg_index, stage })
}

/// The argument of a task with this content and the type of `like`.
fn holding(task: Task<'_>, like: Argument<'_>, hash: u128) -> Option<(u16, DumpStage)> {
    let stages = [DumpStage::AfterCompletion, DumpStage::BeforeDispatch];
    let is_alike =
        |arg: &Argument<'_>| arg.dtype == like.dtype && arg.shape() == like.shape() && !arg.is_scalar();
    task.arguments().filter(is_alike).find_map(|arg| {
        let has = |&stage: &DumpStage| arg.captured(stage).and_then(|captured| captured.hash()) == Some(hash);
        Some((arg.arg_index, stages.into_iter().find(has)?))
    })
}
