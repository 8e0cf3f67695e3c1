//! Compares a tensor with its golden and decides whether it is within its rule. The only comparison engine:
//! used for a run's golden, `diff`, `blame`, live comparison and replay.
//!
//! | question | answered by |
//! | --- | --- |
//! | how far is a tensor from its golden, and where are the errors? | [`Comparison`]: [`QuickResult`], [`Metrics`], [`Detail`] |
//! | when is an element within its rule? | [`Rule`]; [`Rule::for_dtype`] has the default tolerances |
//! | which rule applies to which argument? | [`RuleBook`]: a rules file ([`Rules`]), profiles and kernel tolerances |
//! | is the tensor right, and what is the evidence? | [`compare`]: an [`Outcome`] with a [`Verdict`] and its [`Evidence`] |
//!
//! The crate knows bytes, dtypes and shapes. A [`Side`] provides the bytes: in memory, or as a [`Payload`]
//! that is read in parts. No dumps, no scenes, no devices.
//!
//! ```
//! use tensortap_abi::DType;
//! use tensortap_judge::{Rule, Verdict, compare_bytes};
//!
//! let bytes = |values: [f32; 2]| values.map(f32::to_le_bytes).concat();
//! let rule = Rule::for_dtype(DType::Float32);
//! let near = compare_bytes(DType::Float32, &[2], &bytes([1.0, 2.000_001]), &bytes([1.0, 2.0]), &rule);
//! assert_eq!(near.verdict, Verdict::Within);
//! let wrong = compare_bytes(DType::Float32, &[2], &bytes([1.0, -2.0]), &bytes([1.0, 2.0]), &rule);
//! assert_eq!((wrong.verdict, wrong.max_abs()), (Verdict::Outside, Some(4.0)));
//! ```
#![forbid(unsafe_code)]

mod book;
mod metrics;
mod outcome;
mod rules;
mod side;

pub use book::RuleBook;
pub use metrics::{
    AxisProfile, BLOCK, CompareError, Comparison, Decade, Detail, DetailPass, FailingPass, Level,
    MAX_AXIS_BINS, Metrics, MetricsPass, Pass, Predicate, QuickPass, QuickResult, Rule, SideName,
    SpecialCounts, Stream, TensorType, Tolerance, WORST_ELEMENTS, WorstElement, coordinate,
};
pub use outcome::{Depth, Evidence, Outcome, Verdict, compare, compare_bytes, compare_hashes, detail};
pub use rules::{MAX_RULES_BYTES, Profile, RuleSubject, Rules, RulesError};
pub use side::{Content, InMemory, Payload, Side};
