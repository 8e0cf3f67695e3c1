//! The terminal viewer: tasks, one task, one tensor, differences from a golden, and the neighbors of a task
//! in the graph.
//!
//! [`App`] holds the state of the viewer and knows no terminal: it takes [`Event`]s and draws into a frame.
//! Slow work leaves it as a [`Request`] and comes back as an event. [`run`] connects it to a terminal and
//! restores the terminal when it ends, whatever the reason.
#![forbid(unsafe_code)]

mod app;
mod draw;
mod list;
mod request;
mod style;
mod task_tab;
mod tensor_tab;
mod terminal;

use std::path::PathBuf;
use std::sync::Arc;

use tensortap::format::Dump;
use tensortap::scene::Registry;

pub use app::{App, Event, Tab};
pub use request::{Answer, Request};
pub use style::Theme;
pub use terminal::{ExitReason, run};

/// What the viewer shows.
#[derive(Clone)]
pub struct ViewerInput {
    /// The dump.
    pub dump: Arc<Dump>,
    /// The dump or arrays to compare with. `None`: the references of the dump's scene.
    pub golden: Option<PathBuf>,
    /// Known scenes, for references.
    pub registry: Registry,
}

/// Why the viewer cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// Standard input or output is not a terminal.
    #[error("there is no terminal to draw on")]
    NoTerminal,
    /// An operation on the terminal failed.
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] std::io::Error),
}
