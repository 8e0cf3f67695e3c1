//! Questions that can be asked of dumps: which records, what they are called, how rows are made of them, and the document
//! of every answer.
//!
//! Everything that shows a dump is made of this: the command line, and whatever else shows one later. It knows no terminal
//! and no command line; what it has to say is returned, as values, as rows or as a serialisable document.
#![forbid(unsafe_code)]

pub mod blame;
pub mod blame_words;
pub mod compare_words;
pub mod diff;
pub mod document;
pub mod drawing;
mod dumps;
mod error;
pub mod fields;
pub mod golden;
pub mod ids;
pub mod junit;
pub mod kind_words;
mod labelling;
pub mod module_words;
pub mod number;
pub mod observed;
mod order;
mod pairs;
pub mod palette;
pub mod picture;
pub mod printable;
pub mod report;
mod rows;
mod select;
mod show;
pub mod suite;
pub mod summary;
mod task;
pub mod timeline;
pub mod trace;
pub mod types;
pub mod wiring_words;
pub mod words;

pub use dumps::{DumpSet, Member, OUTPUTS, is_run_folder, newest};
pub use error::{QueryError, SelectorError};
pub use labelling::Labelling;
pub use observed::RoleChoice;
pub use order::SortKey;
pub use pairs::Pair;
pub use rows::{Counts, Part, Rows};
pub use select::{HashPrefix, Progress, Selection, Selectors, ShapePattern, parse_dtype, parse_stage};
pub use show::*;
pub use task::*;
pub use words::stage_word;
