use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{DType, assert_layout};

/// Maximum number of dimensions of a descriptor or record.
pub const MAX_DIMS: usize = 8;

/// A strided view of a device buffer: the descriptor that a kernel receives through a tensor slot of
/// `args[]`.
///
/// `shape` and `strides` are the last two cache lines, as in a dump record. Strides count elements and may be
/// zero or negative; `start_offset` counts elements from the buffer's first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct TensorDesc {
    /// Device address of the buffer.
    pub buffer_addr: u64,
    /// Size of the whole buffer.
    pub buffer_bytes: u64,
    /// First element of the view, in elements.
    pub start_offset: u64,
    /// Task that allocated the buffer; [`TensorDesc::NO_OWNER`] for host memory.
    pub owner_task: u64,
    /// Reuse count of the owner's slot, which identifies a stale descriptor.
    pub version: u32,
    /// [`DType`] tag.
    pub dtype: u8,
    /// Dimensions in use.
    pub ndims: u8,
    /// [`TENSOR_DTYPE_UNKNOWN`] or zero.
    pub flags: u16,
    /// Zero.
    pub reserved: [u64; 3],
    /// Sizes, zero past `ndims`.
    pub shape: [u64; MAX_DIMS],
    /// Strides in elements, zero past `ndims`.
    pub strides: [i64; MAX_DIMS],
}

/// Flag of a [`TensorDesc`]: the elements are bytes of an unknown type.
pub const TENSOR_DTYPE_UNKNOWN: u16 = 1;

assert_layout!(TensorDesc, size 192, align 64,
    buffer_addr @ 0, buffer_bytes @ 8, start_offset @ 16, owner_task @ 24, version @ 32, dtype @ 36, ndims @ 37,
    flags @ 38, reserved @ 40, shape @ 64, strides @ 128);

impl TensorDesc {
    /// `owner_task` of memory that no task allocated.
    pub const NO_OWNER: u64 = u64::MAX;

    /// The element type, `None` when the tag is damaged.
    pub fn dtype(&self) -> Option<DType> {
        DType::from_tag(self.dtype)
    }

    /// The shape in use. A damaged `ndims` is limited to [`MAX_DIMS`].
    pub fn dims(&self) -> &[u64] {
        &self.shape[..usize::from(self.ndims).min(MAX_DIMS)]
    }

    /// The strides in use, in elements.
    pub fn dim_strides(&self) -> &[i64] {
        &self.strides[..usize::from(self.ndims).min(MAX_DIMS)]
    }
}
