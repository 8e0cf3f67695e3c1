//! The vector kernels of `mixed_example`.

use half::f16;
use tensortap_abi::CoreType;
use tensortap_scene::KernelArg::{In, InOut, Out};
use tensortap_scene::{Args, KernelBody, KernelDef, RefTask, kernel_entry};

use super::{FIRST_MIX, FLOAT_FAULTS, INTEGER_FAULTS, MODULUS, SECOND_MIX, rows_of};

pub(super) const BEND: KernelDef = KernelDef {
    func_id: 1,
    name: "bend",
    core_type: CoreType::Aiv,
    signature: FIRST_MIX,
    entry: kernel_entry::<Bend>,
    reference: Some(&bend_reference),
    tolerance: None,
    faults: FLOAT_FAULTS,
};

pub(super) const TALLY: KernelDef = KernelDef {
    func_id: 2,
    name: "tally",
    core_type: CoreType::Aiv,
    signature: FIRST_MIX,
    entry: kernel_entry::<Tally>,
    reference: Some(&tally_reference),
    tolerance: None,
    faults: INTEGER_FAULTS,
};

pub(super) const BLEND: KernelDef = KernelDef {
    func_id: 3,
    name: "blend",
    core_type: CoreType::Aiv,
    signature: &[In("projected"), In("bent"), Out("half")],
    entry: kernel_entry::<Blend>,
    reference: Some(&blend_reference),
    tolerance: None,
    faults: FLOAT_FAULTS,
};

pub(super) const FOLD: KernelDef = KernelDef {
    func_id: 5,
    name: "fold",
    core_type: CoreType::Aiv,
    signature: SECOND_MIX,
    entry: kernel_entry::<Fold>,
    reference: Some(&fold_reference),
    tolerance: None,
    faults: FLOAT_FAULTS,
};

pub(super) const STEP: KernelDef = KernelDef {
    func_id: 6,
    name: "step",
    core_type: CoreType::Aiv,
    signature: SECOND_MIX,
    entry: kernel_entry::<Step>,
    reference: Some(&step_reference),
    tolerance: None,
    faults: INTEGER_FAULTS,
};

pub(super) const JOIN: KernelDef = KernelDef {
    func_id: 7,
    name: "join",
    core_type: CoreType::Aiv,
    signature: &[In("turned"), In("folded"), Out("joined")],
    entry: kernel_entry::<Join>,
    reference: Some(&join_reference),
    tolerance: None,
    faults: FLOAT_FAULTS,
};

// Its outputs are f32 and i32. The fault `nan` affects the first.
pub(super) const SETTLE: KernelDef = KernelDef {
    func_id: 8,
    name: "settle",
    core_type: CoreType::Aiv,
    signature: &[In("joined"), In("stepped"), InOut("state"), Out("counts")],
    entry: kernel_entry::<Settle>,
    reference: Some(&settle_reference),
    tolerance: None,
    faults: FLOAT_FAULTS,
};

/// `bent = state / 2 + 1/4`.
struct Bend;

impl KernelBody for Bend {
    fn run(args: &Args) {
        let mut values = args.tensor(0).load::<f32>();
        for value in &mut values {
            *value = *value * 0.5 + 0.25;
        }
        args.tensor(4).store(&values);
    }
}

fn bend_reference(task: &mut RefTask) {
    task.compute(4, |task, i| (task.tensors[0].values[i] + 0.5) / 2.0);
}

/// `tallied = (3 counts + round + 1) mod 1009`.
struct Tally;

impl KernelBody for Tally {
    fn run(args: &Args) {
        let round = i64::from(args.scalar::<u32>(6));
        let mut counts = args.tensor(2).load::<i32>();
        for count in &mut counts {
            let tallied = (3 * i64::from(*count) + round + 1).rem_euclid(i64::from(MODULUS));
            *count = i32::try_from(tallied).expect("a remainder is small");
        }
        args.tensor(5).store(&counts);
    }
}

fn tally_reference(task: &mut RefTask) {
    let round = f64::from(task.scalar::<u32>(6));
    task.compute(5, |task, i| (task.tensors[2].values[i] * 3.0 + round + 1.0).rem_euclid(1009.0));
}

/// `half = projected + bent` in f16, for the rows of the block.
struct Blend;

