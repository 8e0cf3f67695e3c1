//! The content hash [`HASH_ALGORITHM`].
//!
//! Content of up to [`LEAF_BYTES`] is hashed with XXH3-128, seed 0. Larger content is split into leaves of
//! [`LEAF_BYTES`], the last of which may be shorter. The hash is XXH3-128, seeded with the byte length, over
//! the XXH3-128 hashes of the leaves (seed 0), 16 bytes little endian each.

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Name of the hash in manifests.
pub const HASH_ALGORITHM: &str = "xxh3_128_tree4k";
/// Size of a leaf in bytes; content up to this size is hashed directly.
pub const LEAF_BYTES: usize = 4096;

/// The hash of content in one slice.
///
/// ```
/// use tensortap_values::content_hash;
/// assert_eq!(content_hash(b""), 0x99aa06d3014798d86001c324468d497f);
/// assert_ne!(content_hash(&[0; 4096]), content_hash(&[0; 4097]));
/// ```
#[must_use]
pub fn content_hash(bytes: &[u8]) -> u128 {
    if bytes.len() <= LEAF_BYTES {
        return xxh3_128(bytes);
    }
    let mut hasher = ContentHasher::new(bytes.len() as u64);
    hasher.update(bytes);
    hasher.finish()
}

/// Hashes content that arrives in chunks of any size.
///
/// Whole leaves within a chunk are hashed at once, so chunks of whole leaves are the fastest.
///
/// ```
/// use tensortap_values::{ContentHasher, content_hash};
/// let content = [7_u8; 10_000];
/// let mut hasher = ContentHasher::new(10_000);
/// content.chunks(3000).for_each(|chunk| hasher.update(chunk));
/// assert_eq!(hasher.finish(), content_hash(&content));
/// ```
#[derive(Clone)]
pub struct ContentHasher {
    total_bytes: u64,
    fed_bytes: u64,
    /// The incomplete leaf at the end of the last chunk.
    open_leaf: Option<Xxh3>,
    /// Hashes the leaves' hashes; unused for a single leaf.
    root: Option<Xxh3>,
    /// Hash of the last complete leaf; with a single leaf, the hash of the content.
    newest: Option<u128>,
}

impl ContentHasher {
    /// A hasher for content of exactly `total_bytes`.
    #[must_use]
    pub fn new(total_bytes: u64) -> Self {
        let root = (total_bytes > LEAF_BYTES as u64).then(|| Xxh3::with_seed(total_bytes));
        Self { total_bytes, fed_bytes: 0, open_leaf: None, root, newest: None }
    }

    /// Adds the next bytes of the content.
    pub fn update(&mut self, chunk: &[u8]) {
        debug_assert!(chunk.len() as u64 <= self.left_bytes(), "more bytes than the content has");
        let mut rest = chunk;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(self.open_bytes()));
            self.feed_leaf(now);
            rest = later;
        }
    }

    /// The hash. All bytes must have been added.
    #[must_use]
    pub fn finish(self) -> u128 {
        debug_assert!(self.left_bytes() == 0, "{} bytes of the content are missing", self.left_bytes());
        match self.root {
            Some(root) => root.digest128(),
            None => self.newest.unwrap_or_else(|| xxh3_128(&[])),
        }
    }

    /// Number of bytes that were not added yet.
    #[must_use]
    pub fn left_bytes(&self) -> u64 {
        self.total_bytes - self.fed_bytes
    }

    /// Number of bytes that still fit in the current leaf.
    #[expect(clippy::cast_possible_truncation, reason = "below the size of a leaf")]
    fn open_bytes(&self) -> usize {
        LEAF_BYTES - (self.fed_bytes % LEAF_BYTES as u64) as usize
    }

    /// Adds bytes that all belong to the current leaf.
    fn feed_leaf(&mut self, bytes: &[u8]) {
        let ends_leaf = bytes.len() == self.open_bytes() || bytes.len() as u64 == self.left_bytes();
        self.fed_bytes += bytes.len() as u64;
        match (&mut self.open_leaf, ends_leaf) {
            (None, true) => self.close_leaf(xxh3_128(bytes)),
            (open, ends) => {
                let leaf = open.get_or_insert_with(Xxh3::new);
                leaf.update(bytes);
                if ends {
                    let hash = leaf.digest128();
                    self.open_leaf = None;
                    self.close_leaf(hash);
                }
            }
        }
    }

    fn close_leaf(&mut self, hash: u128) {
        self.newest = Some(hash);
        if let Some(root) = &mut self.root {
            root.update(&hash.to_le_bytes());
        }
    }
}

impl core::fmt::Debug for ContentHasher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ContentHasher")
            .field("total_bytes", &self.total_bytes)
            .field("fed_bytes", &self.fed_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
