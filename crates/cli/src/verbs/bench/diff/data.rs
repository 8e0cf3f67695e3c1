/// A tensor and its golden, little endian `float32`.
pub struct Data {
    pub dump: Vec<u8>,
    pub golden: Vec<u8>,
}

impl Data {
    /// Values from -1000 to 1000 with errors within the default tolerance in every part, so that nothing can be left out and
    /// every element passes: the longest way for both sides.
    pub fn new(numel: usize) -> Data {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let (mut dump, mut golden) = (Vec::with_capacity(numel * 4), Vec::with_capacity(numel * 4));
        for _ in 0..numel {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            #[expect(clippy::cast_precision_loss, reason = "23 bits are exact")]
            let unit = (state >> 41) as f32 / (1_u32 << 23) as f32;
            let value = unit * 2000.0 - 1000.0;
            golden.extend(value.to_le_bytes());
            // At most three representable values away: below half of the tolerance.
            let moved = f32::from_bits(value.to_bits() + u32::from((state & 3) as u8));
            dump.extend(moved.to_le_bytes());
        }
        Data { dump, golden }
    }

    pub fn bytes_per_side(&self) -> u64 {
        self.dump.len() as u64
    }

    /// Of both sides.
    #[expect(clippy::cast_precision_loss, reason = "a dividend")]
    pub fn bytes(&self) -> f64 {
        2.0 * self.dump.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_passes_and_every_block_differs() {
        let data = Data::new(100_000);
        let comparison = data.comparison().unwrap();
        let metrics = comparison.full(&data.dump, &data.golden, 1).unwrap();
        assert!(metrics.passes() && metrics.max_abs > 0.0, "{metrics:?}");
        assert!(data.dump.chunks(4096).zip(data.golden.chunks(4096)).all(|(dump, golden)| dump != golden));
    }
}
