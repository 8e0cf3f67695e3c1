use half::bf16;
use tensortap_abi::CoreType;
use tensortap_scene::KernelArg::{In, InOut, Out, Scalar};
use tensortap_scene::{Args, FaultKind, KernelBody, KernelDef, TensorArg, Tolerance, kernel_entry};

use super::reference;

/// Tolerance for sums of up to 256 signed products in f32. The error depends on the magnitudes of the terms,
/// which add up to about 24, and not on the result.
const LONG_SUM: Option<Tolerance> = Some(Tolerance { rtol: 1.3e-6, atol: 3e-5 });

pub(super) static QK: KernelDef = KernelDef {
    func_id: 0,
    name: "qk",
    core_type: CoreType::Aic,
    signature: &[In("q"), In("k"), Out("scores"), Scalar("scale")],
    entry: kernel_entry::<Qk>,
    reference: Some(&reference::qk),
    tolerance: LONG_SUM,
    faults: &FaultKind::ALL,
};

pub(super) static SOFTMAX: KernelDef = KernelDef {
    func_id: 1,
    name: "softmax",
    core_type: CoreType::Aiv,
    signature: &[In("scores"), Out("p"), Out("m"), Out("l"), Scalar("valid")],
    entry: kernel_entry::<Softmax>,
    reference: Some(&reference::softmax),
    tolerance: None,
    faults: &FaultKind::ALL,
};

pub(super) static PV: KernelDef = KernelDef {
    func_id: 2,
    name: "pv",
    core_type: CoreType::Aic,
    signature: &[In("p"), In("v"), Out("partial")],
    entry: kernel_entry::<Pv>,
    reference: Some(&reference::pv),
    tolerance: LONG_SUM,
    faults: &FaultKind::ALL,
};

pub(super) static ONLINE_UPDATE: KernelDef = KernelDef {
    func_id: 3,
    name: "online_update",
    core_type: CoreType::Aiv,
    signature: &[
        In("m"),
        In("l"),
        In("partial"),
        InOut("running_max"),
        InOut("running_sum"),
        InOut("accumulator"),
        InOut("out"),
        Scalar("is_first"),
        Scalar("is_last"),
    ],
    entry: kernel_entry::<OnlineUpdate>,
    reference: Some(&reference::online_update),
    tolerance: None,
    faults: &FaultKind::ALL,
};

pub(super) static ALL: [KernelDef; 4] = [QK, SOFTMAX, PV, ONLINE_UPDATE];

/// Number of partial sums. The compiler vectorizes them, and shorter sums have smaller rounding errors.
const LANES: usize = 8;

fn load_wide(tensor: &TensorArg) -> Vec<f32> {
    tensor.load::<bf16>().into_iter().map(bf16::to_f32).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            lanes[lane] += x[lane] * y[lane];
        }
    }
    lanes.iter().sum::<f32>() + tail
}

fn sum(values: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let chunks = values.chunks_exact(LANES);
    let tail: f32 = chunks.remainder().iter().sum();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] += chunk[lane];
        }
    }
    lanes.iter().sum::<f32>() + tail
}

/// `q [heads, head_dim]`, `k [heads, block, head_dim]` to `scores [heads, block]`, with the scalar `scale`.
struct Qk;

impl KernelBody for Qk {
    fn run(args: &Args) {
        let (q, k, scores) = (args.tensor(0), args.tensor(1), args.tensor(2));
        let scale: f32 = args.scalar(3);
        let (block, head_dim) = (k.dim(1), k.dim(2));
        let (q, k) = (load_wide(&q), load_wide(&k));
        let mut out = Vec::with_capacity(scores.numel());
        for (query, keys) in q.chunks_exact(head_dim).zip(k.chunks_exact(block * head_dim)) {
            out.extend(keys.chunks_exact(head_dim).map(|key| dot(query, key) * scale));
        }
        scores.store(&out);
    }
}

/// `scores [heads, block]` to `p [heads, block]`, `m [heads]` and `l [heads]`, over the first `valid`
/// positions.
///
/// `l` is the sum of `p` before rounding.
struct Softmax;

