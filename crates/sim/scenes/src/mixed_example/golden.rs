//! The golden: all rounds in f64, rounded where the graph stores a value.

use half::f16;
use tensortap_scene::{HostArgs, HostTensor};

use super::MODULUS;

pub(super) fn golden(n: usize, rounds: u64, inputs: &HostArgs) -> Vec<HostTensor> {
    let weights: Vec<f64> = inputs.get("weights").get::<f32>().into_iter().map(f64::from).collect();
    let mut state: Vec<f32> = inputs.get("state").get();
    let mut counts: Vec<i32> = inputs.get("counts").get();
    let mut half = vec![f16::ZERO; n * n];
    for round in 0..rounds {
        let wide: Vec<f64> = state.iter().copied().map(f64::from).collect();
        half = (0..n * n).map(|at| f16::from_f64(blended(n, &wide, &weights, at))).collect();
        let wide: Vec<f64> = half.iter().copied().map(f64::from).collect();
        for (at, value) in state.iter_mut().enumerate() {
            *value = rounded(f64::from(*value) + joined(n, &wide, &weights, at) / 2.0);
        }
        let round = i64::try_from(round).expect("few rounds");
        for count in &mut counts {
            let tallied = (3 * i64::from(*count) + round + 1) % i64::from(MODULUS);
            *count = MODULUS - 1 - i32::try_from(tallied).expect("a remainder");
        }
    }
    let shape = inputs.get("state").shape.clone();
    vec![
        HostTensor::new("state", &shape, &state),
        HostTensor::new("counts", &shape, &counts),
        HostTensor::new("half", &shape, &half),
    ]
}

/// Element `at` of `state x weights + state / 2 + 1/4`.
fn blended(n: usize, state: &[f64], weights: &[f64], at: usize) -> f64 {
    let (i, j) = (at / n, at % n);
    let projected: f64 = (0..n).map(|p| state[i * n + p] * weights[p * n + j]).sum();
    projected + 0.5 * state[at] + 0.25
}

/// Element `at` of `half x weights' - max(half, 0)`.
fn joined(n: usize, half: &[f64], weights: &[f64], at: usize) -> f64 {
    let (i, j) = (at / n, at % n);
    let turned: f64 = (0..n).map(|p| half[i * n + p] * weights[j * n + p]).sum();
    turned - half[at].max(0.0)
}

#[expect(clippy::cast_possible_truncation, reason = "the state is stored as f32")]
fn rounded(value: f64) -> f32 {
    value as f32
}
