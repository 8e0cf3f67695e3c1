//! The tasks of a dump and how content flowed between them.

mod dataflow;
mod load;
mod model;
mod order;
pub(crate) mod pieces;
#[cfg(test)]
pub(crate) mod testing;
mod writes;

pub use dataflow::{Dependency, Why};
pub use load::load;
pub use model::{Argument, Basis, Captured, GraphTask, KernelName, Origin, Place, Source, TaskGraph};
