//! Single flags, counters and pointers: what threads and signal handlers tell one another without a protocol.
//!
//! Each is one atomic; none is under the model checker, for there is nothing to interleave. They may be used in a
//! signal handler: an access is one instruction that neither waits nor allocates.

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
#[cfg(feature = "std")]
use std::sync::Arc;

/// Down at first; any thread may raise it. Whoever finds it raised sees what was written before it was.
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

    /// A flag that is up.
    pub const fn raised() -> Self {
        Self(AtomicBool::new(true))
    }

    /// Raises the flag; whether it was down, which is so for exactly one of several callers.
    #[inline]
    pub fn raise(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Takes it down again.
    #[inline]
    pub fn lower(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Whether it is up.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A flag that a signal handler of another library raises. Clones are the same flag.
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
    /// What the handler is given.
    pub fn for_handler(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Whether the handler has raised it.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts up from zero, for any number of threads. A count says nothing about what was done before.
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

    /// Counts one, and gives the count before: a number that no other caller gets.
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

/// A pointer that a signal handler loads, null at first. What was written before it was set is visible to who gets it.
///
/// Whether it may be dereferenced is for its user to know.
#[derive(Debug)]
pub struct HandlerPointer<T>(AtomicPtr<T>);

impl<T> HandlerPointer<T> {
    /// Null.
    pub const fn null() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Sets it.
    #[inline]
    pub fn set(&self, pointer: *mut T) {
        self.0.store(pointer, Ordering::Release);
    }

    /// Makes it null if it still is `pointer`.
    #[inline]
    pub fn clear_if(&self, pointer: *mut T) {
        // Who has set another meanwhile keeps it.
        let _ = self.0.compare_exchange(pointer, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// What was set last.
    #[inline]
    pub fn get(&self) -> *mut T {
        self.0.load(Ordering::Acquire)
    }
}

/// A lock that knows which process holds it: one that is forked while another thread of its parent has the lock can take it all
/// the same, for the thread that would open it does not exist there. What it guards is visible to who takes it.
///
/// ```
/// use tensortap_sync::ProcessLock;
/// static LOCK: ProcessLock = ProcessLock::new();
/// let (parent, child) = (10, 11);
/// let held = LOCK.take(parent).expect("it is free");
/// assert!(LOCK.take(parent).is_none(), "another thread has it");
/// drop(held);
/// let held = LOCK.take(parent).expect("it was opened");
/// assert!(LOCK.take(child).is_some(), "the child's copy of the lock is held by nobody");
/// # drop(held);
/// ```
#[derive(Debug, Default)]
pub struct ProcessLock(AtomicU64);

/// Opens a [`ProcessLock`] when it is dropped.
#[derive(Debug)]
#[must_use = "the lock is open again once this is dropped"]
pub struct ProcessLockGuard<'l>(&'l ProcessLock);

impl ProcessLock {
    /// An open lock.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes it for a thread of `process`, a number that is not 0, unless another thread of that process has it. Does not wait.
    pub fn take(&self, process: u64) -> Option<ProcessLockGuard<'_>> {
        let holder = self.0.load(Ordering::Relaxed);
        if holder == process {
            return None;
        }
        // Pairs with the store when the guard is dropped.
        self.0.compare_exchange(holder, process, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(ProcessLockGuard(self))
    }
}

impl Drop for ProcessLockGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}
