//! Tests of the metrics engine: compared with a naive version and with numpy, on edge cases, and for any
//! split of the work.

mod cutting;
mod detail;
mod edges;
mod mixed;
mod naive;
mod numpy;
mod sample;

use tensortap_abi::DType;
use tensortap_judge::{Comparison, Rule, TensorType};

/// A comparison of one-dimensional tensors.
fn flat(dtype: DType, numel: usize, rule: Rule) -> Comparison {
    let tensor = TensorType::new(dtype, &[numel as u64]);
    Comparison::new(&tensor, &tensor, rule).expect("equal types")
}
