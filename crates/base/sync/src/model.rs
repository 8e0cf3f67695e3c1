//! Shared parts of the model checks: run a model, refute a weakened protocol, and a cell that detects
//! races.

#![expect(unsafe_code, reason = "the cell that detects races needs it")]

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, Ordering::Relaxed};

use loom::cell::UnsafeCell;

use crate::atomic::AtomicU32;
use crate::word::{load_copied, store_copied};
use crate::{SharedU64, Word};

/// Preemptions per execution. Errors in these protocols need one or two.
const PREEMPTIONS: usize = 3;

/// Loom's message if two accesses to a [`RaceChecked`] are not ordered.
pub(crate) const RACE: &str = "Causality violation";
/// Loom's message if a thread polls forever for a value that no thread will write.
pub(crate) const LIVELOCK: &str = "exceeded maximum number of branches";
/// Loom's message if every thread waits.
pub(crate) const DEADLOCK: &str = "deadlock";

/// Checks that `body` passes in every interleaving, and that there is more than one interleaving.
pub(crate) fn holds(body: fn()) {
    let executions = Arc::new(AtomicUsize::new(0));
    explore(body, &executions);
    let executions = executions.load(Relaxed);
    assert!(executions > 1, "only {executions} execution explored: the check proves nothing");
    println!("{executions} executions");
}

/// Checks that `body`, which runs a weakened protocol, fails in some interleaving, with a message that
/// contains `symptom`.
pub(crate) fn refuted(symptom: &str, body: fn()) {
    let executions = Arc::new(AtomicUsize::new(0));
    let failure = catch_unwind(AssertUnwindSafe(|| explore(body, &executions)))
        .expect_err("the weakened protocol passed: the check cannot see this ordering");
    let message = failure
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| failure.downcast_ref::<&str>().copied())
        .unwrap_or_default();
    assert!(message.contains(symptom), "expected {symptom:?}, failed with {message:?}");
    println!(
        "failed in execution {}: {}",
        executions.load(Relaxed),
        message.lines().next().unwrap_or_default()
    );
}

fn explore(body: fn(), executions: &Arc<AtomicUsize>) {
    let executions = Arc::clone(executions);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(move || {
        executions.fetch_add(1, Relaxed);
        body();
    });
}

/// Declares orderings that differ from the proven ones in one constant.
macro_rules! weakened {
    ($($name:ident: $orderings:ident { $site:ident = $ordering:ident })*) => {$(
        struct $name;
        impl $orderings for $name {
            const $site: Ordering = Ordering::$ordering;
        }
    )*};
}
pub(crate) use weakened;

/// Makes loom try every order of the marked steps.
///
/// Loom reorders only where the *last* access to an atomic was another thread's. A thread that loads an
/// atomic and then stores it hides all earlier loads by other threads from loom's search. If a protocol
/// cannot avoid this, its steps are marked. The marks are relaxed, so they order nothing, but any two of
/// them conflict.
#[derive(Debug)]
pub(crate) struct Steps(AtomicU32);

impl Steps {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(crate) fn mark(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A word as a copying host sees it: each access is relaxed, as a positioned read or write is. The fences
/// around it are the real ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopiedWord<'w>(pub(crate) &'w SharedU64);

impl Word for CopiedWord<'_> {
    type Error = Infallible;

    fn load(&self, _order: Ordering) -> Result<u64, Infallible> {
        load_copied(|| Ok(self.0.get()))
    }

    fn store(&self, value: u64, _order: Ordering) -> Result<(), Infallible> {
        store_copied(|| {
            self.0.set(value);
            Ok(())
        })
    }
}

/// A copied word without the fences.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnfencedWord<'w>(pub(crate) &'w SharedU64);

impl Word for UnfencedWord<'_> {
    type Error = Infallible;

    fn load(&self, _order: Ordering) -> Result<u64, Infallible> {
        Ok(self.0.get())
    }

    fn store(&self, value: u64, _order: Ordering) -> Result<(), Infallible> {
        self.0.set(value);
        Ok(())
    }
}

/// Plain memory that a protocol must protect. Loom fails the execution if two accesses to it are not
/// ordered.
#[derive(Debug, Default)]
pub(crate) struct RaceChecked<T>(UnsafeCell<T>);

// SAFETY: loom runs the threads of a model one at a time and panics before an access that is not ordered
// after all conflicting ones.
unsafe impl<T: Send> Sync for RaceChecked<T> {}

impl<T: Copy> RaceChecked<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) fn read(&self) -> T {
        // SAFETY: the pointer is valid while `self` is borrowed; loom has checked that no write is
        // concurrent.
        self.0.with(|value| unsafe { *value })
    }

    pub(crate) fn write(&self, value: T) {
        // SAFETY: the pointer is valid while `self` is borrowed; loom has checked that no access is
        // concurrent.
        self.0.with_mut(|place| unsafe { *place = value });
    }
}
