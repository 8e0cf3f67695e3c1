//! `.npy` files: the input is the file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tensortap_fuzz::read_arrays("a.npy", input));
