//! Seeded tensors with goldens for every dtype: mostly near, sometimes far, with special values.

use tensortap_abi::DType;
use tensortap_values::from_f64;

/// A generator whose numbers never change with a library version.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// From -1 to 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// Packs bit patterns.
pub fn pack(dtype: DType, patterns: &[u64]) -> Vec<u8> {
    if dtype.bits() == 4 {
        let nibble = |bits: &u64| bits.to_le_bytes()[0] & 0xf;
        return patterns.chunks(2).map(|two| nibble(&two[0]) | two.get(1).map_or(0, nibble) << 4).collect();
    }
    let width = dtype.bits() as usize / 8;
    patterns.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(width)).collect()
}

/// Packs numbers.
pub fn encode(dtype: DType, values: &[f64]) -> Vec<u8> {
    pack(dtype, &values.iter().map(|value| from_f64(dtype, *value)).collect::<Vec<_>>())
}

/// A tensor and its golden. Complex numbers have independent parts.
pub fn pair(dtype: DType, numel: usize, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let (dtype, numel) = (dtype.part(), numel * dtype.parts() as usize);
    let mut random = Random::new(seed);
    let pairs: Vec<(u64, u64)> = (0..numel)
        .map(|_| if dtype.is_float() { floats(dtype, &mut random) } else { integers(dtype, &mut random) })
        .collect();
    let side = |pick: fn(&(u64, u64)) -> u64| pack(dtype, &pairs.iter().map(pick).collect::<Vec<_>>());
    (side(|pair| pair.0), side(|pair| pair.1))
}

fn floats(dtype: DType, random: &mut Random) -> (u64, u64) {
    let specials = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e-7, 1.0, -6.0];
    let special =
        |random: &mut Random| from_f64(dtype, specials[usize::from(random.next().to_le_bytes()[0] % 8)]);
    let scale = (random.below(24) as f64 - 12.0).exp2();
    let wanted = random.unit() * scale;
    let golden = from_f64(dtype, wanted);
    match random.below(100) {
        0 | 1 => (special(random), special(random)),
        2 => (special(random), golden),
        3 => (golden, special(random)),
        // The smallest magnitudes of either sign.
        4 => (random.below(3) | random.below(2) << (dtype.bits() - 1), random.below(3)),
        5..20 => (golden, golden),
        20..30 => (from_f64(dtype, wanted + random.unit()), golden),
        _ => (from_f64(dtype, wanted * (1.0 + random.unit() * 1e-3)), golden),
    }
}

fn integers(dtype: DType, random: &mut Random) -> (u64, u64) {
    let mask = u64::MAX >> (64 - dtype.bits());
    let golden = random.next() >> random.below(64) & mask;
    if dtype == DType::Bool {
        return (random.below(2), golden & 1);
    }
    let dump = match random.below(4) {
        0 => random.next(),
        1 => golden.wrapping_add(random.below(5)).wrapping_sub(2),
        _ => golden,
    };
    (dump & mask, golden)
}
