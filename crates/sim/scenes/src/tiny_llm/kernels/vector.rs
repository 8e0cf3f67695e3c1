//! Kernels that process one vector.

use half::bf16;
use tensortap_scene::{Args, KernelBody};

/// `token [1]`, `table [vocab, hidden]` to `x [hidden]`.
///
/// A token outside the vocabulary, which only a damaged `argmax` writes, is clamped, so that the kernel does
/// not read outside its tensor.
pub(super) struct Embed;

impl KernelBody for Embed {
    fn run(args: &Args) {
        let (token, table, x) = (args.tensor(0), args.tensor(1), args.tensor(2));
        let (vocab, hidden) = (table.dim(0), table.dim(1));
        let row = usize::try_from(token.load_one::<i32>(0)).unwrap_or(0).min(vocab - 1);
        let values = table.load_range::<bf16>(row * hidden, hidden);
        x.store(&values.into_iter().map(bf16::to_f32).collect::<Vec<_>>());
    }
}

/// `x [hidden]`, `gain [hidden]` to `y [hidden]`, with the scalar `epsilon`.
pub(super) struct RmsNorm;

impl KernelBody for RmsNorm {
    fn run(args: &Args) {
        let (x, gain) = (args.tensor(0).load::<f32>(), args.tensor(1).load::<f32>());
        let epsilon: f32 = args.scalar(3);
        let mean_square = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
        let factor = (mean_square + epsilon).sqrt().recip();
        let y: Vec<f32> = x.iter().zip(gain).map(|(x, g)| x * factor * g).collect();
        args.tensor(2).store(&y);
    }
}

/// `x += delta`.
pub(super) struct AddResidual;

impl KernelBody for AddResidual {
    fn run(args: &Args) {
        let (x, delta) = (args.tensor(0), args.tensor(1).load::<f32>());
        let sum: Vec<f32> = x.load::<f32>().into_iter().zip(delta).map(|(x, d)| x + d).collect();
        x.store(&sum);
    }
}

/// `gate [ffn]`, `up [ffn]` to `silu(gate) * up`.
pub(super) struct Swiglu;

impl KernelBody for Swiglu {
    fn run(args: &Args) {
        let (gate, up) = (args.tensor(0).load::<f32>(), args.tensor(1).load::<f32>());
        let out: Vec<f32> = gate.into_iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
        args.tensor(2).store(&out);
    }
}

/// `logits [vocab]` to `token [1]`: the first index of the largest logit.
pub(super) struct Argmax;

impl KernelBody for Argmax {
    fn run(args: &Args) {
        let logits = args.tensor(0).load::<f32>();
        let (mut best, mut greatest) = (0, f32::NEG_INFINITY);
        for (token, &logit) in (0_i32..).zip(&logits) {
            if logit > greatest {
                (best, greatest) = (token, logit);
            }
        }
        args.tensor(1).store(&[best]);
    }
}
