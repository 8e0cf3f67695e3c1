//! The plane of a picture: two axes of a tensor, and fixed positions on the others.

use crate::show::{AxisRange, Dim, Slice, row_strides};
use crate::{QueryError, SelectorError};

/// A part of a tensor with at most two axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plane {
    /// The part in the syntax of `--slice`.
    pub slice: String,
    /// Position of its first element in the contiguous tensor.
    pub first: i64,
    /// The axis from one row to the next.
    pub rows: PlaneAxis,
    /// The axis from one column to the next.
    pub columns: PlaneAxis,
}

/// One axis of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneAxis {
    /// The axis of the tensor; `None` if the tensor has too few axes, so that there is only one row or
    /// column.
    pub axis: Option<usize>,
    /// First position on that axis.
    pub first: i64,
    /// Step from one position to the next.
    pub step: i64,
    /// Number and stride of its elements.
    pub dim: Dim,
}

impl Plane {
    /// The plane of a slice along the given axes, else along the last two that the slice leaves with more
    /// than one position. Other axes are fixed at their first position.
    ///
    /// ```
    /// use tensortap_query::{Slice, picture::Plane};
    /// let plane = Plane::of(&Slice::parse("...")?, &[2, 16, 8], None, None)?;
    /// assert_eq!((plane.slice.as_str(), plane.rows.dim.count, plane.columns.dim.count), ("0,:,:", 16, 8));
    /// let across = Plane::of(&Slice::parse(":,3,::2")?, &[2, 16, 8], Some(2), Some(0))?;
    /// assert_eq!((across.slice.as_str(), across.rows.dim.count, across.columns.dim.count), (":,3,::2", 4, 2));
    /// # Ok::<(), tensortap_query::QueryError>(())
    /// ```
    ///
    /// # Errors
    /// The slice does not fit the shape, or an axis does not exist.
    pub fn of(
        slice: &Slice,
        shape: &[u64],
        rows: Option<usize>,
        columns: Option<usize>,
    ) -> Result<Plane, QueryError> {
        let cuts = slice.cuts(shape)?;
        for axis in [rows, columns].into_iter().flatten() {
            if axis >= cuts.len() || rows == columns {
                return Err(no_axis(axis, cuts.len()));
            }
        }
        let free = |taken: Option<usize>, other: Option<usize>| {
            let is_free = |axis: &usize| cuts[*axis].kept && Some(*axis) != taken && Some(*axis) != other;
            let long = (0..cuts.len()).rev().filter(is_free).find(|&axis| cuts[axis].count != 1);
            long.or_else(|| (0..cuts.len()).rev().find(is_free))
        };
        let columns = columns.or_else(|| free(rows, None));
        let rows = rows.or_else(|| free(columns, None));
        let strides = row_strides(shape);
        let place = |axis: Option<usize>| match axis {
            None => PlaneAxis { axis, first: 0, step: 1, dim: Dim { count: 1, stride: 0 } },
            Some(at) => {
                let AxisRange { first, step, .. } = cuts[at];
                PlaneAxis { axis, first, step, dim: cuts[at].dim(strides[at]) }
            }
        };
        let first = cuts
            .iter()
            .zip(&strides)
            .fold(0_i64, |sum, (cut, stride)| sum.saturating_add(cut.first.saturating_mul(*stride)));
        let is_drawn = |axis: usize| Some(axis) == rows || Some(axis) == columns;
        let words: Vec<String> =
            cuts.iter().enumerate().map(|(axis, cut)| term(cut, shape[axis], is_drawn(axis))).collect();
        let mut plane = Plane { slice: words.join(","), first, rows: place(rows), columns: place(columns) };
        if cuts.iter().any(|cut| cut.count == 0) {
            // An axis that is not drawn is empty, so there is nothing to draw.
            plane.rows.dim.count = 0;
        }
        Ok(plane)
    }

    /// Limits the plane to its first rows and columns.
    #[must_use]
    pub(super) fn corner(mut self, rows: usize, columns: usize) -> Plane {
        let mut terms: Vec<String> = self.slice.split(',').map(String::from).collect();
        for (axis, most) in [(&mut self.rows, rows), (&mut self.columns, columns)] {
            let most = most.max(1) as u64;
            if axis.dim.count <= most {
                continue;
            }
            axis.dim.count = most;
            if let Some(term) = axis.axis.and_then(|axis| terms.get_mut(axis)) {
                let size = u64::MAX >> 1;
                *term = self::term(
                    &AxisRange { first: axis.first, count: most, step: axis.step, kept: true },
                    size,
                    true,
                );
            }
        }
        Plane { slice: terms.join(","), ..self }
    }

