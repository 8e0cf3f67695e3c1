//! Where along its axes a tensor is nonzero or differs from another.

use serde::Serialize;

use super::MOST_ELEMENTS;
use super::reader::{LINE, LineReader};
use super::source::PictureInput;
use super::spread::{each_line, is_dense, step};
use crate::QueryError;
use crate::number::json_float;
use crate::show::Slice;

/// Maximum ranges of an axis.
const MOST_BINS: usize = 1024;

/// For each axis, sums over all elements that share a range of positions.
#[derive(Debug, Serialize)]
pub struct Profile {
    /// One entry for each axis that the slice leaves.
    pub axes: Vec<AxisBins>,
    /// Elements of the slice.
    pub elements: u64,
    /// Elements that were read, from the first on. Fewer if there are too many.
    pub looked_at: u64,
}

/// One axis, divided into ranges.
#[derive(Debug, PartialEq, Serialize)]
pub struct AxisBins {
    /// Axis of the tensor.
    pub axis: usize,
    /// Position of its first element.
    pub first: i64,
    /// Step from one position to the next.
    pub step: i64,
    /// Number of positions.
    pub count: u64,
    /// Positions per range; the last range may have fewer.
    pub per_bin: u64,
    /// The ranges.
    pub bins: Vec<Bin>,
}

/// The elements in one range of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bin {
    /// Stored elements.
    pub elements: u64,
    /// Elements that are not 0; in a difference, those that differ.
    pub not_zero: u64,
    /// Elements that are NaN or infinite.
    pub not_finite: u64,
    /// Largest magnitude of a finite value.
    #[serde(serialize_with = "json_float")]
    pub greatest: f64,
    /// Sum of the magnitudes of finite values.
    #[serde(serialize_with = "json_float")]
    pub sum: f64,
}

impl Bin {
    fn add(&mut self, value: f64) {
        self.elements += 1;
        // NaN counts as nonzero.
        self.not_zero += u64::from(value != 0.0);
        if value.is_finite() {
            self.greatest = self.greatest.max(value.abs());
            self.sum += value.abs();
        } else {
            self.not_finite += 1;
        }
    }

    fn merge(&mut self, other: &Bin) {
        self.elements += other.elements;
        self.not_zero += other.not_zero;
        self.not_finite += other.not_finite;
        self.greatest = self.greatest.max(other.greatest);
        self.sum += other.sum;
    }
}

impl Profile {
    /// Reads a slice of a tensor or of a difference once.
    ///
    /// # Errors
    /// The slice does not fit, or the content cannot be read.
    pub fn of(subject: PictureInput<'_>, slice: &Slice, bins: usize) -> Result<Profile, QueryError> {
        let shape = &subject.of.shape;
        let view = slice.view(shape)?;
        let most = bins.clamp(1, MOST_BINS) as u64;
        let cuts = slice.cuts(shape)?;
        let kept = cuts.iter().enumerate().filter(|(_, cut)| cut.kept);
        let mut axes: Vec<AxisBins> = kept
            .map(|(axis, cut)| {
                let per_bin = cut.count.div_ceil(most).max(1);
                let bins = usize::try_from(cut.count.div_ceil(per_bin)).unwrap_or(0);
                let bins = vec![Bin::default(); bins];
                AxisBins { axis, first: cut.first, step: cut.step, count: cut.count, per_bin, bins }
            })
            .collect();
        let mut left = MOST_ELEMENTS.min(view.numel());
        let looked_at = left;
        let mut lines = LineReader::new(subject, is_dense(&view, subject.of));
        each_line(&view, |first, dim, places| {
            let mut at = 0;
            let mut whole = Bin::default();
            let (last, outer) = match axes.split_last_mut() {
                Some((last, outer)) => (Some(last), outer),
                None => (None, &mut [][..]),
            };
            let mut last = last;
            while at < dim.count.min(left) {
                let length = (dim.count.min(left) - at).min(LINE as u64);
                let count = usize::try_from(length).unwrap_or(LINE);
                let (values, there) = lines.read(step(first, dim.stride, at), dim.stride, count)?;
                for place in there {
                    whole.add(values[place]);
                    if let Some(axis) = &mut last {
                        axis.at(at + place as u64).add(values[place]);
                    }
                }
                at += length;
            }
            for (axis, &place) in outer.iter_mut().zip(places) {
                axis.at(place).merge(&whole);
            }
            left -= at;
            Ok(left > 0)
        })?;
        Ok(Profile { axes, elements: view.numel(), looked_at })
    }
}

impl AxisBins {
    fn at(&mut self, place: u64) -> &mut Bin {
        let bin = usize::try_from(place / self.per_bin).unwrap_or(usize::MAX);
        let last = self.bins.len() - 1;
        &mut self.bins[bin.min(last)]
    }
}
