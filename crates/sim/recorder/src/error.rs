//! Errors of a region, of its setup, and of reading a tensor.

use tensortap_geometry::GeometryError;

/// Why a device does not use a dump region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The header is not in device memory, or not on a cache line.
    #[error(
        "the dump region at {addr:#x} is not in device memory or not on a cache line: pass the address the host allocated"
    )]
    NotInMemory {
        /// The address that was passed.
        addr: u64,
    },
    /// Not a dump region.
    #[error(
        "the dump region starts with {magic:#010x} instead of \"DUMP\": the host must write its setup before the launch"
    )]
    BadMagic {
        /// First word.
        magic: u32,
    },
    /// A different layout version.
    #[error(
        "the dump region has layout version {version}, this device knows {known}: use host and device of one build"
    )]
    BadVersion {
        /// Version found.
        version: u32,
        /// Version of this build.
        known: u32,
    },
    /// A header field with an invalid value.
    #[error("the dump header's {field} is {value}: the host must write its setup before the launch")]
    BadField {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A part of the region is too small, outside device memory, misplaced or overlaps another.
    #[error(
        "the dump region's {part} ({bytes} bytes at {addr:#x}) must be {needed} separate bytes in device memory: the host must write its setup before the launch"
    )]
    BadPart {
        /// Which part.
        part: &'static str,
        /// Its address in the header.
        addr: u64,
        /// Its size in the header.
        bytes: u64,
        /// The size that it needs.
        needed: u64,
    },
    /// A lane's state is not that of a fresh region.
    #[error(
        "the dump state of lane {lane} has {field} {value} instead of {fresh}: the host must write its setup before every launch"
    )]
    NotFresh {
        /// Lane.
        lane: u32,
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// Its value in a fresh region.
        fresh: u64,
    },
    /// The region has no such lane.
    #[error("lane {lane} is not in a dump region of {lanes} lanes: set it up for all threads that record")]
    NoSuchLane {
        /// Requested lane.
        lane: u32,
        /// Number of lanes.
        lanes: u32,
    },
    /// Every lane is leased.
    #[error(
        "all {lanes} lanes of the dump region are leased: set it up for all threads that record at a time"
    )]
    NoLaneFree {
        /// Number of lanes.
        lanes: u32,
    },
    /// Another thread records in this lane.
    #[error("lane {lane} of the dump region is leased already: keep one per thread")]
    LaneTaken {
        /// Requested lane.
        lane: u32,
    },
}

/// Why a region cannot be set up with these options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The base is not on a cache line.
    #[error("invalid dump region address {base:#x}: align it to {align} bytes")]
    Unaligned {
        /// The address that was passed.
        base: u64,
        /// Alignment needed.
        align: u64,
    },
    /// An invalid size.
    #[error("invalid dump region: {field} is {value}; it must be {remedy}")]
    BadSize {
        /// Name of the option.
        field: &'static str,
        /// The requested value.
        value: u64,
        /// Valid values.
        remedy: &'static str,
    },
    /// The region would not fit into 64-bit addresses.
    #[error("the dump region would exceed 64-bit addresses: use fewer or smaller buffers and arenas")]
    TooLarge,
    /// More ranges of tasks than the filter holds.
    #[error("the filter has {ranges} task ranges, but at most {most} are supported: merge some")]
    TooManyTaskRanges {
        /// Requested ranges.
        ranges: u64,
        /// Ranges supported.
        most: u64,
    },
}

/// Why the content of a view cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GatherError {
    /// The view extends past its buffer.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The content, repeated elements included, has more than 2^63 bytes.
    #[error("{numel} elements of {elem_bits} bits exceed the size of any payload: use a smaller shape")]
    TooLarge {
        /// Number of elements.
        numel: u64,
        /// Width of an element.
        elem_bits: u32,
    },
}
