//! Stores the producers of every argument in one flat list.

use super::{Origin, OriginBasis, OutputRef};

/// Producers by argument number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    /// For each argument: the first of its outputs, their number, and the evidence.
    spans: Vec<(u32, u32, OriginBasis)>,
    outputs: Vec<OutputRef>,
}

impl Origins {
    /// Empty producers for this many arguments.
    pub fn new(arguments: usize) -> Origins {
        Origins { spans: vec![(0, 0, OriginBasis::default()); arguments], outputs: Vec::new() }
    }

    /// Stores the producers of an argument.
    pub fn set(&mut self, argument: usize, outputs: &[OutputRef], basis: OriginBasis) {
        self.spans[argument] = (small(self.outputs.len()), small(outputs.len()), basis);
        self.outputs.extend_from_slice(outputs);
    }

    pub fn get(&self, argument: usize) -> Origin<'_> {
        let (start, count, basis) = self.spans[argument];
        Origin { outputs: &self.outputs[start as usize..][..count as usize], basis }
    }

    /// Number of arguments with undecided producers.
    pub fn undecided_count(&self) -> usize {
        self.spans.iter().filter(|(.., basis)| *basis == OriginBasis::Undecided).count()
    }

    /// Frees unused capacity.
    pub fn shrink(&mut self) {
        self.outputs.shrink_to_fit();
    }
}

fn small(count: usize) -> u32 {
    u32::try_from(count).expect("2^32 origins do not fit in memory")
}
