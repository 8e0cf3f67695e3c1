//! `y [columns] = x [rows] · w [rows, columns]`, with weights of several dtypes.

use half::{bf16, f16};
use tensortap_scene::{Args, Element, KernelBody, TensorArg};

/// Row by row, so that the inner loop runs over adjacent columns.
fn multiply<W: Element>(x: &TensorArg, w: &TensorArg, widen: impl Fn(W) -> f32) -> Vec<f32> {
    let columns = w.dim(1);
    let (x, w) = (x.load::<f32>(), w.load::<W>());
    let mut y = vec![0.0; columns];
    for (x, row) in x.iter().zip(w.chunks_exact(columns)) {
        y.iter_mut().zip(row).for_each(|(y, &w)| *y += x * widen(w));
    }
    y
}

/// `x`, `w` to `y`, with bf16 weights.
pub(super) struct ProjectBf16;

impl KernelBody for ProjectBf16 {
    fn run(args: &Args) {
        let y = multiply(&args.tensor(0), &args.tensor(1), bf16::to_f32);
        args.tensor(2).store(&y);
    }
}

/// `x`, `w` to `y`, with f16 weights.
pub(super) struct ProjectF16;

impl KernelBody for ProjectF16 {
    fn run(args: &Args) {
        let y = multiply(&args.tensor(0), &args.tensor(1), f16::to_f32);
        args.tensor(2).store(&y);
    }
}

/// `x`, `w`, `scale [columns]` to `y`, with i8 weights. The scale of a column multiplies its sum.
pub(super) struct ProjectI8;

impl KernelBody for ProjectI8 {
    fn run(args: &Args) {
        let mut y = multiply(&args.tensor(0), &args.tensor(1), <f32 as From<i8>>::from);
        let scale = args.tensor(2).load::<f32>();
        y.iter_mut().zip(scale).for_each(|(y, s)| *y *= s);
        args.tensor(3).store(&y);
    }
}
