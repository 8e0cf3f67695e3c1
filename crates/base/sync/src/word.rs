//! Words that two sides share, and how each side reaches them.
//!
//! A device, and a host that maps its memory, lay [`SharedU64`] and [`SharedU32`] over the bytes. A host
//! that only copies cannot do that: it reads and writes a word as a whole by positioned I/O, which may
//! fail. Protocols whose two sides may differ in this are generic over [`Word`], which both implement. The
//! code that the model checks explore is therefore the code that the host runs.
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

/// A 64-bit word that the other side may store at any time. Every access is aligned and covers all 8 bytes.
///
/// `order` is the weakest ordering that the access must have. A copy always has acquire and release.
pub trait Word {
    /// Why the word cannot be reached.
    type Error;

    /// Loads the word.
    ///
    /// # Errors
    /// If it cannot be reached.
    fn load(&self, order: Ordering) -> Result<u64, Self::Error>;

    /// Stores the word.
    ///
    /// # Errors
    /// If it cannot be reached.
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

/// Loads a word through a call that copies it whole and orders nothing. Later copies see at least
/// everything that the other side wrote before it stored the word.
///
/// # Errors
/// The error of `copy`.
pub fn load_copied<E>(copy: impl FnOnce() -> Result<u64, E>) -> Result<u64, E> {
    let value = copy()?;
    // Pairs with a store that releases: later copies stay after this one.
    fence(Ordering::Acquire);
    Ok(value)
}

/// Stores a word through a call that copies it whole and orders nothing. A thread that loads the word with
/// acquire sees all copies made before.
///
/// # Errors
/// The error of `copy`.
pub fn store_copied<E>(copy: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    // Pairs with a load that acquires: earlier copies stay before this one.
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
            /// A word in this thread's own memory.
            #[cfg(not(loom))]
            pub const fn new(value: $int) -> Self {
                Self($atomic::new(value))
            }

            /// A word of the model.
            #[cfg(loom)]
            pub fn new(value: $int) -> Self {
                Self($atomic::new(value))
            }

            /// The value, without any ordering.
            #[inline]
            pub fn get(&self) -> $int {
                self.0.load(Ordering::Relaxed)
            }

            /// Stores a value, without any ordering.
            #[inline]
            pub fn set(&self, value: $int) {
                self.0.store(value, Ordering::Relaxed);
            }

            /// The value. Writes made before it was [published](Self::publish) are visible.
            #[inline]
            pub fn see(&self) -> $int {
                self.0.load(Ordering::Acquire)
            }

            /// Stores a value. A thread that [sees](Self::see) it also sees the caller's earlier writes.
            #[inline]
            pub fn publish(&self, value: $int) {
                self.0.store(value, Ordering::Release);
            }

            /// Adds, wrapping, and returns the previous value. Without any ordering.
            #[inline]
            pub fn add(&self, by: $int) -> $int {
                self.0.fetch_add(by, Ordering::Relaxed)
            }

            /// The underlying atomic, for a protocol.
            #[inline]
            pub(crate) fn raw(&self) -> &$atomic {
                &self.0
            }
        }
    };
}

shared_word! {
    /// A 32-bit word that several threads or processes share. It has the layout of a `u32`.
    SharedU32, AtomicU32, u32
}

shared_word! {
    /// A 64-bit word that several threads or processes share. It has the layout of a `u64`.
    SharedU64, AtomicU64, u64
}

// Loom's atomics are larger.
#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<SharedU32>() == 4 && align_of::<SharedU32>() == 4);
    assert!(size_of::<SharedU64>() == 8 && align_of::<SharedU64>() == 8);
};

impl SharedU64 {
    /// Adds unless the sum would exceed `most`. Returns whether it added. Without any ordering.
    #[inline]
    pub fn add_up_to(&self, by: u64, most: u64) -> bool {
        let within = |before: u64| before.checked_add(by).filter(|&after| after <= most);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    /// Raises the value to at least `least` and returns the previous one. Without any ordering.
    pub fn raise_to(&self, least: u64) -> u64 {
        self.0.fetch_max(least, Ordering::Relaxed)
    }

    /// Adds and saturates at the 64-bit maximum. Returns the sum. Without any ordering.
    #[inline]
    pub fn add_saturating(&self, by: u64) -> u64 {
        let more = |before: u64| Some(before.saturating_add(by));
        let (Ok(before) | Err(before)) = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        before.saturating_add(by)
    }
}

/// Puts `T` on its own cache lines (64 bytes), so that threads that write neighboring fields do not slow
/// each other down.
///
/// ```
/// use tensortap_sync::CachePadded;
/// let counters = [CachePadded::new(1_u64), CachePadded::new(2)];
/// assert_eq!(size_of_val(&counters), 128);
/// assert_eq!(*counters[0] + *counters[1], 3);
/// ```
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    /// Puts `value` on its own cache line.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
