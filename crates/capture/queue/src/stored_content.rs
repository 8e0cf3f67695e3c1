//! Which content the dump has already.

use std::collections::HashSet;

/// Hashes of content that needs not be stored again, and of content that must not be treated as stored.
///
/// A hash is in at most one of the states stored and lost.
#[derive(Clone, Debug, Default)]
pub struct StoredContent {
    /// Content that was stored, or is being stored.
    stored: HashSet<u128>,
    /// Content that a device may treat as stored although it is not.
    lost: HashSet<u128>,
    /// Lost content that a size limit left out. It will be left out again.
    left_out: HashSet<u128>,
    /// The set of stored hashes is cleared when it reaches this size.
    limit: Option<usize>,
}

impl StoredContent {
    /// A set that forgets all stored content when it has `limit` hashes. That costs one more copy of content that
    /// occurs again.
    pub fn with_limit(limit: usize) -> StoredContent {
        StoredContent { limit: Some(limit), ..StoredContent::default() }
    }

    /// Content was stored, or is being stored.
    ///
    /// ```
    /// let mut contents = tensortap_queue::StoredContent::with_limit(2);
    /// contents.insert(1);
    /// contents.insert(2);
    /// assert!(contents.is_stored(1));
    /// contents.insert(3);
    /// assert!(contents.is_stored(3) && !contents.is_stored(1));
    /// contents.lose(3);
    /// assert!(contents.is_lost(3) && !contents.is_stored(3));
    /// ```
    pub fn insert(&mut self, hash: u128) {
        if self.limit.is_some_and(|limit| self.stored.len() >= limit) {
            self.stored.clear();
        }
        self.stored.insert(hash);
        self.lost.remove(&hash);
        self.left_out.remove(&hash);
    }

    /// Content is not stored after all.
    pub fn lose(&mut self, hash: u128) {
        self.stored.remove(&hash);
        self.lost.insert(hash);
    }

    /// A size limit left this content out.
    pub fn leave_out(&mut self, hash: u128) {
        self.left_out.insert(hash);
    }

    /// Whether the dump has this content, or will have it.
    pub fn is_stored(&self, hash: u128) -> bool {
        self.stored.contains(&hash)
    }

    /// Whether this content was expected and is not stored.
    pub fn is_lost(&self, hash: u128) -> bool {
        self.lost.contains(&hash)
    }

    /// Whether a size limit left this content out.
    pub fn is_left_out(&self, hash: u128) -> bool {
        self.left_out.contains(&hash)
    }
}
