//! Compares one tensor with its golden.
//!
//! A [`Comparison`] is a pair of equal shape and a [`Rule`]. It runs four passes, each over bytes in memory
//! ([`Comparison::quick`], [`full`](Comparison::full), [`detail`](Comparison::detail)) or over chunks as they
//! come ([`Comparison::stream`]):
//!
//! | pass | gives | for |
//! | --- | --- | --- |
//! | [`QuickResult`] | elements outside the rule, greatest error | every tensor |
//! | [`Metrics`] | every metric | tables, machines |
//! | [`Detail`] | worst elements, histogram, distribution along each axis | tensors that fail |
//! | ranges ([`Comparison::failing`]) | which elements are outside the rule | evidence about single elements |
//!
//! **Which elements count.** A pair is *measured* if both values are finite. Errors, norms and distances are
//! computed over measured pairs. NaN and infinities are counted on each side. A position where the two sides
//! differ in kind (NaN, +Inf, -Inf, finite) is *mismatched* and fails under every rule. Equal infinities are
//! equal. Two NaN are equal unless [`Rule::nan_equal`] is false.
//!
//! **Results do not depend on how the work is split.** Elements are summed in blocks of [`BLOCK`], in a fixed
//! number of lanes, and blocks are summed in a fixed tree. Chunk sizes, threads and vector instructions
//! change no bit.
//!
//! **Sums are `f64`.** Squares of `float64` values beyond about 1e154 overflow: then norms are infinite, and
//! the cosine is undefined. No other dtype reaches that.

mod block;
mod comparison;
mod detail;
mod distance;
mod error;
mod failing;
mod full;
mod peak;
mod quick;
mod rule;
mod stream;
mod sums;
mod tree;

pub use block::BLOCK;
pub use comparison::{Comparison, TensorType};
pub use detail::{AxisProfile, Decade, Detail, DetailPass, MAX_AXIS_BINS, WORST_ELEMENTS};
pub use error::{CompareError, SideName};
pub use failing::FailingPass;
pub use full::{Metrics, MetricsPass, SpecialCounts};
pub use peak::{WorstElement, coordinate};
pub use quick::{QuickPass, QuickResult};
pub use rule::{Predicate, Rule, Tolerance};
pub use stream::{Pass, Stream};
pub use tensortap_values::vector::Level;