impl KernelBody for Softmax {
    fn run(args: &Args) {
        let [scores, p, m, l] = [0, 1, 2, 3].map(|slot| args.tensor(slot));
        let valid = args.scalar::<u32>(4) as usize;
        let block = scores.dim(1);
        let mut weights = scores.load::<f32>();
        let (mut row_max, mut row_sum) = (Vec::new(), Vec::new());
        for row in weights.chunks_exact_mut(block) {
            let (seen, masked) = row.split_at_mut(valid);
            let max = seen.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            seen.iter_mut().for_each(|s| *s = (*s - max).exp());
            masked.fill(0.0);
            row_max.push(max);
            row_sum.push(sum(seen));
        }
        p.store(&weights.into_iter().map(bf16::from_f32).collect::<Vec<_>>());
        m.store(&row_max);
        l.store(&row_sum);
    }
}

/// `p [heads, block]`, `v [heads, block, head_dim]` to `partial [heads, head_dim]`.
struct Pv;

impl KernelBody for Pv {
    fn run(args: &Args) {
        let (p, v, partial) = (args.tensor(0), args.tensor(1), args.tensor(2));
        let (block, head_dim) = (v.dim(1), v.dim(2));
        let (p, v) = (load_wide(&p), load_wide(&v));
        let mut out = vec![0.0_f32; partial.numel()];
        let heads = p.chunks_exact(block).zip(v.chunks_exact(block * head_dim));
        for (row, (weights, values)) in out.chunks_exact_mut(head_dim).zip(heads) {
            for (weight, value) in weights.iter().zip(values.chunks_exact(head_dim)) {
                row.iter_mut().zip(value).for_each(|(o, v)| *o += weight * v);
            }
        }
        partial.store(&out);
    }
}

/// Merges `m`, `l` and `partial` of one block into the running maximum, sum and accumulator of the sequence.
/// The last block writes the quotient to `out`. Scalars `is_first` and `is_last`.
///
/// The first block does not read the accumulators, which are uninitialized.
struct OnlineUpdate;

struct Accumulators {
    max: Vec<f32>,
    sum: Vec<f32>,
    accumulator: Vec<f32>,
}

impl Accumulators {
    fn load(max: &TensorArg, sum: &TensorArg, accumulator: &TensorArg) -> Accumulators {
        Accumulators { max: max.load(), sum: sum.load(), accumulator: accumulator.load() }
    }

    fn merge(&mut self, block: &Accumulators, head_dim: usize) {
        for head in 0..self.max.len() {
            let max = self.max[head].max(block.max[head]);
            let (old, new) = ((self.max[head] - max).exp(), (block.max[head] - max).exp());
            self.max[head] = max;
            self.sum[head] = old * self.sum[head] + new * block.sum[head];
            let row = head * head_dim..(head + 1) * head_dim;
            let partial = &block.accumulator[row.clone()];
            self.accumulator[row].iter_mut().zip(partial).for_each(|(a, p)| *a = old * *a + new * p);
        }
    }

    fn quotient(&self, head_dim: usize) -> Vec<bf16> {
        let rows = self.accumulator.chunks_exact(head_dim).zip(&self.sum);
        rows.flat_map(|(row, sum)| row.iter().map(move |a| bf16::from_f32(a / sum))).collect()
    }
}

impl KernelBody for OnlineUpdate {
    fn run(args: &Args) {
        let [max, sum, accumulator, out] = [3, 4, 5, 6].map(|slot| args.tensor(slot));
        let [is_first, is_last] = [7, 8].map(|slot| args.scalar::<u8>(slot) != 0);
        let head_dim = out.dim(1);
        let block = Accumulators::load(&args.tensor(0), &args.tensor(1), &args.tensor(2));
        let running = if is_first {
            block
        } else {
            let mut running = Accumulators::load(&max, &sum, &accumulator);
            running.merge(&block, head_dim);
            running
        };
        max.store(&running.max);
        sum.store(&running.sum);
        accumulator.store(&running.accumulator);
        if is_last {
            out.store(&running.quotient(head_dim));
        }
    }
}
