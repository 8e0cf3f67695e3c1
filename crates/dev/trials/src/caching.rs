//! An allocator like PyTorch's: it allocates large segments and hands out pieces of them. Nothing clears a piece.

use std::collections::BTreeMap;
use std::ops::Range;

/// Segments of flat memory, and their free pieces.
pub struct CachingAllocator {
    /// Sizes of pieces are multiples of this.
    granularity: usize,
    /// Bytes of a segment, unless a piece needs more.
    segment_bytes: usize,
    segments: Vec<Range<usize>>,
    /// Free pieces: address and size.
    free: BTreeMap<usize, usize>,
}

impl CachingAllocator {
    pub fn new(granularity: usize, segment_bytes: usize) -> CachingAllocator {
        CachingAllocator { granularity, segment_bytes, segments: Vec::new(), free: BTreeMap::new() }
    }

    /// A piece: address and size. The smallest free piece that fits is split, and the rest stays free.
    pub fn allocate(&mut self, bytes: usize) -> (usize, usize) {
        let bytes = bytes.next_multiple_of(self.granularity);
        let fits = self.free.iter().filter(|&(_, &size)| size >= bytes);
        let best = fits.min_by_key(|&(&at, &size)| (size, at)).map(|(&at, &size)| (at, size));
        let (at, size) = best.unwrap_or_else(|| self.new_segment(bytes));
        self.free.remove(&at);
        if size > bytes {
            self.free.insert(at + bytes, size - bytes);
        }
        (at, bytes)
    }

    fn new_segment(&mut self, bytes: usize) -> (usize, usize) {
        let start = self.segments.last().map_or(0, |last| last.end);
        let size = self.segment_bytes.max(bytes);
        self.segments.push(start..start + size);
        (start, size)
    }

    /// Takes a piece back and merges it with the free pieces next to it in its segment.
    pub fn free(&mut self, at: usize, bytes: usize) {
        let segment = self.segment_of(at).1;
        let (mut start, mut end) = (at, at + bytes);
        if let Some((&before, &size)) = self.free.range(segment.start..at).next_back()
            && before + size == at
        {
            start = before;
        }
        if end < segment.end
            && let Some(size) = self.free.remove(&end)
        {
            end += size;
        }
        self.free.insert(start, end - start);
    }

    pub fn segments(&self) -> &[Range<usize>] {
        &self.segments
    }

    /// The segment that contains an address: its number and its range.
    pub fn segment_of(&self, at: usize) -> (usize, Range<usize>) {
        let number = self.segments.iter().position(|segment| segment.contains(&at));
        let number = number.expect("programs use memory of segments");
        (number, self.segments[number].clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_reused_and_merged_within_their_segment() {
        let mut allocator = CachingAllocator::new(64, 256);
        assert_eq!([10, 65, 60].map(|bytes| allocator.allocate(bytes)), [(0, 64), (64, 128), (192, 64)]);
        allocator.free(64, 128);
        assert_eq!(allocator.allocate(64), (64, 64), "the same memory as before");
        allocator.free(192, 64);
        assert_eq!(allocator.allocate(100), (128, 128), "the rest of a piece and the piece after it");
        allocator.free(0, 64);
        allocator.free(128, 128);
        assert_eq!(allocator.allocate(192), (256, 192), "pieces that do not touch are not merged");
        allocator.free(64, 64);
        assert_eq!(allocator.allocate(256), (0, 256), "a piece is merged with those on both sides");
    }

    #[test]
    fn pieces_of_two_segments_are_never_merged() {
        let mut allocator = CachingAllocator::new(64, 256);
        assert_eq!([256, 300].map(|bytes| allocator.allocate(bytes)), [(0, 256), (256, 320)]);
        assert_eq!((allocator.segment_of(255), allocator.segment_of(300)), ((0, 0..256), (1, 256..576)));
        allocator.free(256, 320);
        allocator.free(0, 256);
        assert_eq!(allocator.allocate(400), (576, 448), "a segment of its own");
        allocator.allocate(320);
        allocator.free(256, 320);
        assert_eq!(allocator.allocate(500), (1024, 512));
    }
}
