use std::fmt::{Display, Write};

use crate::GraphError;

/// Most bytes of a name that people give to a scope, a task or an argument.
pub const MAX_NAME_BYTES: usize = 255;

/// Bytes of a refused name that a message shows.
const EXCERPT_BYTES: usize = 40;

/// What a name is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A scope.
    Scope,
    /// A task, known by its first kernel until it has an id.
    Task {
        /// The kernel.
        kernel: &'static str,
    },
}

impl Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Named::Scope => f.write_str("a scope"),
            Named::Task { kernel } => write!(f, "a task of kernel `{kernel}`"),
        }
    }
}

/// Writes a name where the last one stood, so that naming does not allocate, and refuses one that is empty or too long.
pub(crate) fn write_name(into: &mut String, name: &dyn Display, named: Named) -> Result<(), GraphError> {
    into.clear();
    let refused = |into: &str, problem| Err(GraphError::BadName { named, name: excerpt(into), problem });
    if write!(into, "{name}").is_err() {
        return refused(into, "could not be written as text".into());
    }
    match into.len() {
        0 => refused(into, "is empty".into()),
        bytes if bytes > MAX_NAME_BYTES => {
            refused(into, format!("has {bytes} bytes; at most {MAX_NAME_BYTES} fit"))
        }
        _ => Ok(()),
    }
}

/// As much of a name as a message can show.
pub(crate) fn excerpt(name: &str) -> String {
    if name.len() <= EXCERPT_BYTES {
        return name.into();
    }
    let end = (0..=EXCERPT_BYTES).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    format!("{}…", &name[..end])
}
