//! The expected outputs, computed from the values only. Stored as bytes, so that 64-bit integers stay exact.

use tensortap_abi::{DType, MAX_SCALARS};
use tensortap_scene::{Element, HostTensor};

use super::{COUNT, Values, WEIGHED};

pub(super) fn golden(values: &Values) -> Vec<HostTensor> {
    let Values { f64s, f32s, f16s, bf16s, i64s, i32s, i16s, i8s, u64s, u32s, u16s, u8s, bools, .. } = values;
    let Values { e4m3s, e5m2s, e2m1s, i4s, .. } = values;
    vec![
        of("f64", f64s),
        of("f32", f32s),
        of("f16", f16s),
        of("bf16", bf16s),
        of("i64", i64s),
        of("i32", i32s),
        of("i16", i16s),
        of("i8", i8s),
        of("u64", u64s),
        of("u32", u32s),
        of("u16", u16s),
        of("u8", u8s),
        HostTensor { dtype: DType::Bool, ..of("bool", &bools.map(u8::from)) },
        HostTensor { dtype: DType::Float8E4M3FN, ..of("e4m3", e4m3s) },
        HostTensor { dtype: DType::Float8E5M2, ..of("e5m2", e5m2s) },
        packed("e2m1", DType::Float4E2M1, e2m1s),
        packed("i4", DType::Int4, i4s),
        HostTensor::new("words", &[MAX_SCALARS as u64, 2], &words(values)),
        HostTensor::new("weighed", &[WEIGHED as u64], &weighed(i32s)),
    ]
}

fn of<T: Element>(name: &str, values: &[T; COUNT]) -> HostTensor {
    HostTensor::new(name, &[COUNT as u64], values)
}

/// 4-bit elements, two per byte, with the first in the low half.
fn packed(name: &str, dtype: DType, bits: &[u8; COUNT]) -> HostTensor {
    let bytes = bits.chunks(2).map(|pair| pair[0] + 16 * pair[1]).collect();
    HostTensor { name: name.into(), dtype, shape: vec![COUNT as u64], bytes }
}

/// The low and high half of each raw word: the value's little-endian bytes, then zeros.
fn words(values: &Values) -> Vec<u32> {
    let Values { f64s, f32s, f16s, bf16s, i64s, i32s, i16s, i8s, u64s, u32s, u16s, u8s, bools, .. } = values;
    let Values { e4m3s, e5m2s, e2m1s, i4s, .. } = values;
    let mut halves = Vec::with_capacity(2 * MAX_SCALARS);
    for i in 0..COUNT {
        let round = [
            widened(&f64s[i].to_le_bytes()),
            widened(&f32s[i].to_le_bytes()),
            widened(&f16s[i].to_le_bytes()),
            widened(&bf16s[i].to_le_bytes()),
            widened(&i64s[i].to_le_bytes()),
            widened(&i32s[i].to_le_bytes()),
            widened(&i16s[i].to_le_bytes()),
            widened(&i8s[i].to_le_bytes()),
            widened(&u64s[i].to_le_bytes()),
            widened(&u32s[i].to_le_bytes()),
            widened(&u16s[i].to_le_bytes()),
            widened(&u8s[i].to_le_bytes()),
            widened(&[u8::from(bools[i])]),
            widened(&[e4m3s[i]]),
            widened(&[e5m2s[i]]),
            widened(&[e2m1s[i]]),
            widened(&[i4s[i]]),
        ];
        halves.extend(round.as_flattened());
    }
    halves.truncate(2 * MAX_SCALARS);
    halves
}

fn widened(value: &[u8]) -> [u32; 2] {
    let mut bytes = [0; 8];
    bytes[..value.len()].copy_from_slice(value);
    let [a, b, c, d, e, f, g, h] = bytes;
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

/// Element `j` is `i32s[j mod COUNT] + (j + 1) * scalar j`.
fn weighed(i32s: &[i32; COUNT]) -> [f64; WEIGHED] {
    let products = [
        1.5,
        2.0 * -2.25,
        3.0 * 0.125,
        4.0 * -96.0,
        5.0 * -1_099_511_627_776.0,
        6.0 * -70_000.0,
        7.0 * -300.0,
        8.0 * -5.0,
        9.0 * 2_199_023_255_552.0,
        10.0 * 3_000_000_000.0,
        11.0 * 60_000.0,
        12.0 * 200.0,
        13.0,
        14.0 * 1.75,
        15.0 * -3.0,
        16.0 * -1.5,
        17.0 * -7.0,
    ];
    std::array::from_fn(|j| f64::from(i32s[j % COUNT]) + products[j])
}
