//! Pictures of tensors, as numbers: what a view paints. A part of a tensor as cells of at most so many rows and columns
//! ([`Tile`]), the values of several tensors counted in the same ranges ([`Spread`]), and where along its axes a difference
//! sits ([`Profile`]).
//!
//! Only what is looked at is read: the bytes of a slice, never all of a tensor for a part of it. Where a slice has more
//! elements than a picture takes, some are looked at, and `looked_at` beside `elements` says so.

mod plane;
mod profile;
mod reader;
mod source;
mod spread;
mod tile;

pub use plane::{Plane, PlaneAxis};
pub use profile::{AxisBins, Bin, Profile};
pub use source::{Source, Subject};
pub use spread::{Series, Spread};
pub use tile::{Cells, Frame, Tile, TileAxis};

/// Elements that one picture looks at, where they lie beside one another: some tenths of a second.
const MOST_ELEMENTS: u64 = 1 << 26;
/// The same where each is a read of its own.
const MOST_APART: u64 = 1 << 20;

#[cfg(test)]
mod tests;
