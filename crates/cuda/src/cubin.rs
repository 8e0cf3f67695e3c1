//! Kernels and variables in an image of code: an ELF file that has a section `.text.NAME` for each kernel, and variables among its symbols.

mod code;

use std::collections::HashSet;

/// Bytes of a section's header, and of a name at most. Names of C++ grow long; many headers may share one that never ends.
const SECTION_BYTES: usize = 64;
const MOST_OF_NAME: usize = 1 << 14;

/// What an image has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its kernels.
    pub kernels: Vec<Kernel>,
    /// Its variables.
    pub variables: Vec<Variable>,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What it is called.
    pub name: String,
    /// Whether it may use variables in memory, and not only constants.
    pub uses_memory: bool,
}

/// A variable that outlives launches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// What it is called.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Whether the host may change it at any time.
    pub is_managed: bool,
    /// Whether it is one of those that are constant to kernels.
    pub is_constant: bool,
}

/// What an image has. Images that are none, or damaged, have nothing.
pub fn contents(image: &[u8]) -> Contents {
    let Some(file) = File::of(image) else { return Contents::default() };
    // Names take no more than the image that they stand in, once for each kind; and no more of it than there is is looked into.
    let kernels = (0..file.count).filter_map(|number| Some((number, file.name(number)?.strip_prefix(CODE)?)));
    let kernels: Vec<_> = within(image.len(), kernels, |(_, name)| name.len()).collect();
    let uses_memory = file.uses_memory(kernels.iter().map(|(number, _)| *number));
    let kernel = |((_, name), uses_memory): ((_, &str), _)| Kernel { name: name.to_owned(), uses_memory };
    Contents {
        kernels: kernels.into_iter().zip(uses_memory).map(kernel).collect(),
        variables: file.variables().unwrap_or_default(),
    }
}

/// As many as have room.
fn within<T>(
    mut room: usize,
    all: impl Iterator<Item = T>,
    size: impl Fn(&T) -> usize,
) -> impl Iterator<Item = T> {
    all.map_while(move |one| {
        room = room.checked_sub(size(&one))?;
        Some(one)
    })
}

/// Kinds of sections: symbols, and relocations of two kinds; of symbols: variables, of which those of images that are to be linked have a kind of their own, and functions.
const SYMBOLS: u32 = 2;
const RELOCATIONS: [u32; 2] = [4, 9];
const OBJECTS: [u8; 2] = [1, 13];
const FUNCTION: u8 = 2;
/// Mark of a section that holds instructions.
const INSTRUCTIONS: usize = 4;
/// Marks of a symbol that is managed, and of one that is a kernel.
const MANAGED: u8 = 4;
const ENTRY: u8 = 0x10;
/// What sections of code are called, before its name.
const CODE: &str = ".text.";
/// Sections that have variables: without a value at first, with one, and constants.
const OF_VARIABLES: [&str; 3] = [".nv.global", ".nv.global.init", CONSTANTS];
const CONSTANTS: &str = ".nv.constant3";
/// Banks of constants, among which one has the addresses of variables.
const BANK: &str = ".nv.constant";
const ADDRESSES: &str = ".nv.constant4";
/// Files of CUDA have this number.
const MACHINE: usize = 190;
/// Bytes of a symbol.
const SYMBOL_BYTES: usize = 24;

/// A file in the form that images have: 64 bits, little endian.
struct File<'i> {
    image: &'i [u8],
    start: usize,
    size: usize,
    count: usize,
    names: &'i [u8],
}

impl<'i> File<'i> {
    fn of(image: &'i [u8]) -> Option<File<'i>> {
        image.starts_with(b"\x7fELF\x02\x01").then_some(())?;
        let start = word(image, 40)?;
        let (size, count, names_at) = (half(image, 58)?, half(image, 60)?, half(image, 62)?);
        (size >= SECTION_BYTES).then_some(())?;
        let mut file = File { image, start, size, count, names: &[] };
        // A file with more sections than fit says how many in its first.
        file.count = if count == 0 { word(file.header(0)?, 32)? } else { count }.min(image.len() / size);
        let names_at = if names_at == 0xffff { quarter(file.header(0)?, 40)? as usize } else { names_at };
        file.names = file.content(names_at)?;
        Some(file)
    }

    fn header(&self, number: usize) -> Option<&'i [u8]> {
        self.image.get(self.start.checked_add(number.checked_mul(self.size)?)?..)
    }

