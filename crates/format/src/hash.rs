//! The content hash `xxh3_128_tree4k`, over bytes that come in pieces.

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Name of the hash in manifests.
pub const HASH_ALGORITHM: &str = "xxh3_128_tree4k";
/// Bytes of a leaf; content up to this size is hashed directly.
pub(crate) const LEAF_BYTES: usize = 4096;

/// Takes the content hash of bytes that come in pieces of any size. Their number is known before.
///
/// ```
/// use tensortap_format::{ContentHasher, content_hash};
/// let content = vec![7; 10_000];
/// let mut hasher = ContentHasher::new(10_000);
/// content.chunks(999).for_each(|piece| hasher.update(piece));
/// assert_eq!(hasher.digest(), content_hash(&content));
/// ```
pub struct ContentHasher {
    /// The start of a leaf that is not whole yet.
    begun: Vec<u8>,
    tree: Option<Xxh3>,
}

impl ContentHasher {
    /// For content of so many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> ContentHasher {
        let tree = (bytes > LEAF_BYTES as u64).then(|| Xxh3::with_seed(bytes));
        ContentHasher { begun: Vec::new(), tree }
    }

    /// Takes the next piece.
    pub fn update(&mut self, mut piece: &[u8]) {
        let Some(tree) = &mut self.tree else { return self.begun.extend_from_slice(piece) };
        if !self.begun.is_empty() {
            let (head, rest) = piece.split_at(piece.len().min(LEAF_BYTES - self.begun.len()));
            self.begun.extend_from_slice(head);
            piece = rest;
            if self.begun.len() == LEAF_BYTES {
                tree.update(&leaf(&self.begun));
                self.begun.clear();
            }
        }
        let leaves = piece.chunks_exact(LEAF_BYTES);
        self.begun.extend_from_slice(leaves.remainder());
        leaves.for_each(|bytes| tree.update(&leaf(bytes)));
    }

    /// The hash of all pieces.
    #[must_use]
    pub fn digest(mut self) -> u128 {
        let Some(tree) = &mut self.tree else { return xxh3_128(&self.begun) };
        if !self.begun.is_empty() {
            tree.update(&leaf(&self.begun));
        }
        tree.digest128()
    }
}

fn leaf(bytes: &[u8]) -> [u8; 16] {
    xxh3_128(bytes).to_le_bytes()
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
    let mut hash = ContentHasher::new(bytes.len() as u64);
    hash.update(bytes);
    hash.digest()
}
