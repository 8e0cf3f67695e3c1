//! Seeded noise in the value range of some content, for redacted cases.

use fastrand::Rng;
use tensortap_abi::{DType, TensorStats};
use tensortap_values::{Statistics, Summary, from_f64, put_element_bits};

/// Summary of content that is replaced with noise.
pub fn summary(dtype: DType, numel: u64, content: &[u8]) -> Summary {
    let mut statistics = Statistics::new(dtype, numel);
    statistics.update(content);
    statistics.summary()
}

/// Random elements within the range of the finite elements, by part of complex numbers; zeros without any finite element.
pub fn noise(dtype: DType, numel: u64, summary: &Summary, seed: u64) -> Vec<u8> {
    let (dtype, numel) = (dtype.part(), numel.saturating_mul(dtype.parts().into()));
    let mut random = Rng::with_seed(seed);
    let TensorStats { min, max, nan, inf, .. } = summary.stats;
    let any_finite = nan + inf < numel;
    let mut element = || match summary.exact_range {
        Some((low, high)) => between(&mut random, low, high),
        None if !any_finite => 0,
        None if dtype.is_float() => from_f64(dtype, (min + random.f64() * (max - min)).clamp(min, max)),
        None => from_f64(dtype, (min + (random.f64() * (max - min + 1.0)).floor()).clamp(min, max)),
    };
    let count = usize::try_from(numel).unwrap_or(0);
    let mut bytes = vec![0; (count * dtype.bits() as usize).div_ceil(8)];
    for position in 0..count {
        put_element_bits(dtype, &mut bytes, position, element().into());
    }
    bytes
}

/// The low 64 bits of a random number between two bounds, both inclusive.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the low bits are the element")]
fn between(random: &mut Rng, low: i128, high: i128) -> u64 {
    let choices = (high - low) as u128 + 1;
    (low + (u128::from(random.u64(..)) % choices).cast_signed()) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn noise_keeps_range_and_size_and_depends_on_the_seed(
            content in prop::collection::vec(any::<u8>(), 8..400),
            dtype in prop::sample::select(DType::ALL.to_vec()),
            seed in any::<u64>(),
        ) {
            let width = dtype.bits().max(8) as usize / 8;
            let mut content = content;
            content.truncate(content.len() / width * width);
            if dtype == DType::Bool {
                content.iter_mut().for_each(|b| *b &= 1);
            }
            let numel = (content.len() * 8) as u64 / u64::from(dtype.bits());
            let before = summary(dtype, numel, &content);
            let made = noise(dtype, numel, &before, seed);
            prop_assert_eq!(made.len(), content.len());
            prop_assert_eq!(&made, &noise(dtype, numel, &before, seed));
            let after = summary(dtype, numel, &made);
            prop_assert_eq!((after.stats.nan, after.stats.inf), (0, 0));
            if before.stats.nan + before.stats.inf < before.stats.numel {
                prop_assert!(after.stats.min >= before.stats.min && after.stats.max <= before.stats.max);
            }
        }
    }

    #[test]
    fn different_seeds_give_different_noise() {
        let content: Vec<u8> = (0..256_u16).flat_map(|i| f32::from(i).to_le_bytes()).collect();
        let stats = summary(DType::Float32, 256, &content);
        let (one, two) = (noise(DType::Float32, 256, &stats, 1), noise(DType::Float32, 256, &stats, 2));
        assert!(one != two && one != content);
    }
}
