//! Single flags, counters and pointers for threads and signal handlers that need no protocol.
//!
//! Each is one atomic. The model checker does not cover them because there is nothing to interleave. They
//! may be used in a signal handler: every access is one instruction that neither waits nor allocates.

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
#[cfg(feature = "std")]
use std::sync::Arc;

/// A flag that is down at first and that any thread may raise. A thread that finds it raised sees every
/// write made before it was raised.
///
/// ```
/// use tensortap_sync::Flag;
/// static STOP: Flag = Flag::new();
/// assert!(!STOP.is_raised());
/// assert!(STOP.raise(), "this caller was first");
/// assert!(!STOP.raise());
/// assert!(STOP.is_raised());
/// ```
#[derive(Debug, Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// A flag that is down.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// A raised flag.
    pub const fn raised() -> Self {
        Self(AtomicBool::new(true))
    }

    /// Raises the flag and returns whether it was down. That is true for exactly one of several callers.
    #[inline]
    pub fn raise(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Lowers the flag again.
    #[inline]
    pub fn lower(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Whether the flag is up.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A flag that a signal handler of another library raises. Clones share one flag.
///
/// ```
/// use std::sync::atomic::Ordering;
/// use tensortap_sync::SignalFlag;
/// let asked = SignalFlag::default();
/// asked.for_handler().store(true, Ordering::Relaxed); // as a handler does
/// assert!(asked.is_raised());
/// ```
#[cfg(feature = "std")]
#[derive(Clone, Debug, Default)]
pub struct SignalFlag(Arc<AtomicBool>);

#[cfg(feature = "std")]
impl SignalFlag {
    /// The atomic to give to the handler.
    pub fn for_handler(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Whether the handler has raised it.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts up from zero, for any number of threads. A count orders no other memory accesses.
///
/// ```
/// use tensortap_sync::Counter;
/// static TAKEN: Counter = Counter::new();
/// assert_eq!((TAKEN.next(), TAKEN.next(), TAKEN.count()), (0, 1, 2));
/// ```
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds one and returns the count before: a number that no other caller gets.
    #[inline]
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// How often [`next`](Self::next) was called.
    #[inline]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A pointer that a signal handler loads; null at first. Writes made before it was set are visible to the
/// thread that loads it.
///
/// The user must know whether it may be dereferenced.
#[derive(Debug)]
pub struct HandlerPointer<T>(AtomicPtr<T>);

impl<T> HandlerPointer<T> {
    /// A null pointer.
    pub const fn null() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Sets the pointer.
    #[inline]
    pub fn set(&self, pointer: *mut T) {
        self.0.store(pointer, Ordering::Release);
    }

    /// Sets it to null if it still is `pointer`.
    #[inline]
    pub fn clear_if(&self, pointer: *mut T) {
        // If another thread has set a different pointer meanwhile, that one stays.
        let _ = self.0.compare_exchange(pointer, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The pointer that was set last.
    #[inline]
    pub fn get(&self) -> *mut T {
        self.0.load(Ordering::Acquire)
    }
}

/// A lock that stores which process holds it. If a process forks while another thread of its parent holds
/// the lock, the child can still take it: the thread that would release it does not exist in the child. Data that the lock guards is visible to the thread that takes it.
///
/// ```
/// use tensortap_sync::ProcessLock;
/// static LOCK: ProcessLock = ProcessLock::new();
/// let (parent, child) = (10, 11);
/// let held = LOCK.take(parent).expect("it is free");
/// assert!(LOCK.take(parent).is_none(), "another thread has it");
/// drop(held);
/// let held = LOCK.take(parent).expect("it was opened");
/// assert!(LOCK.take(child).is_some(), "no thread holds the child's copy of the lock");
/// # drop(held);
/// ```
#[derive(Debug, Default)]
pub struct ProcessLock(AtomicU64);

/// Releases a [`ProcessLock`] when dropped.
#[derive(Debug)]
#[must_use = "the lock is open again once this is dropped"]
pub struct ProcessLockGuard<'l>(&'l ProcessLock);

impl ProcessLock {
    /// A lock that is not held.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes the lock for a thread of `process` (not 0) unless another thread of that process holds it.
    /// Does not wait.
    pub fn take(&self, process: u64) -> Option<ProcessLockGuard<'_>> {
        let holder = self.0.load(Ordering::Relaxed);
        if holder == process {
            return None;
        }
        // Pairs with the store in the guard's `drop`.
        self.0.compare_exchange(holder, process, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(ProcessLockGuard(self))
    }
}

impl Drop for ProcessLockGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}
