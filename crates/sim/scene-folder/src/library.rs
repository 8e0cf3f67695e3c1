//! Reads a library as a file: its build id and exported symbols. Its code does not run in the host.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use object::{Object, ObjectKind, ObjectSymbol, ReadCache};
use xxhash_rust::xxh3::Xxh3;

use crate::FolderError;

/// Version of the C ABI in `include/tensortap.h`.
pub const ABI_VERSION: u32 = 1;

/// Libraries that were compiled with the header export a symbol with this prefix, followed by the version.
const ABI_SYMBOL_PREFIX: &str = "tensortap_abi_";

/// Identifies a file with code: `gnu:` and its build id, or `xxh3_128:` and the hash of the file if it has no
/// build id.
///
/// # Errors
///
/// If the file cannot be read.
pub fn build_id(path: &Path) -> std::io::Result<String> {
    match gnu_build_id(path)? {
        Some(id) => Ok(format!("gnu:{}", hex(&id))),
        None => Ok(format!("xxh3_128:{}", hex(&hash(path)?.to_be_bytes()))),
    }
}

/// The build id that the linker stored, if any.
fn gnu_build_id(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let cache = ReadCache::new(File::open(path)?);
    let id = object::File::parse(&cache).and_then(|file| Ok(file.build_id()?.map(<[u8]>::to_vec)));
    // Files that are not object files have no build id either.
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

/// Whether a shared library exports a symbol.
///
/// # Errors
///
/// If the file cannot be read, or is not a shared library.
pub fn exports_symbol(path: &Path, symbol: &str) -> Result<bool, FolderError> {
    Ok(Exports::read(path)?.has(symbol))
}

/// The symbols that a library exports.
pub(crate) struct Exports {
    names: Vec<String>,
}

impl Exports {
    pub fn read(path: &Path) -> Result<Exports, FolderError> {
        let io = FolderError::io("read", path);
        let cache = ReadCache::new(File::open(path).map_err(io)?);
        let invalid = |problem: String| FolderError::Library { path: path.into(), problem };
        let file = object::File::parse(&cache).map_err(|error| {
            invalid(format!(
                "it is not a shared library for this machine ({error}); build it with -shared -fPIC"
            ))
        })?;
        if file.kind() != ObjectKind::Dynamic {
            return Err(invalid("it is not a shared library; build it with -shared -fPIC".into()));
        }
        let symbols = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
        let names = symbols.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect();
        Ok(Exports { names })
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// The exported symbols that are most similar to a name, for a message.
    pub fn similar(&self, name: &str) -> Vec<&str> {
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

    /// The version of the header that the library was compiled with, if it differs from ours.
    pub fn other_version(&self) -> Option<&str> {
        let versions = self.names.iter().filter_map(|name| name.strip_prefix(ABI_SYMBOL_PREFIX));
        versions.into_iter().find(|version| *version != ABI_VERSION.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_build_id_is_identified_by_its_hash() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tool");
        std::fs::write(&path, "#!/bin/sh\n").expect("written");
        let expected = format!("xxh3_128:{:032x}", xxhash_rust::xxh3::xxh3_128(b"#!/bin/sh\n"));
        assert_eq!(build_id(&path).expect("readable"), expected);
        assert!(build_id(&folder.path().join("none")).is_err());
    }

    #[test]
    fn the_build_id_note_of_the_linker_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("noted");
        std::fs::write(&path, elf_with_note(&[0xab, 0xcd, 0x01])).expect("written");
        assert_eq!(build_id(&path).expect("readable"), "gnu:abcd01");
    }

    /// A 64-bit ELF file that contains only a build id note: header, two sections, the note, section names.
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
        // The fields link and info share a word. Both are zero, and so is the first section.
        elf.extend(vec![0; 64]);
        elf.extend(section(1, 7, note_at, note.len() as u64));
        elf.extend(section(20, 3, names_at, names.len() as u64));
        elf
    }
}
