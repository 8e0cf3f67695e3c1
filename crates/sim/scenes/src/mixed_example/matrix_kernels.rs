//! The matrix kernels of `mixed_example`.

use half::f16;
use tensortap_abi::CoreType;
use tensortap_scene::{Args, KernelBody, KernelDef, RefTask, kernel_entry};

use super::{FIRST_MIX, FLOAT_FAULTS, SECOND_MIX, rows_of};

pub(super) const PROJECT: KernelDef = KernelDef {
    func_id: 0,
    name: "project",
    core_type: CoreType::Aic,
    signature: FIRST_MIX,
    entry: kernel_entry::<Project>,
    reference: Some(&project_reference),
    tolerance: None,
    faults: FLOAT_FAULTS,
};

pub(super) const TURN: KernelDef = KernelDef {
    func_id: 4,
    name: "turn",
    core_type: CoreType::Aic,
    signature: SECOND_MIX,
    entry: kernel_entry::<Turn>,
    reference: Some(&turn_reference),
    tolerance: None,
    faults: FLOAT_FAULTS,
};

/// `projected = state x weights`.
struct Project;

impl KernelBody for Project {
    fn run(args: &Args) {
        let (state, weights) = (args.tensor(0), args.tensor(1));
        let n = weights.dim(0);
        let (state, weights) = (state.load::<f32>(), weights.load::<f32>());
        args.tensor(3).store(&multiply(&state, &weights, n));
    }
}

/// Multiplies rows of a left matrix by an n x n matrix.
fn multiply(left: &[f32], right: &[f32], n: usize) -> Vec<f32> {
    let mut product = vec![0.0; left.len()];
    for (left_row, product_row) in left.chunks_exact(n).zip(product.chunks_exact_mut(n)) {
        for (factor, right_row) in left_row.iter().zip(right.chunks_exact(n)) {
            for (sum, value) in product_row.iter_mut().zip(right_row) {
                *sum += factor * value;
            }
        }
    }
    product
}

fn project_reference(task: &mut RefTask) {
    let n = task.tensors[1].shape[0];
    for at in 0..n * n {
        let (i, j) = (at / n, at % n);
        let terms = (0..n).map(|p| task.tensors[0].values[i * n + p] * task.tensors[1].values[p * n + j]);
        let sum = terms.sum();
        task.tensors[3].values[at] = sum;
    }
}

/// `turned = half x weights'`, for the rows of the block.
struct Turn;

impl KernelBody for Turn {
    fn run(args: &Args) {
        let (half, weights) = (args.tensor(0), args.tensor(1));
        let n = weights.dim(0);
        let rows = rows_of(args.block(), n);
        let half = half.load_range::<f16>(rows.start * n, rows.len() * n);
        let half: Vec<f32> = half.into_iter().map(f16::to_f32).collect();
        let turned = multiply(&half, &transposed(&weights.load::<f32>(), n), n);
        args.tensor(3).store_range(rows.start * n, &turned);
    }
}

fn transposed(matrix: &[f32], n: usize) -> Vec<f32> {
    (0..n * n).map(|at| matrix[at % n * n + at / n]).collect()
}

fn turn_reference(task: &mut RefTask) {
    let n = task.tensors[1].shape[0];
    for at in 0..n * n {
        let (i, j) = (at / n, at % n);
        let terms = (0..n).map(|p| task.tensors[0].values[i * n + p] * task.tensors[1].values[j * n + p]);
        let sum = terms.sum();
        task.tensors[3].values[at] = sum;
    }
}
