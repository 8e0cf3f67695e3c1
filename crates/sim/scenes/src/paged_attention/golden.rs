//! The golden: attention over the whole context at once, in f64, one position at a time through the block
//! table.

use half::bf16;
use tensortap_scene::{HostArgs, HostTensor};

use super::plan::Plan;

fn size(n: u64) -> usize {
    usize::try_from(n).expect("fits in memory")
}

struct Inputs {
    q: Vec<bf16>,
    k_cache: Vec<bf16>,
    v_cache: Vec<bf16>,
    block_table: Vec<i32>,
    table_width: usize,
    block: usize,
    heads: usize,
    head_dim: usize,
}

impl Inputs {
    fn new(plan: &Plan, args: &HostArgs) -> Inputs {
        let table = args.get("block_table");
        Inputs {
            q: args.get("q").get(),
            k_cache: args.get("k_cache").get(),
            v_cache: args.get("v_cache").get(),
            block_table: table.get(),
            table_width: size(table.shape[1]),
            block: size(plan.block),
            heads: size(plan.heads),
            head_dim: size(plan.head_dim),
        }
    }

    /// Where the vector of a logical position starts in a cache.
    fn cache_offset(&self, sequence: usize, position: usize, head: usize) -> usize {
        let page = self.block_table[sequence * self.table_width + position / self.block];
        let page = usize::try_from(page).expect("a position of the sequence has a page");
        ((page * self.block + position % self.block) * self.heads + head) * self.head_dim
    }

    fn score(&self, sequence: usize, position: usize, head: usize) -> f64 {
        let q = &self.q[(sequence * self.heads + head) * self.head_dim..][..self.head_dim];
        let k = &self.k_cache[self.cache_offset(sequence, position, head)..][..self.head_dim];
        let product: f64 = q.iter().zip(k).map(|(q, k)| q.to_f64() * k.to_f64()).sum();
        product / (self.head_dim as f64).sqrt()
    }

    fn attend(&self, sequence: usize, length: usize, head: usize) -> Vec<f64> {
        let scores: Vec<f64> = (0..length).map(|position| self.score(sequence, position, head)).collect();
        let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - greatest).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut out = vec![0.0; self.head_dim];
        for (position, weight) in weights.iter().enumerate() {
            let v = &self.v_cache[self.cache_offset(sequence, position, head)..][..self.head_dim];
            out.iter_mut().zip(v).for_each(|(o, v)| *o += weight / total * v.to_f64());
        }
        out
    }
}

pub(super) fn attention(plan: &Plan, args: &HostArgs) -> HostTensor {
    let inputs = Inputs::new(plan, args);
    let mut out: Vec<bf16> = Vec::new();
    for sequence in 0..plan.batch {
        for head in 0..inputs.heads {
            let row = inputs.attend(size(sequence), size(plan.length(sequence)), head);
            out.extend(row.into_iter().map(bf16::from_f64));
        }
    }
    HostTensor::new("out", &[plan.batch, plan.heads, plan.head_dim], &out)
}
