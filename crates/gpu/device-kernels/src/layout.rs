//! Structures shared by host and device. They must match those in `source/portable.c`.

use std::mem::offset_of;

use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout};

/// A range of memory. Ranges of a launch are ordered by their bundles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Range {
    /// CUDA: its address. OpenCL: its offset in the buffer.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Index of its buffer. OpenCL only.
    pub buffer: u32,
    /// Index of its first bundle in the launch.
    pub first_bundle: u32,
    /// Tag of its dtype; 0: no statistics.
    pub dtype: u32,
    /// 1 if the high nibble of the last byte is not an element.
    pub missing: u32,
    /// Index of its result and decision.
    pub slot: u32,
    /// CUDA: 1 to decide whether its content is new.
    pub decided: u32,
}

/// Statistics of a part of a range, in the device's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Part {
    /// Smallest finite element, as a key: an integer with the same order as the values.
    pub min: i64,
    /// Largest finite element, as a key.
    pub max: i64,
    /// Bits of the mean; NaN if the device has no 64-bit floats.
    pub mean: u64,
    /// Bits of the sum of squared distances from the mean; NaN if the device has no 64-bit floats.
    pub squares: u64,
    /// Elements equal to zero.
    pub zeros: u64,
    /// NaN elements.
    pub nan: u64,
    /// Infinite elements.
    pub inf: u64,
    /// Number of finite elements. The top bit is set if mean and squares are scaled down, because the squares
    /// would overflow.
    pub finite: u64,
}

/// Result for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RangeResult {
    /// The content hash: low half, high half.
    pub hash: [u64; 2],
    /// Statistics of the whole range; empty without a dtype.
    pub part: Part,
}

/// Ranges passed by value to a CUDA launch. More need a table or [`LargeSide`].
pub const FEW_RANGES: usize = 16;
/// Ranges passed by value to [`HASH_MANY`](crate::HASH_MANY).
pub const MANY_RANGES: usize = 80;
/// Bytes copied by one group of [`KEEP`](crate::KEEP).
pub const CHUNK_BYTES: u64 = 64 << 10;

/// The launch may overlap its predecessor in the stream, if the predecessor allows it. It completes after its
/// predecessor.
pub const ORDER_BESIDE: u32 = 1;
/// The launch allows its successor to overlap it, if the successor requests it.
pub const ORDER_LETS_NEXT: u32 = 2;

/// Argument of a CUDA launch: ranges, scratch memory and places for results. All are addresses; results may
/// be in host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Side {
    /// Table of ranges, if there are more than [`FEW_RANGES`].
    pub table: u64,
    /// [`Scratch::leaf_hashes`](crate::Scratch).
    pub leaf_hashes: u64,
    /// [`Scratch::sums`](crate::Scratch).
    pub sums: u64,
    /// [`Scratch::parts`](crate::Scratch).
    pub parts: u64,
    /// [`Scratch::gates`](crate::Scratch).
    pub gates: u64,
    /// A 32-bit counter, 0 before and after the launch.
    pub finished: u64,
    /// Array of [`RangeResult`], by slot.
    pub results: u64,
    /// Array of 32-bit decisions, by slot, for later kernels.
    pub decisions: u64,
    /// Array of 32-bit decisions, by slot, for the host.
    pub host_decisions: u64,
    /// The set of stored hashes; 0 for no decisions.
    pub stored: u64,
    /// Where to write `ticket` when all results are complete; 0 for nowhere.
    pub done: u64,
    /// The value to write to `done`.
    pub ticket: u64,
    /// Number of ranges.
    pub count: u32,
    /// Mask of the set.
    pub mask: u32,
    /// `ORDER_…` bits: how it may overlap other launches of its stream, on devices that
    /// [overlap](crate::Code::overlaps) launches.
    pub order: u32,
    /// Zero.
    pub reserved0: u32,
    /// The ranges, if there are at most [`FEW_RANGES`].
    pub few: [Range; FEW_RANGES],
}

/// Argument of a launch with more ranges: `tt_many` in the source. Its ranges replace those of the side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LargeSide {
    /// Everything except the ranges.
    pub side: Side,
    /// The ranges.
    pub ranges: [Range; MANY_RANGES],
}

/// Content to copy if it is new: `tt_kept` in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ContentCopy {
    /// Source address.
    pub from: u64,
    /// Target address, equal to `from` modulo 16.
    pub to: u64,
    /// Its size.
    pub bytes: u64,
    /// Index of its first chunk in the launch.
    pub first_chunk: u32,
    /// Index of its decision.
    pub slot: u32,
}

/// Argument of [`KEEP`](crate::KEEP): `tt_keeping` in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct KeepArgument {
    /// As [`Side::decisions`].
    pub decisions: u64,
    /// A 32-bit counter, 0 before and after the launch.
    pub finished: u64,
    /// As [`Side::done`].
    pub done: u64,
    /// The value to write to `done`.
    pub ticket: u64,
    /// Number of contents.
    pub count: u32,
    /// Groups of the launch.
    pub groups: u32,
    /// The contents.
    pub few: [ContentCopy; FEW_RANGES],
}

impl KeepArgument {
    /// Makes the argument for these contents and computes their first chunks.
    #[must_use]
    pub fn of(contents: &[ContentCopy]) -> KeepArgument {
        let mut keep_argument = KeepArgument::new_zeroed();
        for (place, content) in keep_argument.few.iter_mut().zip(contents) {
            *place = ContentCopy { first_chunk: keep_argument.groups, ..*content };
            let chunks = content.bytes.div_ceil(CHUNK_BYTES);
            keep_argument.groups =
                keep_argument.groups.saturating_add(u32::try_from(chunks).unwrap_or(u32::MAX));
            keep_argument.count += 1;
        }
        keep_argument
    }
}

const _: () = {
    assert!(size_of::<Side>() == 112 + FEW_RANGES * 40 && offset_of!(Side, ticket) == 88);
    assert!(offset_of!(Side, count) == 96 && offset_of!(Side, order) == 104 && offset_of!(Side, few) == 112);
    // Every driver version accepts arguments of 4 KiB.
    assert!(offset_of!(LargeSide, ranges) == size_of::<Side>() && size_of::<LargeSide>() <= 4096);
    assert!(
        size_of::<ContentCopy>() == 32
            && offset_of!(ContentCopy, first_chunk) == 24
            && offset_of!(ContentCopy, slot) == 28
    );
    assert!(size_of::<KeepArgument>() == 40 + FEW_RANGES * 32 && offset_of!(KeepArgument, count) == 32);
    assert!(size_of::<Range>() == 40 && align_of::<Range>() == 8);
    assert!(offset_of!(Range, bytes) == 8 && offset_of!(Range, buffer) == 16);
    assert!(offset_of!(Range, first_bundle) == 20 && offset_of!(Range, dtype) == 24);
    assert!(offset_of!(Range, missing) == 28 && offset_of!(Range, slot) == 32);
    assert!(size_of::<Part>() == 64 && align_of::<Part>() == 8);
    assert!(offset_of!(Part, max) == 8 && offset_of!(Part, mean) == 16 && offset_of!(Part, squares) == 24);
    assert!(offset_of!(Part, zeros) == 32 && offset_of!(Part, nan) == 40 && offset_of!(Part, inf) == 48);
    assert!(offset_of!(Part, finite) == 56);
    assert!(size_of::<RangeResult>() == 80 && offset_of!(RangeResult, part) == 16);
};
