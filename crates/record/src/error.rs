//! What can go wrong for a program that records itself.

use std::path::PathBuf;

use tensortap_collector::CollectError;
use tensortap_format::FormatError;
use tensortap_geometry::GeometryError;
use tensortap_platform::PlatformError;
use tensortap_recorder::{RegionError, SetupError};

/// Why something was not recorded, beside what an [`Outcome`](crate::Outcome) says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The recorder could not be reached, or it and this library did not understand one another.
    #[error("cannot attach to the recorder: {0}")]
    Attach(#[source] PlatformError),
    /// The memory that the recorder handed over is no region to record in.
    #[error("the recorder handed over what cannot be recorded in: {0}")]
    Region(#[source] RegionError),
    /// Every lane is leased.
    #[error(
        "all {lanes} lanes are taken: as many threads can record at a time; close handles that are not needed, or give the recorder \
         more (record --dump-threads N)"
    )]
    NoLane {
        /// Lanes that there are.
        lanes: u32,
    },
    /// This process was forked from the one that attached.
    #[error("this process was forked from the one that attached: attach anew")]
    Forked,
    /// The session was closed, or this handle of it.
    #[error("the session is closed, or this handle of it: attach anew, or open another")]
    Closed,
    /// The thread is about to end, and has closed its recorder.
    #[error(
        "this thread is ending and its recorder is closed: open one of your own before (tt_recorder_open), or record earlier"
    )]
    ThreadEnds,
    /// The recorder was gone when the session was closed.
    #[error("the recorder is gone: what it had not yet taken of this process is lost")]
    RecorderGone,
    /// Only a commit of the caller's own makes room.
    #[error("there is no room before an earlier reservation is committed: commit first")]
    CommitFirst,
    /// The recorder takes no more of content that comes in pieces.
    #[error("the recorder takes no more of this content, which is lost: see why with its summary")]
    Lost,
    /// Nothing that large can be reserved.
    #[error(
        "{bytes} bytes cannot be reserved at a time: {most} at most; give each lane a larger arena (--dump-arena)"
    )]
    TooLarge {
        /// Bytes asked for.
        bytes: u64,
        /// The most that can be reserved.
        most: u64,
    },
    /// A reservation of this number is not open.
    #[error(
        "reservation {ticket} is not open: it was committed or given up before, or belongs to another handle"
    )]
    NotReserved {
        /// Its number.
        ticket: u64,
    },
    /// More kernels, dimensions or arguments than there can be, or a number that names nothing.
    #[error("{what} {value}: {remedy}")]
    BadArgument {
        /// What it is.
        what: &'static str,
        /// What was given.
        value: u64,
        /// What would do.
        remedy: &'static str,
    },
    /// A view is none of its memory. That the argument could not be captured is recorded.
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
    /// A session cannot have a region of that size.
    #[error(transparent)]
    Setup(SetupError),
    /// Collecting into the session's own folder failed.
    #[error(transparent)]
    Collect(CollectError),
}

/// What is wrong with a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewFault {
    /// It has content, and no memory.
    #[error("its data is NULL, and its buffer has {bytes} bytes")]
    Null {
        /// Bytes that it should have.
        bytes: u64,
    },
    /// It needs more memory than it has.
    #[error("the view reaches to byte {reaches}, its buffer has {bytes}")]
    PastBuffer {
        /// Where it ends.
        reaches: u64,
        /// Bytes of its buffer.
        bytes: u64,
    },
    /// Its buffer ends behind the last address there is.
    #[error("its buffer of {bytes} bytes leaves the address space")]
    NoSuchMemory {
        /// Bytes of its buffer.
        bytes: u64,
    },
    /// It is no view of any buffer.
    #[error("{0}")]
    Geometry(GeometryError),
    /// A size, a stride or its start is larger than any.
    #[error("{number} is no size, stride or offset that can be recorded: less than 2^53 is")]
    LargeNumber {
        /// The number.
        number: u64,
    },
    /// Its content, repeated elements included, is larger than any.
    #[error(
        "its content is larger than any that can be recorded, 1 TiB with elements counted as often as they are repeated: give a \
         smaller shape"
    )]
    TooLarge,
}
