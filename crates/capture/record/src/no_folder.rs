//! The types of `folder` for libraries whose sessions never write a dump themselves.

use crate::RecordError;

/// Content and losses of a session's own folder. It has no values, because there is no such folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summary {}

/// Waits until the dump of a session's own folder is complete.
pub(crate) type FinishDump = Box<dyn FnOnce() -> Result<Summary, RecordError> + Send>;
