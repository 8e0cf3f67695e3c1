//! What a difference between two captures means. Bytes in, findings out: no files, no terminal, no devices.
//!
//! | module | answers |
//! | --- | --- |
//! | [`metrics`] | how far is a tensor from its golden, is that within a rule, and where do the errors sit? |
//!
//! What matches records of two dumps and labels tasks builds on it.
#![deny(unsafe_code)]

pub mod metrics;
