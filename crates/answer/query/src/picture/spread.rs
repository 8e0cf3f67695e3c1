//! The distribution of several tensors, counted in the same ranges.

use serde::Serialize;

use super::MOST_ELEMENTS;
use super::reader::{GAP_BYTES, LINE, LineReader};
use super::source::{PictureInput, Source};
use crate::QueryError;
use crate::number::json_optional_float;
use crate::show::{Dim, Histogram, Slice, View};

/// Maximum number of ranges.
const MOST_BINS: usize = 1024;

/// The distribution of several tensors.
#[derive(Debug, Serialize)]
pub struct Spread {
    /// Lower end of the first range; null without finite values.
    #[serde(serialize_with = "json_optional_float")]
    pub min: Option<f64>,
    /// Upper end of the last range, inclusive.
    #[serde(serialize_with = "json_optional_float")]
    pub max: Option<f64>,
    /// One entry for each tensor, in order.
    pub series: Vec<Series>,
}

/// The counts of one tensor.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Series {
    /// Finite values per range.
    pub counts: Vec<u64>,
    /// Values that are NaN.
    pub nan: u64,
    /// Infinite values.
    pub inf: u64,
    /// Elements that are not stored.
    pub missing: u64,
    /// Elements of the slice.
    pub elements: u64,
    /// Elements that were counted, from the first on. Fewer if there are too many.
    pub looked_at: u64,
}

impl Spread {
    /// Counts the values of the same slice of each tensor.
    ///
    /// # Errors
    /// The slice does not fit a tensor, or a tensor cannot be read.
    pub fn of(sources: &[&Source<'_>], slice: &Slice, bins: usize) -> Result<Spread, QueryError> {
        let mut ends: Option<(f64, f64)> = None;
        for source in sources {
            walk(source, slice, |values, _| {
                for &value in values.iter().filter(|value| value.is_finite()) {
                    let (low, high) = ends.unwrap_or((value, value));
                    ends = Some((low.min(value), high.max(value)));
                }
            })?;
        }
        let bins = bins.clamp(1, MOST_BINS);
        let bins = if ends.is_none_or(|(low, high)| low == high) { 1 } else { bins };
        let (low, high) = ends.unwrap_or((0.0, 0.0));
        let count = |source: &&Source<'_>| {
            let mut ranges = Histogram { min: low, max: high, counts: vec![0; bins] };
            let mut series = Series::default();
            (series.elements, series.looked_at) = walk(source, slice, |values, missing| {
                series.missing += missing;
                for &value in values {
                    if value.is_finite() {
                        let bin = ranges.bin(value);
                        ranges.counts[bin] += 1;
                    } else if value.is_nan() {
                        series.nan += 1;
                    } else {
                        series.inf += 1;
                    }
                }
            })?;
            Ok::<Series, QueryError>(Series { counts: ranges.counts, ..series })
        };
        let series = sources.iter().map(count).collect::<Result<_, _>>()?;
        Ok(Spread { min: ends.map(|(low, _)| low), max: ends.map(|(_, high)| high), series })
    }
}

/// Calls `each` with batches of values of a slice and the number of elements in the batch that are not
/// stored. Returns the number of elements and how many of them were read.
fn walk(
    source: &Source<'_>,
    slice: &Slice,
    mut each: impl FnMut(&[f64], u64),
) -> Result<(u64, u64), QueryError> {
    let view = merged(slice.view(&source.shape)?);
    let (elements, mut left) = (view.numel(), MOST_ELEMENTS.min(view.numel()));
    let looked_at = left;
    let mut lines = LineReader::new(PictureInput::tensor(source), is_dense(&view, source));
    each_line(&view, |first, dim, _| {
        let mut at = 0;
        while at < dim.count.min(left) {
            let length = (dim.count.min(left) - at).min(LINE as u64);
            let count = usize::try_from(length).unwrap_or(LINE);
            let (values, there) = lines.read(step(first, dim.stride, at), dim.stride, count)?;
            each(&values[there.clone()], (count - there.len()) as u64);
            at += length;
        }
        left -= at;
        Ok(left > 0)
    })?;
    Ok((elements, looked_at))
}

pub(super) fn step(first: i64, stride: i64, steps: u64) -> i64 {
    first.saturating_add(stride.saturating_mul(i64::try_from(steps).unwrap_or(i64::MAX)))
}

/// Whether the lines of a view follow each other closely.
pub(super) fn is_dense(view: &View, source: &Source<'_>) -> bool {
    let apart = |dim: &Dim| dim.stride.unsigned_abs().saturating_mul(u64::from(source.dtype.bits())) / 8;
    view.dims.iter().rev().nth(1).is_some_and(|dim| apart(dim) <= GAP_BYTES)
}

/// Merges axes that are contiguous with each other. Elements and their order stay the same.
fn merged(view: View) -> View {
    let mut dims: Vec<Dim> = Vec::new();
    for dim in view.dims.into_iter().filter(|dim| dim.count != 1) {
        match dims.last_mut() {
            Some(last)
                if i64::try_from(dim.count).is_ok_and(|n| dim.stride.checked_mul(n) == Some(last.stride)) =>
            {
                *last = Dim { count: last.count.saturating_mul(dim.count), stride: dim.stride };
            }
            _ => dims.push(dim),
        }
    }
    View { first: view.first, dims }
}

/// Calls `each` with every line along the last axis: its first position, its axis, and the positions on the
/// outer axes. Stops when `each` returns false.
pub(super) fn each_line(
    view: &View,
    mut each: impl FnMut(i64, Dim, &[u64]) -> Result<bool, QueryError>,
) -> Result<(), QueryError> {
    if view.numel() == 0 {
        return Ok(());
    }
    let Some((last, outer)) = view.dims.split_last() else {
        each(view.first, Dim { count: 1, stride: 0 }, &[])?;
        return Ok(());
    };
    let mut places = vec![0; outer.len()];
    loop {
        let first =
            places.iter().zip(outer).fold(view.first, |at, (&place, dim)| step(at, dim.stride, place));
        if !each(first, *last, &places)? {
            return Ok(());
        }
        // Increment the outer positions like an odometer.
        let Some(moved) = (0..outer.len()).rev().find(|&axis| places[axis] + 1 < outer[axis].count) else {
            return Ok(());
        };
        places[moved] += 1;
        places[moved + 1..].fill(0);
    }
}
