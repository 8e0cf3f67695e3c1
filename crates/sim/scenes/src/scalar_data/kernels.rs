//! Kernels that write the scalars that they receive to tensors.

use half::{bf16, f16};
use tensortap_abi::{DType, MAX_SCALARS};
use tensortap_scene::FaultKind::{Last, Nan, Overflow, Race, Shift, Sign, Stale};
use tensortap_scene::KernelArg::{self, In, Out, Scalar};
use tensortap_scene::{Args, Element, KernelBody, KernelDef, RefTask, Tolerance, kernel_entry};

use tensortap_values::to_f64;

use super::{COUNT, CoreType, WEIGHED};

/// A tensor per dtype, followed by `COUNT` scalars for each.
macro_rules! writes {
    ($($dtype:literal),+) => {
        &[
            $(Out($dtype),)+
            $(
                Scalar(concat!($dtype, "_0")),
                Scalar(concat!($dtype, "_1")),
                Scalar(concat!($dtype, "_2")),
                Scalar(concat!($dtype, "_3")),
                Scalar(concat!($dtype, "_4")),
                Scalar(concat!($dtype, "_5")),
            )+
        ]
    };
}

/// A tensor, followed by as many scalars as a payload holds.
macro_rules! words {
    ($($number:literal)+) => {
        &[Out("halves"), $(Scalar(concat!("word_", $number))),+]
    };
}

const WORDS: &[KernelArg] =
    words!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
const _: () = assert!(WORDS.len() == 1 + MAX_SCALARS);

// Scalars come from the payload and not from memory. So the fault `shift` affects only `weigh`, which reads a
// tensor.

pub(super) const WRITE_FLOATS: KernelDef = KernelDef {
    func_id: 0,
    name: "write_floats",
    core_type: CoreType::Aiv,
    signature: writes!("f64", "f32", "f16", "bf16"),
    entry: kernel_entry::<WriteFloats>,
    reference: Some(&write_reference),
    tolerance: Some(Tolerance::EXACT),
    faults: &[Sign, Last, Stale, Nan, Overflow],
};

pub(super) const WRITE_SIGNED: KernelDef = KernelDef {
    func_id: 1,
    name: "write_signed",
    core_type: CoreType::Aiv,
    signature: writes!("i64", "i32", "i16", "i8"),
    entry: kernel_entry::<WriteSigned>,
    reference: Some(&write_reference),
    tolerance: Some(Tolerance::EXACT),
    faults: &[Sign, Last, Stale, Overflow, Race],
};

pub(super) const WRITE_UNSIGNED: KernelDef = KernelDef {
    func_id: 2,
    name: "write_unsigned",
    core_type: CoreType::Aiv,
    signature: writes!("u64", "u32", "u16", "u8", "bool"),
    entry: kernel_entry::<WriteUnsigned>,
    reference: Some(&write_reference),
    tolerance: Some(Tolerance::EXACT),
    faults: &[Sign, Last, Stale, Overflow],
};

pub(super) const SPLIT_WORDS: KernelDef = KernelDef {
    func_id: 3,
    name: "split_words",
    core_type: CoreType::Aiv,
    signature: WORDS,
    entry: kernel_entry::<SplitWords>,
    reference: Some(&split_words_reference),
    tolerance: Some(Tolerance::EXACT),
    faults: &[Sign, Last, Stale, Overflow],
};

pub(super) const WEIGH: KernelDef = KernelDef {
    func_id: 4,
    name: "weigh",
    core_type: CoreType::Aiv,
    signature: &[
        In("base"),
        Out("weighed"),
        Scalar("f64"),
        Scalar("f32"),
        Scalar("f16"),
        Scalar("bf16"),
        Scalar("i64"),
        Scalar("i32"),
        Scalar("i16"),
        Scalar("i8"),
        Scalar("u64"),
        Scalar("u32"),
        Scalar("u16"),
        Scalar("u8"),
        Scalar("bool"),
        Scalar("e4m3"),
        Scalar("e5m2"),
        Scalar("e2m1"),
        Scalar("i4"),
    ],
    entry: kernel_entry::<Weigh>,
    reference: Some(&weigh_reference),
    tolerance: Some(Tolerance::EXACT),
    faults: &[Sign, Last, Stale, Nan, Shift, Overflow],
};

pub(super) const WRITE_SMALL: KernelDef = KernelDef {
    func_id: 5,
    name: "write_small",
    core_type: CoreType::Aiv,
    signature: writes!("e4m3", "e5m2", "e2m1", "i4"),
    entry: kernel_entry::<WriteSmall>,
    reference: Some(&write_reference),
    tolerance: Some(Tolerance::EXACT),
    faults: &[Sign, Last, Stale, Nan, Overflow],
};

/// Stores the scalars of tensor `index`, out of `tensors`.
fn write<T: Element>(args: &Args, index: usize, tensors: usize) {
    let first = tensors + index * COUNT;
    let values: [T; COUNT] = std::array::from_fn(|i| args.scalar(first + i));
    args.tensor(index).store(&values);
}

struct WriteFloats;

impl KernelBody for WriteFloats {
    fn run(args: &Args) {
        write::<f64>(args, 0, 4);
        write::<f32>(args, 1, 4);
        write::<f16>(args, 2, 4);
        write::<bf16>(args, 3, 4);
    }
}

struct WriteSigned;

impl KernelBody for WriteSigned {
    fn run(args: &Args) {
        write::<i64>(args, 0, 4);
        write::<i32>(args, 1, 4);
        write::<i16>(args, 2, 4);
        write::<i8>(args, 3, 4);
    }
}

struct WriteUnsigned;

