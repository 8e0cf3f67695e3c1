//! What crosses between host and device; twins of the structures in `source/portable.c`.

use std::mem::offset_of;

use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout};

/// A range of memory, in the order of their bundles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Range {
    /// CUDA: its address. OpenCL: its offset in the buffer.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Which of the launch's buffers it lies in; OpenCL alone.
    pub buffer: u32,
    /// Its first bundle among those of the launch.
    pub first_bundle: u32,
    /// Tag of its dtype; 0: no statistics.
    pub dtype: u32,
    /// 1 if the last byte has one nibble that is no element.
    pub missing: u32,
    /// Where its result and decision go.
    pub slot: u32,
    /// CUDA: 1 if it is to be decided whether its content is new.
    pub decided: u32,
}

/// Statistics of a part of a range, as the device has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Part {
    /// Least finite element, as a key: an integer in the order of the values.
    pub min: i64,
    /// Greatest finite element, as a key.
    pub max: i64,
    /// Bits of the mean; NaN where the device has no 64-bit floats.
    pub mean: u64,
    /// Bits of the sum of squared distances from the mean; NaN likewise.
    pub squares: u64,
    /// Elements equal to zero.
    pub zeros: u64,
    /// NaN elements.
    pub nan: u64,
    /// Infinite elements.
    pub inf: u64,
    /// Finite elements; in the top bit whether mean and squares are scaled down, for values whose squares would overflow.
    pub finite: u64,
}

/// What the device found out about a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RangeResult {
    /// The content hash: low half, high half.
    pub hash: [u64; 2],
    /// Statistics of the whole range; of nothing when it has no dtype.
    pub part: Part,
}

/// Ranges that go with a launch of CUDA; more lie in a table, or make it one of [`Many`].
pub const FEW: usize = 16;
/// Ranges that go with a launch of [`HASH_MANY`](crate::HASH_MANY).
pub const MANY: usize = 80;
/// Bytes that a group of [`KEEP`](crate::KEEP) copies.
pub const CHUNK_BYTES: u64 = 64 << 10;

/// A launch may begin beside the one before it in its stream, if that lets it, and is done behind it.
pub const ORDER_BESIDE: u32 = 1;
/// It lets the next begin beside it, if that asks for it.
pub const ORDER_LETS_NEXT: u32 = 2;

/// What a launch of CUDA is given: ranges, memory to work in, and where findings go, which may be memory of the host. All by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Side {
    /// Ranges, where they are more than [`FEW`].
    pub table: u64,
    /// [`Scratch::leaf_hashes`](crate::Scratch).
    pub leaf_hashes: u64,
    /// [`Scratch::sums`](crate::Scratch).
    pub sums: u64,
    /// [`Scratch::parts`](crate::Scratch).
    pub parts: u64,
    /// [`Scratch::gates`](crate::Scratch).
    pub gates: u64,
    /// A word of 32 bits that is 0 before and after.
    pub finished: u64,
    /// [`RangeResult`]s, by their slots.
    pub results: u64,
    /// Words of 32 bits by slots: what is decided, for kernels that follow.
    pub decisions: u64,
    /// The same for the host.
    pub told: u64,
    /// The set of stored hashes; 0: nothing is decided.
    pub stored: u64,
    /// Where `ticket` is put when all findings are there; 0: nowhere.
    pub done: u64,
    /// What is put there.
    pub ticket: u64,
    /// Ranges.
    pub count: u32,
    /// Mask of the set.
    pub mask: u32,
    /// How it stands to the launches before and behind it in its stream: `ORDER_…` bits, on devices that [overlap](crate::Code::overlaps) launches.
    pub order: u32,
    /// 0.
    pub reserved0: u32,
    /// The ranges, where they are few enough.
    pub few: [Range; FEW],
}

/// The same with more ranges, which stand behind it: the side's own are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Many {
    /// All else.
    pub side: Side,
    /// The ranges.
    pub ranges: [Range; MANY],
}

/// Content that is kept if it was decided to be new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Kept {
    /// Where it lies.
    pub from: u64,
    /// Where it goes: as many bytes behind a multiple of 16 as `from`.
    pub to: u64,
    /// Its size.
    pub bytes: u64,
    /// Its first chunk among those of the launch.
    pub first_chunk: u32,
    /// Where its decision is.
    pub slot: u32,
}

/// What a launch of [`KEEP`](crate::KEEP) is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Keeping {
    /// As [`Side::decisions`].
    pub decisions: u64,
    /// A word of 32 bits that is 0 before and after.
    pub finished: u64,
    /// As [`Side::done`].
    pub done: u64,
    /// What is put there.
    pub ticket: u64,
    /// Contents.
    pub count: u32,
    /// Groups of the launch.
    pub groups: u32,
    /// The contents.
    pub few: [Kept; FEW],
}

impl Keeping {
    /// A launch for contents of which each has its place and size; first chunks are counted here.
    #[must_use]
    pub fn of(contents: &[Kept]) -> Keeping {
        let mut keeping = Keeping::new_zeroed();
        for (place, content) in keeping.few.iter_mut().zip(contents) {
            *place = Kept { first_chunk: keeping.groups, ..*content };
            let chunks = content.bytes.div_ceil(CHUNK_BYTES);
            keeping.groups = keeping.groups.saturating_add(u32::try_from(chunks).unwrap_or(u32::MAX));
            keeping.count += 1;
        }
        keeping
    }
}

const _: () = {
    assert!(size_of::<Side>() == 112 + FEW * 40 && offset_of!(Side, ticket) == 88);
    assert!(offset_of!(Side, count) == 96 && offset_of!(Side, order) == 104 && offset_of!(Side, few) == 112);
    // All that drivers of every version let a launch be given.
    assert!(offset_of!(Many, ranges) == size_of::<Side>() && size_of::<Many>() <= 4096);
    assert!(size_of::<Kept>() == 32 && offset_of!(Kept, first_chunk) == 24 && offset_of!(Kept, slot) == 28);
    assert!(size_of::<Keeping>() == 40 + FEW * 32 && offset_of!(Keeping, count) == 32);
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
