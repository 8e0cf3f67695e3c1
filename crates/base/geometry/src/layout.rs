//! The positions of a strided view's elements in its buffer.

use core::ops::Range;

use crate::{GeometryError, MAX_DIMS, MAX_VIEW_BYTES};

/// Whether the logical order of a view is its memory order without gaps. True for views without elements.
/// Dimensions of size 1 do not matter.
///
/// Also accepts unchecked shapes and strides. For a [`Layout`], use its method.
///
/// ```
/// use tensortap_geometry::is_contiguous;
/// assert!(is_contiguous(&[4, 1, 6], &[6, 99, 1]) && is_contiguous(&[0, 6], &[1, 1]));
/// assert!(!is_contiguous(&[4, 6], &[1, 4]) && !is_contiguous(&[u64::MAX, u64::MAX, 2], &[0, 0, 0]));
/// ```
#[must_use]
pub fn is_contiguous(shape: &[u64], strides: &[i64]) -> bool {
    dense_inner(shape, strides).0 == 0
}

/// The number of outer dimensions after folding the contiguous inner ones into a run, and the length of the
/// run.
fn dense_inner(shape: &[u64], strides: &[i64]) -> (usize, u64) {
    if shape.contains(&0) {
        return (0, 0);
    }
    let mut run = 1_u64;
    for (dim, (&size, &stride)) in shape.iter().zip(strides).enumerate().rev() {
        if size != 1 && u64::try_from(stride) != Ok(run) {
            return (dim + 1, run);
        }
        run = run.saturating_mul(size);
    }
    (0, run)
}

/// The bytes of its buffer that a view covers, if it has at least one element, no gaps and only whole bytes,
/// and is within the limits of a [`Layout`]. Cheaper than creating one. `None` proves nothing about the view.
///
/// ```
/// use tensortap_geometry::dense_bytes;
/// assert_eq!(dense_bytes(&[4, 1, 6], &[6, 99, 1], 2, 32), Some(8..104));
/// assert_eq!(dense_bytes(&[], &[], 3, 16), Some(6..8));
/// assert_eq!(dense_bytes(&[4, 6], &[1, 4], 0, 32), None);
/// ```
#[inline]
#[must_use]
pub fn dense_bytes(shape: &[u64], strides: &[i64], start_offset: u64, elem_bits: u32) -> Option<Range<u64>> {
    if !matches!(elem_bits, 8 | 16 | 32 | 64 | 128) || shape.len() != strides.len() || shape.len() > MAX_DIMS
    {
        return None;
    }
    let mut numel = 1_u64;
    for (&size, &stride) in shape.iter().zip(strides).rev() {
        if size != 1 {
            if size == 0 || stride.cast_unsigned() != numel {
                return None;
            }
            numel = numel.checked_mul(size)?;
        }
    }
    let width = u64::from(elem_bits / 8);
    let end = start_offset.checked_add(numel)?.checked_mul(width)?;
    (end <= MAX_VIEW_BYTES).then(|| start_offset * width..end)
}

/// A strided view of a buffer, in elements.
///
/// Invariants, checked by every constructor and preserved by every view operation: the element count fits in
/// a `u64`; the touched elements are at or above the buffer's first one and end within [`MAX_VIEW_BYTES`].
///
/// A view without dimensions is a scalar with one element. A dimension of size 0 makes a view that touches
/// nothing.
///
/// ```
/// use tensortap_geometry::Layout;
///
/// let matrix = Layout::contiguous(&[4, 6], 32)?;
/// let column = matrix.select(1, 2)?;
/// assert_eq!((column.shape(), column.strides(), column.start_offset()), (&[4][..], &[6][..], 2));
/// assert_eq!(column.byte_range(), 8..84);
/// assert!(column.fits(96).is_ok());
/// # Ok::<(), tensortap_geometry::GeometryError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    // Entries past `ndims` are zero, so that derived equality compares views.
    shape: [u64; MAX_DIMS],
    strides: [i64; MAX_DIMS],
    start_offset: u64,
    elem_bits: u32,
    ndims: usize,
    numel: u64,
}

