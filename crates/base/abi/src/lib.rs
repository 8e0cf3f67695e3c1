//! The memory layouts that host and device share, and the types that name their fields.
//!
//! Everything here is plain data: no pointers, no threads, no allocation. A device address is an opaque
//! `u64`. The same bytes mean the same on every platform; compile-time assertions next to each struct check
//! that. Fields that device threads share are declared as plain integers. The device accesses them through
//! atomics laid over the same bytes, the host through copies.
//!
//! ```
//! use tensortap_abi::{DType, TaskId};
//! assert_eq!(DType::parse("BFLOAT16"), Some(DType::BFloat16));
//! assert_eq!(TaskId::in_ring(1, 3).to_string(), "0x0000000100000003");
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod control;
mod dtype;
mod dump;
mod guard;
mod kernel;
mod kernel_abi;
mod launch;
mod simpler;
mod task;
mod tensor;

pub use control::*;
pub use dtype::{DType, DTypeKind, FloatFormat, TopExponent};
pub use dump::*;
pub use guard::{GuardLayout, GuardZones};
pub use kernel::*;
pub use kernel_abi::*;
pub use launch::*;
pub use simpler::*;
pub use task::*;
pub use tensor::{MAX_DIMS, TENSOR_DTYPE_UNKNOWN, TensorDesc};

/// Asserts size, alignment and the offset of every named field at compile time.
macro_rules! assert_layout {
    ($ty:ty, size $size:expr, align $align:expr, $($field:ident @ $offset:expr),+ $(,)?) => {
        const _: () = {
            assert!(core::mem::size_of::<$ty>() == $size);
            assert!(core::mem::align_of::<$ty>() == $align);
            $(assert!(core::mem::offset_of!($ty, $field) == $offset);)+
        };
    };
}
pub(crate) use assert_layout;

/// An address in device memory. Opaque to the host, which never dereferences it.
pub type DeviceAddr = u64;

/// Bytes of a cache line. Shared structs have a multiple of this size.
pub const CACHE_LINE_BYTES: usize = 64;
