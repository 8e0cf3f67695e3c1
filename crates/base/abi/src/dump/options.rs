//! What is captured, and what happens if the host is too slow.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::assert_layout;

/// Arguments that a filter or a mark can name, one bit each: 16 tensors and 32 scalars.
pub const MAX_ARGS: usize = 48;

/// How much is captured (`--dump-tensor`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum DumpLevel {
    /// Nothing.
    Off = 0,
    /// Marked arguments only.
    Marked = 1,
    /// Every tensor and scalar.
    Full = 2,
    /// Metadata of every argument, payload of marked ones.
    Meta = 3,
    /// Metadata, hash and statistics of every argument, no payload.
    Hash = 4,
}

impl DumpLevel {
    /// Every level.
    pub const ALL: [DumpLevel; 5] =
        [DumpLevel::Off, DumpLevel::Marked, DumpLevel::Full, DumpLevel::Meta, DumpLevel::Hash];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            DumpLevel::Off => "off",
            DumpLevel::Marked => "marked",
            DumpLevel::Full => "full",
            DumpLevel::Meta => "meta",
            DumpLevel::Hash => "hash",
        }
    }

    /// The level of a number; `None` if there is no such level.
    pub fn from_tag(tag: u32) -> Option<DumpLevel> {
        DumpLevel::ALL.into_iter().find(|l| *l as u32 == tag)
    }

    /// The level of a name or a number.
    pub fn parse(text: &str) -> Option<DumpLevel> {
        DumpLevel::ALL
            .into_iter()
            .find(|l| l.name() == text)
            .or_else(|| DumpLevel::from_tag(text.parse().ok()?))
    }
}

/// What a full arena or queue does to the producer (`--dump-policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum DumpPolicy {
    /// The producer waits until the host has drained data.
    #[default]
    Block = 0,
    /// The producer drops data that does not fit, and counts it.
    Drop = 1,
}

impl DumpPolicy {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            DumpPolicy::Block => "block",
            DumpPolicy::Drop => "drop",
        }
    }
}

/// When the host reads the region (`--dump-collect`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum DumpCollect {
    /// While the device runs.
    #[default]
    Live = 0,
    /// Once, after the run: nothing blocks, a full record pool drops new records, the arena overwrites old payloads.
    Batch = 1,
}

impl DumpCollect {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            DumpCollect::Live => "live",
            DumpCollect::Batch => "batch",
        }
    }
}

/// Limits what is captured. The device evaluates it, so filtered data costs almost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DumpFilter {
    /// Ranges of task ids: first and last id of each. Only the first `task_ranges` entries count. Without
    /// ranges, every task passes.
    pub tasks: [[u64; 2]; DumpFilter::MAX_TASK_RANGES],
    /// Number of ranges in use.
    pub task_ranges: u64,
    /// `func_id`s below 256, one bit each. A task passes if any of its kernels does.
    pub funcs: [u64; 4],
    /// `arg_index`es, one bit each.
    pub args: u64,
    /// [`DumpStage`]s, one bit per tag.
    pub stages: u64,
    /// Maximum number of captured tasks: the first ones to be dispatched.
    pub first_tasks: u64,
    /// Maximum number of captured payload bytes: the first ones.
    pub max_bytes: u64,
}
assert_layout!(DumpFilter, size 328, align 8,
    tasks @ 0, task_ranges @ 256, funcs @ 264, args @ 296, stages @ 304, first_tasks @ 312, max_bytes @ 320);

impl DumpFilter {
    /// Ranges of task ids a filter can hold.
    pub const MAX_TASK_RANGES: usize = 16;

    /// A filter that everything passes.
    pub const ALL: DumpFilter = DumpFilter {
        tasks: [[0; 2]; DumpFilter::MAX_TASK_RANGES],
        task_ranges: 0,
        funcs: [u64::MAX; 4],
        args: u64::MAX,
        stages: u64::MAX,
        first_tasks: u64::MAX,
        max_bytes: u64::MAX,
    };

    /// The names of the filters that are set, as after `--dump-` on the command line.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let all = DumpFilter::ALL;
        let set = [
            ("task", self.task_ranges > 0),
            ("func", self.funcs != all.funcs),
            ("arg", self.args != all.args),
            ("stage", self.stages != all.stages),
            ("first", self.first_tasks != all.first_tasks),
            ("max-bytes", self.max_bytes != all.max_bytes),
        ];
        set.into_iter().filter_map(|(name, is_set)| is_set.then_some(name))
    }
}
