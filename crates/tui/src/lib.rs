//! A dump in a terminal: tasks, one task, one tensor, differences from a golden, and what is near a task in the graph.
//!
//! [`App`] is all there is to see and to do, without a terminal: it takes [`Event`]s and draws into a frame. What takes time is asked
//! for as a [`Request`] and comes back as an event. [`run`] gives it a terminal, and gives that back as it was, however it ends.
#![forbid(unsafe_code)]

mod app;
mod draw;
mod list;
mod request;
mod style;
mod task_room;
mod tensor_room;
mod terminal;

use std::path::PathBuf;
use std::sync::Arc;

use tensortap::format::Dump;
use tensortap::scene::Registry;

pub use app::{App, Event, Room};
pub use request::{Answer, Request};
pub use style::Look;
pub use terminal::{Ended, run};

/// What is looked at.
#[derive(Clone)]
pub struct Looked {
    /// The dump.
    pub dump: Arc<Dump>,
    /// What it is held against; the references of its scene where there is none.
    pub golden: Option<PathBuf>,
    /// The scenes that are known.
    pub registry: Registry,
}

/// Why there is nothing to see.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// Nobody would see it.
    #[error("there is no terminal to draw on")]
    NoTerminal,
    /// The terminal refused.
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] std::io::Error),
}
