use tensortap_values::to_f64;

use super::*;

/// Distances of pairs of bit patterns, as the passes compute them.
fn measured(level: Level, dtype: DType, pairs: &[(u64, u64)]) -> Vec<u64> {
    let width = dtype.bits() as usize / 8;
    let side = |bits: fn(&(u64, u64)) -> u64| -> Vec<u8> {
        if width == 0 {
            let nibbles: Vec<u8> = pairs.iter().map(|pair| bits(pair).to_le_bytes()[0]).collect();
            return nibbles.chunks(2).map(|two| two[0] | two.get(1).unwrap_or(&0) << 4).collect();
        }
        pairs.iter().flat_map(|pair| bits(pair).to_le_bytes()[..width].to_vec()).collect()
    };
    let (dump, golden) = (side(|pair| pair.0), side(|pair| pair.1));
    let mut out = Vec::new();
    let step = |elements: usize| elements * dtype.bits() as usize / 8;
    for (at, chunk) in pairs.chunks(BLOCK).enumerate() {
        let mut block = vec![0; chunk.len()];
        let first = step(at * BLOCK);
        distances(level, dtype, &dump[first..], &golden[first..], &mut block);
        out.extend(block);
    }
    out
}

/// Finite values of a narrow float in order, each once, with their bit patterns.
fn ladder(dtype: DType) -> Vec<(f64, Vec<u64>)> {
    let mut values: Vec<(f64, u64)> = (0..1 << dtype.bits())
        .map(|bits| (to_f64(dtype, bits), bits))
        .filter(|(value, _)| value.is_finite())
        .collect();
    values.sort_by(|one, other| one.0.partial_cmp(&other.0).unwrap());
    let mut steps: Vec<(f64, Vec<u64>)> = Vec::new();
    for (value, bits) in values {
        match steps.last_mut() {
            Some((last, patterns)) if *last == value => patterns.push(bits),
            _ => steps.push((value, vec![bits])),
        }
    }
    steps
}

const NARROW_FLOATS: [DType; 8] = [
    DType::Float16,
    DType::BFloat16,
    DType::Float8E4M3FN,
    DType::Float8E5M2,
    DType::Float4E2M1,
    DType::Float8E4M3FNUZ,
    DType::Float8E5M2FNUZ,
    DType::Float8E8M0FNU,
];

#[test]
fn distances_of_narrow_floats_count_the_values_in_between() {
    for dtype in NARROW_FLOATS {
        let ladder = ladder(dtype);
        let numbered: Vec<(u64, u64)> = (0..)
            .zip(&ladder)
            .flat_map(|(step, (_, patterns))| patterns.iter().map(move |bits| (*bits, step)))
            .collect();
        // For 8 bits, every pair. For 16 bits, every value with some others, including both ends and both
        // zeros.
        let golden: Vec<(u64, u64)> = if dtype.bits() <= 8 {
            numbered.clone()
        } else {
            let some = (0..20).map(|at| numbered[at * (numbered.len() - 1) / 19]);
            some.chain(numbered.iter().copied().filter(|(bits, _)| bits & 0x7fff <= 1)).collect()
        };
        for level in Level::available() {
            for (bits, step) in &golden {
                let pairs: Vec<(u64, u64)> = numbered.iter().map(|(other, _)| (*other, *bits)).collect();
                let counted: Vec<u64> = numbered.iter().map(|(_, other)| other.abs_diff(*step)).collect();
                assert_eq!(measured(level, dtype, &pairs), counted, "{dtype} {bits:#x} {}", level.name());
            }
        }
    }
}

/// Number of steps from one value to the other with the standard library.
fn steps_f32(from: f32, to: f32) -> u64 {
    let (mut at, end) = (from.min(to), from.max(to));
    let mut steps = 0;
    while at < end {
        // The successor of the value, not of its signed zero.
        at = (at + 0.0).next_up();
        steps += 1;
    }
    steps
}

#[test]
fn distances_of_f32_count_steps_to_the_next_value() {
    let mut random = fastrand::Rng::with_seed(5);
    let near = |random: &mut fastrand::Rng| {
        let bits = match random.u8(0..4) {
            0 => random.u32(0..3000),
            1 => (1 << 31) | random.u32(0..3000),
            _ => random.u32(..),
        };
        let value = f32::from_bits(bits);
        if value.is_finite() { value } else { 1.0 }
    };
    let mut pairs: Vec<(f32, f32)> =
        vec![(0.0, -0.0), (f32::from_bits(1), -f32::from_bits(1)), (f32::MAX, f32::MAX)];
    for _ in 0..3000 {
        let one = near(&mut random);
        let moved = one.to_bits().wrapping_add(random.u32(0..2000)).wrapping_sub(1000);
        let other = f32::from_bits(moved);
        // Random patterns that are far apart would take too many steps; these cross zero and powers of two.
        if other.is_finite() && (one.is_sign_positive() == other.is_sign_positive()) {
            pairs.push((one, other));
        }
        let small = |random: &mut fastrand::Rng| f32::from_bits(random.u32(0..500));
        pairs.push((small(&mut random), -small(&mut random)));
    }
    let bits: Vec<(u64, u64)> = pairs.iter().map(|(a, b)| (a.to_bits().into(), b.to_bits().into())).collect();
    let counted: Vec<u64> = pairs.iter().map(|(one, other)| steps_f32(*one, *other)).collect();
    assert!(counted.iter().any(|steps| *steps > 900));
    for level in Level::available() {
        assert_eq!(measured(level, DType::Float32, &bits), counted, "{}", level.name());
    }
}

#[test]
fn distances_of_integers_are_exact_at_every_width() {
    let signed = |value: i64| value.cast_unsigned();
    let wide = [(signed(i64::MIN), signed(i64::MAX)), (signed(-1), 1), (1 << 53, (1 << 53) + 1)];
    let level = Level::detect();
    assert_eq!(measured(level, DType::Int64, &wide), [u64::MAX, 2, 1]);
    assert_eq!(measured(level, DType::UInt64, &wide), [1, u64::MAX - 1, 1]);
    assert_eq!(measured(level, DType::Int4, &[(0x8, 0x7), (0xf, 0x1), (3, 3)]), [15, 2, 0]);
    assert_eq!(measured(level, DType::Int8, &[(0x80, 0x7f)]), [255]);
    assert_eq!(measured(level, DType::UInt8, &[(0x80, 0x7f)]), [1]);
    assert_eq!(measured(level, DType::UInt32, &[(0, u32::MAX.into())]), [u64::from(u32::MAX)]);
    assert_eq!(measured(level, DType::Bool, &[(1, 7), (0, 2)]), [0, 1]);
}

#[test]
fn sums_of_distances_do_not_overflow() {
    let distances = [u64::MAX; BLOCK];
    let sums = Level::detect().run(SumDistances { distances: &distances, allowed: u64::MAX - 1 });
    assert_eq!(sums.sum, u128::from(u64::MAX) * BLOCK as u128);
    assert_eq!((sums.max, sums.over), (u64::MAX, BLOCK as u64));
}
