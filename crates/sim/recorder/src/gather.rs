//! Reading a strided view as its logical contiguous content.
//!
//! The content is produced front to back, in chunks of the caller's size. Elements are copied as integers
//! of their width and are not interpreted. Contiguous views and contiguous rows are copied with `memcpy`,
//! transposed views in tiles, everything else element by element. 4-bit elements are packed two to a byte,
//! low nibble first; a last odd nibble is followed by zero.
//!
//! A kernel may write the memory at the same time, if it was started too early or never ended. The copy is
//! then any mixture of old and new bytes. The memory is therefore read once, and hash and statistics are
//! computed from the copy.
#![expect(unsafe_code, reason = "tensor memory is reached through addresses that the graph holds")]

mod walk;

use core::marker::PhantomData;
use core::mem::MaybeUninit;

use tensortap_geometry::Layout;

use self::walk::{Block, Walk, is_transposed};
use crate::GatherError;
use tensortap_values::LEAF_BYTES;

/// Elements along each side of a tile of a transposed view: a cache line of 4-byte elements.
const TILE: usize = 16;
/// The largest result of [`Gather::window`]. It fits into a second-level cache together with its source.
const LARGEST_WINDOW: usize = 256 << 10;

/// The content of a view, read front to back.
///
/// ```
/// use core::mem::MaybeUninit;
/// use tensortap_geometry::Layout;
/// use tensortap_recorder::Gather;
///
/// let matrix = [1_u8, 2, 3, 4, 5, 6];
/// let columns = Layout::contiguous(&[2, 3], 8)?.transpose(0, 1)?;
/// let mut gather = Gather::of_slice(&matrix, &columns)?;
/// let mut chunk = [MaybeUninit::uninit(); 4];
/// assert_eq!(gather.next_into(&mut chunk), [1, 4, 2, 5]);
/// assert_eq!(gather.next_into(&mut chunk), [3, 6]);
/// assert_eq!(gather.left_bytes(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gather<'m> {
    base: *const u8,
    walk: Walk,
    elem_bits: u32,
    left_elems: u64,
    life: PhantomData<&'m [u8]>,
}

/// The content of a view without gaps, in whole bytes. Most tensors are like this, and they need no walk
/// over elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenseContent<'m> {
    base: *const u8,
    len: usize,
    life: PhantomData<&'m [u8]>,
}

impl DenseContent<'_> {
    /// The bytes at `base`.
    ///
    /// # Safety
    /// All `len` bytes stay readable during the lifetime.
    #[inline]
    pub(crate) unsafe fn new(base: *const u8, len: usize) -> Self {
        Self { base, len, life: PhantomData }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Copies all bytes to `room`, which must have the same size.
    ///
    /// # Panics
    /// If `room` has a different size.
    #[inline]
    pub(crate) fn copy_into<'r>(&self, room: &'r mut [MaybeUninit<u8>]) -> &'r [u8] {
        assert_eq!(room.len(), self.len, "the room has the content's size");
        // SAFETY: `len` bytes are readable at `base`; `room` is not part of a tensor, and all of it is
        // written.
        unsafe {
            self.base.copy_to_nonoverlapping(room.as_mut_ptr().cast(), self.len);
            &*(&raw const *room as *const [u8])
        }
    }
}

impl<'m> Gather<'m> {
    /// The content of `layout` over the buffer at `base`.
    ///
    /// # Errors
    /// If the view extends past the buffer, or its content is larger than the maximum payload.
    ///
    /// # Safety
    /// All `buffer_bytes` at `base` stay readable during `'m`.
    pub unsafe fn new(base: *const u8, buffer_bytes: u64, layout: &Layout) -> Result<Self, GatherError> {
        layout.fits(buffer_bytes)?;
        let (numel, elem_bits) = (layout.numel(), layout.elem_bits());
        if numel > (1 << 63) / u64::from(elem_bits.div_ceil(8)) {
            return Err(GatherError::TooLarge { numel, elem_bits });
        }
        Ok(Self { base, walk: Walk::new(layout), elem_bits, left_elems: numel, life: PhantomData })
    }

