//! What crosses between host and device; twins of the structures in `source/portable.c`.

use std::mem::offset_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

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
    /// Zero.
    pub reserved: u32,
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

const _: () = {
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
