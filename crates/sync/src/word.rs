//! Words that two sides share, and how either side reaches one.
//!
//! A device, and a host that maps its memory, lay [`SharedU64`] and [`SharedU32`] over the bytes. A host that only
//! copies has no word to lay anything over: it reads and writes it whole, by positioned I/O, which may fail. Protocols
//! whose two sides may differ in this are written over [`Word`], which both implement; so the code that the model
//! checks explore is the code that the host runs.
//!
//! ```
//! use tensortap_sync::{Ordering, SharedU64, Word};
//! let word = SharedU64::new(7);
//! assert_eq!(word.load(Ordering::Acquire), Ok(7));
//! word.publish(8);
//! assert_eq!(word.see(), 8);
//! ```

use core::convert::Infallible;
use core::ops::{Deref, DerefMut};

use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A word of 64 bits that the other side may store at any time, reached by aligned accesses of all 8 bytes.
///
/// `order` is the least that the access must have; a copy always has acquire and release.
pub trait Word {
    /// Why the word cannot be reached.
    type Error;

    /// Loads the word.
    ///
    /// # Errors
    /// When it cannot be reached.
    fn load(&self, order: Ordering) -> Result<u64, Self::Error>;

    /// Stores the word.
    ///
    /// # Errors
    /// When it cannot be reached.
    fn store(&self, value: u64, order: Ordering) -> Result<(), Self::Error>;
}

impl<W: Word + ?Sized> Word for &W {
    type Error = W::Error;

    #[inline]
    fn load(&self, order: Ordering) -> Result<u64, W::Error> {
        (**self).load(order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) -> Result<(), W::Error> {
        (**self).store(value, order)
    }
}

impl Word for SharedU64 {
    type Error = Infallible;

    #[inline]
    fn load(&self, order: Ordering) -> Result<u64, Infallible> {
        Ok(self.0.load(order))
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) -> Result<(), Infallible> {
        self.0.store(value, order);
        Ok(())
    }
}

/// Loads a word by a call that copies it whole and orders nothing. Copies made afterwards see at least what the other
/// side wrote before it stored the word.
///
/// # Errors
/// What `copy` returned.
pub fn load_copied<E>(copy: impl FnOnce() -> Result<u64, E>) -> Result<u64, E> {
    let value = copy()?;
    // Pairs with a store that releases: the copies that follow stay behind this one.
    fence(Ordering::Acquire);
    Ok(value)
}

/// Stores a word by a call that copies it whole and orders nothing. Whoever loads it with acquire sees the copies that
/// were made before.
///
/// # Errors
/// What `copy` returned.
pub fn store_copied<E>(copy: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    // Pairs with a load that acquires: the copies made so far stay before this one.
    fence(Ordering::Release);
    copy()
}

macro_rules! shared_word {
    ($(#[$doc:meta])* $name:ident, $atomic:ident, $int:ty) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name($atomic);

        impl $name {
            /// A word of this thread's own memory.
            #[cfg(not(loom))]
            pub const fn new(value: $int) -> Self {
                Self($atomic::new(value))
            }

            /// A word of the model.
            #[cfg(loom)]
            pub fn new(value: $int) -> Self {
                Self($atomic::new(value))
            }

            /// The value, which says nothing about anything else.
            #[inline]
            pub fn get(&self) -> $int {
                self.0.load(Ordering::Relaxed)
            }

            /// Stores a value that says nothing about anything else.
            #[inline]
            pub fn set(&self, value: $int) {
                self.0.store(value, Ordering::Relaxed);
            }

            /// The value. What was written before it was [published](Self::publish) is visible.
            #[inline]
            pub fn see(&self) -> $int {
                self.0.load(Ordering::Acquire)
            }

            /// Stores a value: whoever [sees](Self::see) it sees what the caller wrote before.
            #[inline]
            pub fn publish(&self, value: $int) {
                self.0.store(value, Ordering::Release);
            }

            /// Adds, wrapping, and gives the value before. Says nothing about anything else.
            #[inline]
            pub fn add(&self, by: $int) -> $int {
                self.0.fetch_add(by, Ordering::Relaxed)
            }

            /// The atomic itself, for a protocol.
            #[inline]
            pub(crate) fn raw(&self) -> &$atomic {
                &self.0
            }
        }
    };
}

shared_word! {
    /// A word of 32 bits that several threads or processes share. It has the layout of a `u32`.
    SharedU32, AtomicU32, u32
}

shared_word! {
    /// A word of 64 bits that several threads or processes share. It has the layout of a `u64`.
    SharedU64, AtomicU64, u64
}

// Loom's atomics are larger.
#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<SharedU32>() == 4 && align_of::<SharedU32>() == 4);
    assert!(size_of::<SharedU64>() == 8 && align_of::<SharedU64>() == 8);
};

impl SharedU64 {
    /// Adds unless the sum would exceed `most`; whether it did. Says nothing about anything else.
    #[inline]
    pub fn add_up_to(&self, by: u64, most: u64) -> bool {
        let within = |before: u64| before.checked_add(by).filter(|&after| after <= most);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    /// Adds as far as 64 bits go, and gives the sum. Says nothing about anything else.
    #[inline]
    pub fn add_saturating(&self, by: u64) -> u64 {
        let more = |before: u64| Some(before.saturating_add(by));
        let (Ok(before) | Err(before)) = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        before.saturating_add(by)
    }
}

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
