//! Strided sets of half-bytes, the common unit of 4-bit and wider elements.
//!
//! A byte consists of its low half-byte (even position) and its high one (odd). Wider elements always fill
//! whole bytes. A 4-bit element touches the whole byte that contains it, so a set of 4-bit elements must be
//! widened to whole bytes before it is intersected with another such set.

use crate::dims::{Dim, Dims};
use crate::{Layout, MAX_DIMS};

/// The half-bytes `first + d + r` for every position `d` of `dims` and `0 <= r < run`, relative to an even
/// (byte) boundary that the owner knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HalfBytes {
    pub first: i64,
    pub run: i64,
    /// Strides ascend and exceed `run`. Dimensions are fused if the set has only whole bytes. Otherwise they
    /// are as in the view, because halves of a fused dimension would no longer nest with the strides of other
    /// views.
    pub dims: Dims<MAX_DIMS>,
}

impl HalfBytes {
    pub const EMPTY: Self = Self { first: 0, run: 0, dims: Dims::EMPTY };

    /// The first `bytes` whole bytes from a byte boundary; what [`of`](Self::of) returns for a view without
    /// gaps.
    pub fn dense(bytes: u64) -> Self {
        let bytes = i64::try_from(bytes).expect("a view's bytes are within its limit");
        Self { first: 0, run: 2 * bytes, dims: Dims::EMPTY }
    }

    /// The half-bytes of a nonempty layout, relative to the byte boundary at or below its lowest.
    pub fn of(layout: &Layout, lowest_elem: u64) -> Self {
        let width = i64::from(layout.elem_bits() / 4);
        let mut dims = Dims::EMPTY;
        for (&size, &stride) in layout.shape().iter().zip(layout.strides()) {
            // Dropping repeated dimensions (stride zero) keeps the set, and so does walking a negative stride
            // from its low end. The remaining extent is within the view's limit, so neither factor overflows.
            if size > 1 && stride != 0 {
                let count = i64::try_from(size).expect("a moving dimension is no longer than its view");
                dims.push(Dim { count, stride: stride.abs() * width });
            }
        }
        let first = if width == 1 { i64::from(lowest_elem % 2 == 1) } else { 0 };
        let set = Self { first, run: width, dims: dims.sorted() }.absorbed();
        if set.odd_dims() == 0 { set.widened() } else { set }
    }

    /// Distance from the first run to the last.
    pub fn extent(&self) -> i64 {
        self.dims.extent()
    }

    /// Number of dimensions whose neighbors start in different halves of a byte. If there are none, the set
    /// has only whole bytes.
    pub fn odd_dims(&self) -> u32 {
        self.dims.as_slice().iter().map(|dim| u32::from(dim.stride % 2 == 1)).sum()
    }

    /// The touched bytes, as parts that each have only whole bytes.
    ///
    /// In each odd dimension, even and odd indices are separated, which leaves only even strides. Then all
    /// runs of a part start in the same half of a byte. There are `2 ^ odd_dims` parts.
    pub fn byte_parts(&self) -> impl Iterator<Item = Self> {
        let set = *self;
        (0..1u32 << set.odd_dims()).map(move |odd_indices| set.byte_part(odd_indices))
    }

    /// The part with the odd indices in the odd dimensions whose bit is set, and the even indices in the
    /// others.
    fn byte_part(&self, odd_indices: u32) -> Self {
        let mut bits = odd_indices;
        let mut first = self.first;
        let mut dims = Dims::EMPTY;
        for &Dim { count, stride } in self.dims.as_slice() {
            if stride % 2 == 0 {
                dims.push(Dim { count, stride });
                continue;
            }
            let parity = i64::from(bits & 1);
            bits >>= 1;
            first += parity * stride;
            dims.push(Dim { count: (count + 1 - parity) / 2, stride: 2 * stride });
        }
        Self { first, run: self.run, dims }.widened()
    }

    /// Widens half-bytes to whole bytes. Needs even strides, so that every run grows equally.
    fn widened(self) -> Self {
        debug_assert_eq!(self.odd_dims(), 0);
        let first = self.first & !1;
        let end = (self.first + self.run + 1) & !1;
        Self { first, run: end - first, dims: self.dims.fused() }.absorbed()
    }

    /// The same set, with dimensions merged into the run if their runs touch or overlap.
    fn absorbed(self) -> Self {
        let mut set = Self { dims: Dims::EMPTY, ..self };
        for &dim in self.dims.as_slice() {
            if dim.stride <= set.run { set.run += dim.extent() } else { set.dims.push(dim) }
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_without_gaps_is_dense_in_any_shape() {
        let shapes: [&[u64]; 6] = [&[], &[1], &[7], &[3, 1, 4], &[1, 5, 1], &[2, 3, 2, 2]];
        for (shape, bits) in shapes.iter().flat_map(|&shape| [8, 16, 32, 64].map(|bits| (shape, bits))) {
            let layout = Layout::contiguous(shape, bits).unwrap();
            let bytes = layout.numel() * u64::from(bits / 8);
            assert_eq!(HalfBytes::of(&layout, 0), HalfBytes::dense(bytes), "{shape:?} of {bits} bits");
        }
    }
}
