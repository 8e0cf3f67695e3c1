//! Selects kernels by name. The recorder cannot use their numbers, because the program assigns them at the
//! first use of a kernel.

use std::{
    collections::HashSet,
    sync::{PoisonError, RwLock},
};

use tensortap_abi::SLOTS_PER_TASK;
use tensortap_format::kernel_fits;

/// Kernel number in the region's filter that represents all kernels selected by name.
pub const MATCHED_BY_NAME: u32 = 255;

/// Patterns of kernel names, and the kernels that match.
pub(crate) struct KernelNameFilter {
    patterns: Vec<Box<str>>,
    known: RwLock<HashSet<u32>>,
}

impl KernelNameFilter {
    /// Parses names and patterns, one per line; `None` if there are none.
    pub fn new(lines: &str) -> Option<KernelNameFilter> {
        let patterns: Vec<Box<str>> = lines.lines().filter(|line| !line.is_empty()).map(Into::into).collect();
        (!patterns.is_empty()).then(|| KernelNameFilter { patterns, known: RwLock::default() })
    }

    /// Notes the number and name of a kernel.
    pub fn see(&self, func_id: u32, name: &str) {
        if self.patterns.iter().any(|pattern| kernel_fits(pattern, name)) {
            self.known.write().unwrap_or_else(PoisonError::into_inner).insert(func_id);
        }
    }

    /// The kernel numbers of a task for the filter.
    pub fn as_filtered(&self, kernels: [u32; SLOTS_PER_TASK]) -> [u32; SLOTS_PER_TASK] {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        kernels.map(|kernel| if known.contains(&kernel) { MATCHED_BY_NAME } else { kernel })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_numbers_of_kernels_that_match_a_pattern() {
        assert!(KernelNameFilter::new("\n").is_none());
        let meant = KernelNameFilter::new("add\nmul*").unwrap();
        [(1, "add"), (2, "adds"), (3, "mul_2")].iter().for_each(|(id, name)| meant.see(*id, name));
        assert_eq!(meant.as_filtered([1, 2, 3]), [MATCHED_BY_NAME, 2, MATCHED_BY_NAME]);
    }
}
