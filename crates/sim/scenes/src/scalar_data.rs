//! `scalar_data`: scalars of the first 17 dtypes at their extremes. Checks that a kernel receives exactly the
//! submitted scalars.

mod golden;
mod kernels;

use half::{bf16, f16};
use tensortap_abi::{CoreType, DType, MAX_SCALARS};
use tensortap_scene::{
    ArgSpec, GraphError, HostArgs, HostTensor, Orch, Params, ScalarArg, Scene, Tolerance, scene_facts,
};

use crate::inputs::{SEED, rng};
use kernels::{SPLIT_WORDS, WEIGH, WRITE_FLOATS, WRITE_SIGNED, WRITE_SMALL, WRITE_UNSIGNED};

/// Scalars of each dtype in one task.
const COUNT: usize = 6;
/// Scalars of the task with small values of every dtype: those up to `bool`. Kernels treat the scalars of other
/// dtypes as bits, like the scalars of `float8_e4m3fn` here.
const WEIGHED: usize = DType::Bool as usize;

/// The scene `scalar_data`. It writes scalars to tensors of their dtype, as raw words, and after some
/// arithmetic.
pub struct ScalarData;

impl Scene for ScalarData {
    scene_facts! {
        name: "scalar_data",
        about: "scalars of 17 dtypes at their extremes, written to tensors exactly",
        params: &[SEED],
        kernels: &[WRITE_FLOATS, WRITE_SIGNED, WRITE_UNSIGNED, SPLIT_WORDS, WEIGH, WRITE_SMALL],
    }

    fn args(&self, _params: &Params) -> Vec<ArgSpec> {
        let of = |name, dtype| ArgSpec::output(name, dtype, &[COUNT as u64]);
        vec![
            of("f64", DType::Float64),
            of("f32", DType::Float32),
            of("f16", DType::Float16),
            of("bf16", DType::BFloat16),
            of("i64", DType::Int64),
            of("i32", DType::Int32),
            of("i16", DType::Int16),
            of("i8", DType::Int8),
            of("u64", DType::UInt64),
            of("u32", DType::UInt32),
            of("u16", DType::UInt16),
            of("u8", DType::UInt8),
            of("bool", DType::Bool),
            of("e4m3", DType::Float8E4M3FN),
            of("e5m2", DType::Float8E5M2),
            of("e2m1", DType::Float4E2M1),
            of("i4", DType::Int4),
            ArgSpec::output("words", DType::UInt32, &[MAX_SCALARS as u64, 2]),
            ArgSpec::output("weighed", DType::Float64, &[WEIGHED as u64]),
        ]
    }

    fn fill(&self, _params: &Params, _args: &mut HostArgs) {}

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let values = Values::new(params);
        let [f64s, f32s, f16s, bf16s] = [o.arg("f64")?, o.arg("f32")?, o.arg("f16")?, o.arg("bf16")?];
        let mut task = o.task(&WRITE_FLOATS).output(&f64s).output(&f32s).output(&f16s).output(&bf16s);
        for scalar in values.floats() {
            task = task.scalar(scalar);
        }
        task.submit()?;

        let [i64s, i32s, i16s, i8s] = [o.arg("i64")?, o.arg("i32")?, o.arg("i16")?, o.arg("i8")?];
        let mut task = o.task(&WRITE_SIGNED).output(&i64s).output(&i32s).output(&i16s).output(&i8s);
        for scalar in values.signed() {
            task = task.scalar(scalar);
        }
        let signed = task.submit()?;

        let [u64s, u32s, u16s, u8s] = [o.arg("u64")?, o.arg("u32")?, o.arg("u16")?, o.arg("u8")?];
        let bools = o.arg("bool")?;
        let mut task =
            o.task(&WRITE_UNSIGNED).output(&u64s).output(&u32s).output(&u16s).output(&u8s).output(&bools);
        for scalar in values.unsigned() {
            task = task.scalar(scalar);
        }
        task.submit()?;

