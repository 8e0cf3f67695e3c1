//! Lists the elements outside the rule, for evidence about single elements.

use std::ops::Range;

use super::block::{Block, Bytes, ExclusionReason};
use super::comparison::Comparison;
use super::full::with_rounded_golden;
use super::rule::Test;
use super::stream::{Pass, sealed};

/// The pass that lists the elements outside the rule, as sorted ranges that do not touch.
pub struct FailingPass {
    block: Box<Block>,
    test: Test,
    ranges: Vec<Range<u64>>,
    /// The golden in the dump's dtype, if the rule judges that.
    rounded: Option<Vec<u8>>,
}

impl sealed::State for FailingPass {
    type Output = Vec<Range<u64>>;

    fn new(comparison: &Comparison, _first_block: u64) -> Self {
        FailingPass {
            block: Block::new(comparison.level()),
            test: comparison.test(),
            ranges: Vec::new(),
            rounded: comparison.judges_rounded().then(Vec::new),
        }
    }

    fn block(&mut self, bytes: &Bytes<'_>) {
        let mut rounded = self.rounded.take();
        self.take(&with_rounded_golden(bytes, rounded.as_mut()));
        self.rounded = rounded;
    }

    fn join(&mut self, next: Self) {
        next.ranges.into_iter().for_each(|range| self.add(range));
    }

    fn finish(self, comparison: &Comparison) -> Vec<Range<u64>> {
        match comparison.parts_per_element() {
            1 => self.ranges,
            parts => elements_of(self.ranges, parts),
        }
    }
}

impl Pass for FailingPass {}

/// The elements with a part in any of these sorted ranges of parts.
fn elements_of(ranges: Vec<Range<u64>>, parts: u64) -> Vec<Range<u64>> {
    let mut elements: Vec<Range<u64>> = Vec::new();
    for part in ranges {
        let range = part.start / parts..part.end.div_ceil(parts);
        match elements.last_mut() {
            Some(last) if range.start <= last.end => last.end = range.end,
            _ => elements.push(range),
        }
    }
    elements
}

impl FailingPass {
    fn take(&mut self, bytes: &Bytes<'_>) {
        if bytes.pass_by_bytes(&self.test) {
            return;
        }
        self.block.load(bytes);
        if bytes.same_dtype() {
            self.block.load_distances(bytes);
        }
        let mut excluded = self.block.excluded().to_vec().into_iter().peekable();
        for position in 0..bytes.count {
            let fails = match excluded.next_if(|(at, _)| *at == position) {
                Some((_, why)) => self.fails_excluded(bytes, position, why),
                None => self.block.fails(position, bytes, &self.test),
            };
            if fails {
                let index = bytes.first + position as u64;
                self.add(index..index + 1);
            }
        }
    }

    fn fails_excluded(&self, bytes: &Bytes<'_>, position: usize, why: ExclusionReason) -> bool {
        let differs = match why {
            ExclusionReason::Mismatched | ExclusionReason::UnmatchedNan => true,
            ExclusionReason::BothNan => !self.test.nan_equal && !self.test.same_bits,
            ExclusionReason::EqualInfinities => false,
        };
        let other_bits = || {
            let (dump, golden) = bytes.bits(position);
            dump != golden
        };
        differs || self.test.same_bits && other_bits()
    }

    fn add(&mut self, range: Range<u64>) {
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use tensortap_abi::DType;

    use super::super::{Comparison, Rule, TensorType};

    #[test]
    fn lists_the_elements_outside_the_rule_across_blocks_and_threads() {
        let count = 200_000_u64;
        let tensor = TensorType::new(DType::Float32, &[count]);
        let comparison = Comparison::new(&tensor, &tensor, Rule::for_dtype(DType::Float32)).unwrap();
        let golden: Vec<f32> = (0..count).map(|_| 1.0).collect();
        let mut dump = golden.clone();
        dump[3] = 1.000_000_1;
        dump[1023..1030].fill(2.0);
        dump[131_072] = f32::NAN;
        dump[199_999] = f32::INFINITY;
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let expected = [1023..1030, 131_072..131_073, 199_999..200_000];
        for threads in [1, 4] {
            assert_eq!(comparison.failing(&bytes(&dump), &bytes(&golden), threads).unwrap(), expected);
        }
        assert_eq!(comparison.failing(&bytes(&dump), &bytes(&dump), 1).unwrap(), []);
    }

    #[test]
    fn nan_and_bits_count_as_the_rule_says() {
        let tensor = TensorType::new(DType::Float32, &[3]);
        let bytes = |values: [f32; 3]| values.map(f32::to_le_bytes).concat();
        let (dump, golden) = (bytes([f32::NAN, 0.0, 1.0]), bytes([f32::NAN, -0.0, 1.0]));
        let failing =
            |rule: Rule| Comparison::new(&tensor, &tensor, rule).unwrap().failing(&dump, &golden, 1).unwrap();
        assert_eq!(failing(Rule::for_dtype(DType::Float32)), []);
        let strict = Rule { nan_equal: false, ..Rule::for_dtype(DType::Float32) };
        let only = |range: std::ops::Range<u64>| Vec::from_iter([range]);
        assert_eq!(failing(strict), only(0..1));
        assert_eq!(failing(Rule::bitexact(DType::Float32)), only(1..2));
    }
}