    fn content(&self, number: usize) -> Option<&'i [u8]> {
        let header = self.header(number)?;
        self.image.get(word(header, 24)?..)?.get(..word(header, 32)?)
    }

    /// What a section is called.
    fn name(&self, number: usize) -> Option<&'i str> {
        text(self.names, quarter(self.header(number)?, 0)?)
    }

    fn variables(&self) -> Option<Vec<Variable>> {
        let at = (0..self.count).find(|&number| self.kind(number) == Some(SYMBOLS))?;
        let symbols = self.content(at)?;
        let names = self.content(usize::try_from(quarter(self.header(at)?, 40)?).ok()?)?;
        let found = symbols.chunks_exact(SYMBOL_BYTES).filter_map(|symbol| self.variable(symbol, names));
        let found = within(self.image.len(), found, |(name, ..)| name.len());
        let variable = |(name, bytes, is_managed, is_constant): (&str, _, _, _)| Variable {
            name: name.to_owned(),
            bytes,
            is_managed,
            is_constant,
        };
        Some(found.map(variable).collect())
    }

    /// Whether each of these sections of code may use variables in memory, or call what does: functions that stand for themselves may be anybody's.
    fn uses_memory(&self, sections: impl Iterator<Item = usize> + Clone) -> Vec<bool> {
        let relocated: HashSet<usize> = (0..self.count).filter_map(|number| self.relocated(number)).collect();
        let is_bank = |name: &str| name.starts_with(BANK) && !name.starts_with(ADDRESSES);
        let tells_more = relocated.iter().any(|number| self.name(*number).is_none_or(is_bank));
        let Some(kernels) = self.kernels().filter(|_| self.has_known_code() && !tells_more) else {
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
        // Code without such a name is looked for all the same, and who has it is not asked.
        let named: HashSet<usize> = sections.collect();
        by_functions |= (0..self.count).any(|number| self.is_code(number) && !named.contains(&number));
        own.into_iter().map(|reads| reads || by_functions).collect()
    }

    /// Whether a section holds instructions.
    fn is_code(&self, number: usize) -> bool {
        self.header(number).and_then(|header| word(header, 8)).is_none_or(|flags| flags & INSTRUCTIONS != 0)
    }

    /// Whether its instructions are known.
    fn has_known_code(&self) -> bool {
        let flags = quarter(self.image, 48).filter(|_| half(self.image, 18) == Some(MACHINE));
        // From version 8 of its layout on the architecture stands a byte higher.
        let shift = if self.image.get(8).is_some_and(|&version| version >= 8) { 8 } else { 0 };
        flags.is_some_and(|flags| code::is_known(flags >> shift & 0xff))
    }

    /// The section whose content the driver changes as a section of relocations says.
    fn relocated(&self, number: usize) -> Option<usize> {
        let header = self.header(number).filter(|_| RELOCATIONS.map(Some).contains(&self.kind(number)))?;
        (word(header, 32)? > 0).then_some(usize::try_from(quarter(header, 44)?).ok()?)
    }

    /// Sections of code that are kernels'.
    fn kernels(&self) -> Option<HashSet<usize>> {
        let at = (0..self.count).find(|&number| self.kind(number) == Some(SYMBOLS))?;
        let symbols = self.content(at)?.chunks_exact(SYMBOL_BYTES);
        let kernels = symbols.filter(|symbol| symbol[4] & 0xf == FUNCTION && symbol[5] & ENTRY != 0);
        Some(kernels.filter_map(|symbol| half(symbol, 6)).collect())
    }

    fn kind(&self, number: usize) -> Option<u32> {
        quarter(self.header(number)?, 4)
    }

    /// The variable that a symbol is: its name, its bytes, whether it is managed, and whether it is a constant.
    fn variable<'n>(&self, symbol: &[u8], names: &'n [u8]) -> Option<(&'n str, u64, bool, bool)> {
        let section = self.name(half(symbol, 6)?).filter(|_| OBJECTS.contains(&(symbol[4] & 0xf)))?;
        let (name, bytes) = (text(names, quarter(symbol, 0)?)?, word(symbol, 16)? as u64);
        let is_one = OF_VARIABLES.contains(&section) && bytes > 0 && !is_of_compiler(name, bytes);
        is_one.then_some((name, bytes, symbol[5] & MANAGED != 0, section == CONSTANTS))
    }
}

/// Texts that compilers make of what stands in code, and objects of libraries that are types and nothing else, of a byte each: nobody changes them.
fn is_of_compiler(name: &str, bytes: u64) -> bool {
    let is_text = name.starts_with(['$', '.'])
        || name.starts_with("__unnamed_")
        || ["__PRETTY_FUNCTION__", "__FUNCTION__", "__func__"].iter().any(|text| name.contains(text));
    let is_tag = bytes == 1
        && (["6thrust", "4cuda3std", "3cub"].iter().any(|space| name.contains(space))
            || ["4cuda", "4cute"].iter().any(|space| inside(name).starts_with(space)));
    is_text || is_tag
}