    /// The content of `layout` over a borrowed buffer.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn of_slice(buffer: &'m [u8], layout: &Layout) -> Result<Self, GatherError> {
        // SAFETY: a slice is readable as long as it is borrowed.
        unsafe { Self::new(buffer.as_ptr(), buffer.len() as u64, layout) }
    }

    /// Number of elements not read yet.
    pub fn left_elems(&self) -> u64 {
        self.left_elems
    }

    /// Number of bytes not read yet.
    pub fn left_bytes(&self) -> u64 {
        if self.elem_bits == 4 {
            self.left_elems.div_ceil(2)
        } else {
            self.left_elems * u64::from(self.elem_bits / 8)
        }
    }

    /// The best chunk size in bytes, a multiple of a leaf. For transposed views, reading whole rows is
    /// faster.
    pub fn window(&self) -> usize {
        let row_bytes = |elems: u64| elems.saturating_mul(u64::from(self.elem_bits)) / 8;
        let rows_bytes =
            self.walk.transposed_row_len().map_or(0, |elems| row_bytes(elems).saturating_mul(TILE as u64));
        usize::try_from(rows_bytes)
            .unwrap_or(LARGEST_WINDOW)
            .min(LARGEST_WINDOW)
            .next_multiple_of(LEAF_BYTES)
            .max(LEAF_BYTES)
    }

    /// Reads the next bytes of the content, until `room` is full or the content ends.
    ///
    /// # Panics
    /// If `room` ends inside an element and does not take the rest of the content.
    pub fn next_into<'r>(&mut self, room: &'r mut [MaybeUninit<u8>]) -> &'r [u8] {
        let len = usize::try_from(self.left_bytes()).map_or(room.len(), |left| left.min(room.len()));
        let target = &mut room[..len];
        let elems = self.elems_in(len);
        self.left_elems -= elems;
        if elems == 0 {
            return &[];
        }
        match self.elem_bits {
            4 => self.copy_nibbles(elems, target),
            8 => self.copy_elems::<u8>(elems, target),
            16 => self.copy_elems::<u16>(elems, target),
            32 => self.copy_elems::<u32>(elems, target),
            64 => self.copy_elems::<u64>(elems, target),
            _ => self.copy_elems::<u128>(elems, target),
        }
        // SAFETY: the copies above have written every byte of the target.
        unsafe { &*(&raw const *target as *const [u8]) }
    }

    /// Reads the next bytes of the content into initialized memory. Returns the number of bytes.
    ///
    /// # Panics
    /// As for [`next_into`](Self::next_into).
    pub fn fill(&mut self, room: &mut [u8]) -> usize {
        // SAFETY: initialized bytes may be viewed as `MaybeUninit`, and `next_into` only writes initialized
        // bytes.
        let room = unsafe { &mut *(&raw mut *room as *mut [MaybeUninit<u8>]) };
        self.next_into(room).len()
    }

    fn elems_in(&self, bytes: usize) -> u64 {
        if self.elem_bits == 4 {
            return (bytes as u64 * 2).min(self.left_elems);
        }
        let width = (self.elem_bits / 8) as usize;
        assert!(bytes.is_multiple_of(width), "a chunk of {bytes} bytes ends inside an element of {width}");
        (bytes / width) as u64
    }

    /// Copies the next `elems` elements, which fill `target` exactly.
    fn copy_elems<E: Copy>(&mut self, elems: u64, target: &mut [MaybeUninit<u8>]) {
        let source = self.base.cast::<E>();
        let mut to = target.as_mut_ptr().cast::<E>();
        let mut left = elems;
        while left > 0 {
            let block = self.walk.next_block(left);
            let len = block.rows * block.cols;
            // SAFETY: `Layout::fits` held, so every element of the block is in the buffer. The blocks add
            // up to `elems` elements, which fill the target exactly.
            unsafe {
                copy_block(source, &block, to);
                to = to.add(index(len));
            }
            left -= len;
        }
    }

    fn copy_nibbles(&mut self, elems: u64, target: &mut [MaybeUninit<u8>]) {
        if self.walk.is_contiguous() && self.copy_even_nibbles(elems, target) {
            return;
        }
        let mut packer = Packer { target, filled: 0, low: None };
        let mut left = elems;
        while left > 0 {
            let block = self.walk.next_block(left);
            left -= block.rows * block.cols;
            for row in 0..block.rows {
                for col in 0..block.cols {
                    // SAFETY: `Layout::fits` held, so the element is in the buffer.
                    packer.push(unsafe { nibble(self.base, element(&block, row, col)) });
                }
            }
        }
        packer.finish();
    }

    /// Copies whole bytes if the view starts at a byte boundary. Returns false without copying otherwise.
    fn copy_even_nibbles(&mut self, elems: u64, target: &mut [MaybeUninit<u8>]) -> bool {
        if !self.walk.offset().is_multiple_of(2) {
            return false;
        }
        let block = self.walk.next_block(elems);
        // SAFETY: the elements are in the buffer, and so are the bytes that contain them.
        unsafe {
            self.base
                .add(index(block.offset / 2))
                .copy_to_nonoverlapping(target.as_mut_ptr().cast(), target.len());
        }
        if let (Some(last), true) = (target.last_mut(), elems % 2 == 1) {
            // SAFETY: just written.
            let packed = unsafe { last.assume_init() };
            last.write(packed & 0xf);
        }
        true
    }
}

