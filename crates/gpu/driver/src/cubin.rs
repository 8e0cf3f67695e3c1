//! Kernels and variables of a CUDA image for one architecture: an ELF file with a section `.text.NAME` per kernel, and
//! variables among its symbols.
//!
//! Images come from recorded programs and from dumps, so they are untrusted. A damaged image counts as empty, and reading
//! it takes memory and time in proportion to its size.

mod code;

use std::collections::HashSet;

use object::LittleEndian as LE;
use object::elf::{
    EM_CUDA, FileHeader64, SHF_EXECINSTR, SHT_REL, SHT_RELA, SHT_SYMTAB, STT_FUNC, STT_OBJECT,
    SectionHeader64, Sym64,
};
use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};

/// Limit on the length of a name. Names of C++ are long, and many headers may share one that does not end.
const MAX_NAME_BYTES: usize = 1 << 14;

/// The kernels and variables of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// The variables.
    pub variables: Vec<Variable>,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its mangled name.
    pub name: String,
    /// Whether it may use variables other than constants.
    pub uses_memory: bool,
}

/// A variable, which keeps its value from launch to launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its mangled name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Whether it is `__managed__`, so that the host may change it at any time.
    pub is_managed: bool,
    /// Whether it is `__constant__`.
    pub is_constant: bool,
}

/// Reads the kernels and variables of an image. Other and damaged images have none.
#[must_use]
pub fn contents(image: &[u8]) -> Contents {
    let Some(file) = File::parse(image) else { return Contents::default() };
    // The names together take no more memory than the image.
    let kernels = (0..file.sections.len())
        .filter_map(|number| Some((number, file.name(number)?.strip_prefix(CODE_PREFIX)?)));
    let kernels: Vec<_> = within(image.len(), kernels, |(_, name)| name.len()).collect();
    let uses_memory = file.uses_memory(kernels.iter().map(|(number, _)| *number));
    let kernel = |((_, name), uses_memory): ((_, &str), _)| Kernel { name: name.to_owned(), uses_memory };
    Contents {
        kernels: kernels.into_iter().zip(uses_memory).map(kernel).collect(),
        variables: file.variables().unwrap_or_default(),
    }
}

/// Whether an image has a kernel of this name. True for an image in another format, such as PTX, whose kernels are unknown.
#[must_use]
pub fn may_have_kernel(image: &[u8], kernel: &str) -> bool {
    File::parse(image).is_none_or(|file| {
        let names = (0..file.sections.len()).filter_map(|number| file.name(number));
        names.filter_map(|name| name.strip_prefix(CODE_PREFIX)).any(|name| name == kernel)
    })
}

/// Whether an image has variables. False for an image in another format.
#[must_use]
pub fn has_variables(image: &[u8]) -> bool {
    File::parse(image).is_some_and(|file| {
        let is_of_variables = |number: &usize| {
            file.name(*number).is_some_and(|name| VARIABLE_SECTIONS.contains(&name))
                && file.sections[*number].sh_size(LE) > 0
        };
        (0..file.sections.len()).any(|number| is_of_variables(&number))
    })
}

/// The architecture of an image, such as 90 for `sm_90`; `None` for an image in another format.
#[must_use]
pub fn architecture(image: &[u8]) -> Option<u32> {
    FileHeader64::<LE>::parse(image).ok().filter(|header| header.is_little_endian()).map(architecture_of)
}

fn architecture_of(header: &FileHeader64<LE>) -> u32 {
    let flags = header.e_flags.get(LE);
    // From version 8 of the layout on, the architecture is in the second byte.
    if header.e_ident.abi_version >= 8 { flags >> 8 & 0xff } else { flags & 0xff }
}

/// Items until their total size exceeds `room`.
fn within<T>(
    mut room: usize,
    items: impl Iterator<Item = T>,
    size: impl Fn(&T) -> usize,
) -> impl Iterator<Item = T> {
    items.map_while(move |item| {
        room = room.checked_sub(size(&item))?;
        Some(item)
    })
}

/// Bits of `st_other`: a managed variable, and a kernel.
const MANAGED: u8 = 4;
const ENTRY: u8 = 0x10;
/// Sections of code have this prefix before the name of their function.
const CODE_PREFIX: &str = ".text.";
/// Sections of variables: uninitialized, initialized, and constant.
const VARIABLE_SECTIONS: [&str; 3] = [".nv.global", ".nv.global.init", CONSTANTS];
const CONSTANTS: &str = ".nv.constant3";
/// Sections of constant banks, one of which contains the addresses of variables.
const BANK_PREFIX: &str = ".nv.constant";
const ADDRESS_BANK: &str = ".nv.constant4";
/// Kinds of symbols that are variables. Images that still have to be linked use the second one.
const OBJECT_KINDS: [u8; 2] = [STT_OBJECT, 13];