        let [e4m3s, e5m2s, e2m1s, i4s] = [o.arg("e4m3")?, o.arg("e5m2")?, o.arg("e2m1")?, o.arg("i4")?];
        let mut task = o.task(&WRITE_SMALL).output(&e4m3s).output(&e5m2s).output(&e2m1s).output(&i4s);
        for scalar in values.small() {
            task = task.scalar(scalar);
        }
        task.submit()?;

        let words = o.arg("words")?;
        let mut task = o.task(&SPLIT_WORDS).output(&words);
        for scalar in values.mixed() {
            task = task.scalar(scalar);
        }
        task.submit()?;

        let weighed = o.arg("weighed")?;
        let mut task = o.task(&WEIGH).input(&i32s).output(&weighed).after(signed);
        for scalar in values.modest() {
            task = task.scalar(scalar);
        }
        task.submit()?;
        Ok(())
    }

    fn golden(&self, params: &Params, _inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        Some(golden::golden(&Values::new(params)))
    }

    fn tolerance(&self, _output: &str) -> Option<Tolerance> {
        Some(Tolerance::EXACT)
    }
}

/// The scalars of one run: extremes, and one value of each dtype from the seed. The last scalar of each dtype
/// is finite and not zero, so that damage changes it.
struct Values {
    f64s: [f64; COUNT],
    f32s: [f32; COUNT],
    f16s: [f16; COUNT],
    bf16s: [bf16; COUNT],
    i64s: [i64; COUNT],
    i32s: [i32; COUNT],
    i16s: [i16; COUNT],
    i8s: [i8; COUNT],
    u64s: [u64; COUNT],
    u32s: [u32; COUNT],
    u16s: [u16; COUNT],
    u8s: [u8; COUNT],
    bools: [bool; COUNT],
    /// Bits of the dtypes that Rust has no type for.
    e4m3s: [u8; COUNT],
    e5m2s: [u8; COUNT],
    e2m1s: [u8; COUNT],
    i4s: [u8; COUNT],
}

impl Values {
    fn new(params: &Params) -> Values {
        let mut rng = rng(params, "scalars");
        let real = rng.f64() - 0.5;
        Values {
            f64s: [f64::MAX, 5e-324, -0.0, f64::NEG_INFINITY, f64::NAN, real],
            f32s: [f32::MAX, 1e-45, -0.0, f32::NEG_INFINITY, f32::NAN, rng.f32() - 0.5],
            f16s: [
                f16::MAX,
                f16::from_bits(1),
                f16::NEG_ZERO,
                f16::NEG_INFINITY,
                f16::NAN,
                f16::from_f64(real),
            ],
            bf16s: [
                bf16::MAX,
                bf16::from_bits(1),
                bf16::NEG_ZERO,
                bf16::NEG_INFINITY,
                bf16::NAN,
                bf16::from_f64(real),
            ],
            i64s: [i64::MIN, i64::MAX, 0, (1 << 53) + 1, rng.i64(..), -1],
            i32s: [i32::MIN, i32::MAX, 0, 1, rng.i32(..), -1],
            i16s: [i16::MIN, i16::MAX, 0, 1, rng.i16(..), -1],
            i8s: [i8::MIN, i8::MAX, 0, 1, rng.i8(..), -1],
            u64s: [0, 1, 1 << 63, (1 << 53) + 1, rng.u64(..), u64::MAX],
            u32s: [0, 1, 1 << 31, 1 << 24, rng.u32(..), u32::MAX],
            u16s: [0, 1, 1 << 15, 255, rng.u16(..), u16::MAX],
            u8s: [0, 1, 1 << 7, 15, rng.u8(..), u8::MAX],
            bools: [false, true, true, false, rng.bool(), true],
            // Largest, smallest above zero, -0, most negative, NaN, a number.
            e4m3s: [0x7e, 0x01, 0x80, 0xfe, 0x7f, rng.u8(0x30..0x50)],
            e5m2s: [0x7b, 0x01, 0x80, 0xfc, 0x7e, rng.u8(0x30..0x50)],
            e2m1s: [0x7, 0x1, 0x8, 0xf, rng.u8(..0x10), 0x3],
            i4s: [0x8, 0x7, 0x0, 0x1, rng.u8(..0x10), 0xf],
        }
    }

