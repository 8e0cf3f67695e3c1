use std::fmt::{Display, Write};

use crate::GraphError;

/// Limit on the length of the name of a scope, task or argument, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// Length of the excerpt of a name in an error message, in bytes.
const EXCERPT_BYTES: usize = 40;

/// The thing that a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameTarget {
    /// A scope.
    Scope,
    /// A task, identified by its first kernel.
    Task {
        /// The kernel.
        kernel: &'static str,
    },
}

impl Display for NameTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NameTarget::Scope => f.write_str("a scope"),
            NameTarget::Task { kernel } => write!(f, "a task of kernel `{kernel}`"),
        }
    }
}

/// Writes a name into a buffer that is reused, so that naming does not allocate. Refuses empty and long
/// names.
pub(crate) fn write_name(
    into: &mut String,
    name: &dyn Display,
    target: NameTarget,
) -> Result<(), GraphError> {
    into.clear();
    let refused = |into: &str, problem| Err(GraphError::BadName { target, name: excerpt(into), problem });
    if write!(into, "{name}").is_err() {
        return refused(into, "could not be formatted".into());
    }
    match into.len() {
        0 => refused(into, "is empty".into()),
        bytes if bytes > MAX_NAME_BYTES => {
            refused(into, format!("has {bytes} bytes; the limit is {MAX_NAME_BYTES}"))
        }
        _ => Ok(()),
    }
}

/// The start of a name, short enough for a message.
pub(crate) fn excerpt(name: &str) -> String {
    if name.len() <= EXCERPT_BYTES {
        return name.into();
    }
    let end = (0..=EXCERPT_BYTES).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    format!("{}…", &name[..end])
}
