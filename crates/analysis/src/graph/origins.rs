//! Where every input came from, one list behind the other: there are as many as arguments.

use super::{Basis, Origin, OutputRef};

/// Origins by the numbers of arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    /// Where the outputs of each begin, how many there are, and how that is known.
    spans: Vec<(u32, u32, Basis)>,
    outputs: Vec<OutputRef>,
}

impl Origins {
    /// Nothing is known of so many arguments.
    pub fn new(arguments: usize) -> Origins {
        Origins { spans: vec![(0, 0, Basis::default()); arguments], outputs: Vec::new() }
    }

    /// Notes where an argument came from.
    pub fn set(&mut self, argument: usize, outputs: &[OutputRef], basis: Basis) {
        self.spans[argument] = (small(self.outputs.len()), small(outputs.len()), basis);
        self.outputs.extend_from_slice(outputs);
    }

    pub fn get(&self, argument: usize) -> Origin<'_> {
        let (start, count, basis) = self.spans[argument];
        Origin { outputs: &self.outputs[start as usize..][..count as usize], basis }
    }

    /// Arguments of which it is not decided.
    pub fn undecided_count(&self) -> usize {
        self.spans.iter().filter(|(.., basis)| *basis == Basis::Undecided).count()
    }

    /// Gives back memory that nothing more is noted in.
    pub fn shrink(&mut self) {
        self.outputs.shrink_to_fit();
    }
}

fn small(count: usize) -> u32 {
    u32::try_from(count).expect("2^32 origins do not fit in memory")
}
