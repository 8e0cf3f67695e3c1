//! The layouts that cross between host and device, and the small vocabulary that names their fields.
//!
//! Everything here is plain data: no pointers, no threads, no allocation. A device address is an opaque
//! `u64`. The same bytes mean the same on every platform, which compile-time asserts beside each struct check.
//! Fields that device threads share are declared as plain integers; the device reaches them through atomics
//! laid over the same bytes, the host through copies.
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
mod foreign;
mod guard;
mod kernel;
mod launch;
mod task;
mod tensor;

pub use control::*;
pub use dtype::{DType, DTypeKind, FloatFormat, TopExponent};
pub use dump::*;
pub use foreign::*;
pub use guard::{GuardLayout, GuardZones};
pub use kernel::*;
pub use launch::*;
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

/// A place in device memory. Opaque to the host: never dereferenced there.
pub type DeviceAddr = u64;

/// Bytes of a cache line; shared structs are laid out in multiples of it.
pub const CACHE_LINE_BYTES: usize = 64;
