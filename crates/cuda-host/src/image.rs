//! What an image of code has: kernels, and variables that outlive a launch.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind};

/// Sections whose variables live as long as the code is loaded: those without a content of their own, those with one, and those which only the host sets.
const SECTIONS: [&str; 3] = [".nv.global", ".nv.global.init", ".nv.constant3"];

/// Whether an image has a kernel of this name. Of what is no image of one kind of device nobody knows; then it has.
#[must_use]
pub fn has_kernel(image: &[u8], kernel: &str) -> bool {
    let section = format!(".text.{kernel}");
    ElfFile64::<Endianness>::parse(image).map_or(true, |file| file.section_by_name(&section).is_some())
}

/// Names of the variables that an image has; texts that its compiler has put there are none.
#[must_use]
pub fn variables(image: &[u8]) -> Vec<String> {
    let Ok(file) = ElfFile64::<Endianness>::parse(image) else { return Vec::new() };
    let is_kept = |symbol: &object::read::elf::ElfSymbol64<'_, '_, Endianness>| {
        let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        let name = section.as_ref().and_then(|section| section.name().ok());
        name.is_some_and(|name| SECTIONS.contains(&name))
    };
    let data = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.size() > 0);
    let names = data.filter(is_kept).filter_map(|symbol| symbol.name().ok());
    names.filter(|name| !name.starts_with('$') && !name.starts_with("__unnamed")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_image_has_no_variables_and_may_have_any_kernel() {
        for bytes in [&b""[..], b".version 8.0\n", b"\x7fELF\x02\x01"] {
            assert!(variables(bytes).is_empty() && has_kernel(bytes, "add"));
        }
    }
}
