//! The set of bytes that a view touches, in a form that makes comparisons of two views cheap.

use core::ops::Range;

use crate::Layout;
use crate::dims::Dims;
use crate::half_bytes::HalfBytes;
use crate::search::{self, MAX_TERMS, STEP_BUDGET};

/// Whether two views share a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// They share at least one byte.
    Yes,
    /// They share none.
    No,
    /// Not decided within [`STEP_BUDGET`]; treat it as shared.
    Assumed,
}

/// The set of bytes that a [`Layout`] touches with its buffer at an address. Plain data, computed once per
/// argument and compared many times.
///
/// Addresses are modulo 2^64. Repeated elements, the order of dimensions and the sign of strides do not
/// matter: views of the same bytes mostly have equal footprints.
///
/// ```
/// use tensortap_geometry::{Footprint, Layout};
///
/// let tensor = Layout::contiguous(&[8, 16], 16)?;
/// let whole = Footprint::new(&tensor, 0x4000);
/// let even_rows = Footprint::new(&tensor.slice_step(0, 0, 4, 2)?, 0x4000);
/// let odd_rows = Footprint::new(&tensor.slice_step(0, 1, 4, 2)?, 0x4000);
/// assert!(whole.overlaps(&odd_rows) && !even_rows.overlaps(&odd_rows));
/// assert!(whole.covers(&odd_rows) && !odd_rows.covers(&whole));
/// # Ok::<(), tensortap_geometry::GeometryError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Address of the first byte touched.
    start: u64,
    /// Bytes from `start` to one past the last byte touched; zero if none is.
    span: u64,
    /// The touched bytes, relative to `start`. Whole bytes unless a dimension's stride is odd.
    set: HalfBytes,
}

const _: () = assert!(size_of::<Footprint>() <= 192);

impl Footprint {
    /// The bytes of `layout` with its buffer's first element at byte address `base`.
    #[must_use]
    pub fn new(layout: &Layout, base: u64) -> Self {
        if let Some(Range { start, end }) = layout.dense_byte_range() {
            let set = HalfBytes::dense(end - start);
            return Self { start: base.wrapping_add(start), span: end - start, set };
        }
        let Some(elems) = layout.element_range() else {
            return Self { start: base, span: 0, set: HalfBytes::EMPTY };
        };
        let Range { start, end } = layout.bytes_of(elems);
        Self { start: base.wrapping_add(start), span: end - start, set: HalfBytes::of(layout, elems.0) }
    }

    /// Address of the first byte touched.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Bytes from the first touched to one past the last touched, gaps included.
    #[must_use]
    pub fn span_bytes(&self) -> u64 {
        self.span
    }

