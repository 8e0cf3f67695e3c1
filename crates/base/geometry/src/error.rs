//! The errors of layouts and view operations.

use core::fmt;

use crate::{MAX_DIMS, MAX_VIEW_BYTES};

/// Why a layout or a view operation was rejected.
///
/// Sizes, strides and offsets are in elements unless a field says bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeometryError {
    /// More dimensions than [`MAX_DIMS`].
    TooManyDims {
        /// Requested dimensions.
        ndims: usize,
    },
    /// Shape and strides have different lengths.
    RankMismatch {
        /// Length of the shape.
        shape_len: usize,
        /// Length of the strides.
        strides_len: usize,
    },
    /// The element width is not 4, 8, 16, 32, 64 or 128 bits.
    UnsupportedElemBits {
        /// Requested width.
        elem_bits: u32,
    },
    /// The number of elements does not fit in 64 bits.
    NumelOverflow,
    /// A negative stride leads below the buffer's first element.
    BelowBuffer {
        /// Lowest element the view would touch.
        lowest: i128,
    },
    /// The view would reach past [`MAX_VIEW_BYTES`].
    TooLarge {
        /// Highest element the view would touch.
        highest: i128,
        /// Element width.
        elem_bits: u32,
    },
    /// The view touches bytes after the end of its buffer.
    PastBuffer {
        /// Bytes the buffer would need.
        needed_bytes: u64,
        /// Bytes the buffer has.
        buffer_bytes: u64,
    },
    /// A dimension that the layout does not have.
    NoSuchDim {
        /// Requested dimension.
        dim: usize,
        /// Number of dimensions.
        ndims: usize,
    },
    /// A slice exceeds its dimension.
    SliceOutOfRange {
        /// Sliced dimension.
        dim: usize,
        /// Size of that dimension.
        size: u64,
        /// First index of the slice.
        start: u64,
        /// Indices in the slice.
        len: u64,
        /// Distance between them.
        step: i64,
    },
    /// A slice with step zero; use broadcast to repeat an element.
    ZeroStep {
        /// Sliced dimension.
        dim: usize,
    },
    /// Stride times step does not fit in 64 bits.
    StrideOverflow {
        /// Sliced dimension.
        dim: usize,
        /// Stride of that dimension.
        stride: i64,
        /// Requested step.
        step: i64,
    },
    /// A selected index outside its dimension.
    IndexOutOfRange {
        /// Indexed dimension.
        dim: usize,
        /// Size of that dimension.
        size: u64,
        /// Requested index.
        index: u64,
    },
    /// Only a dimension of size 1 can be repeated.
    NotBroadcastable {
        /// Requested dimension.
        dim: usize,
        /// Its size.
        size: u64,
    },
    /// Reshape of a view that is not contiguous.
    NotContiguous,
    /// Reshape to another number of elements.
    NumelMismatch {
        /// Elements of the view.
        numel: u64,
        /// Elements of the requested shape.
        wanted: u64,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooManyDims { ndims } => {
                write!(f, "{ndims} dimensions: at most {MAX_DIMS} are supported, merge some")
            }
            Self::RankMismatch { shape_len, strides_len } => {
                write!(f, "shape has {shape_len} dimensions but strides {strides_len}: give one stride each")
            }
            Self::UnsupportedElemBits { elem_bits } => {
                write!(f, "elements of {elem_bits} bits: use 4, 8, 16, 32, 64 or 128")
            }
            Self::NumelOverflow => {
                write!(f, "the number of elements does not fit in 64 bits: use a smaller shape")
            }
            Self::BelowBuffer { lowest } => {
                write!(f, "the view reaches element {lowest}, below the buffer: raise the start offset")
            }
            Self::TooLarge { highest, elem_bits } => write!(
                f,
                "the view reaches element {highest} of {elem_bits} bits: a view ends within \
                 {MAX_VIEW_BYTES} bytes"
            ),
            Self::PastBuffer { needed_bytes, buffer_bytes } => {
                write!(f, "the view needs {needed_bytes} bytes but its buffer has {buffer_bytes}")
            }
            Self::NoSuchDim { dim, ndims } => {
                write!(f, "dimension {dim} does not exist: the view has {ndims}")
            }
            Self::SliceOutOfRange { dim, size, start, len, step } => write!(
                f,
                "slice of {len} from {start} by {step} leaves dimension {dim} of size {size}: shorten it"
            ),
            Self::ZeroStep { dim } => {
                write!(f, "step 0 in dimension {dim}: select one index and broadcast it instead")
            }
            Self::StrideOverflow { dim, stride, step } => {
                write!(f, "stride {stride} times step {step} of dimension {dim} does not fit in 64 bits")
            }
            Self::IndexOutOfRange { dim, size, index } => {
                write!(f, "index {index} is outside dimension {dim} of size {size}")
            }
            Self::NotBroadcastable { dim, size } => {
                write!(f, "dimension {dim} has size {size}: only size 1 can be broadcast")
            }
            Self::NotContiguous => {
                write!(f, "the view is not contiguous and cannot be reshaped: copy it first")
            }
            Self::NumelMismatch { numel, wanted } => {
                write!(f, "a view of {numel} elements cannot be reshaped to {wanted} elements")
            }
        }
    }
}

impl core::error::Error for GeometryError {}
