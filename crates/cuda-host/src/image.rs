//! What an image of code has: kernels, and variables that outlive a launch.

use std::collections::HashSet;

use object::read::elf::{ElfFile64, ElfSymbol64};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};

/// Sections of variables that live as long as the code is loaded: those without a content of their own, and those with one.
const DEVICE_VARIABLES: [&str; 2] = [".nv.global", ".nv.global.init"];
/// The section of variables that only the host sets. Code reaches all of it without a word in the image.
const CONSTANTS: &str = ".nv.constant3";

/// Whether an image has a kernel of this name. Of what is no image of one kind of device nobody knows; then it has.
#[must_use]
pub fn has_kernel(image: &[u8], kernel: &str) -> bool {
    let section = format!(".text.{kernel}");
    ElfFile64::<Endianness>::parse(image).map_or(true, |file| file.section_by_name(&section).is_some())
}

/// Names of the variables that kernels of an image may use: of those on the device, the ones that its code refers to, and all of those which only the host
/// sets. Texts that its compiler has put there are none.
#[must_use]
pub fn variables(image: &[u8]) -> Vec<String> {
    let Ok(file) = ElfFile64::<Endianness>::parse(image) else { return Vec::new() };
    let mut referred = HashSet::new();
    for section in file.sections() {
        let targets = section.relocations().map(|(_, relocation)| relocation.target());
        referred.extend(targets.filter_map(|target| match target {
            RelocationTarget::Symbol(symbol) => Some(symbol),
            _ => None,
        }));
    }
    let is_used = |symbol: &ElfSymbol64<'_, '_, Endianness>| {
        let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        match section.as_ref().and_then(|section| section.name().ok()) {
            Some(CONSTANTS) => true,
            Some(name) => DEVICE_VARIABLES.contains(&name) && referred.contains(&symbol.index()),
            None => false,
        }
    };
    let data = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.size() > 0);
    let names = data.filter(is_used).filter_map(|symbol| symbol.name().ok());
    names.filter(|name| !name.starts_with('$') && !name.starts_with("__unnamed")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What CUDA 13's compiler makes, for `sm_90`, of a few lines that stand beside it.
    const IMAGE: &[u8] = include_bytes!("../tests/variables.cubin");

    #[test]
    fn variables_that_code_refers_to_are_named_and_kernels_found() {
        let mut names = variables(IMAGE);
        names.sort();
        assert_eq!(names, ["factor", "hid", "other", "tab", "table_", "turns"]);
        assert!(
            has_kernel(IMAGE, "uses_other") && has_kernel(IMAGE, "plain") && !has_kernel(IMAGE, "helper")
        );
        for at in (0..IMAGE.len()).step_by(7) {
            let mut damaged = IMAGE.to_vec();
            damaged[at] ^= 0xff;
            let _ = (variables(&damaged), has_kernel(&damaged, "plain"), variables(&IMAGE[..at]));
        }
    }

    #[test]
    fn what_is_no_image_has_no_variables_and_may_have_any_kernel() {
        for bytes in [&b""[..], b".version 8.0\n", b"\x7fELF\x02\x01"] {
            assert!(variables(bytes).is_empty() && has_kernel(bytes, "add"));
        }
    }
}
