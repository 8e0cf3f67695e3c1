//! Explains the difference between two captures: dumps in, findings out. No terminal and no devices.
//! [`tensortap_judge`] compares single tensors.
//!
//! | module | answers |
//! | --- | --- |
//! | [`arrays`] | which records are the arrays of a golden in files for? |
//! | [`blame`] | which task of a dump is wrong? |
//! | [`compare`] | how is a record passed to the judge? |
//! | [`diff`] | how does every record differ from its golden? |
//! | [`graph`] | which tasks produced the content of every input? |
//! | [`kind`] | what kind of error does a tensor show? |
//! | [`labels`] | which task is wrong, and which only inherited an error? |
//! | [`matching`] | which tasks of two dumps correspond? |
//! | [`observation`] | what do captures prove about arguments with unknown roles, and which tasks are ordered? |
//! | [`outputs`] | do the outputs of a run agree with a golden of the whole run? |
//! | [`provenance`] | is an input what its producers wrote? |
//! | [`ranks`] | which rank and task of a run of many ranks went wrong first? |
//! | [`reference`](mod@reference) | what should a task have computed from its inputs? |
//! | [`repeat`] | do tasks with equal inputs have equal outputs? |
#![forbid(unsafe_code)]

pub mod arrays;
pub mod blame;
pub mod compare;
pub mod diff;
mod error;
mod evidence;
pub mod generations;
pub mod graph;
pub mod kind;
pub mod labels;
pub mod matching;
pub mod observation;
pub mod outputs;
mod parallel;
pub mod provenance;
pub mod ranks;
pub mod reference;
pub mod repeat;
mod steps;

pub use error::AnalysisError;
pub use parallel::{Progress, Work};
