//! Hash maps whose keys are handles and other numbers that the program does not choose. Every launch looks some up.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// A hash map with a fast hash for numbers. An attacker who chooses the keys can make it slow, but nothing else.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Hashes numbers by multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

/// An odd number without a bit pattern: the first 64 bits of the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        // Four independent chains, because one multiplication takes longer than loading the next word.
        let (fours, rest) = bytes.as_chunks::<32>();
        let mut chains = [1, 2, 3, 4].map(NumberHasher);
        for four in fours {
            for (chain, word) in chains.iter_mut().zip(four.as_chunks::<8>().0) {
                chain.write_u64(u64::from_le_bytes(*word));
            }
        }
        if !fours.is_empty() {
            chains.iter().for_each(|chain| self.write_u64(chain.0));
        }
        for chunk in rest.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(SPREAD);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.write_usize(number.cast_unsigned());
    }

    #[inline]
    fn finish(&self) -> u64 {
        // Hash maps use the lowest bits, and a product carries nothing from higher bits into them.
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_with_many_trailing_zeros_get_different_hashes() {
        let hash = |number: u64| {
            let mut hasher = NumberHasher::default();
            hasher.write_u64(number);
            hasher.finish()
        };
        let lowest: std::collections::HashSet<u64> =
            (0..256).map(|at| hash(0x7f00_0000_0000 + (at << 21)) % 1024).collect();
        assert!(lowest.len() > 160, "{} slots for 256 handles", lowest.len());
        let texts: NumberMap<Box<[u8]>, usize> =
            (0..200).map(|at| ((0..200).map(|byte| u8::from(byte == at)).collect(), at)).collect();
        assert_eq!(texts.len(), 200, "texts that differ in one byte");
        let of_bytes = |bytes: &[u8]| {
            let mut hasher = NumberHasher::default();
            hasher.write(bytes);
            hasher.finish()
        };
        let hashes: std::collections::HashSet<u64> = texts.keys().map(|text| of_bytes(text)).collect();
        assert_eq!(hashes.len(), 200);
        let mut table: NumberMap<(u32, usize), u8> = NumberMap::default();
        table.insert((1, 2), 3);
        table.insert((2, 1), 4);
        assert_eq!((table.get(&(1, 2)), table.get(&(2, 1)), table.get(&(1, 1))), (Some(&3), Some(&4), None));
    }
}
