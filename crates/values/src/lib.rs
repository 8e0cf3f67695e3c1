//! What the bytes of a tensor mean: elements of every dtype as numbers, as text and on the line of representable
//! values; statistics over them, and their hash. Which dtypes there are is the table in [`tensortap_abi::DType`].
//!
//! Content is little endian and contiguous; 4-bit elements are packed two to a byte, low nibble first. An element's
//! *bits* are its pattern in the low bits of a `u64`; bits above its width do not count.
//!
//! - [`decode_block`] turns bytes into `f64`, [`decode_signed`], [`decode_unsigned`] and [`decode_bits`] into exact
//!   integers and raw patterns, [`element_bits`] picks one element.
//! - [`encode_block`] and [`put_element_bits`] are the way back.
//! - [`content_hash`] and [`ContentHasher`] take the hash that a dump has of every payload.
//! - [`to_f64`] and [`from_f64`] convert one element; [`Value`] is its exact value.
//! - [`Element`] displays as text that [`Element::parse`] reads back to the same bits.
//! - [`ordinal`] counts representable values, so that a distance in units in the last place is a subtraction.
//! - [`Statistics`] takes minimum, maximum, mean, deviation and counts in one pass; parts can be merged.
//!
//! It does not know where bytes come from: no dumps, no files, no views. No allocation and no operating system: devices
//! use it too.
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
//! assert_eq!(ulp_distance(DType::Float16, tenth.bits, 0x2e60), Some(6));
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