/// A 64-bit little-endian ELF file.
struct File<'i> {
    image: &'i [u8],
    header: &'i FileHeader64<LE>,
    sections: &'i [SectionHeader64<LE>],
    names: &'i [u8],
}

impl<'i> File<'i> {
    fn parse(image: &'i [u8]) -> Option<File<'i>> {
        let header = FileHeader64::<LE>::parse(image).ok().filter(|header| header.is_little_endian())?;
        let sections = header.section_headers(LE, image).ok()?;
        let names = sections.get(header.section_strings_index(LE, image).ok()?.0)?.data(LE, image).ok()?;
        Some(File { image, header, sections, names })
    }

    fn content(&self, number: usize) -> Option<&'i [u8]> {
        self.sections.get(number)?.data(LE, self.image).ok()
    }

    fn name(&self, number: usize) -> Option<&'i str> {
        text(self.names, self.sections.get(number)?.sh_name(LE))
    }

    /// The symbols, and the texts of their names.
    fn symbols(&self) -> Option<(&'i [Sym64<LE>], &'i [u8])> {
        let section = self.sections.iter().find(|section| section.sh_type(LE) == SHT_SYMTAB)?;
        let symbols = section.data_as_array::<Sym64<LE>, _>(LE, self.image).ok()?;
        Some((symbols, self.content(usize::try_from(section.sh_link(LE)).ok()?)?))
    }

    fn variables(&self) -> Option<Vec<Variable>> {
        let (symbols, names) = self.symbols()?;
        let found = symbols.iter().filter_map(|symbol| self.variable(symbol, names));
        let found = within(self.image.len(), found, |(name, ..)| name.len());
        let variable = |(name, bytes, is_managed, is_constant): (&str, _, _, _)| Variable {
            name: name.to_owned(),
            bytes,
            is_managed,
            is_constant,
        };
        Some(found.map(variable).collect())
    }

    /// For each of these code sections: whether it may use variables in memory, directly or through a function it calls.
    /// The callers of a separate function are unknown, so it counts for every section.
    fn uses_memory(&self, sections: impl Iterator<Item = usize> + Clone) -> Vec<bool> {
        let relocated: HashSet<usize> =
            self.sections.iter().filter_map(|section| self.relocated(section)).collect();
        let is_bank = |name: &str| name.starts_with(BANK_PREFIX) && !name.starts_with(ADDRESS_BANK);
        let has_other_addresses = relocated.iter().any(|number| self.name(*number).is_none_or(is_bank));
        let Some(kernels) = self.kernels().filter(|_| self.has_known_code() && !has_other_addresses) else {
            return sections.map(|_| true).collect();
        };
        let mut room = self.image.len();
        let own = sections.clone().map(|number| {
            let code = self.content(number).filter(|_| !relocated.contains(&number))?;
            room = room.checked_sub(code.len())?;
            Some(code::reads_addresses(code))
        });
        let own: Vec<bool> = own.map(|reads| reads.unwrap_or(true)).collect();
        let mut by_functions =
            sections.clone().zip(&own).any(|(number, reads)| *reads && !kernels.contains(&number));
        // Code in a section with another name may be called by any kernel.
        let named: HashSet<usize> = sections.collect();
        by_functions |=
            (0..self.sections.len()).any(|number| self.is_code(number) && !named.contains(&number));
        own.into_iter().map(|reads| reads || by_functions).collect()
    }

    fn is_code(&self, number: usize) -> bool {
        self.sections[number].sh_flags(LE) & u64::from(SHF_EXECINSTR) != 0
    }

    /// Whether the encoding of its instructions is known.
    fn has_known_code(&self) -> bool {
        self.header.e_machine(LE) == EM_CUDA && code::is_known(architecture_of(self.header))
    }

    /// The section that a section of relocations changes.
    fn relocated(&self, section: &SectionHeader64<LE>) -> Option<usize> {
        let relocates = [SHT_RELA, SHT_REL].contains(&section.sh_type(LE)) && section.sh_size(LE) > 0;
        relocates.then_some(usize::try_from(section.sh_info(LE)).ok()?)
    }

    /// The code sections of kernels.
    fn kernels(&self) -> Option<HashSet<usize>> {
        let (symbols, _) = self.symbols()?;
        let kernels =
            symbols.iter().filter(|symbol| symbol.st_type() == STT_FUNC && symbol.st_other & ENTRY != 0);
        Some(kernels.map(|symbol| usize::from(symbol.st_shndx(LE))).collect())
    }

    /// Name, size, whether it is managed and whether it is constant, if a symbol is a variable.
    fn variable<'n>(&self, symbol: &Sym64<LE>, names: &'n [u8]) -> Option<(&'n str, u64, bool, bool)> {
        let section =
            self.name(symbol.st_shndx(LE).into()).filter(|_| OBJECT_KINDS.contains(&symbol.st_type()))?;
        let (name, bytes) = (text(names, symbol.st_name(LE))?, symbol.st_size(LE));
        let is_variable = VARIABLE_SECTIONS.contains(&section) && bytes > 0 && !is_of_compiler(name, bytes);
        is_variable.then_some((name, bytes, symbol.st_other & MANAGED != 0, section == CONSTANTS))
    }
}

