//! Data of one record, from its name to its values.

mod content;
mod delta;
mod elements;
mod excerpt;
mod find;
mod hex;
mod histogram;
mod related;
mod slice;

pub use content::{Content, ContentStats};
pub use delta::{Change, Delta, LargestChange, between, coordinate};
pub use elements::Elements;
pub use excerpt::{Extent, write as write_excerpt};
pub use find::{HOW as HOW_RECORDS_ARE_NAMED, RecordName, SearchResult, TaskName, find};
pub(crate) use hex::FIRST_BYTES;
pub use hex::write as write_hex;
pub use histogram::Histogram;
pub use related::RelatedRecords;
pub(crate) use slice::row_strides;
pub use slice::{AxisRange, Dim, Slice, View};