impl Layout {
    /// A row-major view without gaps that starts at the buffer's first element.
    pub fn contiguous(shape: &[u64], elem_bits: u32) -> Result<Self, GeometryError> {
        let strides = row_major_strides(shape);
        Self::new(shape, &strides[..shape.len().min(MAX_DIMS)], 0, elem_bits)
    }

    /// A view with any strides, in elements; they may be zero or negative.
    pub fn new(
        shape: &[u64],
        strides: &[i64],
        start_offset: u64,
        elem_bits: u32,
    ) -> Result<Self, GeometryError> {
        let ndims = shape.len();
        if ndims > MAX_DIMS {
            return Err(GeometryError::TooManyDims { ndims });
        }
        if strides.len() != ndims {
            return Err(GeometryError::RankMismatch { shape_len: ndims, strides_len: strides.len() });
        }
        if !matches!(elem_bits, 4 | 8 | 16 | 32 | 64 | 128) {
            return Err(GeometryError::UnsupportedElemBits { elem_bits });
        }
        let numel = checked_numel(shape)?;
        let mut layout =
            Self { shape: [0; MAX_DIMS], strides: [0; MAX_DIMS], start_offset, elem_bits, ndims, numel };
        layout.shape[..ndims].copy_from_slice(shape);
        layout.strides[..ndims].copy_from_slice(strides);
        layout.check_reach()?;
        Ok(layout)
    }

    /// The same view with another first element, which is known to be within limits.
    pub(crate) fn starting_at(&self, start_offset: u64) -> Self {
        Self { start_offset, ..*self }
    }

