//! `every_dtype`: tensors of every dtype through strided views: reversed, repeated, with gaps and transposed.
//!
//! The kernels move and compare raw bits and work with any dtype. The meaning of a dtype comes from
//! `tensortap_values`. The golden and the references share no code with that crate.

use std::sync::LazyLock;

use tensortap_abi::{CoreType, DType, DTypeKind, TopExponent};
use tensortap_scene::FaultKind::{Last, Nan, Overflow, Shift, Sign, Stale};
use tensortap_scene::KernelArg::{In, Out};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Scene, kernel_entry, scene_facts,
};
use tensortap_values::{encode_block, ordinal, put_element_bits};

use crate::inputs::{SEED, rng};

// Odd sizes, so that the last byte of 4-bit elements is half full, and rows start in the middle of a byte.
const ROWS: u64 = 5;
const COLS: u64 = 7;

/// The scene `every_dtype`: `y[c, r] = max(x[ROWS-1-r, COLS-1-c], x[0, c])`, for every dtype. Of two complex
/// numbers, the one with the greater real part is greater, then the one with the greater imaginary part.
pub struct EveryDtype;

/// A dtype with the names of its arguments.
struct Case {
    dtype: DType,
    x: String,
    y: String,
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let case = |dtype: DType| Case { dtype, x: format!("x_{dtype}"), y: format!("y_{dtype}") };
    DType::ALL.into_iter().map(case).collect()
});

/// The selected dtypes.
fn cases(params: &Params) -> impl Iterator<Item = &'static Case> {
    let word = params.word("dtype").to_string();
    CASES.iter().filter(move |case| word == "all" || case.dtype.name() == word)
}

/// `all`, followed by the names of all dtypes.
const WORDS: [&str; DType::ALL.len() + 1] = {
    let mut words = ["all"; DType::ALL.len() + 1];
    let mut at = 0;
    while at < DType::ALL.len() {
        words[at + 1] = DType::ALL[at].name();
        at += 1;
    }
    words
};

impl Scene for EveryDtype {
    scene_facts! {
        name: "every_dtype",
        about: "tensors of every dtype through reversed, repeated, spread and transposed views",
        params: &[ParamSpec::choice("dtype", "all", &WORDS, "element type of the tensors, or all of them"), SEED],
        kernels: &[REARRANGE, GREATER],
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let both = |case: &'static Case| {
            [
                ArgSpec::input(&case.x, case.dtype, &[ROWS, COLS]),
                ArgSpec::output(&case.y, case.dtype, &[COLS, ROWS]),
            ]
        };
        cases(params).flat_map(both).collect()
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        for case in cases(params) {
            fill(case.dtype, &mut rng(params, &case.x), args.get_mut(&case.x));
        }
    }

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        for case in cases(params) {
            let (x, y) = (o.arg(&case.x)?, o.arg(&case.y)?);
            o.scope(case.dtype.name(), |o| {
                let reversed = x.slice_step(0, ROWS - 1, ROWS, -1)?.slice_step(1, COLS - 1, COLS, -1)?;
                let flipped = o.tensor(case.dtype, &[ROWS, COLS])?;
                let flip = o.task(&REARRANGE).task_name("flip").input(&reversed).output(&flipped).submit()?;
                let repeated = x.slice(0, 0, 1)?.broadcast(0, ROWS)?;
                let spread = o.tensor(case.dtype, &[ROWS, 2 * COLS])?.slice_step(1, 1, COLS, 2)?;
                let repeat =
                    o.task(&REARRANGE).task_name("repeat").input(&repeated).output(&spread).submit()?;
                let (left, right) = (flipped.transpose(0, 1)?, spread.transpose(0, 1)?);
                let greater = o.task(&GREATER).task_name("greater").input(&left).input(&right).output(&y);
                greater.after(flip).after(repeat).submit()?;
                Ok(())
            })?;
        }
        Ok(())
    }

    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        let golden = |case: &Case| {
            let (x, mut y) = (inputs.get(&case.x), HostTensor::zeros(&case.y, case.dtype, &[COLS, ROWS]));
            for c in 0..COLS {
                for r in 0..ROWS {
                    let reversed = pattern(x, (ROWS - 1 - r) * COLS + COLS - 1 - c);
                    let first = pattern(x, c);
                    let greater = if sort_keys(case.dtype, first) > sort_keys(case.dtype, reversed) {
                        first
                    } else {
                        reversed
                    };
                    set_pattern(&mut y, c * ROWS + r, greater);
                }
            }
            y
        };
        Some(cases(params).map(golden).collect())
    }
}

