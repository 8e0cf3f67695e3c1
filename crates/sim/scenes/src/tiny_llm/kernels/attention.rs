//! Kernels of grouped-query attention over the KV cache.

use half::f16;
use tensortap_scene::{Args, Element, KernelBody, TensorArg};

/// Rotates each head of `values`. Element `i` is paired with the element half a head later, and the angle is
/// `position * base^(-2i/head_dim)`.
fn rotate(values: &mut [f32], head_dim: usize, position: u32, base: f32) {
    let half = head_dim / 2;
    for i in 0..half {
        // In f64, because late positions turn by many radians, and f32 would lose the phase.
        let exponent = -(i as f64) / half as f64;
        let angle = f64::from(position) * f64::from(base).powf(exponent);
        let (sin, cos) = (f32::from_f64(angle.sin()), f32::from_f64(angle.cos()));
        for head in values.chunks_exact_mut(head_dim) {
            let (a, b) = (head[i], head[i + half]);
            head[i] = a * cos - b * sin;
            head[i + half] = a * sin + b * cos;
        }
    }
}

/// Rotates `q [heads, head_dim]` in place, with the scalars `position` and `base`.
pub(super) struct Rope;

impl KernelBody for Rope {
    fn run(args: &Args) {
        let q = args.tensor(0);
        let mut values = q.load::<f32>();
        rotate(&mut values, q.dim(1), args.scalar(1), args.scalar(2));
        q.store(&values);
    }
}

/// Writes `k` (rotated) and `v`, both `[kv_heads, head_dim]`, to the rows of the f16 caches for `position`.
/// Scalars `position` and `base`.
pub(super) struct AppendKv;

impl KernelBody for AppendKv {
    fn run(args: &Args) {
        let [k, v, k_row, v_row] = [0, 1, 2, 3].map(|slot| args.tensor(slot));
        let mut keys = k.load::<f32>();
        rotate(&mut keys, k.dim(1), args.scalar(4), args.scalar(5));
        store_narrow(&k_row, &keys);
        store_narrow(&v_row, &v.load::<f32>());
    }
}

fn store_narrow(tensor: &TensorArg, values: &[f32]) {
    tensor.store(&values.iter().map(|&v| f16::from_f32(v)).collect::<Vec<_>>());
}

fn load_wide(tensor: &TensorArg) -> Vec<f32> {
    tensor.load::<f16>().into_iter().map(f16::to_f32).collect()
}

/// `q [group, head_dim]`, `k [length, head_dim]` to `scores [group, length]`, divided by `sqrt(head_dim)`.
pub(super) struct AttentionScores;

impl KernelBody for AttentionScores {
    fn run(args: &Args) {
        let (q, k, scores) = (args.tensor(0), args.tensor(1), args.tensor(2));
        let head_dim = q.dim(1);
        let scale = (head_dim as f32).sqrt().recip();
        let (q, k) = (q.load::<f32>(), load_wide(&k));
        let mut out = Vec::with_capacity(scores.numel());
        for query in q.chunks_exact(head_dim) {
            let dot = |key: &[f32]| query.iter().zip(key).map(|(q, k)| q * k).sum::<f32>();
            out.extend(k.chunks_exact(head_dim).map(|key| dot(key) * scale));
        }
        scores.store(&out);
    }
}

/// `scores [group, length]` to weights with the same shape whose rows sum to one.
pub(super) struct Softmax;

impl KernelBody for Softmax {
    fn run(args: &Args) {
        let (scores, weights) = (args.tensor(0), args.tensor(1));
        let mut values = scores.load::<f32>();
        for row in values.chunks_exact_mut(scores.dim(1)) {
            let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            row.iter_mut().for_each(|s| *s = (*s - max).exp());
            let sum: f32 = row.iter().sum();
            row.iter_mut().for_each(|w| *w /= sum);
        }
        weights.store(&values);
    }
}

/// `weights [group, length]`, `v [length, head_dim]` to `context [group, head_dim]`.
pub(super) struct AttentionValues;

impl KernelBody for AttentionValues {
    fn run(args: &Args) {
        let (weights, v, context) = (args.tensor(0), args.tensor(1), args.tensor(2));
        let (length, head_dim) = (v.dim(0), v.dim(1));
        let (weights, v) = (weights.load::<f32>(), load_wide(&v));
        let mut out = vec![0.0; context.numel()];
        for (row, weights) in out.chunks_exact_mut(head_dim).zip(weights.chunks_exact(length)) {
            for (weight, value) in weights.iter().zip(v.chunks_exact(head_dim)) {
                row.iter_mut().zip(value).for_each(|(o, v)| *o += weight * v);
            }
        }
        context.store(&out);
    }
}
