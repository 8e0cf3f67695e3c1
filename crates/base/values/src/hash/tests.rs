//! Compares the hash with golden values and with a naive version.

use std::vec::Vec;

use proptest::prelude::*;
use proptest::test_runner::Config;
use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

use super::*;

/// Hashes of [`content`] by size, from the reference implementation of XXH3 in C.
const GOLDEN: [(usize, u128); 14] = [
    (0, 0x99aa06d3014798d86001c324468d497f),
    (1, 0xa6cd5e9392000f6ac44bdff4074eecdb),
    (3, 0xc925ae1797c3998f6811538b444fc6dc),
    (16, 0x248181305d3c1039adebb1d9d080b69c),
    (240, 0x8406fbd017acdf4e687f00a7f64e46db),
    (241, 0xd894c74b1b3ea28f44dbd3180a664e27),
    (4095, 0x9a5ac78b0160c9e2cab68489cc50648f),
    (4096, 0x71fd6bb4c53bc932c9dd2795bed78678),
    (4097, 0x39ba35d7680127cdf5901af2cc977552),
    (8192, 0xc3564b8711b85225be2d14c87116f3b9),
    (8193, 0x8339d9c299619421b866b0ef6fa8ad8a),
    (12345, 0xefcfcbee71a58dca38b4aef08c5fa0f5),
    (65536, 0x98a9380a919cae472b3d1db077df7895),
    (1048576, 0x6343fecaf8ee2d042da655c7da372c5f),
];

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(((i * 131) ^ (i >> 8)) & 0xff).unwrap()).collect()
}

/// The definition, with all leaf hashes in memory.
fn straightforward(content: &[u8]) -> u128 {
    if content.len() <= 4096 {
        return xxh3_128(content);
    }
    let leaves: Vec<u8> = content.chunks(4096).flat_map(|leaf| xxh3_128(leaf).to_le_bytes()).collect();
    xxh3_128_with_seed(&leaves, content.len() as u64)
}

fn in_chunks(content: &[u8], mut sizes: impl Iterator<Item = usize>) -> u128 {
    let mut hasher = ContentHasher::new(content.len() as u64);
    let mut rest = content;
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(sizes.next().unwrap().min(rest.len()));
        hasher.update(chunk);
        rest = later;
    }
    assert_eq!(hasher.left_bytes(), 0);
    hasher.finish()
}

#[test]
fn golden_values_hold_at_once_and_in_chunks_of_any_size() {
    for (len, golden) in GOLDEN.into_iter().filter(|(len, _)| !cfg!(miri) || *len < 10_000) {
        let content = content(len);
        assert_eq!(content_hash(&content), golden, "{len} bytes");
        assert_eq!(straightforward(&content), golden, "{len} bytes");
        for size in [1, 7, 64, 4095, 4096, 4097, 10_000] {
            let size = if len > 100_000 { size.max(64) } else { size };
            assert_eq!(in_chunks(&content, std::iter::repeat(size)), golden, "{len} bytes by {size}");
        }
    }
}

#[test]
fn the_length_is_part_of_a_tree_hash() {
    // Another length cannot have the same leaf hashes, but the root hash must not rely on that.
    let zeros = [0; 8192];
    assert_ne!(content_hash(&zeros), xxh3_128(&[xxh3_128(&zeros[..4096]).to_le_bytes(); 2].concat()));
}

proptest! {
    #![proptest_config(Config { cases: if cfg!(miri) { 2 } else { 200 }, failure_persistence: None, ..Config::default() })]

    #[test]
    fn chunks_of_mixed_sizes_give_the_same_hash(
        len in prop_oneof![0..20_000usize, Just(4096), Just(8192)],
        sizes in prop::collection::vec(1..6000usize, 1..20),
    ) {
        let content = content(len);
        let sizes = sizes.iter().copied().cycle();
        prop_assert_eq!(in_chunks(&content, sizes), straightforward(&content));
    }
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "are missing")]
fn finishing_early_panics() {
    let mut hasher = ContentHasher::new(2);
    hasher.update(&[1]);
    let _ = hasher.finish();
}
