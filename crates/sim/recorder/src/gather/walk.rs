//! Walks the elements of a view in logical order, as two-dimensional blocks for a copy loop.

use tensortap_geometry::{Layout, MAX_DIMS};

/// `len` elements along one dimension, `step` elements apart in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    len: u64,
    step: i64,
}

/// `rows` times `cols` elements that are consecutive in logical order, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// First element, as an index from the buffer's start.
    pub offset: u64,
    pub rows: u64,
    /// Distance from one row to the next, in elements.
    pub row_step: i64,
    pub cols: u64,
    /// Distance from one column to the next, in elements.
    pub col_step: i64,
}

/// A walk over a view with at least one element.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    /// Axes, outermost first. Dimensions of one element are removed, and neighboring dimensions that form
    /// one progression are merged. There are always at least two axes: `rows` and `cols` of the blocks.
    axes: [Axis; MAX_DIMS + 1],
    ndims: usize,
    coords: [u64; MAX_DIMS + 1],
    /// The element at the current coordinates.
    offset: u64,
    is_contiguous: bool,
}

impl Walk {
    pub fn new(layout: &Layout) -> Self {
        const ONE: Axis = Axis { len: 1, step: 0 };
        // Two dimensions of one element always exist, so that there are rows and columns.
        let mut walk = Self {
            axes: [ONE; MAX_DIMS + 1],
            ndims: 2,
            coords: [0; MAX_DIMS + 1],
            offset: layout.start_offset(),
            is_contiguous: layout.is_contiguous(),
        };
        if layout.numel() > 0 {
            layout
                .shape()
                .iter()
                .zip(layout.strides())
                .for_each(|(&len, &step)| walk.push(Axis { len, step }));
        }
        walk
    }

    fn push(&mut self, axis: Axis) {
        if axis.len == 1 {
            return;
        }
        let outer = &mut self.axes[self.ndims - 1];
        let span = i64::try_from(axis.len).ok().and_then(|len| axis.step.checked_mul(len));
        if outer.len == 1 {
            // Only the two initial axes exist.
            *outer = axis;
        } else if Some(outer.step) == span {
            *outer = Axis { len: outer.len * axis.len, step: axis.step };
        } else {
            self.axes[self.ndims] = axis;
            self.ndims += 1;
        }
    }

    /// The next element, as an index from the buffer's start.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether logical order is memory order without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.is_contiguous
    }

    /// Number of elements of a row, if rows are columns in memory: elements of a column are adjacent, those
    /// of a row are not.
    pub fn transposed_row_len(&self) -> Option<u64> {
        let (rows, cols) = (self.rows(), self.cols());
        is_transposed(rows.step, cols.step, rows.len, cols.len).then_some(cols.len)
    }

    /// The next block, with at most `limit` (not zero) elements: whole rows, or a part of one row. The
    /// caller counts elements and never asks for more than there are.
    pub fn next_block(&mut self, limit: u64) -> Block {
        let (rows, cols) = (self.rows(), self.cols());
        let (row, col) = (self.coords[self.ndims - 2], self.coords[self.ndims - 1]);
        let whole_rows = if col == 0 { (limit / cols.len).min(rows.len - row) } else { 0 };
        let block = if whole_rows == 0 {
            let len = (cols.len - col).min(limit);
            Block { offset: self.offset, rows: 1, row_step: 0, cols: len, col_step: cols.step }
        } else {
            Block {
                offset: self.offset,
                rows: whole_rows,
                row_step: rows.step,
                cols: cols.len,
                col_step: cols.step,
            }
        };
        if whole_rows == 0 {
            self.step(self.ndims - 1, block.cols)
        } else {
            self.step(self.ndims - 2, block.rows)
        }
        block
    }

    fn rows(&self) -> Axis {
        self.axes[self.ndims - 2]
    }

    fn cols(&self) -> Axis {
        self.axes[self.ndims - 1]
    }

    /// Moves `by` along an axis, with carry. After the last element it returns to the first.
    fn step(&mut self, axis: usize, by: u64) {
        let mut by = by;
        for dim in (0..=axis).rev() {
            let Axis { len, step } = self.axes[dim];
            let coord = self.coords[dim] + by;
            // The difference of two coordinates inside the shape, so the product is a distance inside the
            // view.
            if coord < len {
                self.offset = self.offset.wrapping_add_signed(step.wrapping_mul(by.cast_signed()));
                self.coords[dim] = coord;
                return;
            }
            self.offset = self
                .offset
                .wrapping_add_signed(step.wrapping_mul(self.coords[dim].cast_signed()).wrapping_neg());
            self.coords[dim] = 0;
            by = 1;
        }
    }
}

/// Whether a block is transposed and large enough to copy in tiles.
pub(super) fn is_transposed(row_step: i64, col_step: i64, rows: u64, cols: u64) -> bool {
    const WORTH: u64 = 4;
    row_step.unsigned_abs() == 1 && col_step.unsigned_abs() > 1 && rows >= WORTH && cols >= WORTH
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(layout: &Layout, limit: u64) -> std::vec::Vec<Block> {
        let mut walk = Walk::new(layout);
        let mut left = layout.numel();
        let mut blocks = std::vec::Vec::new();
        while left > 0 {
            let block = walk.next_block(limit.min(left));
            left -= block.rows * block.cols;
            blocks.push(block);
        }
        blocks
    }

    #[test]
    fn a_contiguous_view_is_one_block_for_any_number_of_dimensions() {
        let layout = Layout::contiguous(&[3, 1, 4, 5], 32).unwrap();
        assert!(Walk::new(&layout).is_contiguous());
        let whole = Block { offset: 0, rows: 1, row_step: 0, cols: 60, col_step: 1 };
        assert_eq!(blocks(&layout, 60), [whole]);
    }

    #[test]
    fn separate_rows_form_one_block_and_a_partial_row_is_finished_first() {
        let layout = Layout::contiguous(&[4, 10], 32).unwrap().slice(1, 2, 3).unwrap();
        let (row_step, col_step) = (10, 1);
        let part = |offset, rows, cols| Block {
            offset,
            rows,
            row_step: if rows > 1 { row_step } else { 0 },
            cols,
            col_step,
        };
        let two_rows = Block { offset: 2, rows: 2, row_step, cols: 3, col_step };
        assert_eq!(blocks(&layout, 7)[0], two_rows);
        assert_eq!(
            blocks(&layout, 2),
            [2, 4, 12, 14, 22, 24, 32, 34].map(|at| part(at, 1, if at % 10 == 2 { 2 } else { 1 }))
        );
    }

    #[test]
    fn only_views_whose_rows_are_columns_in_memory_count_as_transposed() {
        let matrix = Layout::contiguous(&[8, 16], 32).unwrap();
        assert_eq!(Walk::new(&matrix).transposed_row_len(), None);
        assert_eq!(Walk::new(&matrix.transpose(0, 1).unwrap()).transposed_row_len(), Some(8));
        assert_eq!(Walk::new(&matrix.slice_step(1, 0, 8, 2).unwrap()).transposed_row_len(), None);
    }
}
