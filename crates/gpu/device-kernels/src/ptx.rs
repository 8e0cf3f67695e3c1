//! The kernels as PTX, which every CUDA driver since 11.8 accepts.

use tensortap_values::content_hash;

use crate::{Build, SOURCE};

/// Architecture of [`PTX`], which later architectures also accept.
pub const PTX_ARCHITECTURE: &str = "compute_75";

/// The kernels for CUDA devices. `cargo run -p tensortap-device-kernels --example gpu -- ptx` compiles them
/// from [`SOURCE`]. The first line is [`ptx_origin`].
pub const PTX: &str = include_str!("source/cuda.ptx");

/// First line of the PTX: a hash of the source and compiler options it was made from.
#[must_use]
pub fn ptx_origin() -> String {
    let options = Build::CUDA.nvrtc_options(PTX_ARCHITECTURE).join(" ");
    let hash = content_hash(format!("{SOURCE}{options}").as_bytes());
    format!("// tensortap device-kernels {hash:032x} {options}")
}

/// The kernels for one device.
///
/// ```
/// use tensortap_device_kernels::{Code, PTX};
/// assert_eq!(Code::for_device(8).text, PTX);
/// let code = Code::for_device(9);
/// assert!(code.overlaps && code.text.contains("griddepcontrol.wait;"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The text.
    pub text: String,
    /// Whether a launch may start while its predecessor in the stream runs, if both [allow
    /// it](crate::Side::order).
    pub overlaps: bool,
}

/// First major compute capability that can overlap launches.
const OVERLAPS_FROM: u32 = 9;
/// Replacements in [`PTX`] for a device that overlaps launches.
const WORDS: [(&str, &str); 3] = [
    (".target sm_75", ".target sm_90"),
    ("// tt.let_next_begin", "griddepcontrol.launch_dependents;"),
    ("// tt.wait_for_last", "griddepcontrol.wait;"),
];

impl Code {
    /// The kernels for a device of a major compute capability.
    #[must_use]
    pub fn for_device(major: u32) -> Code {
        let overlaps = major >= OVERLAPS_FROM;
        let words = if overlaps { &WORDS[..] } else { &[] };
        let text = words.iter().fold(PTX.to_owned(), |text, (general, own)| text.replace(general, own));
        Code { text, overlaps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ptx_was_compiled_from_the_current_source() {
        let remedy = "compile it again: cargo run -p tensortap-device-kernels --example gpu -- ptx";
        assert_eq!(PTX.lines().next(), Some(ptx_origin().as_str()), "{remedy}");
        for name in
            [crate::HASH_LEAVES, crate::HASH_SPREAD, crate::HASH_MANY, crate::MEASURE_LEAVES, crate::KEEP]
        {
            assert!(PTX.contains(&format!(".visible .entry {name}(")), "{name}");
        }
    }

    #[test]
    fn every_hashing_kernel_supports_overlapping_launches() {
        let code = Code::for_device(9).text;
        for (general, own) in WORDS {
            assert!(PTX.contains(general) && !code.contains(general) && code.contains(own), "{general}");
        }
        let kernels: Vec<&str> = code.split(".visible .entry ").skip(1).collect();
        for kernel in kernels.iter().filter(|kernel| !kernel.starts_with(crate::KEEP)) {
            let count = |word: &str| kernel.matches(word).count();
            let name = kernel.lines().next();
            assert_eq!(count("griddepcontrol.launch_dependents;"), 1, "{name:?}");
            assert!(count("griddepcontrol.wait;") >= 1, "{name:?}");
        }
        assert_eq!(kernels.len(), 5);
    }
}