/// Fills with numbers, without NaN and infinities. Wide floats are near 1, because damage near zero would be
/// within the tolerance.
fn fill(dtype: DType, rng: &mut fastrand::Rng, x: &mut HostTensor) {
    let dtype = dtype.part();
    let numel = x.bytes.len() * 8 / dtype.bits() as usize;
    if dtype.is_float() && dtype.bits() >= 16 {
        let values: Vec<f64> =
            (0..numel).map(|_| rng.f64().mul_add(5.5, 0.5) * if rng.bool() { 1.0 } else { -1.0 }).collect();
        encode_block(dtype, &values, &mut x.bytes);
        return;
    }
    let is_number = |bits: u64| match dtype.kind() {
        DTypeKind::Float(format) => {
            let magnitude = bits & ((1 << (dtype.bits() - 1)) - 1);
            let top = ((1 << format.exponent_bits) - 1) << format.mantissa_bits;
            match format.top {
                TopExponent::Ieee => magnitude < top,
                TopExponent::OneNan => magnitude < (1 << (dtype.bits() - 1)) - 1,
                TopExponent::Finite => true,
                TopExponent::NegativeZeroNan => bits != 1 << (dtype.bits() - 1),
                // Neighbors of 1. The whole range would make damage smaller than a tolerance.
                TopExponent::PowerOfTwo => (100..150).contains(&bits),
            }
        }
        DTypeKind::Bool => bits < 2,
        DTypeKind::Signed | DTypeKind::Unsigned | DTypeKind::Complex(_) => true,
    };
    for position in 0..numel {
        let patterns = u64::MAX >> (64 - dtype.bits());
        let bits = std::iter::repeat_with(|| rng.u64(..) & patterns).find(|&bits| is_number(bits));
        put_element_bits(dtype, &mut x.bytes, position, bits.unwrap_or(0).into());
    }
}

/// The bits of an element.
fn pattern(tensor: &HostTensor, position: u64) -> u128 {
    let width = u64::from(tensor.dtype.bits());
    (0..width).fold(0, |pattern, bit| {
        let at = position * width + bit;
        let byte = tensor.bytes[usize::try_from(at / 8).expect("in memory")];
        pattern | u128::from(byte >> (at % 8) & 1) << bit
    })
}

/// Sets the bits of an element that is zero.
fn set_pattern(tensor: &mut HostTensor, position: u64, pattern: u128) {
    let width = u64::from(tensor.dtype.bits());
    for bit in (0..width).filter(|bit| pattern >> bit & 1 == 1) {
        let at = position * width + bit;
        tensor.bytes[usize::try_from(at / 8).expect("in memory")] |= 1 << (at % 8);
    }
}

/// Numbers that order elements by value: one for each part.
fn sort_keys(dtype: DType, pattern: u128) -> [i128; 2] {
    let width = dtype.part().bits();
    let part = |place: u32| sort_key(dtype.part(), pattern >> (place * width) & (u128::MAX >> (128 - width)));
    [part(0), if dtype.is_complex() { part(1) } else { 0 }]
}

/// A number that orders elements by value: floats are sign and magnitude, integers two's complement.
fn sort_key(dtype: DType, pattern: u128) -> i128 {
    let (pattern, sign) = (i128::try_from(pattern).expect("at most 64 bits"), 1_i128 << (dtype.bits() - 1));
    match dtype.kind() {
        DTypeKind::Float(format) if !format.has_sign() => pattern,
        DTypeKind::Float(_) if pattern >= sign => sign - pattern,
        DTypeKind::Signed if pattern >= sign => pattern - 2 * sign,
        _ => pattern,
    }
}

