//! Iterates over a view in logical (row-major) order.

use crate::{Layout, MAX_DIMS};

impl Layout {
    /// Offset of every element, in logical order.
    #[must_use]
    pub fn offsets(&self) -> Offsets {
        Offsets::over_outer(self, self.ndims(), self.numel())
    }

    /// The view as contiguous runs, in logical order. All runs have the same length,
    /// [`dense_inner_len`](Layout::dense_inner_len): the most that inner dimensions allow.
    ///
    /// ```
    /// use tensortap_geometry::{Layout, Run};
    ///
    /// let block = Layout::contiguous(&[4, 8], 32)?.slice(0, 1, 2)?.slice(1, 2, 3)?;
    /// assert!(block.runs().eq([Run { offset: 10, len: 3 }, Run { offset: 18, len: 3 }]));
    /// # Ok::<(), tensortap_geometry::GeometryError>(())
    /// ```
    #[must_use]
    pub fn runs(&self) -> Runs {
        let (outer_ndims, len) = self.dense_inner();
        let count = self.numel().checked_div(len).unwrap_or(0);
        Runs { starts: Offsets::over_outer(self, outer_ndims, count), len }
    }
}

/// Iterator over element offsets in logical order; see [`Layout::offsets`].
#[derive(Clone, Debug)]
pub struct Offsets {
    layout: Layout,
    /// Dimensions to walk; inner ones stay at coordinate zero.
    ndims: usize,
    coords: [u64; MAX_DIMS],
    offset: u64,
    remaining: u64,
}

impl Offsets {
    fn over_outer(layout: &Layout, ndims: usize, remaining: u64) -> Self {
        Self { layout: *layout, ndims, coords: [0; MAX_DIMS], offset: layout.start_offset(), remaining }
    }

    /// Adds one to the coordinates, innermost first with carry.
    fn advance(&mut self) {
        for dim in (0..self.ndims).rev() {
            let stride = self.layout.strides()[dim];
            if self.coords[dim] + 1 < self.layout.shape()[dim] {
                self.coords[dim] += 1;
                // Every coordinate is inside the shape, so every offset is a touched element.
                self.offset = self.offset.wrapping_add_signed(stride);
                return;
            }
            let back = self.coords[dim].wrapping_mul(stride.unsigned_abs());
            self.offset =
                if stride < 0 { self.offset.wrapping_add(back) } else { self.offset.wrapping_sub(back) };
            self.coords[dim] = 0;
        }
    }
}

impl Iterator for Offsets {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.remaining = self.remaining.checked_sub(1)?;
        let offset = self.offset;
        self.advance();
        Some(offset)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let remaining = usize::try_from(self.remaining);
        (remaining.unwrap_or(usize::MAX), remaining.ok())
    }
}

/// Elements that are contiguous both in memory and in logical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First element, relative to the buffer's first one.
    pub offset: u64,
    /// Number of elements.
    pub len: u64,
}

/// Iterator over contiguous runs in logical order; see [`Layout::runs`].
#[derive(Clone, Debug)]
pub struct Runs {
    starts: Offsets,
    len: u64,
}

impl Iterator for Runs {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        self.starts.next().map(|offset| Run { offset, len: self.len })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.starts.size_hint()
    }
}
