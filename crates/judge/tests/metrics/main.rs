//! The metrics engine from outside: against a naive reference, against numpy, on edge cases, however the work is cut.

mod cutting;
mod detail;
mod edges;
mod mixed;
mod naive;
mod numpy;
mod sample;

use tensortap_abi::DType;
use tensortap_judge::{Comparison, Rule, TensorType};

/// A flat comparison of so many elements.
fn flat(dtype: DType, numel: usize, rule: Rule) -> Comparison {
    let tensor = TensorType::new(dtype, &[numel as u64]);
    Comparison::new(&tensor, &tensor, rule).expect("equal types")
}
