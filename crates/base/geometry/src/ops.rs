//! View operations. They only change the layout and move no elements.

use crate::layout::{checked_numel, row_major_strides};
use crate::{GeometryError, Layout, MAX_DIMS};

impl Layout {
    /// The same view of a smaller buffer that starts at the first byte of [`byte_range`](Self::byte_range).
    ///
    /// ```
    /// use tensortap_geometry::Layout;
    ///
    /// let view = Layout::new(&[3], &[-2], 9, 32)?;
    /// assert_eq!(view.byte_range(), 20..40);
    /// assert!(view.trimmed().offsets().eq([4, 2, 0]));
    /// # Ok::<(), tensortap_geometry::GeometryError>(())
    /// ```
    #[must_use]
    pub fn trimmed(&self) -> Self {
        // Elements of whole bytes start at a multiple of their size. The first of two half-bytes may be
        // missing.
        let before = self.byte_range().start * 8 / u64::from(self.elem_bits());
        self.starting_at(self.start_offset() - before)
    }

    /// Indices `start .. start + len` of `dim`.
    pub fn slice(&self, dim: usize, start: u64, len: u64) -> Result<Self, GeometryError> {
        self.slice_step(dim, start, len, 1)
    }

    /// `len` indices of `dim`: `start`, `start + step`, and so on. A negative step goes down.
    ///
    /// A slice without indices keeps the start offset.
    ///
    /// ```
    /// use tensortap_geometry::Layout;
    ///
    /// let row = Layout::contiguous(&[10], 16)?;
    /// let backwards = row.slice_step(0, 9, 4, -3)?;
    /// assert!(backwards.offsets().eq([9, 6, 3, 0]));
    /// # Ok::<(), tensortap_geometry::GeometryError>(())
    /// ```
    pub fn slice_step(&self, dim: usize, start: u64, len: u64, step: i64) -> Result<Self, GeometryError> {
        let (size, stride) = self.size_and_stride(dim)?;
        if step == 0 {
            return Err(GeometryError::ZeroStep { dim });
        }
        let out_of_range = GeometryError::SliceOutOfRange { dim, size, start, len, step };
        if start > size {
            return Err(out_of_range);
        }
        if len > 0 {
            let last = i128::from(start) + i128::from(len - 1) * i128::from(step);
            if start == size || last < 0 || last >= i128::from(size) {
                return Err(out_of_range);
            }
        }
        let stride = stride.checked_mul(step).ok_or(GeometryError::StrideOverflow { dim, stride, step })?;
        let (mut shape, mut strides) = self.copied_dims();
        shape[dim] = len;
        strides[dim] = stride;
        let start_offset = if len == 0 { self.start_offset() } else { self.start_at(dim, start) };
        self.rebuilt(&shape[..self.ndims()], &strides[..self.ndims()], start_offset)
    }

    /// Dimensions `a` and `b` exchanged.
    pub fn transpose(&self, a: usize, b: usize) -> Result<Self, GeometryError> {
        self.size_and_stride(a)?;
        self.size_and_stride(b)?;
        let (mut shape, mut strides) = self.copied_dims();
        shape.swap(a, b);
        strides.swap(a, b);
        self.rebuilt(&shape[..self.ndims()], &strides[..self.ndims()], self.start_offset())
    }

    /// The single index of `dim` repeated `len` times.
    pub fn broadcast(&self, dim: usize, len: u64) -> Result<Self, GeometryError> {
        let (size, _) = self.size_and_stride(dim)?;
        if size != 1 {
            return Err(GeometryError::NotBroadcastable { dim, size });
        }
        let (mut shape, mut strides) = self.copied_dims();
        shape[dim] = len;
        strides[dim] = 0;
        self.rebuilt(&shape[..self.ndims()], &strides[..self.ndims()], self.start_offset())
    }

    /// The same elements in logical order under another shape. Only for contiguous views.
    pub fn reshape(&self, new_shape: &[u64]) -> Result<Self, GeometryError> {
        if new_shape.len() > MAX_DIMS {
            return Err(GeometryError::TooManyDims { ndims: new_shape.len() });
        }
        if !self.is_contiguous() {
            return Err(GeometryError::NotContiguous);
        }
        let (numel, wanted) = (self.numel(), checked_numel(new_shape)?);
        if numel != wanted {
            return Err(GeometryError::NumelMismatch { numel, wanted });
        }
        self.rebuilt(new_shape, &row_major_strides(new_shape)[..new_shape.len()], self.start_offset())
    }

    /// Index `index` of `dim`, without that dimension.
    pub fn select(&self, dim: usize, index: u64) -> Result<Self, GeometryError> {
        let (size, _) = self.size_and_stride(dim)?;
        if index >= size {
            return Err(GeometryError::IndexOutOfRange { dim, size, index });
        }
        let (mut shape, mut strides) = self.copied_dims();
        shape.copy_within(dim + 1.., dim);
        strides.copy_within(dim + 1.., dim);
        let left = self.ndims() - 1;
        self.rebuilt(&shape[..left], &strides[..left], self.start_at(dim, index))
    }

    fn size_and_stride(&self, dim: usize) -> Result<(u64, i64), GeometryError> {
        match (self.shape().get(dim), self.strides().get(dim)) {
            (Some(&size), Some(&stride)) => Ok((size, stride)),
            _ => Err(GeometryError::NoSuchDim { dim, ndims: self.ndims() }),
        }
    }

    fn copied_dims(&self) -> ([u64; MAX_DIMS], [i64; MAX_DIMS]) {
        let (mut shape, mut strides) = ([0; MAX_DIMS], [0; MAX_DIMS]);
        shape[..self.ndims()].copy_from_slice(self.shape());
        strides[..self.ndims()].copy_from_slice(self.strides());
        (shape, strides)
    }

    /// The start offset if coordinate `index` of `dim` becomes the new zero. A view without elements keeps
    /// its offset, because its strides may lead anywhere.
    fn start_at(&self, dim: usize, index: u64) -> u64 {
        if self.numel() == 0 {
            return self.start_offset();
        }
        let mut coords = [0; MAX_DIMS];
        coords[dim] = index;
        self.offset_of(&coords[..self.ndims()])
    }

    fn rebuilt(&self, shape: &[u64], strides: &[i64], start_offset: u64) -> Result<Self, GeometryError> {
        Self::new(shape, strides, start_offset, self.elem_bits())
    }
}
