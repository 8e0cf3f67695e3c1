//! The types of `folder` for libraries whose sessions never write a dump themselves. They have no values.

use crate::RecordError;

/// The collector thread of a session.
pub(crate) enum CollectorThread {}

impl CollectorThread {
    pub fn finish(self) -> Result<Summary, RecordError> {
        match self {}
    }
}

/// Content and losses of a session's own folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summary {}
