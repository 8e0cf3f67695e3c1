//! What a library says of itself, read as a file: nothing of it runs in the host.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use object::{Object, ObjectKind, ObjectSymbol, ReadCache};
use xxhash_rust::xxh3::Xxh3;

use crate::FolderError;

/// Version of the C ABI, as `include/tensortap.h` has it.
pub const ABI_VERSION: u32 = 1;

/// Symbols of libraries that were compiled with the header begin like this; its version follows.
const ABI_MARK: &str = "tensortap_abi_";

/// Identity of a file with code: `gnu:` and its build id note, or `xxh3_128:` and the hash of the file when it has none.
///
/// # Errors
/// The file cannot be read.
pub fn build_id(path: &Path) -> std::io::Result<String> {
    match gnu_build_id(path)? {
        Some(id) => Ok(format!("gnu:{}", hex(&id))),
        None => Ok(format!("xxh3_128:{}", hex(&hash(path)?.to_be_bytes()))),
    }
}

/// The note that the linker left, if it did.
fn gnu_build_id(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let cache = ReadCache::new(File::open(path)?);
    let id = object::File::parse(&cache).and_then(|file| Ok(file.build_id()?.map(<[u8]>::to_vec)));
    // What is no executable that we know has no note either.
    Ok(id.unwrap_or_default().filter(|id| !id.is_empty()))
}

/// The hash of a file.
pub(crate) fn hash(path: &Path) -> std::io::Result<u128> {
    let mut file = File::open(path)?;
    let mut hasher = Xxh3::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.digest128()),
            read => hasher.update(&piece[..read]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a file is a shared library that exports a symbol.
///
/// # Errors
/// It cannot be read, or is no shared library.
pub fn exports_symbol(path: &Path, symbol: &str) -> Result<bool, FolderError> {
    Ok(Exports::read(path)?.has(symbol))
}

/// The functions and marks that a library exports.
pub(crate) struct Exports {
    names: Vec<String>,
}

impl Exports {
    pub fn read(path: &Path) -> Result<Exports, FolderError> {
        let io = FolderError::io("read", path);
        let cache = ReadCache::new(File::open(path).map_err(io)?);
        let odd = |problem: String| FolderError::Library { path: path.into(), problem };
        let file = object::File::parse(&cache).map_err(|error| {
            odd(format!("it is no shared library of this machine ({error}); build it with -shared -fPIC"))
        })?;
        if file.kind() != ObjectKind::Dynamic {
            return Err(odd("it is no shared library; build it with -shared -fPIC".into()));
        }
        let symbols = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
        let names = symbols.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect();
        Ok(Exports { names })
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Those that are most like a name nobody exports, for a message.
    pub fn alike(&self, name: &str) -> Vec<&str> {
        let mut known: Vec<&str> = self
            .names
            .iter()
            .map(String::as_str)
            .filter(|known| !known.starts_with('_') && !known.starts_with("tensortap_"))
            .collect();
        known.sort_by(|a, b| strsim::jaro_winkler(b, name).total_cmp(&strsim::jaro_winkler(a, name)));
        known.truncate(5);
        known
    }

    /// The version of the header that it was compiled with, where that is another one than ours.
    pub fn other_version(&self) -> Option<&str> {
        let versions = self.names.iter().filter_map(|name| name.strip_prefix(ABI_MARK));
        versions.into_iter().find(|version| *version != ABI_VERSION.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_note_is_known_by_its_hash() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tool");
        std::fs::write(&path, "#!/bin/sh\n").expect("written");
        let expected = format!("xxh3_128:{:032x}", xxhash_rust::xxh3::xxh3_128(b"#!/bin/sh\n"));
        assert_eq!(build_id(&path).expect("readable"), expected);
        assert!(build_id(&folder.path().join("none")).is_err());
    }

    #[test]
    fn a_note_is_found_where_the_linker_puts_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("noted");
        std::fs::write(&path, elf_with_note(&[0xab, 0xcd, 0x01])).expect("written");
        assert_eq!(build_id(&path).expect("readable"), "gnu:abcd01");
    }

    /// A 64-bit ELF file of nothing but a build id note: header, two sections, the note, section names.
    fn elf_with_note(id: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [4, u32::try_from(id.len()).expect("short"), 3] {
            note.extend(u32::to_le_bytes(word));
        }
        note.extend(b"GNU\0");
        note.extend(id);
        note.resize(note.len().next_multiple_of(4), 0);
        let names = b"\0.note.gnu.build-id\0.shstrtab\0";
        let section = |name: u32, kind: u32, offset: u64, size: u64| {
            let mut bytes = Vec::new();
            bytes.extend(name.to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            for word in [0, 0, offset, size, 0, 4, 0] {
                bytes.extend(u64::to_le_bytes(word));
            }
            bytes
        };
        let (note_at, names_at) = (64_u64, 64 + note.len() as u64);
        let sections_at = (names_at + names.len() as u64).next_multiple_of(8);
        let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        elf.extend(2_u16.to_le_bytes());
        elf.extend(62_u16.to_le_bytes());
        elf.extend(1_u32.to_le_bytes());
        for word in [0, 0, sections_at] {
            elf.extend(u64::to_le_bytes(word));
        }
        elf.extend(0_u32.to_le_bytes());
        for half in [64_u16, 0, 0, 64, 3, 2] {
            elf.extend(half.to_le_bytes());
        }
        elf.extend(&note);
        elf.extend(names);
        elf.resize(usize::try_from(sections_at).expect("small"), 0);
        // The fields link and info share a word; both are zero, as is the first section.
        elf.extend(vec![0; 64]);
        elf.extend(section(1, 7, note_at, note.len() as u64));
        elf.extend(section(20, 3, names_at, names.len() as u64));
        elf
    }
}
