//! One record, from what it is called to its values.

mod content;
mod delta;
mod elements;
mod excerpt;
mod find;
mod hex;
mod histogram;
mod related;
mod slice;

pub use content::{Content, Measured};
pub use delta::{Change, Delta, Greatest, between, coordinate};
pub use elements::Elements;
pub use excerpt::{Extent, write as write_excerpt};
pub use find::{Found, HOW as HOW_RECORDS_ARE_NAMED, RecordName, TaskName, find};
pub(crate) use hex::FIRST_BYTES;
pub use hex::write as write_hex;
pub use histogram::Histogram;
pub use related::Related;
pub(crate) use slice::row_strides;
pub use slice::{Cut, Dim, Slice, View};
