//! Checks the project's own prose: documentation, help texts, messages, the web page and comments.
//!
//! [`passages`] extracts the prose of one file. [`check`] finds listed phrases, long sentences and crowded table cells in it.
//! `scripts/check-writing` prints the findings for the writer; the test of this crate fails if text that users read
//! contains a listed phrase.

pub mod extract;
pub mod rules;
pub mod tree;

pub use extract::{Audience, Passage, passages};
pub use rules::{Finding, Problem, check, sentences};
