//! What can be wrong with a region, with the wish for one, or with a tensor.

use tensortap_geometry::GeometryError;

/// Why a device does not use a dump region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The header does not lie in device memory, on a cache line.
    #[error(
        "the dump region at {addr:#x} is not in device memory or not on a cache line: pass the address the host allocated"
    )]
    NotInMemory {
        /// Address given.
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
    /// Another layout.
    #[error(
        "the dump region has layout version {version}, this device knows {known}: use host and device of one build"
    )]
    BadVersion {
        /// Version found.
        version: u32,
        /// Version of this build.
        known: u32,
    },
    /// A header field that has no meaning.
    #[error("the dump header's {field} is {value}: the host must write its setup before the launch")]
    BadField {
        /// Name of the field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// A part of the region is too small, outside device memory, misplaced or overlaps another.
    #[error(
        "the dump region's {part} ({bytes} bytes at {addr:#x}) are not {needed} bytes of their own in device memory: the host must write its setup before the launch"
    )]
    BadPart {
        /// Which part.
        part: &'static str,
        /// Where it is said to lie.
        addr: u64,
        /// How large it is said to be.
        bytes: u64,
        /// How large it has to be.
        needed: u64,
    },
    /// A lane's state is not that of a region nobody has used.
    #[error(
        "the dump state of lane {lane} has {field} {value} instead of {fresh}: the host must write its setup before every launch"
    )]
    NotFresh {
        /// Lane.
        lane: u32,
        /// Name of the field.
        field: &'static str,
        /// What it holds.
        value: u64,
        /// What it holds in a fresh region.
        fresh: u64,
    },
    /// The region has no such lane.
    #[error("lane {lane} is not in a dump region of {lanes} lanes: set it up for all threads that record")]
    NoSuchLane {
        /// Lane asked for.
        lane: u32,
        /// Lanes there are.
        lanes: u32,
    },
    /// Every lane is leased.
    #[error(
        "all {lanes} lanes of the dump region are leased: set it up for all threads that record at a time"
    )]
    NoLaneFree {
        /// Lanes there are.
        lanes: u32,
    },
    /// Somebody records there.
    #[error("lane {lane} of the dump region is leased already: keep one per thread")]
    LaneTaken {
        /// Lane asked for.
        lane: u32,
    },
}

/// Why a region cannot be set up as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The base is not on a cache line.
    #[error("the dump region cannot lie at {base:#x}: align it to {align} bytes")]
    Unaligned {
        /// Address given.
        base: u64,
        /// Alignment needed.
        align: u64,
    },
    /// A size that no region can have.
    #[error("a dump region with {field} {value}: give {remedy}")]
    BadSize {
        /// Name of the option.
        field: &'static str,
        /// What was asked for.
        value: u64,
        /// What would do.
        remedy: &'static str,
    },
    /// The region would not fit any address space.
    #[error("the dump region would exceed 64-bit addresses: use fewer or smaller buffers and arenas")]
    TooLarge,
    /// More ranges of tasks than the filter holds.
    #[error("the filter has {ranges} ranges of tasks: at most {most} are supported, merge some")]
    TooManyTaskRanges {
        /// Ranges asked for.
        ranges: u64,
        /// Ranges supported.
        most: u64,
    },
}

/// Why the content of a view cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GatherError {
    /// The view leaves its buffer.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The content, repeated elements included, has more than 2^63 bytes.
    #[error("{numel} elements of {elem_bits} bits exceed the size of any payload: use a smaller shape")]
    TooLarge {
        /// Elements.
        numel: u64,
        /// Width of each.
        elem_bits: u32,
    },
}
