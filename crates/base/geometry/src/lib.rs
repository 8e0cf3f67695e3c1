//! Arithmetic over strided views: which elements and bytes of a buffer a view touches, in which order, and
//! whether two views share a byte.
//!
//! - [`Layout`] is a view in elements: shape, strides, start offset, element width. Constructors check it;
//!   methods derive further views and iterate over the elements.
//! - [`Footprint`] is the set of bytes that a layout touches at an address. It is computed once per argument
//!   and answers [`overlaps`](Footprint::overlaps) and [`covers`](Footprint::covers).
//! - [`overlaps`], [`overlap_exact`] and [`covers`] are the same checks for a single use.
//!
//! The crate uses no memory, no threads and no dtype names. It allocates nothing. Elements are 4, 8, 16, 32
//! or 64 bits wide; 4-bit elements are packed two to a byte, the even one in the low half.
//!
//! ```
//! use tensortap_geometry::{Layout, overlaps};
//!
//! let matrix = Layout::contiguous(&[64, 64], 32)?;
//! let left = matrix.slice(1, 0, 32)?;
//! let right = matrix.slice(1, 32, 32)?;
//! let row = matrix.select(0, 5)?;
//! assert!(!overlaps(&left, 0x1000, &right, 0x1000));
//! assert!(overlaps(&left, 0x1000, &row, 0x1000));
//! # Ok::<(), tensortap_geometry::GeometryError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod dims;
mod error;
mod footprint;
mod half_bytes;
mod iter;
mod layout;
mod ops;
mod search;

pub use error::GeometryError;
pub use footprint::{Footprint, Overlap};
pub use iter::{Offsets, Run, Runs};
pub use layout::{Layout, dense_bytes, is_contiguous};
pub use search::STEP_BUDGET;

/// Maximum number of dimensions of a layout.
pub const MAX_DIMS: usize = 8;

/// A view ends within this many bytes of its buffer's first byte. Far above any address space, and low enough
/// that distances between two views, counted in half-bytes, add up in an `i64`.
pub const MAX_VIEW_BYTES: u64 = 1 << 60;

/// Whether two views share a byte. Bases are the byte addresses of the buffers' first elements.
///
/// Exact, except that a problem too hard for [`STEP_BUDGET`] counts as shared; see [`overlap_exact`].
#[must_use]
pub fn overlaps(a: &Layout, a_base: u64, b: &Layout, b_base: u64) -> bool {
    Footprint::new(a, a_base).overlaps(&Footprint::new(b, b_base))
}

/// Like [`overlaps`], but distinguishes a proof from an assumption.
#[must_use]
pub fn overlap_exact(a: &Layout, a_base: u64, b: &Layout, b_base: u64) -> Overlap {
    Footprint::new(a, a_base).overlap_exact(&Footprint::new(b, b_base))
}

/// True only if every byte of `inner` is a byte of `outer`; see [`Footprint::covers`] for when it is exact.
#[must_use]
pub fn covers(outer: &Layout, outer_base: u64, inner: &Layout, inner_base: u64) -> bool {
    Footprint::new(outer, outer_base).covers(&Footprint::new(inner, inner_base))
}
