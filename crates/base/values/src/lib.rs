//! The meaning of a tensor's bytes: elements of every dtype as numbers, as text and as positions among the
//! representable values; statistics; and the content hash. [`tensortap_abi::DType`] lists the dtypes.
//!
//! Content is little endian and contiguous; 4-bit elements are packed two to a byte, low nibble first. An
//! element's *bits* are its pattern in the low bits of a `u64`; bits above its width do not count.
//!
//! - [`decode_block`] decodes bytes as `f64`; [`decode_signed`], [`decode_unsigned`] and [`decode_bits`]
//!   decode exact integers and raw patterns; [`element_bits`] reads one element.
//! - [`encode_block`] and [`put_element_bits`] are the inverse.
//! - [`content_hash`] and [`ContentHasher`] compute the hash that a dump stores for every payload.
//! - [`to_f64`] and [`from_f64`] convert one element; [`Value`] is its exact value.
//! - [`Element`] displays as text that [`Element::parse`] reads back to the same bits.
//! - [`ordinal`] numbers the representable values, so that a distance in ULPs is a subtraction.
//! - [`Statistics`] computes minimum, maximum, mean, deviation and counts in one pass; parts can be merged.
//!
//! The crate does not know where bytes come from: no dumps, no files, no views. It uses no allocator and no
//! operating system, because devices use it too.
//!
//! ```
//! use tensortap_abi::DType;
//! use tensortap_values::{Element, decode_block, ordinal, ulp_distance};
//!
//! let mut values = [0.0; 3];
//! assert_eq!(decode_block(DType::Float4E2M1, &[0x21, 0x0f], &mut values), 3);
//! assert_eq!(values, [0.5, 1.0, -6.0]);
//!
//! let tenth = Element::parse(DType::Float16, "0.1").unwrap();
//! assert_eq!((tenth.bits, tenth.to_string().as_str()), (0x2e66, "0.1"));
//! assert_eq!(ulp_distance(DType::Float16, 0x2e66, 0x2e60), Some(6));
//! assert_eq!(ordinal(DType::Float16, 0x7e00), None, "NaN has no place among the numbers");
//! ```
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

mod block;
mod convert;
mod hash;
mod hot;
mod ordinal;
mod small_float;
mod statistics;
mod text;
mod value;
pub mod vector;

pub use block::{
    any_nan, decode_bits, decode_block, decode_block_at, decode_signed, decode_unsigned, element_bits,
    elements_in, encode_block, put_element_bits,
};
pub use convert::{from_f64, to_f64};
pub use hash::{ContentHasher, HASH_ALGORITHM, LEAF_BYTES, content_hash};
pub use hot::{Bf16, F16, F32, HotFloat};
pub use ordinal::{ordinal, ulp_distance};
pub use statistics::{F16_OVERFLOW, Statistics, Summary};
pub use text::{Element, ParseElementError};
pub use value::Value;
