//! One task, from what it is called to what it was given and left.

mod find;
mod held;
mod page;
mod spark;
mod text;

pub(crate) use find::way_fits;
pub use find::{HOW as HOW_TASKS_ARE_NAMED, find_tasks};
pub use held::HeldTask;
pub use page::{ArgPage, Moment, Neighbour, Said, TaskIndex, TaskPage, Times};
pub use spark::sparkline;
pub use text::{argument_lines, page_head, tasks_text};
