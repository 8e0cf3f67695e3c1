//! What an image of code has: kernels, and whether any variables that outlive a launch.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};
use zerocopy::IntoBytes;

/// Sections of variables that live as long as the code is loaded: those without a content of their own, those with one, and those which only the host sets.
const VARIABLES: [&str; 3] = [".nv.global", ".nv.global.init", ".nv.constant3"];

/// Whether an image has a kernel of this name. Of what is no image of one kind of device nobody knows; then it has.
#[must_use]
pub fn has_kernel(image: &[u8], kernel: &str) -> bool {
    let section = format!(".text.{kernel}");
    let image = aligned(image);
    ElfFile64::<Endianness>::parse(image.as_bytes())
        .map_or(true, |file| file.section_by_name(&section).is_some())
}

/// Whether an image has variables that outlive a launch, whoever uses them.
#[must_use]
pub fn has_variables(image: &[u8]) -> bool {
    let image = aligned(image);
    let Ok(file) = ElfFile64::<Endianness>::parse(image.as_bytes()) else { return false };
    VARIABLES.iter().any(|name| file.section_by_name(name).is_some_and(|section| section.size() > 0))
}

/// The image where its words are aligned, which its reader wants; zeros behind it.
fn aligned(image: &[u8]) -> Vec<u64> {
    let mut words = vec![0_u64; image.len().div_ceil(8)];
    words.as_mut_bytes()[..image.len()].copy_from_slice(image);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What CUDA 13's compiler makes, for `sm_90`, of a few lines that stand beside it.
    const IMAGE: &[u8] = include_bytes!("../tests/variables.cubin");

    #[test]
    fn kernels_are_found_and_variables_seen() {
        assert!(has_variables(IMAGE));
        assert!(
            has_kernel(IMAGE, "uses_other") && has_kernel(IMAGE, "plain") && !has_kernel(IMAGE, "helper")
        );
        for at in (0..IMAGE.len()).step_by(7) {
            let mut damaged = IMAGE.to_vec();
            damaged[at] ^= 0xff;
            let _ = (has_variables(&damaged), has_kernel(&damaged, "plain"), has_variables(&IMAGE[..at]));
        }
    }

    #[test]
    fn what_is_no_image_has_no_variables_and_may_have_any_kernel() {
        for bytes in [&b""[..], b".version 8.0\n", b"\x7fELF\x02\x01"] {
            assert!(!has_variables(bytes) && has_kernel(bytes, "add"));
        }
    }
}
