//! What kind of error a tensor shows: how its values are related to what they should be, and which of them are wrong.
//!
//! Only what the bytes prove is said. A relation is said when it holds for every element that is outside its rule and, put in its
//! place, leaves none outside; of several, the one that leaves least to chance. Few elements prove little: a factor or an offset is said
//! of [`FEW`] or more.

mod inputs;
mod relation;
mod spot;
#[cfg(test)]
mod tests;

use tensortap_abi::{DType, DumpStage, Role};
use tensortap_format::{Argument, Dump, FormatError, Task};
use tensortap_judge::{Content, Payload, Predicate, Rule};
use tensortap_values::{decode_block, from_f64, ulp_distance};

use crate::blame::{Against, Blame, BlameOptions, ComparedArg};
use crate::compare::{Side, unless_gone};
use crate::error::AnalysisError;
use crate::graph::TaskGraph;
use crate::labels::Label;

pub use spot::Spot;

/// Elements that are looked at, from the first on.
pub const MOST_ELEMENTS: u64 = 1 << 22;
/// Wrong elements that a relation with a number in it is said of, at least.
pub const FEW: usize = 4;

/// What kind of error a tensor shows.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorKind {
    /// How the wrong elements are related to what they should be.
    pub relation: Relation,
    /// Which elements are wrong.
    pub spot: Spot,
    /// How many are.
    pub failing: u64,
    /// Elements of the tensor.
    pub elements: u64,
    /// Elements that were looked at, from the first on.
    pub looked_at: u64,
}

/// How wrong elements are related to what they should be.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// The argument left the task with the bytes it came with.
    AsItCame,
    /// NaN where there should be a number.
    Nan,
    /// Infinite where there should be a number.
    Infinite,
    /// So many NaN and so many infinite; the others are wrong in other ways.
    NotFinite {
        /// NaN.
        nan: u64,
        /// Infinite.
        infinite: u64,
    },
    /// An integer off by half the range of its dtype: it wrapped.
    Wrapped,
    /// The negative of what they should be.
    Sign,
    /// Zero.
    Zero,
    /// All the same value.
    Constant(f64),
    /// The very bytes that a task before had left or been given.
    Earlier {
        /// Position of that task in the graph.
        task: usize,
        /// Its argument.
        arg_index: u16,
        /// When.
        stage: DumpStage,
    },
    /// Each is what should stand so many elements further on.
    Shifted(i64),
    /// The last two axes are exchanged.
    Transposed,
    /// What they should be, times this.
    Scaled(f64),
    /// What they should be, and this added.
    Offset(f64),
    /// The right values, in other places.
    Moved,
    /// What the kernel's reference makes of inputs that are read so many elements further on.
    InputsShifted(i64),
    /// Close: at most this share of what they should be away from it.
    Near(f64),
    /// In no way that is simpler to say.
    Other,
}

impl Relation {
    /// One word for machines.
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

/// Two tensors, element by element.
struct Values {
    dtype: DType,
    shape: Vec<u64>,
    dump: Vec<f64>,
    golden: Vec<f64>,
    /// Positions of elements outside the rule.
    failing: Vec<usize>,
    rule: Rule,
}

impl Values {
    /// `None` when there are no bytes, or the shapes differ.
    fn read(dump: &Side<'_>, golden: &Side<'_>, rule: Rule) -> Result<Option<Values>, FormatError> {
        let shape = dump.tensor.shape.clone();
        if shape != golden.tensor.shape {
            return Ok(None);
        }
        let numel = shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
        let Some(count) = numel.and_then(|numel| usize::try_from(numel.min(MOST_ELEMENTS)).ok()) else {
            return Ok(None);
        };
        let (Some(ours), Some(theirs)) = (elements(dump, count)?, elements(golden, count)?) else {
            return Ok(None);
        };
        let dtype = dump.tensor.dtype;
        let mut values = Values { dtype, shape, dump: ours, golden: theirs, failing: Vec::new(), rule };
        values.failing = (0..count).filter(|&at| !values.agree(values.dump[at], values.golden[at])).collect();
        Ok(Some(values))
    }

    /// Whether a value agrees with another that it should be.
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

    /// Elements of the whole tensor.
    fn numel(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// The first elements of a tensor as numbers; `None` when its bytes are not there.
fn elements(side: &Side<'_>, count: usize) -> Result<Option<Vec<f64>>, FormatError> {
    let dtype = side.tensor.dtype;
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
    /// What kind of error a record of a task shows; `None` when there are no bytes to look at, or none of them is outside.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn kind(
        &self,
        dump: &Dump,
        against: &Against<'_>,
        task: usize,
        compared: &ComparedArg,
        options: &BlameOptions<'_>,
    ) -> Result<Option<ErrorKind>, AnalysisError> {
        let Some((ours, golden)) = self.sides(dump, against, task, compared)? else { return Ok(None) };
        let Some(values) = Values::read(&ours, &golden, compared.rule)? else { return Ok(None) };
        if values.failing.is_empty() {
            return Ok(None);
        }
        let mut relation = match left_alone(&self.graph, task, compared) {
            true => Relation::AsItCame,
            false => relation::of(&values),
        };
        // What a value alone does not explain may be explained by where the bytes came from.
        let is_open =
            matches!(relation, Relation::Other | Relation::Near(_) | Relation::Moved | Relation::Constant(_));
        if is_open && relation::are_different(&values) {
            relation = earlier(self, task, compared).unwrap_or(relation);
        }
        let scene = match against {
            Against::Reference(scene) => Some(*scene),
            Against::Golden(_) | Against::Arrays(_) => options.scene,
            Against::Rerun(_) => None,
        };
        let began_here = self.findings[task].label == Label::WrongHere;
        if let Some(scene) = scene.filter(|_| began_here && relation == Relation::Other) {
            let shifted = inputs::shifted(dump, self.graph.task(task), compared, &values, scene)?;
            relation = shifted.map_or(relation, Relation::InputsShifted);
        }
        Ok(Some(ErrorKind {
            relation,
            spot: Spot::of(&values.failing, values.dump.len(), &values.shape),
            failing: values.failing.len() as u64,
            elements: values.numel(),
            looked_at: values.dump.len() as u64,
        }))
    }
}

/// Whether an argument that is read and written left the task with the bytes it came with.
fn left_alone(graph: &TaskGraph, task: usize, compared: &ComparedArg) -> bool {
    let arg = graph.task(task).argument(compared.arg_index);
    compared.stage == DumpStage::AfterCompletion
        && arg.is_some_and(|arg| arg.role == Role::InOut && arg.is_unchanged())
}

/// The last right task that had completed before this one started and that left, or was given, the same bytes of the same type. Those of a
/// wrong task may be the same because both erred alike.
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

/// The argument of a task that has this content, of the type of another.
fn holding(task: Task<'_>, like: Argument<'_>, hash: u128) -> Option<(u16, DumpStage)> {
    let stages = [DumpStage::AfterCompletion, DumpStage::BeforeDispatch];
    let is_alike =
        |arg: &Argument<'_>| arg.dtype == like.dtype && arg.shape() == like.shape() && !arg.is_scalar();
    task.arguments().filter(is_alike).find_map(|arg| {
        let has = |&stage: &DumpStage| arg.captured(stage).and_then(|captured| captured.hash()) == Some(hash);
        Some((arg.arg_index, stages.into_iter().find(has)?))
    })
}
