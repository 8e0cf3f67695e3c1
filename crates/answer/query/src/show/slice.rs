//! Slices in numpy syntax: `0:4,:,3`, `-1`, `::2`, `...,0`.

use crate::SelectorError;

/// A slice: one term per axis.
///
/// ```
/// use tensortap_query::Slice;
/// let view = Slice::parse("0:4,:,-1")?.view(&[16, 2, 8])?;
/// assert_eq!((view.first, view.shape()), (7, vec![4, 2]));
/// # Ok::<(), tensortap_query::SelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice(Vec<Term>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    /// One position; the axis is removed.
    At(i64),
    Range {
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    },
    /// All remaining axes, completely.
    Rest,
}

const WHOLE: Term = Term::Range { start: None, end: None, step: 1 };

/// One axis of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim {
    /// Number of elements.
    pub count: u64,
    /// Distance to the next element, in elements of the whole tensor.
    pub stride: i64,
}

/// The part of one axis that a slice selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisRange {
    /// First position.
    pub first: i64,
    /// Number of positions.
    pub count: u64,
    /// Step between positions; never 0.
    pub step: i64,
    /// Whether the axis is kept. A single position removes it.
    pub kept: bool,
}

impl AxisRange {
    /// The resulting axis, if neighbors on the whole axis are `stride` elements apart.
    pub(crate) fn dim(&self, stride: i64) -> Dim {
        // With at most one position, the step is unused and may be of any size.
        Dim { count: self.count, stride: if self.count > 1 { self.step.saturating_mul(stride) } else { 0 } }
    }
}

/// A part of a contiguous tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Position of its first element in the whole tensor.
    pub first: i64,
    /// Its axes.
    pub dims: Vec<Dim>,
}

impl Slice {
    /// Parses a slice. The axes are not known yet.
    pub fn parse(text: &str) -> Result<Slice, SelectorError> {
        let text = text.trim().strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text.trim());
        let terms: Vec<Term> =
            text.split(',').map(|term| parse_term(term.trim())).collect::<Result<_, _>>()?;
        if terms.iter().filter(|term| **term == Term::Rest).count() > 1 {
            return Err(SelectorError::TwoEllipses);
        }
        Ok(Slice(terms))
    }

    /// The part of a contiguous tensor of this shape.
    pub fn view(&self, shape: &[u64]) -> Result<View, SelectorError> {
        let mut view = View { first: 0, dims: Vec::new() };
        for (cut, stride) in self.cuts(shape)?.into_iter().zip(row_strides(shape)) {
            view.advance(cut.first, stride);
            if cut.kept {
                view.dims.push(cut.dim(stride));
            }
        }
        Ok(view)
    }

    /// The selected part of each axis of a tensor of this shape.
    pub fn cuts(&self, shape: &[u64]) -> Result<Vec<AxisRange>, SelectorError> {
        let terms = self.for_axes(shape.len())?;
        let cut = |(axis, (term, &size)): (usize, (Term, &u64))| {
            // Sizes and products of sizes are below 2^53.
            let size = i64::try_from(size).map_err(|_| SelectorError::AxisTooLong(axis))?;
            Ok(match term {
                Term::At(at) => {
                    AxisRange { first: position(at, size, axis)?, count: 1, step: 1, kept: false }
                }
                Term::Range { start, end, step } => {
                    let (first, count) = range(start, end, step, size);
                    AxisRange { first, count, step, kept: true }
                }
                Term::Rest => AxisRange { first: 0, count: 0, step: 1, kept: false },
            })
        };
        terms.into_iter().zip(shape).enumerate().map(cut).collect()
    }

    /// A term for every axis. Missing terms and `...` are whole axes.
    fn for_axes(&self, axes: usize) -> Result<Vec<Term>, SelectorError> {
        let given = self.0.iter().filter(|term| **term != Term::Rest).count();
        if given > axes {
            return Err(SelectorError::TooManyTerms { terms: given, axes });
        }
        let rest = std::iter::repeat_n(WHOLE, axes - given);
        let at = self.0.iter().position(|term| *term == Term::Rest).unwrap_or(self.0.len());
        let (before, after) = self.0.split_at(at);
        Ok(before
            .iter()
            .copied()
            .chain(rest)
            .chain(after.iter().copied().filter(|t| *t != Term::Rest))
            .collect())
    }
}

impl View {
    /// Saturates only for tensors without elements.
    pub(crate) fn advance(&mut self, steps: i64, stride: i64) {
        self.first = self.first.saturating_add(steps.saturating_mul(stride));
    }

    /// Number of elements.
    #[must_use]
    pub fn numel(&self) -> u64 {
        self.dims.iter().fold(1, |product: u64, dim| product.saturating_mul(dim.count))
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> Vec<u64> {
        self.dims.iter().map(|dim| dim.count).collect()
    }
}

/// Strides of a contiguous tensor whose last axis changes fastest.
pub(crate) fn row_strides(shape: &[u64]) -> Vec<i64> {
    let mut strides: Vec<i64> = Vec::with_capacity(shape.len());
    let mut stride: i64 = 1;
    for &size in shape.iter().rev() {
        strides.push(stride);
        stride = stride.saturating_mul(i64::try_from(size).unwrap_or(i64::MAX));
    }
    strides.reverse();
    strides
}

fn parse_term(text: &str) -> Result<Term, SelectorError> {
    if text == "..." || text == "…" {
        return Ok(Term::Rest);
    }
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    match parts[..] {
        [at] => number(at)?.map(Term::At).ok_or(SelectorError::NoSlice),
        [start, end] => Ok(Term::Range { start: number(start)?, end: number(end)?, step: 1 }),
        [start, end, step] => {
            let step = number(step)?.unwrap_or(1);
            if step == 0 {
                return Err(SelectorError::NoStep);
            }
            Ok(Term::Range { start: number(start)?, end: number(end)?, step })
        }
        _ => Err(SelectorError::NoSlice),
    }
}

fn number(text: &str) -> Result<Option<i64>, SelectorError> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| SelectorError::NoSlice) }
}

