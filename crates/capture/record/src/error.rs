//! Errors of recording.

use std::path::PathBuf;

use tensortap_format::FormatError;
use tensortap_geometry::GeometryError;
use tensortap_platform::PlatformError;
use tensortap_recorder::{RegionError, SetupError};

/// Why something was not recorded, in addition to [`Outcome`](crate::Outcome).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The recorder could not be reached, or a protocol error occurred.
    #[error("cannot attach to the recorder: {0}")]
    Attach(#[source] PlatformError),
    /// The recorder's memory is not a valid region.
    #[error("invalid memory from the recorder: {0}")]
    Region(#[source] RegionError),
    /// Every lane is leased.
    #[error(
        "all {lanes} lanes are in use, one per recording thread; close unused recorders, or start more lanes with \
          record --dump-threads N"
    )]
    NoLane {
        /// Number of lanes.
        lanes: u32,
    },
    /// This process was forked from the one that attached.
    #[error("this process was forked after its parent attached; attach again")]
    Forked,
    /// The session or this handle was closed.
    #[error("the session or this handle is closed; attach again or open another handle")]
    Closed,
    /// The thread is ending and has closed its recorder.
    #[error(
        "this thread is ending and its recorder is closed; record earlier, or use a recorder from tt_recorder_open"
    )]
    ThreadEnds,
    /// The recorder had exited when the session was closed.
    #[error("the recorder has exited: records that it had not collected are lost")]
    RecorderGone,
    /// Only a commit by the caller can make room.
    #[error("no space until an earlier reservation is committed; commit it first")]
    CommitFirst,
    /// The recorder accepts no more pieces of this content.
    #[error(
        "the recorder stopped accepting this content, which is lost; see the recorder's summary for the reason"
    )]
    Lost,
    /// The reservation is too large.
    #[error("cannot reserve {bytes} bytes: {most} at most; use a larger arena per lane (--dump-arena)")]
    TooLarge {
        /// The requested size.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// The reservation is not open.
    #[error(
        "reservation {ticket} is not open: it was committed or canceled before, or belongs to another handle"
    )]
    NotReserved {
        /// Its number.
        ticket: u64,
    },
    /// A number is out of range.
    #[error("{what} {value}: {remedy}")]
    BadArgument {
        /// The name of the parameter.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What to pass instead.
        remedy: &'static str,
    },
    /// A view exceeds its memory. The dump records the argument as not captured.
    #[error("argument {arg}: {fault}")]
    BadView {
        /// Its position.
        arg: u16,
        /// What is wrong with it.
        fault: Box<ViewFault>,
    },
    /// The folder of a session cannot be written.
    #[error("{}: {source}", dir.display())]
    Folder {
        /// The folder.
        dir: PathBuf,
        /// Why not.
        source: FormatError,
    },
    /// The size of the region is invalid.
    #[error(transparent)]
    Setup(SetupError),
    /// Collecting into the session's own folder failed.
    #[error(transparent)]
    Collect(Box<dyn std::error::Error + Send + Sync>),
}

/// Why a view is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewFault {
    /// It has content but no memory.
    #[error("its data is NULL, but its buffer has {bytes} bytes")]
    Null {
        /// Size of its buffer.
        bytes: u64,
    },
    /// It exceeds its buffer.
    #[error("the view ends at byte {reaches}, but its buffer has {bytes} bytes")]
    PastBuffer {
        /// The end of the view.
        reaches: u64,
        /// Size of its buffer.
        bytes: u64,
    },
    /// Its buffer exceeds the address space.
    #[error("its buffer of {bytes} bytes exceeds the address space")]
    NoSuchMemory {
        /// Size of its buffer.
        bytes: u64,
    },
    /// Its shape, strides and start are invalid.
    #[error("{0}")]
    Geometry(GeometryError),
    /// A size, a stride or the start is too large.
    #[error("{number} is too large for a size, stride or offset; the limit is 2^53")]
    LargeNumber {
        /// The number.
        number: u64,
    },
    /// Its content, including repeated elements, is too large.
    #[error("its content is larger than 1 TiB, including repeated elements; use a smaller shape")]
    TooLarge,
}