    /// Whether no byte is touched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.span == 0
    }

    /// Whether every byte of the span is touched.
    #[must_use]
    pub fn is_dense(&self) -> bool {
        self.set.dims.as_slice().is_empty()
    }

    /// Whether the two share a byte; [`Overlap::Assumed`] counts, as an extra dependency is safe.
    #[must_use]
    #[inline]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.overlap_exact(other) != Overlap::No
    }

    /// Whether the two share a byte.
    ///
    /// [`Overlap::Assumed`] means that the problem exceeded [`STEP_BUDGET`]. That does not happen for slices,
    /// steps, selections and transposes of one tensor, because their strides nest.
    #[must_use]
    #[inline]
    pub fn overlap_exact(&self, other: &Self) -> Overlap {
        if !self.spans_meet(other) {
            return Overlap::No;
        }
        // The first byte and the last byte of a span are always touched.
        let ends_meet =
            self.start == other.start || self.end() == other.end() || (self.is_dense() && other.is_dense());
        if ends_meet { Overlap::Yes } else { self.search(other) }
    }

    /// True only if every byte of `inner` is touched by `self`.
    ///
    /// Exact if `self` is dense or both have equal layouts; blocks of a block are found, too. Otherwise it
    /// may return false although `self` covers `inner`. This happens if strides of `inner` are not multiples of
    /// those of `self`. It also happens if 4-bit elements of `self` with an odd stride touch only the other half of a
    /// byte.
    #[must_use]
    pub fn covers(&self, inner: &Self) -> bool {
        if inner.is_empty() {
            return true;
        }
        let offset = inner.start.wrapping_sub(self.start);
        offset < self.span && inner.span <= self.span - offset && self.steps_cover(inner)
    }

    /// Tries to map every run of `inner` to an index of `self`. From the largest stride of `self` down, a
    /// dimension takes all dimensions of `inner` that are multiples of it. The rest must fit within one run.
    fn steps_cover(&self, inner: &Self) -> bool {
        let mut lead = self.half_bytes_to(inner) + inner.set.first - self.set.first;
        let mut left = inner.set.dims.fused();
        for dim in self.set.dims.fused().as_slice().iter().rev() {
            let (taken, rest) = split_multiples(&left, dim.stride);
            left = rest;
            let skipped = (lead.max(0) / dim.stride).min(dim.count - 1) * dim.stride;
            if skipped + taken > dim.extent() {
                return false;
            }
            lead -= skipped;
        }
        lead >= 0 && lead + left.extent() + inner.set.run <= self.set.run
    }

    fn end(&self) -> u64 {
        self.start.wrapping_add(self.span)
    }

    fn spans_meet(&self, other: &Self) -> bool {
        let other_starts_inside = other.start.wrapping_sub(self.start) < self.span && other.span > 0;
        let self_starts_inside = self.start.wrapping_sub(other.start) < other.span && self.span > 0;
        other_starts_inside || self_starts_inside
    }

    /// Half-bytes from the start of `self` to that of `other`. Only for spans that meet, which are no further
    /// apart than the longest view.
    fn half_bytes_to(&self, other: &Self) -> i64 {
        2 * other.start.wrapping_sub(self.start).cast_signed()
    }

    /// Not inlined, because comparing the spans decides most pairs.
    #[inline(never)]
    fn search(&self, other: &Self) -> Overlap {
        // Sharing half-bytes and sharing bytes are equivalent if one of the two sets has only whole bytes.
        let (split, kept) =
            if self.set.odd_dims() <= other.set.odd_dims() { (self, other) } else { (other, self) };
        let distance = split.half_bytes_to(kept);
        let mut steps_left = STEP_BUDGET;
        for part in split.set.byte_parts() {
            match sets_meet(&part, &kept.set, distance, &mut steps_left) {
                Overlap::No => {}
                decided => return decided,
            }
        }
        Overlap::No
    }
}

/// Whether `a` and `b` share a half-byte; the boundary of `b` is `distance` after that of `a`.
fn sets_meet(a: &HalfBytes, b: &HalfBytes, distance: i64, steps_left: &mut u32) -> Overlap {
    // With b's dimensions walked from their far ends, all terms of "run of a minus run of b" are positive.
    // The two runs share a half-byte if the sum of the terms is in a window as wide as both together, minus
    // one.
    let far = distance + b.first + b.extent() - a.first;
    let window = search::Window { low: far - (a.run - 1), high: far + (b.run - 1) };
    let mut terms = Dims::<MAX_TERMS>::EMPTY;
    for &dim in a.dims.as_slice().iter().chain(b.dims.as_slice()) {
        terms.push(dim);
    }
    search::sum_in_window(&terms.fused(), window, steps_left)
}

/// Extent of the dimensions that are multiples of `stride`, and the others.
fn split_multiples<const N: usize>(dims: &Dims<N>, stride: i64) -> (i64, Dims<N>) {
    let (mut taken, mut rest) = (0, Dims::EMPTY);
    for &dim in dims.as_slice() {
        if dim.stride % stride == 0 { taken += dim.extent() } else { rest.push(dim) }
    }
    (taken, rest)
}
