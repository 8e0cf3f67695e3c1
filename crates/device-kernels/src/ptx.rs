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

/// The kernels as one device takes them.
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
    /// Whether a launch may begin while the one before it in its stream runs, if both [say so](crate::Side::order).
    pub overlaps: bool,
}

/// Devices of this major capability and later ones overlap launches.
const OVERLAPS_FROM: u32 = 9;
/// What stands in [`PTX`], and what for such a device.
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
    fn the_code_was_made_of_this_source() {
        let remedy = "make it again: cargo run -p tensortap-device-kernels --example gpu -- ptx";
        assert_eq!(PTX.lines().next(), Some(ptx_origin().as_str()), "{remedy}");
        for name in
            [crate::HASH_LEAVES, crate::HASH_SPREAD, crate::HASH_MANY, crate::MEASURE_LEAVES, crate::KEEP]
        {
            assert!(PTX.contains(&format!(".visible .entry {name}(")), "{name}");
        }
    }

    #[test]
    fn every_kernel_that_hashes_has_the_words_of_devices_that_overlap_launches() {
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
