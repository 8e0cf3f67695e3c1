//! Values that are derived from the parameters: context lengths, and the page of each block.

use fastrand::Rng;
use tensortap_scene::{Element, Params};

use crate::inputs;

pub(super) struct Plan {
    pub batch: u64,
    pub heads: u64,
    pub head_dim: u64,
    pub block: u64,
    pub context: u64,
    /// Pages of each cache. Some of them are free.
    pub pages: u64,
    table: Vec<Vec<u64>>,
}

impl Plan {
    pub fn new(params: &Params) -> Plan {
        let int = |name| params.int(name);
        let (batch, heads, head_dim) = (int("batch"), int("heads"), int("head_dim"));
        let (block, context) = (int("block"), int("context"));
        let mut plan = Plan { batch, heads, head_dim, block, context, pages: 0, table: Vec::new() };
        let used: u64 = (0..batch).map(|s| plan.blocks(s)).sum();
        // Some pages are free, as in a cache that is in use.
        plan.pages = used + batch;
        plan.table = plan.scatter(inputs::rng(params, "block_table"));
        plan
    }

    fn scatter(&self, mut rng: Rng) -> Vec<Vec<u64>> {
        let mut free: Vec<u64> = (0..self.pages).collect();
        rng.shuffle(&mut free);
        let mut free = free.into_iter();
        (0..self.batch)
            .map(|s| free.by_ref().take(usize::try_from(self.blocks(s)).expect("fits in memory")).collect())
            .collect()
    }

    /// Length of a sequence in positions: `context` for the first, less for each further one, more than half
    /// for all.
    pub fn length(&self, sequence: u64) -> u64 {
        self.context - sequence * self.context / (2 * self.batch + 1)
    }

    /// Number of blocks of a sequence. The last one may be partly filled.
    pub fn blocks(&self, sequence: u64) -> u64 {
        self.length(sequence).div_ceil(self.block)
    }

    /// Number of tasks: four per sequence and block.
    pub fn tasks(&self) -> u64 {
        4 * (0..self.batch).map(|sequence| self.blocks(sequence)).sum::<u64>()
    }

    /// Positions of a block that belong to the sequence.
    pub fn valid(&self, sequence: u64, index: u64) -> u32 {
        let valid = (self.length(sequence) - index * self.block).min(self.block);
        u32::try_from(valid).expect("a block has at most 256 positions")
    }

    /// The page of a block of a sequence.
    pub fn page(&self, sequence: u64, index: u64) -> u64 {
        let at = |n| usize::try_from(n).expect("fits in memory");
        self.table[at(sequence)][at(index)]
    }

    /// The block table as a rectangle. The value is -1 where a sequence has no block.
    pub fn padded_table(&self) -> Vec<i32> {
        let page = |sequence, index| {
            if index < self.blocks(sequence) {
                i32::try_from(self.page(sequence, index)).expect("fewer than 2^31 pages")
            } else {
                -1
            }
        };
        (0..self.batch).flat_map(|s| (0..self.blocks(0)).map(move |b| page(s, b))).collect()
    }

    /// The factor of the scores, `1/sqrt(head_dim)`.
    pub fn scale(&self) -> f32 {
        f32::from_f64(1.0 / (self.head_dim as f64).sqrt())
    }
}