/// Resolves a position; negative ones count from the end.
fn position(at: i64, size: i64, axis: usize) -> Result<i64, SelectorError> {
    let from_start = if at < 0 { at.saturating_add(size) } else { at };
    if (0..size).contains(&from_start) {
        Ok(from_start)
    } else {
        Err(SelectorError::Outside { at, axis, size })
    }
}

/// First position and count of a range, clamped to the axis.
fn range(start: Option<i64>, end: Option<i64>, step: i64, size: i64) -> (i64, u64) {
    let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let from_start = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
    let clamped = |at: Option<i64>, default: i64| at.map_or(default, |at| from_start(at).clamp(low, high));
    let (first, end) = if step > 0 {
        (clamped(start, low), clamped(end, high))
    } else {
        (clamped(start, high), clamped(end, low))
    };
    let distance = if step > 0 { end - first } else { first - end };
    let count = u64::try_from(distance).unwrap_or(0).div_ceil(step.unsigned_abs());
    (if count == 0 { 0 } else { first }, count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The positions that a slice selects, in order.
    fn positions(text: &str, shape: &[u64]) -> Result<Vec<i64>, SelectorError> {
        let view = Slice::parse(text)?.view(shape)?;
        let mut found = vec![view.first];
        for dim in &view.dims {
            let steps = |first: &i64| {
                let (first, stride) = (*first, dim.stride);
                (0..dim.count).map(move |i| first + stride * i64::try_from(i).unwrap())
            };
            found = found.iter().flat_map(steps).collect();
        }
        Ok(found)
    }

    #[test]
    fn slices_match_numpy() {
        for (text, shape, expected) in [
            ("3", &[5][..], vec![3]),
            ("-1", &[5], vec![4]),
            ("1:3", &[5], vec![1, 2]),
            (":", &[3], vec![0, 1, 2]),
            ("::2", &[5], vec![0, 2, 4]),
            ("::-1", &[3], vec![2, 1, 0]),
            ("-2:", &[5], vec![3, 4]),
            ("3:-5:-2", &[5], vec![3, 1]),
            ("10:20", &[5], vec![]),
            ("-100:100:1000000", &[5], vec![0]),
            ("1,:", &[2, 3], vec![3, 4, 5]),
            (":,1", &[2, 3], vec![1, 4]),
            ("...,1", &[2, 3], vec![1, 4]),
            ("1,...", &[2, 3], vec![3, 4, 5]),
            ("...", &[2, 2], vec![0, 1, 2, 3]),
            ("[0:1, ::2]", &[2, 3], vec![0, 2]),
            ("0:4,:,3", &[1, 2, 4], vec![3, 7]),
            (":", &[0], vec![]),
        ] {
            assert_eq!(positions(text, shape), Ok(expected), "{text} of {shape:?}");
        }
    }

    #[test]
    fn rejects_invalid_slices_with_the_reason() {
        for (text, shape, part) in [
            ("", &[5][..], "term per axis"),
            ("a", &[5], "term per axis"),
            ("1:2:3:4", &[5], "term per axis"),
            ("::0", &[5], "step of 0"),
            ("...,...", &[5], "only once"),
            ("5", &[5], "axis 0, which has 5"),
            ("-6", &[5], "axis 0, which has 5"),
            ("0,0", &[5], "2 terms, but the tensor has 1 axis"),
            ("0", &[0], "which has 0"),
            ("99999999999999999999", &[5], "term per axis"),
        ] {
            assert!(positions(text, shape).unwrap_err().to_string().contains(part), "{text} of {shape:?}");
        }
    }

    #[test]
    fn a_tensor_without_elements_may_have_axes_of_any_length() {
        let shape = [1 << 52, 0, 1 << 52];
        for text in [":", "-1,:,5", "...,::-1"] {
            assert_eq!(Slice::parse(text).unwrap().view(&shape).unwrap().numel(), 0, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_range_matches_walking_the_axis(start in proptest::option::of(-12i64..12), end in proptest::option::of(-12i64..12), step in -4i64..5, size in 0i64..9) {
            prop_assume!(step != 0);
            // Walk as Python's `slice.indices` defines it, without a formula for the count.
            let fix = |at: i64| if at < 0 { at + size } else { at };
            let (mut at, stop) = if step > 0 {
                (start.map_or(0, |s| fix(s).clamp(0, size)), end.map_or(size, |e| fix(e).clamp(0, size)))
            } else {
                (start.map_or(size - 1, |s| fix(s).clamp(-1, size - 1)), end.map_or(-1, |e| fix(e).clamp(-1, size - 1)))
            };
            let mut walked = Vec::new();
            while if step > 0 { at < stop } else { at > stop } {
                walked.push(at);
                at += step;
            }
            let (first, count) = range(start, end, step, size);
            let counted: Vec<i64> = (0..i64::try_from(count).unwrap()).map(|i| first + i * step).collect();
            prop_assert_eq!(counted, walked);
        }

        #[test]
        fn never_panics_and_positions_are_inside(text in "[-0-9:,. ]{0,16}", shape in proptest::collection::vec(0u64..5, 0..4)) {
            let numel = i64::try_from(shape.iter().product::<u64>()).unwrap();
            if let Ok(found) = positions(&text, &shape) {
                prop_assert!(found.iter().all(|at| (0..numel.max(1)).contains(at)));
            }
        }
    }
}