    /// Size of each dimension.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape[..self.ndims]
    }

    /// Distance in elements between neighbors along each dimension.
    #[must_use]
    pub fn strides(&self) -> &[i64] {
        &self.strides[..self.ndims]
    }

    /// Number of dimensions.
    #[must_use]
    pub fn ndims(&self) -> usize {
        self.ndims
    }

    /// The element with all coordinates zero, relative to the buffer's first one.
    #[must_use]
    pub fn start_offset(&self) -> u64 {
        self.start_offset
    }

    /// Width of an element in bits.
    #[must_use]
    pub fn elem_bits(&self) -> u32 {
        self.elem_bits
    }

    /// Number of logical elements; repeated ones count each time.
    #[must_use]
    pub fn numel(&self) -> u64 {
        self.numel
    }

    /// Whether the logical order is the memory order without gaps. True for views without elements.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(self.shape(), self.strides())
    }

    /// Whether logical neighbors along the innermost dimension are neighbors in memory.
    #[must_use]
    pub fn is_dense_inner(&self) -> bool {
        self.dense_inner_len() > 1
    }

    /// Elements in each contiguous inner run: 1 if even the innermost neighbors are not adjacent, 0 without
    /// elements.
    #[must_use]
    pub fn dense_inner_len(&self) -> u64 {
        self.dense_inner().1
    }

    /// The number of outer dimensions after folding the contiguous inner ones into a run, and the length of
    /// the run.
    pub(crate) fn dense_inner(&self) -> (usize, u64) {
        dense_inner(self.shape(), self.strides())
    }

    /// Lowest and highest element touched, both included; `None` if none is.
    #[must_use]
    pub fn element_range(&self) -> Option<(u64, u64)> {
        let (lowest, highest) = self.reach()?;
        let inside = "a layout's elements lie within the limits checked when it was made";
        Some((lowest.try_into().expect(inside), highest.try_into().expect(inside)))
    }

    /// The bytes of a view without gaps and with only whole bytes. Most views are such, and 64 bits suffice
    /// for them.
    #[inline]
    pub(crate) fn dense_byte_range(&self) -> Option<Range<u64>> {
        let is_dense = self.elem_bits >= 8 && self.numel > 0 && self.dense_inner().0 == 0;
        let width = u64::from(self.elem_bits / 8);
        // Within the limits of every layout, so nothing overflows.
        is_dense.then(|| self.start_offset * width..(self.start_offset + self.numel) * width)
    }

    /// Bytes of the buffer from the first touched to one past the last touched; empty if none is.
    ///
    /// Bytes between may be untouched: [`Footprint`](crate::Footprint) knows which.
    #[must_use]
    pub fn byte_range(&self) -> Range<u64> {
        if let Some(dense) = self.dense_byte_range() {
            return dense;
        }
        self.element_range().map_or(0..0, |elems| self.bytes_of(elems))
    }

    /// The bytes from the first of the lowest element to one past the last of the highest.
    pub(crate) fn bytes_of(&self, (lowest, highest): (u64, u64)) -> Range<u64> {
        let bits = u64::from(self.elem_bits);
        if bits < 8 { lowest / 2..highest / 2 + 1 } else { lowest * (bits / 8)..(highest + 1) * (bits / 8) }
    }

    /// Checks that every touched byte is inside a buffer of `buffer_bytes`.
    pub fn fits(&self, buffer_bytes: u64) -> Result<(), GeometryError> {
        let needed_bytes = self.byte_range().end;
        if needed_bytes > buffer_bytes {
            return Err(GeometryError::PastBuffer { needed_bytes, buffer_bytes });
        }
        Ok(())
    }

    /// Element at `coords`.
    ///
    /// # Panics
    /// If there is not one coordinate per dimension, or one is outside its dimension.
    #[must_use]
    pub fn offset_of(&self, coords: &[u64]) -> u64 {
        assert_eq!(coords.len(), self.ndims, "one coordinate per dimension");
        let mut offset = i128::from(self.start_offset);
        for (dim, &coord) in coords.iter().enumerate() {
            let size = self.shape[dim];
            assert!(coord < size, "coordinate {coord} is outside dimension {dim} of size {size}");
            offset += i128::from(coord) * i128::from(self.strides[dim]);
        }
        offset.try_into().expect("coordinates inside the shape lead to a touched element")
    }

    /// Lowest and highest touched element, before the limits are checked.
    ///
    /// Cannot overflow. Sizes minus one sum to less than their product, at most 2^64 - 2. So the sum over all
    /// dimensions stays within (2^64 - 2) * 2^63, which leaves room for a 64-bit start.
    fn reach(&self) -> Option<(i128, i128)> {
        if self.numel == 0 {
            return None;
        }
        let start = i128::from(self.start_offset);
        let mut range = (start, start);
        for (&size, &stride) in self.shape().iter().zip(self.strides()) {
            let extent = i128::from(size - 1) * i128::from(stride);
            if extent < 0 { range.0 += extent } else { range.1 += extent }
        }
        Some(range)
    }

    fn check_reach(&self) -> Result<(), GeometryError> {
        let Some((lowest, highest)) = self.reach() else { return Ok(()) };
        if lowest < 0 {
            return Err(GeometryError::BelowBuffer { lowest });
        }
        let elem_limit = i128::from(MAX_VIEW_BYTES * 8 / u64::from(self.elem_bits));
        if highest >= elem_limit {
            return Err(GeometryError::TooLarge { highest, elem_bits: self.elem_bits });
        }
        Ok(())
    }
}

/// Product of the sizes; zero if any size is zero, however large the others are.
pub(crate) fn checked_numel(shape: &[u64]) -> Result<u64, GeometryError> {
    if shape.contains(&0) {
        return Ok(0);
    }
    shape.iter().try_fold(1u64, |numel, &size| numel.checked_mul(size)).ok_or(GeometryError::NumelOverflow)
}

/// Strides of a gapless row-major view. They saturate if the shape is too large to be accepted or has no
/// elements, so they are never used there.
pub(crate) fn row_major_strides(shape: &[u64]) -> [i64; MAX_DIMS] {
    let mut strides = [0; MAX_DIMS];
    let mut stride = 1i64;
    for (slot, &size) in strides.iter_mut().zip(shape).rev() {
        *slot = stride;
        stride = stride.saturating_mul(i64::try_from(size.max(1)).unwrap_or(i64::MAX));
    }
    strides
}
