//! Queries over dumps: selecting records and tasks, naming them, formatting rows, and building the document
//! of every answer.
//!
//! The command line, the report, the web server and the terminal viewer all use this crate, so that they show
//! the same words and numbers. The crate knows no terminal and no command line: it returns values, rows or
//! serializable documents.
#![forbid(unsafe_code)]

pub mod blame;
pub mod blame_words;
pub mod compare_words;
pub mod diff;
pub mod document;
pub mod drawing;
mod dumps;
mod error;
pub mod fact_words;
pub mod fields;
pub mod golden;
pub mod ids;
pub mod junit;
pub mod kind_words;
mod label_source;
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
pub mod run_blame;
mod select;
mod show;
pub mod suite;
pub mod summary;
mod task;
pub mod timeline;
pub mod trace;
pub mod types;
mod verdict;
pub mod wiring_words;
pub mod words;
pub mod wrap;

pub use dumps::{DumpSet, Member, OUTPUTS, is_run_folder, newest};
pub use error::{QueryError, SelectorError};
pub use label_source::LabelSource;
pub use observed::RoleChoice;
pub use order::SortKey;
pub use pairs::Pair;
pub use rows::{Counts, Part, Rows};
pub use select::{HashPrefix, Progress, Selection, Selectors, ShapePattern, parse_dtype, parse_stage};
pub use show::*;
pub use task::*;