/// What a mangled name has inside of its outermost namespace, where that stands for one source alone; otherwise all of it.
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
    let texts = &texts[..texts.len().min(MOST_OF_NAME)];
    let end = texts.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&texts[..end]).ok()
}

fn quarter(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..)?.first_chunk::<4>().copied()?))
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = u64::from_le_bytes(bytes.get(at..)?.first_chunk::<8>().copied()?);
    usize::try_from(word).ok()
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_le_bytes(bytes.get(at..)?.first_chunk::<2>().copied()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with sections of these names.
    fn image(names: &[&str]) -> Vec<u8> {
        let texts: Vec<u8> = names.iter().flat_map(|name| name.bytes().chain([0])).collect();
        let mut image = vec![0; 64];
        image[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let sections = image.len() + texts.len();
        image[40..48].copy_from_slice(&(sections as u64).to_le_bytes());
        image[58] = 64;
        image[60] = u8::try_from(names.len()).unwrap();
        image.extend(&texts);
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
    fn sections_of_code_name_kernels() {
        let image = image(&[".shstrtab", ".text.add", ".nv.info.add", ".text._Z3mulPf"]);
        assert_eq!(contents(&image).kernels, ["add", "_Z3mulPf"].map(using), "nobody says what they use");
    }

    /// An image with two variables, a text of the compiler's, a constant and a function.
    fn with_variables() -> Vec<u8> {
        let mut image =
            image(&[".shstrtab", ".nv.global", ".nv.constant3", ".symtab", ".strtab", ".text.add"]);
        let sections = usize::try_from(u64::from_le_bytes(*image[40..48].first_chunk().unwrap())).unwrap();
        let texts = b"\0count\0table\0$str\0weights\0add\0";
        // Name, kind, mark, section, bytes.
        let symbols = [
            (1, 1, 0, 1, 4_u64),
            (7, 1, 4, 1, 400),
            (13, 1, 0, 1, 9),
            (18, 17, 0, 2, 256),
            (26, 2, 0, 5, 64),
        ];
        let content = image.len();
        for (name, kind, mark, section, bytes) in symbols {
            let mut symbol = [0; SYMBOL_BYTES];
            (symbol[0], symbol[4], symbol[5], symbol[6]) = (name, kind, mark, section);
            symbol[16..].copy_from_slice(&bytes.to_le_bytes());
            image.extend(symbol);
        }
        let strings = image.len();
        image.extend(texts);
        let mut set = |section: usize, at: usize, value: usize| {
            let at = sections + 64 * section + at;
            image[at..at + 8].copy_from_slice(&(value as u64).to_le_bytes());
        };
        set(3, 24, content);
        set(3, 32, strings - content);
        set(3, 40, 4);
        set(4, 24, strings);
        set(4, 32, texts.len());
        image[sections + 64 * 3 + 4] = 2;
        image
    }

    #[test]
    fn symbols_of_some_sections_are_variables() {
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
        assert!(is_of_compiler("_ZN34_INTERNAL_8_x_cu_y6thrust12placeholders2_1E", 1));
        assert!(is_of_compiler("_ZN34_INTERNAL_00000000_4_t_cu_6a3915364cuda3__47no_initE", 1));
        assert!(is_of_compiler("_ZN4cute7productE", 1) && !is_of_compiler("_ZN4cute7productE", 4));
        assert!(
            !is_of_compiler("_ZN2at4cuda4flagE", 1)
                && !is_of_compiler("_ZN99999999999999999999_INTERNAL_", 1)
        );
        assert!(is_of_compiler("_ZZN2at6kernelEvE19__PRETTY_FUNCTION__", 90) && !is_of_compiler("table", 1));
    }

    #[test]
    fn names_that_many_share_take_no_more_room_than_the_image() {
        let long = format!(".text.{}", "a".repeat(9_000));
        let one = image(&[&long]);
        let (mut shared, header) = (one.clone(), one[one.len() - 64..].to_vec());
        (1..200).for_each(|_| shared.extend(&header));
        shared[60] = 200;
        let kernels = contents(&shared).kernels;
        assert_eq!(kernels.len(), shared.len() / 9_000);
        shared[58] = 0;
        assert_eq!(contents(&shared), Contents::default(), "headers without size are as many as one likes");
    }

    #[test]
    fn what_is_no_image_has_no_kernels_however_it_is_damaged() {
        assert_eq!(
            (contents(b""), contents(b"//\n.version 8.0\n")),
            (Contents::default(), Contents::default())
        );
        let whole = with_variables();
        for at in 0..whole.len() {
            contents(&whole[..at]);
            let mut damaged = whole.clone();
            damaged[at] = 0xff;
            contents(&damaged);
        }
    }
}
