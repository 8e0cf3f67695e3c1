//! The result of one trial, whatever its backend.

use crate::oracle::Judgment;
use crate::tally::Cell;

pub struct Verdict {
    pub cell: Cell,
    /// Whether the run that `blame` judges is right.
    pub is_right: bool,
    /// An error if `blame` gave no answer.
    pub judgment: Result<Judgment, String>,
    /// What happened, for a person who looks for the cause.
    pub story: String,
}
