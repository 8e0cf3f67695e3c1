//! Flat memory with an allocator that reuses blocks.

use std::ops::Range;

use crate::caching::CachingAllocator;
use crate::machine::Source;
use crate::program::{Action, Program, View};

/// Bytes after the last block, for writes outside of it.
const MARGIN: usize = 256;

/// Memory of a run. Freed regions keep their content and go to the next block that fits.
pub struct Memory {
    bytes: Vec<u8>,
    /// Who wrote each element, by its address divided by the size of elements.
    sources: Vec<Source>,
    element_bytes: usize,
    /// Bytes of each block.
    sizes: Vec<usize>,
    /// Address and size of the region of each block.
    regions: Vec<Option<(usize, usize)>>,
    allocator: Allocator,
}

/// Where blocks come from.
enum Allocator {
    /// Regions of freed blocks, and the end of all regions. A freed region goes to a block of at least half its size.
    Plain {
        free: Vec<(usize, usize)>,
        end: usize,
    },
    Caching(CachingAllocator),
}

/// A caching allocator, as a program uses it.
#[derive(Clone, Copy, Debug)]
pub struct Caching {
    /// Sizes of blocks are multiples of this.
    pub granularity: usize,
    pub segment_bytes: usize,
    /// Whether the program reports its blocks, so that a pointer reaches to the end of its block. Otherwise it reaches to
    /// the end of its segment.
    pub reports_blocks: bool,
}

impl Memory {
    pub fn new(program: &Program, garbage: u64, padding: usize) -> Memory {
        let element_bytes = program.style.element_bytes;
        let allocated = program.actions.iter().map(|action| match action {
            Action::Alloc { block } => (program.blocks[*block] * element_bytes).next_multiple_of(64),
            _ => 0,
        });
        let mut bytes = vec![0; padding + allocated.sum::<usize>() + MARGIN];
        let mut random = fastrand::Rng::with_seed(garbage);
        random.fill(&mut bytes);
        // Random bits are numbers of any size. Garbage that looks like values is harder to recognize.
        if element_bytes == 4 && random.bool() {
            for value in bytes.chunks_exact_mut(4) {
                value.copy_from_slice(&(random.f32() * 8.0 - 4.0).to_le_bytes());
            }
        }
        Memory {
            sources: vec![Source::Garbage; bytes.len() / element_bytes],
            element_bytes,
            sizes: program.blocks.iter().map(|elements| elements * element_bytes).collect(),
            regions: vec![None; program.blocks.len()],
            allocator: Allocator::Plain { free: Vec::new(), end: padding },
            bytes,
        }
    }

    /// Memory of a caching allocator, which has a first piece of `padding` bytes that nothing uses. Content that was left
    /// by other programs is zeros for some seeds.
    pub fn caching(program: &Program, garbage: u64, padding: usize, caching: Caching) -> Memory {
        let mut allocator = CachingAllocator::new(caching.granularity, caching.segment_bytes);
        if padding > 0 {
            allocator.allocate(padding);
        }
        let pieces =
            program.actions.iter().filter(|action| matches!(action, Action::Alloc { .. })).count() + 1;
        let largest =
            program.blocks.iter().max().map_or(0, |elements| elements * program.style.element_bytes);
        let segment = caching.segment_bytes.max(largest.next_multiple_of(caching.granularity));
        let mut memory = Memory::new(program, garbage, pieces * segment);
        if garbage.is_multiple_of(4) {
            memory.bytes.fill(0);
        }
        memory.allocator = Allocator::Caching(allocator);
        memory
    }

    fn caching_allocator(&self) -> &CachingAllocator {
        match &self.allocator {
            Allocator::Caching(allocator) => allocator,
            Allocator::Plain { .. } => panic!("this memory has no segments"),
        }
    }

    /// The segments so far, in flat memory.
    pub fn segments(&self) -> &[Range<usize>] {
        self.caching_allocator().segments()
    }

    /// The number of a segment, and an offset in it, for an address in flat memory.
    pub fn in_segment(&self, place: usize) -> (usize, usize) {
        let (number, segment) = self.caching_allocator().segment_of(place);
        (number, place - segment.start)
    }

    /// Where the memory ends that a pointer into a block reaches.
    pub fn reach(&self, block: usize, reports_blocks: bool) -> usize {
        let (start, bytes) = self.region(block);
        if reports_blocks { start + bytes } else { self.caching_allocator().segment_of(start).1.end }
    }

    /// Bytes of flat memory.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Gives a block a region: a freed one of at most twice its size, the newest first, or new memory. Or a piece of a
    /// segment.
    pub fn allocate(&mut self, block: usize) {
        let size = self.sizes[block];
        let fits = |&(_, bytes): &(usize, usize)| (size..=size * 2).contains(&bytes);
        let region = match &mut self.allocator {
            Allocator::Caching(allocator) => allocator.allocate(size),
            Allocator::Plain { free, end } => match free.iter().rposition(fits) {
                Some(position) => free.remove(position),
                None => {
                    let region = (*end, size.next_multiple_of(64));
                    *end += region.1;
                    region
                }
            },
        };
        for place in (region.0..region.0 + region.1).step_by(self.element_bytes) {
            self.sources[place / self.element_bytes] = Source::Garbage;
        }
        self.regions[block] = Some(region);
    }

    pub fn free(&mut self, block: usize) {
        let Some(region) = self.regions[block].take() else { return };
        match &mut self.allocator {
            Allocator::Caching(allocator) => allocator.free(region.0, region.1),
            Allocator::Plain { free, .. } => free.push(region),
        }
    }

    /// The bytes of a block.
    pub fn block(&self, block: usize) -> &[u8] {
        let (start, _) = self.region(block);
        &self.bytes[start..start + self.sizes[block]]
    }

    /// Address and size of the region of a block.
    pub fn region(&self, block: usize) -> (usize, usize) {
        self.regions[block].expect("programs use blocks that are allocated")
    }

    /// Address of each element of a view.
    pub fn places(&self, view: &View) -> Vec<usize> {
        let (start, _) = self.region(view.block);
        view.elements().iter().map(|at| start + at * self.element_bytes).collect()
    }

    pub fn gather(&self, places: &[usize]) -> Vec<u8> {
        places.iter().flat_map(|&place| &self.bytes[place..place + self.element_bytes]).copied().collect()
    }

    pub fn source(&self, place: usize) -> Source {
        self.sources[place / self.element_bytes]
    }

    pub fn write(&mut self, place: usize, value: &[u8], source: Source) {
        self.bytes[place..place + value.len()].copy_from_slice(value);
        self.sources[place / self.element_bytes] = source;
    }
}
