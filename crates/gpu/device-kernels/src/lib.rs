//! Kernels for queue-based devices, and their host side: they compute the content hash and the statistics of
//! memory ranges on the device, and decide which content is new.
//!
//! [`SOURCE`] is one text for OpenCL C 1.2 and CUDA C (NVRTC); [`Build`] has the compiler options for a kind
//! of device. A [`Plan`] arranges the ranges of one side of a task for one launch. OpenCL runs these kernels,
//! in this order, in one queue:
//!
//! | kernel | groups | arguments |
//! | --- | --- | --- |
//! | [`HASH_LEAVES`], or [`MEASURE_LEAVES`] if the plan measures | [`Plan::bundles`] | count of ranges (u32),
//! ranges, leaf hashes, sums, parts, [`BUFFERS`] buffers |
//! | [`ROOTS`] | one for each range | ranges, leaf hashes, sums, parts, results, whether the plan measures (u32) |
//! | [`DECIDE`], optional | [`Plan::decide_groups`] | count of ranges (u32), ranges, results, slots, their
//! mask (u32), decisions |
//!
//! CUDA runs these kernels from [`PTX`]:
//!
//! | kernel | groups | arguments |
//! | --- | --- | --- |
//! | [`Plan::hash_kernel`] | its groups | a [`Side`], by value: computes hashes, roots and decisions, and sets a
//! word for the host at the end |
//! | [`KEEP`], if content is needed | [`KeepArgument::groups`] | a [`KeepArgument`], by value: copies new content |
//!
//! The kernels for leaves run in the queue of the launch whose memory they read. In OpenCL, roots read only
//! the results of leaves, so they can run in a separate queue, or on the host with [`Plan::finish`]. In CUDA,
//! the same launch computes the roots while other groups still work on leaves.
//!
//! The crate knows no driver, session or dump: it has texts, layouts and numbers.
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
    CHUNK_BYTES, ContentCopy, FEW_RANGES, KeepArgument, LargeSide, MANY_RANGES, ORDER_BESIDE,
    ORDER_LETS_NEXT, Part, Range, RangeResult, Side,
};
pub use plan::{
    BUFFERS, BUNDLE_BYTES, HashKernel, MAX_RANGE_BYTES, Plan, PlanError, RangeElements, Scratch, Source,
    measured_as,
};
pub use ptx::{Code, PTX, PTX_ARCHITECTURE, ptx_origin};
pub use result::Outcome;

/// Source of the kernels, for every device.
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

/// Hashes leaves.
pub const HASH_LEAVES: &str = "tt_hash_leaves";
/// Hashes leaves of little content: several groups share a bundle. CUDA only.
pub const HASH_SPREAD: &str = "tt_hash_spread";
/// Hashes leaves of [many](LargeSide) ranges. CUDA only.
pub const HASH_MANY: &str = "tt_hash_many";
/// Hashes leaves and computes statistics in the same pass.
pub const MEASURE_LEAVES: &str = "tt_measure_leaves";
/// Combines the results of leaves into the hash and statistics of each range. Used if a build does not
/// [chain](Build::chains_roots) roots.
pub const ROOTS: &str = "tt_roots";
/// Copies new content. CUDA only.
pub const KEEP: &str = "tt_keep";
/// Decides which ranges are new. OpenCL only.
pub const DECIDE: &str = "tt_decide";
