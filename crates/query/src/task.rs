//! One task, from what it is called to what it was given and left.

mod find;
mod page;
mod spark;

pub use find::{HOW as HOW_TASKS_ARE_NAMED, find_tasks};
pub use page::{ArgPage, Moment, Neighbour, Said, TaskIndex, TaskPage, Times};
pub use spark::sparkline;
