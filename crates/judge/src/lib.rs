//! Whether a tensor is what it should be. One judge for everything that compares: a run's golden, `diff`, `blame`, a
//! comparison while a run lasts, and replay.
//!
//! | question | answered by |
//! | --- | --- |
//! | how far is a tensor from its golden, and where do the errors sit? | [`Comparison`]: [`Quick`], [`Metrics`], [`Detail`] |
//! | when does an element agree? | [`Rule`], whose [`Rule::for_dtype`] is the one table of default tolerances |
//! | which rule judges which argument? | [`RuleBook`], with a rules file ([`Rules`]), profiles and what kernels declare |
//! | is it what it should be, and what does that rest on? | [`compare`]: an [`Outcome`] with a [`Verdict`] and its [`Evidence`] |
//!
//! It knows bytes, dtypes and shapes. Where they come from is said by a [`Side`]: memory, or a [`Payload`] that is read in
//! parts. No dumps, no scenes, no devices.
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
    AxisProfile, BLOCK, CompareError, Comparison, Decade, Detail, DetailPass, Full, Level, MAX_AXIS_BINS,
    Metrics, Pass, Predicate, Quick, QuickPass, Rule, SideName, Specials, Stream, TensorType, Tolerance,
    WORST_ELEMENTS, Worst, coordinate,
};
pub use outcome::{Depth, Evidence, Outcome, Verdict, compare, compare_bytes, compare_hashes, detail};
pub use rules::{MAX_RULES_BYTES, Profile, Rules, RulesError, Subject};
pub use side::{Content, InMemory, Payload, Side};
