//! Pictures of tensors as numbers that a view draws.
//!
//! - [`Tile`]: a part of a tensor as a bounded grid of cells.
//! - [`Spread`]: the distribution of several tensors, counted in the same ranges.
//! - [`Profile`]: where along its axes a difference is.
//!
//! Only the bytes of the requested slice are read. If a slice has more elements than a picture can use, a
//! part of them is read, and `looked_at` next to `elements` says how many.

mod plane;
mod profile;
mod reader;
mod source;
mod spread;
mod tile;

pub use plane::{Plane, PlaneAxis};
pub use profile::{AxisBins, Bin, Profile};
pub use source::{PictureInput, Source};
pub use spread::{Series, Spread};
pub use tile::{Cells, Frame, Tile, TileAxis};

/// Maximum elements that one picture reads if they are adjacent: some tenths of a second.
const MOST_ELEMENTS: u64 = 1 << 26;
/// The same if each element is a separate read.
const MOST_APART: u64 = 1 << 20;

#[cfg(test)]
mod tests;