impl KernelBody for WriteUnsigned {
    fn run(args: &Args) {
        write::<u64>(args, 0, 5);
        write::<u32>(args, 1, 5);
        write::<u16>(args, 2, 5);
        write::<u8>(args, 3, 5);
        write::<u8>(args, 4, 5);
    }
}

/// Works on bits, so no Rust type is needed.
struct WriteSmall;

impl KernelBody for WriteSmall {
    fn run(args: &Args) {
        let scalars = args.words()[4..].chunks(COUNT);
        for (index, words) in (0..4).zip(scalars) {
            let bits: Vec<u128> = words.iter().map(|&word| word.into()).collect();
            args.tensor(index).store_bits(&bits);
        }
    }
}

/// Each tensor gets the scalars that follow those of the previous tensor.
fn write_reference(task: &mut RefTask) {
    let scalars = task.scalars.clone();
    let values: Vec<f64> = scalars.iter().map(|s| value_of(s.dtype, s.bits)).collect();
    for (tensor, values) in task.tensors.iter_mut().zip(values.chunks(COUNT)) {
        tensor.values.copy_from_slice(values);
    }
}

/// The f64 value of raw bits with a dtype.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "the low bits are the value; integers past 2^53 are rounded on both sides of a comparison"
)]
fn value_of(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::Float64 => f64::from_bits(bits),
        DType::Float32 => f32::from_bits(bits as u32).into(),
        DType::Float16 => f16::from_bits(bits as u16).into(),
        DType::BFloat16 => bf16::from_bits(bits as u16).into(),
        DType::Int64 => bits as i64 as f64,
        DType::Int32 => f64::from(bits as i32),
        DType::Int16 => f64::from(bits as i16),
        DType::Int8 => f64::from(bits as i8),
        DType::Int4 => f64::from(bits as i8) - if bits >= 8 { 16.0 } else { 0.0 },
        DType::Float8E4M3FN if bits & 0x7f == 0x7f => f64::NAN,
        DType::Float8E4M3FN => small_float(bits, 4, 3),
        DType::Float8E5M2 if bits & 0x7f == 0x7c => {
            if bits == 0x7c {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            }
        }
        DType::Float8E5M2 if bits & 0x7f > 0x7c => f64::NAN,
        DType::Float8E5M2 => small_float(bits, 5, 2),
        DType::Float4E2M1 => small_float(bits, 2, 1),
        _ => bits as f64,
    }
}

/// The value of a small finite float, by the definition of its fields.
fn small_float(bits: u64, exponent_bits: i32, mantissa_bits: i32) -> f64 {
    let field =
        |from: i32, len: i32| f64::from(u32::try_from(bits >> from & ((1 << len) - 1)).expect("a few bits"));
    let (exponent, fraction) =
        (field(mantissa_bits, exponent_bits), field(0, mantissa_bits) / f64::from(1 << mantissa_bits));
    let sign = 1.0 - 2.0 * field(mantissa_bits + exponent_bits, 1);
    let bias = f64::from((1 << (exponent_bits - 1)) - 1);
    let whole = if exponent > 0.0 { 1.0 } else { 0.0 };
    sign * (whole + fraction) * (exponent.max(1.0) - bias).exp2()
}

/// The low and high half of every word after the tensor.
struct SplitWords;

impl KernelBody for SplitWords {
    fn run(args: &Args) {
        let words = &args.words()[1..=MAX_SCALARS];
        let halves: Vec<u32> = words.iter().flat_map(|&word| [low(word), low(word >> 32)]).collect();
        args.tensor(0).store(&halves);
    }
}

fn low(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).expect("masked")
}

fn split_words_reference(task: &mut RefTask) {
    for (i, scalar) in task.scalars.iter().enumerate() {
        task.tensors[0].values[2 * i] = value_of(DType::UInt64, scalar.bits % (1 << 32));
        task.tensors[0].values[2 * i + 1] = value_of(DType::UInt64, scalar.bits / (1 << 32));
    }
}

/// `weighed[j] = base[j mod COUNT] + (j + 1) * scalar j`, each scalar in its own dtype.
struct Weigh;

impl KernelBody for Weigh {
    fn run(args: &Args) {
        let base = args.tensor(0).load::<i32>();
        let values = modest(args);
        let weighed: Vec<f64> = (0..WEIGHED)
            .zip(1_u32..)
            .map(|(j, weight)| f64::from(base[j % COUNT]) + f64::from(weight) * values[j])
            .collect();
        args.tensor(1).store(&weighed);
    }
}

fn modest(args: &Args) -> [f64; WEIGHED] {
    fn at<T: Element>(args: &Args, place: usize) -> f64 {
        args.scalar::<T>(2 + place).to_f64()
    }
    [
        at::<f64>(args, 0),
        at::<f32>(args, 1),
        at::<f16>(args, 2),
        at::<bf16>(args, 3),
        at::<i64>(args, 4),
        at::<i32>(args, 5),
        at::<i16>(args, 6),
        at::<i8>(args, 7),
        at::<u64>(args, 8),
        at::<u32>(args, 9),
        at::<u16>(args, 10),
        at::<u8>(args, 11),
        at::<u8>(args, 12),
        to_f64(DType::Float8E4M3FN, args.words()[15]),
        to_f64(DType::Float8E5M2, args.words()[16]),
        to_f64(DType::Float4E2M1, args.words()[17]),
        to_f64(DType::Int4, args.words()[18]),
    ]
}

fn weigh_reference(task: &mut RefTask) {
    let mut weight = 0.0;
    for j in 0..task.scalars.len() {
        weight += 1.0;
        let scalar = task.scalars[j];
        let base = task.tensors[0].values[j % task.tensors[0].values.len()];
        task.tensors[1].values[j] = base + weight * value_of(scalar.dtype, scalar.bits);
    }
}
