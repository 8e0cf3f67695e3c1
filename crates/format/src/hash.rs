//! The content hash `xxh3_128_tree4k`, over bytes that come in pieces.

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Name of the hash in manifests.
pub const HASH_ALGORITHM: &str = "xxh3_128_tree4k";
/// Bytes of a leaf; content up to this size is hashed directly.
pub(crate) const LEAF_BYTES: usize = 4096;

/// Hashes content of a known size, fed in pieces of whole leaves except the last.
pub(crate) struct TreeHash {
    bytes: u64,
    single: u128,
    tree: Option<Xxh3>,
}

impl TreeHash {
    pub(crate) fn new(bytes: u64) -> TreeHash {
        let tree = (bytes > LEAF_BYTES as u64).then(|| Xxh3::with_seed(bytes));
        TreeHash { bytes, single: xxh3_128(&[]), tree }
    }

    /// Takes the next piece. Every piece but the last is a multiple of [`LEAF_BYTES`].
    pub(crate) fn update(&mut self, piece: &[u8]) {
        match &mut self.tree {
            None => {
                debug_assert!(piece.len() as u64 == self.bytes, "content of one leaf comes in one piece");
                self.single = xxh3_128(piece);
            }
            Some(tree) => {
                piece.chunks(LEAF_BYTES).for_each(|leaf| tree.update(&xxh3_128(leaf).to_le_bytes()))
            }
        }
    }

    pub(crate) fn digest(&self) -> u128 {
        self.tree.as_ref().map_or(self.single, Xxh3::digest128)
    }
}

/// The content hash of a payload.
///
/// ```
/// use tensortap_format::content_hash;
/// assert_eq!(content_hash(b""), 0x99aa06d3014798d86001c324468d497f);
/// assert_ne!(content_hash(&[0; 4096]), content_hash(&[0; 4097]));
/// ```
#[must_use]
pub fn content_hash(bytes: &[u8]) -> u128 {
    let mut hash = TreeHash::new(bytes.len() as u64);
    hash.update(bytes);
    hash.digest()
}
