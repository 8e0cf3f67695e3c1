//! Kernels that the recorder asks for by name. It has no numbers for them: those are the program's, and known when a kernel is first named.

use std::{
    collections::HashSet,
    sync::{PoisonError, RwLock},
};

use tensortap_abi::SLOTS_PER_TASK;
use tensortap_format::word_fits;

/// The number that stands for every kernel which is meant by name, in the filter of the region and for it.
pub const MEANT_BY_NAME: u32 = 255;

/// Which kernels are meant, and those that turned out to be.
pub(crate) struct MeantKernels {
    patterns: Vec<Box<str>>,
    known: RwLock<HashSet<u32>>,
}

impl MeantKernels {
    /// Of names and patterns, a line each; `None` when there are none.
    pub fn new(lines: &str) -> Option<MeantKernels> {
        let patterns: Vec<Box<str>> = lines.lines().filter(|line| !line.is_empty()).map(Into::into).collect();
        (!patterns.is_empty()).then(|| MeantKernels { patterns, known: RwLock::default() })
    }

    /// A kernel has this number.
    pub fn see(&self, func_id: u32, name: &str) {
        if self.patterns.iter().any(|pattern| word_fits(pattern, name)) {
            self.known.write().unwrap_or_else(PoisonError::into_inner).insert(func_id);
        }
    }

    /// The kernels of a task as the filter is to see them.
    pub fn as_filtered(&self, kernels: [u32; SLOTS_PER_TASK]) -> [u32; SLOTS_PER_TASK] {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        kernels.map(|kernel| if known.contains(&kernel) { MEANT_BY_NAME } else { kernel })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_meant_by_name_or_pattern_and_others_keep_their_numbers() {
        assert!(MeantKernels::new("\n").is_none());
        let meant = MeantKernels::new("add\nmul*").unwrap();
        [(1, "add"), (2, "adds"), (3, "mul_2")].iter().for_each(|(id, name)| meant.see(*id, name));
        assert_eq!(meant.as_filtered([1, 2, 3]), [MEANT_BY_NAME, 2, MEANT_BY_NAME]);
    }
}
