//! Data of one task: name, arguments before and after, neighbors, comparison.

mod comparison;
mod find;
mod memory;
mod page;
mod spark;
mod text;

pub use comparison::TaskComparison;
pub(crate) use find::scope_path_fits;
pub use find::{HOW as HOW_TASKS_ARE_NAMED, find_tasks};
pub use memory::{MemoryDocument, memory_documents, memory_text};
pub use page::{ArgPage, ArgSnapshot, AttributeFact, Neighbor, Submission, TaskIndex, TaskPage, Times};
pub use spark::sparkline;
pub use text::{argument_lines, page_head, tasks_text};
