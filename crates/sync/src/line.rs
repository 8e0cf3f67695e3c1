//! A value alone on its cache line.

use core::ops::{Deref, DerefMut};

/// Keeps `T` on cache lines of its own (64 bytes), so that threads writing neighbouring fields do not slow
/// each other down.
///
/// ```
/// use tensortap_sync::Line;
/// let counters = [Line::new(1_u64), Line::new(2)];
/// assert_eq!(size_of_val(&counters), 128);
/// assert_eq!(*counters[0] + *counters[1], 3);
/// ```
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Line<T>(T);

impl<T> Line<T> {
    /// Places `value` on its own line.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Takes the value off its line.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Line<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Line<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