    fn floats(&self) -> Vec<ScalarArg> {
        let Values { f64s, f32s, f16s, bf16s, .. } = self;
        [args(f64s), args(f32s), args(f16s), args(bf16s)].concat()
    }

    fn signed(&self) -> Vec<ScalarArg> {
        let Values { i64s, i32s, i16s, i8s, .. } = self;
        [args(i64s), args(i32s), args(i16s), args(i8s)].concat()
    }

    fn unsigned(&self) -> Vec<ScalarArg> {
        let Values { u64s, u32s, u16s, u8s, bools, .. } = self;
        [args(u64s), args(u32s), args(u16s), args(u8s), args(bools)].concat()
    }

    fn small(&self) -> Vec<ScalarArg> {
        let Values { e4m3s, e5m2s, e2m1s, i4s, .. } = self;
        let all = [
            (DType::Float8E4M3FN, e4m3s),
            (DType::Float8E5M2, e5m2s),
            (DType::Float4E2M1, e2m1s),
            (DType::Int4, i4s),
        ];
        all.iter().flat_map(|(dtype, bits)| bits.iter().map(|&bits| raw(*dtype, bits))).collect()
    }

    /// As many scalars as a payload holds, alternating between dtypes: one or two of each.
    fn mixed(&self) -> Vec<ScalarArg> {
        let all = [self.floats(), self.signed(), self.unsigned(), self.small()].concat();
        let dtypes = all.len() / COUNT;
        (0..MAX_SCALARS).map(|i| all[i % dtypes * COUNT + i / dtypes]).collect()
    }

    /// One small value of each dtype, so that sums with an i32 are exact in f64.
    fn modest(&self) -> [ScalarArg; WEIGHED] {
        [
            1.5_f64.into(),
            (-2.25_f32).into(),
            f16::from_f32(0.125).into(),
            bf16::from_f32(-96.0).into(),
            (-(1_i64 << 40)).into(),
            (-70_000_i32).into(),
            (-300_i16).into(),
            (-5_i8).into(),
            (1_u64 << 41).into(),
            3_000_000_000_u32.into(),
            60_000_u16.into(),
            200_u8.into(),
            true.into(),
            raw(DType::Float8E4M3FN, 0x3e), // 1.75
            raw(DType::Float8E5M2, 0xc2),   // -3
            raw(DType::Float4E2M1, 0xb),    // -1.5
            raw(DType::Int4, 0x9),          // -7
        ]
    }
}

fn raw(dtype: DType, bits: u8) -> ScalarArg {
    ScalarArg { bits: bits.into(), dtype }
}

fn args<T: Copy + Into<ScalarArg>>(values: &[T]) -> Vec<ScalarArg> {
    values.iter().map(|&v| v.into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{self, params, recorded};

    #[test]
    fn passes_all_scene_checks() {
        checks::all(&ScalarData, &[&[], &[("seed", "9")]]);
    }

    #[test]
    fn bytes_are_exact_where_f64_is_not() {
        let mut graph = recorded(&ScalarData, &[]);
        graph.run().unwrap();
        let golden = ScalarData.golden(&params(&ScalarData, &[]), &HostArgs::default()).unwrap();
        for expected in golden {
            assert_eq!(graph.arg_bytes(&expected.name).unwrap(), expected.bytes, "{}", expected.name);
        }
    }

    #[test]
    fn one_task_fills_its_payload_with_every_dtype() {
        let mixed = Values::new(&params(&ScalarData, &[])).mixed();
        assert_eq!(mixed.len(), MAX_SCALARS);
        let mut dtypes: Vec<_> = mixed.iter().map(|s| s.dtype.name()).collect();
        dtypes.sort_unstable();
        dtypes.dedup();
        assert_eq!(dtypes.len(), WEIGHED);
    }

    #[test]
    fn non_numeric_seeds_are_refused() {
        checks::refused(&ScalarData, &[("seed", "-1")], "seed");
    }
}
