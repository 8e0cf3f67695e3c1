//! Code that runs on queue-based devices, and the host's half of it: the content hash and the statistics of memory ranges,
//! taken where the memory is, and the question which of them is new.
//!
//! [`SOURCE`] is one text that OpenCL C 1.2 and CUDA C (NVRTC) both compile; [`Build`] has the options for a kind of
//! device. A [`Plan`] lays the ranges of one side of a task out for one launch. Its kernels, in this order, in one queue; of OpenCL:
//!
//! | kernel | groups | arguments |
//! | --- | --- | --- |
//! | [`HASH_LEAVES`], or [`MEASURE_LEAVES`] where the plan measures | [`Plan::bundles`] | count of ranges (u32), ranges, leaf hashes, sums, parts, [`BUFFERS`] buffers |
//! | [`ROOTS`] | one for each range | ranges, leaf hashes, sums, parts, results, whether the plan measures (u32) |
//! | [`DECIDE`], if it is asked | [`Plan::decide_groups`] | count of ranges (u32), ranges, results, slots, their mask (u32), decisions |
//!
//! and of CUDA, whose code is [`PTX`]:
//!
//! | kernel | groups | arguments |
//! | --- | --- | --- |
//! | [`Plan::hashing`] | its groups | a [`Side`], by value: hashes, roots and decisions in one, and a word for the host when they are there |
//! | [`KEEP`], if content is wanted | [`Keeping::groups`] | a [`Keeping`], by value: what was decided to be new is copied |
//!
//! Leaves belong into the queue of the launch whose memory they read. In OpenCL roots read what leaves left alone, so they may
//! run in a queue of their own, or not at all: [`Plan::finish`] does on the host what they do. In CUDA the chain of a root goes
//! on while groups have leaves, in the same launch.
//!
//! It knows no driver, no session and no dump: it has texts, layouts and numbers.
#![forbid(unsafe_code)]

mod build;
mod decide;
mod layout;
mod plan;
mod ptx;
mod result;

pub use build::Build;
pub use decide::{Decision, StoredHashes};
pub use layout::{
    CHUNK_BYTES, FEW, Keeping, Kept, MANY, Many, ORDER_BESIDE, ORDER_LETS_NEXT, Part, Range, RangeResult,
    Side,
};
pub use plan::{BUFFERS, BUNDLE_BYTES, Hashing, MAX_RANGE_BYTES, Measured, Plan, PlanError, Scratch, Source};
pub use ptx::{Code, PTX, PTX_ARCHITECTURE, ptx_origin};
pub use result::Outcome;

/// The kernels, for every device.
pub const SOURCE: &str = concat!(
    include_str!("source/portable.c"),
    include_str!("source/xxh3.c"),
    include_str!("source/measure.c"),
    include_str!("source/set.c"),
    include_str!("source/roots.c"),
    include_str!("source/leaves.c"),
    include_str!("source/spread.c"),
    include_str!("source/decide.c"),
);

/// Hashes of leaves.
pub const HASH_LEAVES: &str = "tt_hash_leaves";
/// The same, for little content: several groups share a bundle; CUDA alone.
pub const HASH_SPREAD: &str = "tt_hash_spread";
/// The same, for [many](Many) ranges.
pub const HASH_MANY: &str = "tt_hash_many";
/// Hashes of leaves, and statistics in the same pass.
pub const MEASURE_LEAVES: &str = "tt_measure_leaves";
/// Hash and statistics of ranges from those of their leaves; where a build does not [chain](Build::chains_roots) them.
pub const ROOTS: &str = "tt_roots";
/// Copies of what is new; CUDA alone.
pub const KEEP: &str = "tt_keep";
/// Which ranges are new; OpenCL alone.
pub const DECIDE: &str = "tt_decide";
