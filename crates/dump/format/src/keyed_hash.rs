//! A keyed hash over the files of a dump that decide what it means and which code a replay runs. Only someone with the key
//! can compute it, so an equal hash proves that these files are unchanged. Payloads count through the hashes
//! in the index.

use std::{
    fs::File,
    io::{ErrorKind, Read},
    path::Path,
};

use sha2::{Digest, Sha256};

use crate::{
    ARGS_FILE, Dump, FormatError, GRAPH_FILE, INDEX_FILE, KERNEL_ARGS_FILE, MANIFEST_FILE, error::AtPath,
    index::open_beside, modules::open_plain,
};

/// Bytes of a key and of a keyed hash.
pub const KEYED_HASH_BYTES: usize = 32;

/// Bytes of a block of SHA-256, to which HMAC extends the key.
const BLOCK_BYTES: usize = 64;
/// Bytes that are read at a time.
const READ_BYTES: usize = 1 << 18;

impl Dump {
    /// The keyed hash of the dump's files as they are now: index, manifest, graph, arguments, and the images of the modules
    /// that the dump names. It is HMAC-SHA256 over each existing file in this order, modules by their number: the lengths of
    /// name and content (u64 each, little endian), the name, the content. A case in one file is the only such file.
    ///
    /// # Errors
    /// If a file cannot be read, or is not a regular file. So is a link, which could point anywhere.
    pub fn keyed_hash(&self, key: &[u8; KEYED_HASH_BYTES]) -> Result<[u8; KEYED_HASH_BYTES], FormatError> {
        let mut hmac = Hmac::new(key);
        if self.dir() != self.folder() {
            hmac.file("", open_beside(self.dir())?, self.dir())?;
            return Ok(hmac.finish());
        }
        for name in [INDEX_FILE, MANIFEST_FILE, GRAPH_FILE, ARGS_FILE, KERNEL_ARGS_FILE] {
            let path = self.folder().join(name);
            match open_beside(&path) {
                Ok(file) => hmac.file(name, file, &path)?,
                Err(FormatError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        for name in self.modules().iter().filter_map(crate::Module::file) {
            let path = self.folder().join(&name);
            match open_plain(&path) {
                Ok(file) => hmac.file(&name.to_string_lossy(), file, &path)?,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error).at("open", &path),
            }
        }
        Ok(hmac.finish())
    }
}

/// HMAC-SHA256 of everything that is added.
struct Hmac {
    inner: Sha256,
    outer: Sha256,
}

impl Hmac {
    fn new(key: &[u8; KEYED_HASH_BYTES]) -> Hmac {
        let keyed = |pad: u8| {
            let mut block = [pad; BLOCK_BYTES];
            block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
            Sha256::new().chain_update(block)
        };
        Hmac { inner: keyed(0x36), outer: keyed(0x5c) }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.inner.update(bytes);
    }

    /// Adds a file with its name. A file that changes its length meanwhile is an error.
    fn file(&mut self, name: &str, file: File, path: &Path) -> Result<(), FormatError> {
        let length = file.metadata().at("measure", path)?.len();
        self.add(&(name.len() as u64).to_le_bytes());
        self.add(&length.to_le_bytes());
        self.add(name.as_bytes());
        let (mut content, mut bytes, mut left) =
            (file.take(length.saturating_add(1)), vec![0; READ_BYTES], length);
        loop {
            match content.read(&mut bytes) {
                Ok(0) if left == 0 => return Ok(()),
                Ok(read @ 1..) if read as u64 <= left => {
                    self.add(&bytes[..read]);
                    left -= read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).at("read", path),
                Ok(_) => {
                    let changed = std::io::Error::other("its length has changed meanwhile");
                    return Err(changed).at("read", path);
                }
            }
        }
    }

    fn finish(self) -> [u8; KEYED_HASH_BYTES] {
        self.outer.chain_update(self.inner.finalize()).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second test case of RFC 4231. HMAC extends a short key with zeros.
    #[test]
    fn equals_the_published_example() {
        let mut key = [0; KEYED_HASH_BYTES];
        key[..4].copy_from_slice(b"Jefe");
        let mut hmac = Hmac::new(&key);
        hmac.add(b"what do ya want ");
        hmac.add(b"for nothing?");
        let hex: String = hmac.finish().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
