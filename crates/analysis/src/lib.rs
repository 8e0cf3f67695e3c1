//! What a difference between two captures means. Dumps in, findings out: no terminal, no devices.
//!
//! | module | answers |
//! | --- | --- |
//! | [`metrics`] | how far is a tensor from its golden, is that within a rule, and where do the errors sit? |
//! | [`graph`] | where did the content of every input come from? |
//! | [`matching`] | which task of one dump is which of another? |
#![deny(unsafe_code)]

pub mod graph;
pub mod matching;
pub mod metrics;
