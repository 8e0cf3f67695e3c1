//! Level and filter: which arguments are captured.

use tensortap_abi::{DumpFilter, DumpLevel, DumpStage, SLOTS_PER_TASK};

/// The header's settings for recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub level: DumpLevel,
    /// A full arena or queue stops the producer.
    pub waits: bool,
    /// The host reads only after the run: the arena overwrites itself.
    pub batch: bool,
    pub liveness_ms: u64,
    pub filter: DumpFilter,
}

/// The parts that are recorded of a tensor that passed the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Metadata only.
    Metadata,
    /// Metadata, hash and statistics.
    Statistics,
    /// Everything.
    Payload,
}

impl Rules {
    /// The parts that the level records of a tensor; `None` if it does not want the tensor.
    #[inline]
    pub fn tensor_depth(&self, marked: bool) -> Option<Depth> {
        match self.level {
            DumpLevel::Off => None,
            DumpLevel::Marked => marked.then_some(Depth::Payload),
            DumpLevel::Full => Some(Depth::Payload),
            DumpLevel::Meta => Some(if marked { Depth::Payload } else { Depth::Metadata }),
            DumpLevel::Hash => Some(Depth::Statistics),
        }
    }

    /// Whether the level wants an argument without payload.
    #[inline]
    pub fn wants_plain(&self, marked: bool) -> bool {
        self.tensor_depth(marked).is_some()
    }

    /// Whether the filter lets an argument pass.
    #[inline]
    pub fn passes_arg(&self, stage: DumpStage, arg_index: u16) -> bool {
        has_bit(self.filter.stages, u32::from(stage as u8)) && has_bit(self.filter.args, arg_index.into())
    }

    /// Whether the filter lets every task pass.
    pub fn passes_all_tasks(&self) -> bool {
        let DumpFilter { task_ranges, funcs, first_tasks, .. } = &self.filter;
        *task_ranges == 0 && *funcs == DumpFilter::ALL.funcs && *first_tasks == u64::MAX
    }

    /// Whether the filter lets a task pass, ignoring how many tasks passed before.
    #[inline]
    pub fn passes_task(&self, task_id: u64, func_ids: &[u32; SLOTS_PER_TASK]) -> bool {
        self.passes_range(task_id) && self.passes_func(func_ids)
    }

    fn passes_range(&self, task_id: u64) -> bool {
        // `Region::open` checked the count.
        let ranges = usize::try_from(self.filter.task_ranges).unwrap_or(0);
        let named = &self.filter.tasks[..ranges];
        named.is_empty() || named.iter().any(|&[first, last]| (first..=last).contains(&task_id))
    }

    /// Inactive slots hold a number above every number that a filter can name.
    fn passes_func(&self, func_ids: &[u32; SLOTS_PER_TASK]) -> bool {
        let funcs = &self.filter.funcs;
        let named = |&id: &u32| funcs.get(id as usize / 64).is_some_and(|&word| has_bit(word, id % 64));
        *funcs == DumpFilter::ALL.funcs || func_ids.iter().any(named)
    }
}

/// Whether a bit is set. For bits that the word does not have: whether the word is the one that lets
/// everything pass.
#[inline]
fn has_bit(word: u64, bit: u32) -> bool {
    if bit < u64::BITS { word >> bit & 1 == 1 } else { word == u64::MAX }
}

#[cfg(test)]
mod tests;
