//! Seeded random inputs and sizes, for all scenes.

use std::ops::Range;

use fastrand::Rng;
use tensortap_scene::{Element, HostArgs, ParamSpec, Params};

/// The seed parameter of scenes with random inputs.
pub const SEED: ParamSpec = ParamSpec::int("seed", "1", 0, u64::MAX, "seed of the random inputs");

/// A generator for one purpose. Each purpose has its own, so that changing one input does not change the
/// others.
pub fn rng(params: &Params, purpose: &str) -> Rng {
    // FNV-1a mixes the purpose into the seed, and fastrand expands the seed to its state.
    let hash = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Rng::with_seed(hash ^ params.int("seed").wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Random values in a range, rounded to the element type.
pub fn uniform<T: Element>(rng: &mut Rng, count: usize, range: Range<f64>) -> Vec<T> {
    (0..count).map(|_| T::from_f64(range.start + (range.end - range.start) * rng.f64())).collect()
}

/// Fills an argument with random values in a range.
pub fn fill_uniform<T: Element>(params: &Params, args: &mut HostArgs, name: &str, range: Range<f64>) {
    let tensor = args.get_mut(name);
    let values = uniform::<T>(&mut rng(params, name), tensor.bytes.len() / size_of::<T>(), range);
    tensor.set(&values);
}

/// The value of a whole-number parameter that counts elements in memory.
pub fn size(params: &Params, name: &str) -> usize {
    usize::try_from(params.int(name)).expect("a size in memory fits a usize")
}

/// A count of elements, as shapes store it.
pub fn dim(count: usize) -> u64 {
    u64::try_from(count).expect("a usize fits 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(seed: &str) -> Params {
        Params::resolve("s", &[SEED], [("seed", seed)]).unwrap()
    }

    #[test]
    fn random_numbers_are_determined_by_seed_and_purpose() {
        let draw = |seed: &str, purpose| uniform::<f32>(&mut rng(&params(seed), purpose), 64, -1.0..1.0);
        assert_eq!(draw("1", "a"), draw("1", "a"));
        assert_ne!(draw("1", "a"), draw("1", "b"));
        assert_ne!(draw("1", "a"), draw("2", "a"));
        assert!(draw("1", "a").iter().all(|v| (-1.0..=1.0).contains(v)));
    }
}