impl KernelBody for Blend {
    fn run(args: &Args) {
        let (projected, bent) = (args.tensor(0), args.tensor(1));
        let n = projected.dim(1);
        let rows = rows_of(args.block(), projected.dim(0));
        let (first, len) = (rows.start * n, rows.len() * n);
        let (projected, bent) = (projected.load_range::<f32>(first, len), bent.load_range::<f32>(first, len));
        let half: Vec<f16> = projected.iter().zip(&bent).map(|(p, b)| f16::from_f32(p + b)).collect();
        args.tensor(2).store_range(first, &half);
    }
}

fn blend_reference(task: &mut RefTask) {
    task.compute(2, |task, i| task.tensors[0].values[i] + task.tensors[1].values[i]);
}

/// `folded = max(half, 0)`, for the rows of the block.
struct Fold;

impl KernelBody for Fold {
    fn run(args: &Args) {
        let half = args.tensor(0);
        let n = half.dim(1);
        let rows = rows_of(args.block(), half.dim(0));
        let mut values = half.load_range::<f16>(rows.start * n, rows.len() * n);
        for value in &mut values {
            if *value < f16::ZERO {
                *value = f16::ZERO;
            }
        }
        args.tensor(4).store_range(rows.start * n, &values);
    }
}

fn fold_reference(task: &mut RefTask) {
    task.compute(4, |task, i| task.tensors[0].values[i].max(0.0));
}

/// `stepped = 1008 - tallied`, for the rows of the block.
struct Step;

impl KernelBody for Step {
    fn run(args: &Args) {
        let tallied = args.tensor(2);
        let n = tallied.dim(1);
        let rows = rows_of(args.block(), tallied.dim(0));
        let mut values = tallied.load_range::<i32>(rows.start * n, rows.len() * n);
        for value in &mut values {
            // Wraps only if an injected fault moved the input out of its range.
            *value = (MODULUS - 1).wrapping_sub(*value);
        }
        args.tensor(5).store_range(rows.start * n, &values);
    }
}

fn step_reference(task: &mut RefTask) {
    for i in 0..task.tensors[5].values.len() {
        // Wraps like a 32-bit number, because an injected fault may have moved the input out of its range.
        let stepped = 1008.0 - task.tensors[2].values[i];
        task.tensors[5].values[i] = (stepped + 2_147_483_648.0).rem_euclid(4_294_967_296.0) - 2_147_483_648.0;
    }
}

/// `joined = turned - folded`. AIV0 computes the first half of the elements and AIV1 the rest.
struct Join;

impl KernelBody for Join {
    fn run(args: &Args) {
        let (turned, folded) = (args.tensor(0), args.tensor(1));
        let middle = turned.numel() / 2;
        let part = if args.subtask().subtask_id == 1 { 0..middle } else { middle..turned.numel() };
        let mut joined = turned.load_range::<f32>(part.start, part.len());
        let folded = folded.load_range::<f16>(part.start, part.len());
        for (joined, folded) in joined.iter_mut().zip(folded) {
            *joined -= folded.to_f32();
        }
        args.tensor(2).store_range(part.start, &joined);
    }
}

/// Computes both halves. It runs once per slot, with the same result.
fn join_reference(task: &mut RefTask) {
    task.compute(2, |task, i| task.tensors[0].values[i] - task.tensors[1].values[i]);
}

/// `state += joined / 2` in place and `counts = stepped`, for the rows of the block.
struct Settle;

impl KernelBody for Settle {
    fn run(args: &Args) {
        let state = args.tensor(2);
        let n = state.dim(1);
        let rows = rows_of(args.block(), state.dim(0));
        let (first, len) = (rows.start * n, rows.len() * n);
        let joined = args.tensor(0).load_range::<f32>(first, len);
        let mut values = state.load_range::<f32>(first, len);
        for (value, joined) in values.iter_mut().zip(&joined) {
            *value += 0.5 * joined;
        }
        state.store_range(first, &values);
        args.tensor(3).store_range(first, &args.tensor(1).load_range::<i32>(first, len));
    }
}

fn settle_reference(task: &mut RefTask) {
    for i in 0..task.tensors[2].values.len() {
        task.tensors[2].values[i] += task.tensors[0].values[i] / 2.0;
        task.tensors[3].values[i] = task.tensors[1].values[i];
    }
}
