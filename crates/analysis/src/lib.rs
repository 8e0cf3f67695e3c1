//! What a difference between two captures means. Dumps in, findings out: no terminal, no devices. Whether a tensor is what it
//! should be is decided by [`tensortap_judge`].
//!
//! | module | answers |
//! | --- | --- |
//! | [`arrays`] | which record does an array of a golden stand for? |
//! | [`blame`] | which task of a dump is wrong? |
//! | [`carry`] | was a task given what the tasks before it had written? |
//! | [`compare`] | how is a record handed to the judge? |
//! | [`diff`] | how does every record differ from its golden? |
//! | [`graph`] | where did the content of every input come from? |
//! | [`kind`] | what kind of error does a tensor show? |
//! | [`labels`] | which task is wrong, and which only passed an error on? |
//! | [`matching`] | which task of one dump is which of another? |
//! | [`observation`] | what is known of arguments whose roles are not, and which tasks are ordered? |
//! | [`outputs`] | does what a run left in its outputs agree with a golden of the whole run? |
//! | [`reference`](mod@reference) | what should a task have made of what it was given? |
//! | [`repeat`] | did tasks that were given the same make the same of it? |
#![forbid(unsafe_code)]

pub mod arrays;
pub mod blame;
pub mod carry;
pub mod compare;
pub mod diff;
mod error;
pub mod graph;
pub mod kind;
pub mod labels;
pub mod matching;
pub mod observation;
pub mod outputs;
mod parallel;
pub mod reference;
pub mod repeat;
mod steps;

pub use error::AnalysisError;
pub use parallel::{Progress, Work};