/// Copies a block to consecutive elements at `to`.
///
/// # Safety
/// Every element of the block is readable at its offset from `source`, and `rows * cols` elements are
/// writable at `to`. Neither needs to be aligned.
unsafe fn copy_block<E: Copy>(source: *const E, block: &Block, to: *mut E) {
    let &Block { rows, row_step, cols, col_step, .. } = block;
    // SAFETY: the caller guarantees it.
    unsafe {
        if col_step == 1 || cols == 1 {
            copy_rows(source, block, to);
        } else if is_transposed(row_step, col_step, rows, cols) {
            copy_tiles(source, block, to);
        } else {
            copy_single(source, block, to);
        }
    }
}

/// # Safety
/// As for [`copy_block`]. The elements of a row are contiguous.
unsafe fn copy_rows<E: Copy>(source: *const E, block: &Block, to: *mut E) {
    let cols = index(block.cols);
    for row in 0..block.rows {
        // SAFETY: one row of the block, and its destination.
        unsafe {
            let from = source.wrapping_add(index(element(block, row, 0)));
            let to = to.add(index(row) * cols);
            core::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), cols * size_of::<E>());
        }
    }
}

/// Copies tile by tile. The columns of a tile touch one cache line each, and the copy uses every such line
/// completely before it continues.
///
/// # Safety
/// As for [`copy_block`].
unsafe fn copy_tiles<E: Copy>(source: *const E, block: &Block, to: *mut E) {
    let (rows, cols) = (index(block.rows), index(block.cols));
    for first_row in (0..rows).step_by(TILE) {
        let last_row = (first_row + TILE).min(rows);
        for first_col in (0..cols).step_by(TILE) {
            for col in first_col..(first_col + TILE).min(cols) {
                for row in first_row..last_row {
                    // SAFETY: an element of the block, and its destination.
                    unsafe {
                        let from = source.wrapping_add(index(element(block, row as u64, col as u64)));
                        to.add(row * cols + col).write_unaligned(from.read_unaligned());
                    }
                }
            }
        }
    }
}

/// # Safety
/// As for [`copy_block`].
unsafe fn copy_single<E: Copy>(source: *const E, block: &Block, to: *mut E) {
    let cols = index(block.cols);
    for row in 0..block.rows {
        let first = element(block, row, 0);
        // SAFETY: one row of the block, and its destination.
        unsafe {
            let to = to.add(index(row) * cols);
            for col in 0..cols {
                let offset =
                    first.wrapping_add_signed(block.col_step.wrapping_mul((col as u64).cast_signed()));
                to.add(col).write_unaligned(source.wrapping_add(index(offset)).read_unaligned());
            }
        }
    }
}

/// Offset of an element of a block. It is inside the view, so the arithmetic cannot overflow.
fn element(block: &Block, row: u64, col: u64) -> u64 {
    let along = |step: i64, by: u64| step.wrapping_mul(by.cast_signed());
    block
        .offset
        .wrapping_add_signed(along(block.row_step, row))
        .wrapping_add_signed(along(block.col_step, col))
}

/// An offset or count inside a buffer that is in memory.
#[expect(clippy::cast_possible_truncation, reason = "inside memory, so it is an index")]
fn index(offset: u64) -> usize {
    offset as usize
}

/// # Safety
/// The byte that holds the element is readable.
unsafe fn nibble(base: *const u8, offset: u64) -> u8 {
    // SAFETY: guaranteed by the caller.
    let byte = unsafe { base.wrapping_add(index(offset / 2)).read() };
    if offset.is_multiple_of(2) { byte & 0xf } else { byte >> 4 }
}

/// Packs nibbles two to a byte, low nibble first.
struct Packer<'t> {
    target: &'t mut [MaybeUninit<u8>],
    filled: usize,
    low: Option<u8>,
}

impl Packer<'_> {
    fn push(&mut self, nibble: u8) {
        match self.low.take() {
            None => self.low = Some(nibble),
            Some(low) => self.write(low | nibble << 4),
        }
    }

    fn finish(mut self) {
        if let Some(low) = self.low.take() {
            self.write(low);
        }
        debug_assert_eq!(self.filled, self.target.len(), "every byte was written");
    }

    fn write(&mut self, byte: u8) {
        self.target[self.filled].write(byte);
        self.filled += 1;
    }
}

#[cfg(test)]
mod tests;
