//! Flat memory with an allocator that reuses blocks.

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
    free: Vec<(usize, usize)>,
    end: usize,
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
            free: Vec::new(),
            end: padding,
            bytes,
        }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Gives a block a region: a freed one of at most twice its size, the newest first, or new memory.
    pub fn allocate(&mut self, block: usize) {
        let size = self.sizes[block];
        let fits = |&(_, bytes): &(usize, usize)| (size..=size * 2).contains(&bytes);
        let region = match self.free.iter().rposition(fits) {
            Some(position) => self.free.remove(position),
            None => {
                let region = (self.end, size.next_multiple_of(64));
                self.end += region.1;
                region
            }
        };
        for place in (region.0..region.0 + region.1).step_by(self.element_bytes) {
            self.sources[place / self.element_bytes] = Source::Garbage;
        }
        self.regions[block] = Some(region);
    }

    pub fn free(&mut self, block: usize) {
        self.free.extend(self.regions[block].take());
    }

    /// The bytes of a block.
    pub fn block(&self, block: usize) -> &[u8] {
        let (start, _) = self.region(block);
        &self.bytes[start..start + self.sizes[block]]
    }

    fn region(&self, block: usize) -> (usize, usize) {
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