    /// Number of elements.
    #[must_use]
    pub fn numel(&self) -> u64 {
        self.rows.dim.count.saturating_mul(self.columns.dim.count)
    }
}

fn no_axis(axis: usize, axes: usize) -> QueryError {
    QueryError::Record {
        message: format!("axis {axis} cannot be drawn"),
        hint: format!("choose two different axes; the tensor has {axes}, counted from 0"),
    }
}

/// A range as a term of a slice. A range that is not drawn becomes its first position.
fn term(cut: &AxisRange, size: u64, drawn: bool) -> String {
    let AxisRange { first, count, step, .. } = *cut;
    if !drawn && count > 0 {
        return first.to_string();
    }
    let end = first.saturating_add(step.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX)));
    let ends = i64::try_from(size).is_ok_and(|size| if step > 0 { end >= size } else { end < 0 });
    let starts = if step > 0 { first == 0 } else { i64::try_from(size).is_ok_and(|size| first == size - 1) };
    let side = |is_default: bool, at: i64| if is_default { String::new() } else { at.to_string() };
    let range =
        if count == 0 { "0:0".into() } else { format!("{}:{}", side(starts, first), side(ends, end)) };
    if step == 1 || count == 0 { range } else { format!("{range}:{step}") }
}

impl From<SelectorError> for QueryError {
    fn from(error: SelectorError) -> QueryError {
        QueryError::Record {
            message: error.to_string(),
            hint: "a slice has a term per axis, separated by commas: `0:4,:,3`".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn uses_the_given_axes_or_the_last_nontrivial_ones() {
        let plane = |text: &str, shape: &[u64], rows, columns| {
            let plane = Plane::of(&Slice::parse(text).unwrap(), shape, rows, columns).unwrap();
            (plane.slice, plane.rows.axis, plane.columns.axis)
        };
        assert_eq!(plane("...", &[], None, None), (String::new(), None, None));
        assert_eq!(plane("...", &[5], None, None), (":".into(), None, Some(0)));
        assert_eq!(plane("...", &[4, 5, 1], None, None), (":,:,0".into(), Some(0), Some(1)));
        assert_eq!(plane("...", &[1, 1, 1], None, None), ("0,:,:".into(), Some(1), Some(2)));
        assert_eq!(plane("1,:,2", &[4, 5, 6], None, None), ("1,:,2".into(), None, Some(1)));
        assert_eq!(plane("::-1,2:4,:", &[4, 5, 6], Some(1), None), ("3,2:4,:".into(), Some(1), Some(2)));
        assert_eq!(
            plane("::-1,4:2,:", &[4, 5, 6], Some(0), Some(1)),
            ("::-1,0:0,0".into(), Some(0), Some(1))
        );
        let corner =
            Plane::of(&Slice::parse("1,::-1,2:").unwrap(), &[4, 50, 60], None, None).unwrap().corner(3, 9);
        assert_eq!((corner.slice.as_str(), corner.numel()), ("1,49:46:-1,2:11", 27));
        let wrong = |rows, columns| Plane::of(&Slice::parse("...").unwrap(), &[4, 5], rows, columns).is_err();
        assert!(wrong(Some(2), None) && wrong(Some(1), Some(1)) && wrong(None, Some(9)));
    }

    proptest! {
        #[test]
        fn the_slice_text_of_a_plane_gives_the_same_plane(start in -6i64..6, end in -6i64..6, step in -3i64..4, size in 1u64..6) {
            prop_assume!(step != 0);
            let shape = [3, size, 2];
            let asked = Slice::parse(&format!("1,{start}:{end}:{step},:")).unwrap();
            let plane = Plane::of(&asked, &shape, None, None).unwrap();
            let again = Plane::of(&Slice::parse(&plane.slice).unwrap(), &shape, plane.rows.axis, plane.columns.axis);
            let again = again.unwrap();
            prop_assert_eq!(again.numel(), plane.numel());
            if plane.numel() > 0 {
                prop_assert_eq!(&again.slice, &plane.slice);
                prop_assert_eq!((again.first, again.rows.dim, again.columns.dim), (plane.first, plane.rows.dim, plane.columns.dim));
            }
        }
    }
}
