//! The fixed-size parts of the index, byte by byte. All numbers are little endian.
//!
//! File header, 64 bytes, followed by the run information as JSON and spaces up to `header_bytes`:
//!
//! | offset | type | field |
//! | --- | --- | --- |
//! | 0 | 8 bytes | magic, `TAPINDEX` |
//! | 8 | u32 | version: 3, or 4 if there are several payload files; versions from 2 can be read |
//! | 12 | u32 | `header_bytes`: offset of the first frame, a multiple of 8 |
//! | 16 | u64 | run id |
//! | 24 | u64 | `info_bytes`: length of the JSON that starts at 64 |
//! | 32 | u64 | flags; bit 0: records of older tasks were removed (`--dump-last`) |
//! | 40 | u64 × 2 | zero |
//! | 56 | u64 | XXH3-64, seeded with the run id, of bytes 0–55 and bytes 64 to `header_bytes` |
//!
//! Frame: a header of 32 bytes, a body, and 8 bytes of checksum. Frames follow one another without gaps:
//!
//! | offset | type | field |
//! | --- | --- | --- |
//! | 0 | u32 | magic: `TFRM` records, `TEND` footer |
//! | 4 | u32 | `body_bytes`, a multiple of 8, at most 16 MiB |
//! | 8 | u32 | lane |
//! | 12 | u32 | records in the body |
//! | 16 | u64 | first sequence number that the frame accounts for |
//! | 24 | u64 | first sequence number after the frame |
//! | 32 | | body |
//! | 32 + `body_bytes` | u64 | XXH3-64, seeded with the run id, of everything before it in the frame |
//!
//! A frame may account for more sequence numbers than it has records: the records of a payload in pieces
//! become one record, and damaged records become none. The body of the footer is JSON padded with spaces.
//! After it, the file ends with 16 bytes: the footer's offset (u64) and the magic `TAPCLOSE`.

use tensortap_abi::{MAX_DIMS, RecordKind};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const _: () = assert!(
    cfg!(target_endian = "little"),
    "the files are little endian and structs are written to them directly"
);

/// First bytes of an index.
pub(crate) const INDEX_MAGIC: [u8; 8] = *b"TAPINDEX";
/// Version of indexes with one payload file.
pub const INDEX_VERSION: u32 = 3;
/// Version of indexes with several payload files, the newest that can be read.
pub const SEGMENTED_INDEX_VERSION: u32 = 4;
/// Oldest version that can be read.
pub const OLDEST_INDEX_VERSION: u32 = 2;
/// Last bytes of a closed index.
pub(crate) const CLOSE_MAGIC: [u8; 8] = *b"TAPCLOSE";
/// A frame of records.
pub(crate) const FRAME_MAGIC: [u8; 4] = *b"TFRM";
/// The footer's frame.
pub(crate) const FOOTER_MAGIC: [u8; 4] = *b"TEND";
/// Flag of the file header: older tasks were removed, so a thread's first frame may start at any sequence
/// number.
pub(crate) const FLAG_WINDOWED: u64 = 1;

/// Maximum size of a body, which limits what a reader allocates.
pub(crate) const MAX_BODY_BYTES: u64 = 16 << 20;
/// Writers split bodies above this size.
pub(crate) const SPLIT_BODY_BYTES: usize = 4 << 20;
/// Maximum size of the run information.
pub(crate) const MAX_INFO_BYTES: u64 = 16 << 20;
/// Minimum size of a record.
pub(crate) const MIN_RECORD_BYTES: usize = 24;
/// The largest record of a captured argument: fields, shape, strides and statistics.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 64 + 2 * MAX_DIMS * 8 + 64;
/// The largest record: fields and words of a dispatch.
pub(crate) const MAX_RECORD_BYTES: usize = 96 + tensortap_abi::MAX_DISPATCH_WORDS * 8;
const _: () = assert!(MAX_RECORD_BYTES > MAX_ARGUMENT_BYTES);
const _: () = assert!((SPLIT_BODY_BYTES + MAX_RECORD_BYTES) as u64 <= MAX_BODY_BYTES);
const _: () = assert!(SPLIT_BODY_BYTES as u64 <= MAX_BODY_BYTES);

/// The file header; see the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct FileHeader {
    pub magic: [u8; 8],
    pub version: u32,
    pub header_bytes: u32,
    pub run_id: u64,
    pub info_bytes: u64,
    pub flags: u64,
    pub reserved: [u64; 2],
    pub checksum: u64,
}
const _: () = assert!(size_of::<FileHeader>() == 64);
pub(crate) const FILE_HEADER_BYTES: usize = size_of::<FileHeader>();

/// A frame header; see the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct FrameHeader {
    pub magic: [u8; 4],
    pub body_bytes: u32,
    pub thread: u32,
    pub count: u32,
    pub first_seq: u64,
    pub next_seq: u64,
}
const _: () = assert!(size_of::<FrameHeader>() == 32);
pub(crate) const FRAME_HEADER_BYTES: usize = size_of::<FrameHeader>();
pub(crate) const CHECKSUM_BYTES: usize = 8;

/// The end mark after the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct EndMark {
    pub footer_at: u64,
    pub magic: [u8; 8],
}
pub(crate) const END_MARK_BYTES: usize = size_of::<EndMark>();

/// Whether an index contains records of this kind.
pub(crate) const fn is_indexed(kind: RecordKind) -> bool {
    !matches!(
        kind,
        RecordKind::Begin | RecordKind::Piece | RecordKind::Commit | RecordKind::Filled | RecordKind::Image
    )
}
