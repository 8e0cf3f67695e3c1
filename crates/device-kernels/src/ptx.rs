//! The kernels as every CUDA driver since 11.8 takes them.

use tensortap_values::content_hash;

use crate::{Build, SOURCE};

/// What [`PTX`] is compiled for: devices of this and of every later architecture.
pub const PTX_ARCHITECTURE: &str = "compute_75";

/// The kernels for CUDA devices, made of [`SOURCE`] by `cargo run -p tensortap-device-kernels --example gpu -- ptx`. Its first line is [`ptx_origin`].
pub const PTX: &str = include_str!("source/cuda.ptx");

/// The line that says which source and options code was made of.
#[must_use]
pub fn ptx_origin() -> String {
    let options = Build::CUDA.nvrtc_options(PTX_ARCHITECTURE).join(" ");
    let hash = content_hash(format!("{SOURCE}{options}").as_bytes());
    format!("// tensortap device-kernels {hash:032x} {options}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_was_made_of_this_source() {
        let remedy = "make it again: cargo run -p tensortap-device-kernels --example gpu -- ptx";
        assert_eq!(PTX.lines().next(), Some(ptx_origin().as_str()), "{remedy}");
        for name in
            [crate::HASH_LEAVES, crate::HASH_SPREAD, crate::HASH_MANY, crate::MEASURE_LEAVES, crate::KEEP]
        {
            assert!(PTX.contains(&format!(".visible .entry {name}(")), "{name}");
        }
    }
}