const REARRANGE: KernelDef = KernelDef {
    func_id: 0,
    name: "rearrange",
    core_type: CoreType::Aiv,
    signature: &[In("from"), Out("to")],
    entry: kernel_entry::<Rearrange>,
    reference: Some(&rearrange_reference),
    tolerance: None,
    faults: &[Sign, Last, Stale, Nan, Shift, Overflow],
};

const GREATER: KernelDef = KernelDef {
    func_id: 1,
    name: "greater",
    core_type: CoreType::Aiv,
    signature: &[In("left"), In("right"), Out("greater")],
    entry: kernel_entry::<Greater>,
    reference: Some(&greater_reference),
    tolerance: None,
    faults: &[Sign, Last, Stale, Nan, Shift, Overflow],
};

/// `to = from`, element by element, between two views.
struct Rearrange;

impl KernelBody for Rearrange {
    fn run(args: &Args) {
        args.tensor(1).store_bits(&args.tensor(0).load_bits());
    }
}

fn rearrange_reference(task: &mut RefTask) {
    task.tensors[1].values = task.tensors[0].values.clone();
}

/// The greater of two elements, or the left one if they are equal.
struct Greater;

impl KernelBody for Greater {
    fn run(args: &Args) {
        let left = args.tensor(0);
        let dtype = left.dtype();
        let pairs = left.load_bits().into_iter().zip(args.tensor(1).load_bits());
        let greater: Vec<u128> = pairs
            .map(|(left, right)| if order(dtype, right) > order(dtype, left) { right } else { left })
            .collect();
        args.tensor(2).store_bits(&greater);
    }
}

/// The positions of an element's parts among the values of their dtype.
fn order(dtype: DType, bits: u128) -> [Option<i64>; 2] {
    let width = dtype.part().bits();
    let low = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).expect("masked");
    let imaginary = dtype.is_complex().then(|| ordinal(dtype.part(), low(bits >> width)));
    [ordinal(dtype.part(), low(bits)), imaginary.flatten()]
}

fn greater_reference(task: &mut RefTask) {
    let parts = task.tensors[2].dtype.parts() as usize;
    let [left, right, greater] = &mut task.tensors[..] else { panic!("a task of three tensors") };
    let pairs = left.values.chunks(parts).zip(right.values.chunks(parts));
    for (greater, (left, right)) in greater.values.chunks_mut(parts).zip(pairs) {
        greater.copy_from_slice(if right > left { right } else { left });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{self, params, recorded};

    #[test]
    fn passes_all_scene_checks() {
        checks::all(&EveryDtype, &[&[], &[("seed", "5")], &[("dtype", "int4")]]);
        checks::faults_that_show_are_listed(&EveryDtype);
    }

    #[test]
    fn each_single_dtype_matches_its_golden_bit_for_bit() {
        for dtype in DType::ALL {
            let given = [("dtype", dtype.name())];
            let mut graph = recorded(&EveryDtype, &given);
            assert_eq!(graph.len(), 3, "{dtype}");
            graph.run().unwrap();
            let params = params(&EveryDtype, &given);
            let golden = EveryDtype.golden(&params, &EveryDtype.host_args(&params)).unwrap();
            let [golden] = golden.as_slice() else { panic!("{dtype}: one output") };
            assert_eq!(golden.dtype, dtype);
            assert_eq!(graph.arg_bytes(&golden.name).as_ref(), Some(&golden.bytes), "{dtype}");
        }
    }

    #[test]
    fn views_are_reversed_repeated_spread_and_transposed() {
        let graph = recorded(&EveryDtype, &[("dtype", "float4_e2m1")]);
        let strides = |task: usize, arg: usize| graph.tensors(task)[arg].0.dim_strides().to_vec();
        assert_eq!((strides(0, 0), strides(0, 1)), (vec![-7, -1], vec![7, 1]));
        assert_eq!((strides(1, 0), strides(1, 1)), (vec![0, 1], vec![14, 2]));
        assert_eq!((strides(2, 0), strides(2, 1), strides(2, 2)), (vec![1, 7], vec![2, 14], vec![5, 1]));
    }

    #[test]
    fn unknown_dtypes_are_refused() {
        checks::refused(&EveryDtype, &[("dtype", "float31")], "dtype");
    }
}