/// Whether the compiler made the object: texts from the source, and tag types of libraries, which have one byte. Their
/// content never changes.
fn is_of_compiler(name: &str, bytes: u64) -> bool {
    let is_text = name.starts_with(['$', '.'])
        || name.starts_with("__unnamed_")
        || ["__PRETTY_FUNCTION__", "__FUNCTION__", "__func__"].iter().any(|text| name.contains(text));
    let is_tag = bytes == 1
        && (["6thrust", "4cuda3std", "3cub"].iter().any(|space| name.contains(space))
            || ["4cuda", "4cute"].iter().any(|space| inside(name).starts_with(space)));
    is_text || is_tag
}

/// The part of a mangled name inside its outermost namespace, if that is private to one source file; otherwise all of it.
fn inside(name: &str) -> &str {
    let Some(path) = name.strip_prefix("_ZN") else { return name };
    let digits = path.bytes().take_while(u8::is_ascii_digit).count();
    let (length, rest) = path.split_at(digits);
    match length.parse().ok().and_then(|length: usize| rest.split_at_checked(length)) {
        Some((own, inside)) if own.starts_with("_INTERNAL_") || own.starts_with("_GLOBAL__N") => inside,
        _ => path,
    }
}

fn text(texts: &[u8], at: u32) -> Option<&str> {
    let texts = texts.get(usize::try_from(at).ok()?..)?;
    let texts = &texts[..texts.len().min(MAX_NAME_BYTES)];
    let end = texts.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&texts[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by the compiler of CUDA 13 for `sm_90` from `variables.cu` in the same folder.
    const IMAGE: &[u8] = include_bytes!("../tests/variables.cubin");

    /// An image with an empty section and sections of these names, the first of which has the names.
    fn image(names: &[&str]) -> Vec<u8> {
        let texts: Vec<u8> = names.iter().flat_map(|name| name.bytes().chain([0])).collect();
        let mut image = vec![0; 64];
        image[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let sections = image.len() + texts.len();
        image[40..48].copy_from_slice(&(sections as u64).to_le_bytes());
        image[58] = 64;
        image[60] = u8::try_from(names.len() + 1).unwrap();
        image[62] = 1;
        image.extend(&texts);
        image.extend([0; 64]);
        let mut at = 0_u32;
        for name in names {
            let mut section = [0; 64];
            section[..4].copy_from_slice(&at.to_le_bytes());
            section[24..32].copy_from_slice(&64_u64.to_le_bytes());
            section[32..40].copy_from_slice(&(texts.len() as u64).to_le_bytes());
            image.extend(section);
            at += u32::try_from(name.len()).unwrap() + 1;
        }
        image
    }

    fn using(name: &str) -> Kernel {
        Kernel { name: name.to_owned(), uses_memory: true }
    }

    #[test]
    fn reads_kernels_and_variables_of_a_compiled_image() {
        assert!(has_variables(IMAGE));
        assert!(may_have_kernel(IMAGE, "uses_other") && may_have_kernel(IMAGE, "plain"));
        assert!(!may_have_kernel(IMAGE, "helper"));
        assert_eq!(architecture(IMAGE), Some(90));
        let whole = contents(IMAGE);
        assert!(whole.kernels.iter().any(|kernel| kernel.name == "plain" && !kernel.uses_memory));
        assert!(whole.variables.iter().any(|variable| variable.name == "factor" && variable.is_constant));
    }

    #[test]
    fn reads_the_architecture_in_every_version_of_the_layout() {
        let image = |version: u8, flags: u32| {
            let mut image = image(&[".shstrtab"]);
            image[8] = version;
            image[48..52].copy_from_slice(&flags.to_le_bytes());
            image
        };
        assert_eq!(architecture(&image(7, 0x005a_055a)), Some(90));
        assert_eq!(architecture(&image(8, 0x0600_5a04)), Some(90));
        assert_eq!(architecture(b".version 8.0"), None);
    }

    #[test]
    fn names_of_code_sections_are_kernels() {
        let image = image(&[".shstrtab", ".text.add", ".nv.info.add", ".text._Z3mulPf"]);
        assert_eq!(
            contents(&image).kernels,
            ["add", "_Z3mulPf"].map(using),
            "without symbols all may use memory"
        );
    }

    /// An image with two variables, a text of the compiler, a constant and a function.
    fn with_variables() -> Vec<u8> {
        let mut image =
            image(&[".shstrtab", ".nv.global", ".nv.constant3", ".symtab", ".strtab", ".text.add"]);
        let sections = usize::try_from(u64::from_le_bytes(*image[40..48].first_chunk().unwrap())).unwrap();
        let texts = b"\0count\0table\0$str\0weights\0add\0";
        // Name, kind, flags, section, size.
        let symbols = [
            (1, 1, 0, 2, 4_u64),
            (7, 1, 4, 2, 400),
            (13, 1, 0, 2, 9),
            (18, 17, 0, 3, 256),
            (26, 2, 0, 6, 64),
        ];
        let content = image.len();
        for (name, kind, flags, section, bytes) in symbols {
            let mut symbol = [0; 24];
            (symbol[0], symbol[4], symbol[5], symbol[6]) = (name, kind, flags, section);
            symbol[16..].copy_from_slice(&bytes.to_le_bytes());
            image.extend(symbol);
        }
        let strings = image.len();
        image.extend(texts);
        let mut set = |section: usize, at: usize, value: usize| {
            let at = sections + 64 * section + at;
            image[at..at + 8].copy_from_slice(&(value as u64).to_le_bytes());
        };
        set(4, 24, content);
        set(4, 32, strings - content);
        set(4, 40, 5);
        set(5, 24, strings);
        set(5, 32, texts.len());
        image[sections + 64 * 4 + 4] = 2;
        image
    }

    #[test]
    fn objects_in_sections_of_variables_are_variables() {
        let variable = |name: &str, bytes, is_managed, is_constant| Variable {
            name: name.to_owned(),
            bytes,
            is_managed,
            is_constant,
        };
        let found = contents(&with_variables());
        assert_eq!(found.kernels, [using("add")]);
        let expected = [
            variable("count", 4, false, false),
            variable("table", 400, true, false),
            variable("weights", 256, false, true),
        ];
        assert_eq!(found.variables, expected);
    }

    #[test]
    fn recognizes_objects_of_the_compiler() {
        assert!(is_of_compiler("_ZN34_INTERNAL_8_x_cu_y6thrust12placeholders2_1E", 1));
        assert!(is_of_compiler("_ZN34_INTERNAL_00000000_4_t_cu_6a3915364cuda3__47no_initE", 1));
        assert!(is_of_compiler("_ZN4cute7productE", 1) && !is_of_compiler("_ZN4cute7productE", 4));
        assert!(!is_of_compiler("_ZN2at4cuda4flagE", 1));
        assert!(!is_of_compiler("_ZN99999999999999999999_INTERNAL_", 1));
        assert!(is_of_compiler("_ZZN2at6kernelEvE19__PRETTY_FUNCTION__", 90) && !is_of_compiler("table", 1));
    }

    #[test]
    fn shared_names_take_no_more_memory_than_the_image() {
        let long = format!(".text.{}", "a".repeat(9_000));
        let one = image(&[&long]);
        let (mut shared, header) = (one.clone(), one[one.len() - 64..].to_vec());
        (1..200).for_each(|_| shared.extend(&header));
        shared[60] = 201;
        let kernels = contents(&shared).kernels;
        assert_eq!(kernels.len(), shared.len() / 9_000);
        shared[58] = 0;
        assert_eq!(contents(&shared), Contents::default(), "section headers of size 0");
    }

    #[test]
    fn other_and_damaged_images_are_empty() {
        for other in [&b""[..], b"//\n.version 8.0\n", b"\x7fELF\x02\x01"] {
            assert_eq!(contents(other), Contents::default());
            assert!(!has_variables(other) && may_have_kernel(other, "add"));
        }
        for whole in [&with_variables()[..], IMAGE] {
            for at in (0..whole.len()).step_by(if whole.len() > 5000 { 7 } else { 1 }) {
                let _ = contents(&whole[..at]);
                for byte in [0xff, whole[at] ^ 0xff] {
                    let mut damaged = whole.to_vec();
                    damaged[at] = byte;
                    let _ = (contents(&damaged), has_variables(&damaged), may_have_kernel(&damaged, "plain"));
                }
            }
        }
    }
}
