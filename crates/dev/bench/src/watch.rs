//! Watching a benchmark, which can take minutes.

use crate::BenchError;

/// Receives the progress of a benchmark and the parts `P` of its report, and can stop it. `&()` ignores everything.
pub trait Watch<P> {
    /// Sets the total number of steps.
    fn expect(&self, _steps: u64) {}
    /// A step starts.
    fn begin(&self, _what: String) {}
    /// A step is done.
    fn advance(&self) {}
    /// Receives a part of the report.
    fn part(&self, _part: P) {}
    /// Whether to continue. Otherwise the benchmark ends with [`BenchError::Interrupted`].
    fn goes_on(&self) -> bool {
        true
    }
}

impl<P> Watch<P> for () {}

/// Stops the benchmark if the watcher asks for it.
pub(crate) fn check<P>(watch: &dyn Watch<P>) -> Result<(), BenchError> {
    if watch.goes_on() { Ok(()) } else { Err(BenchError::Interrupted) }
}

/// Measures both sides alternately, in changing order, so that drift affects both equally. The warm-up of each side is not
/// returned.
pub(crate) fn in_pairs<P, A, B>(
    watch: &dyn Watch<P>,
    what: &str,
    pairs: u32,
    mut one: impl FnMut() -> Result<A, BenchError>,
    mut other: impl FnMut() -> Result<B, BenchError>,
) -> Result<Vec<(A, B)>, BenchError> {
    let mut kept = Vec::new();
    for number in 0..=pairs {
        check(watch)?;
        let label = if number == 0 { "warm-up".into() } else { format!("pair {number}") };
        watch.begin(format!("{what}: {label}"));
        let pair = if number % 2 == 0 {
            let first = one()?;
            watch.advance();
            (first, other()?)
        } else {
            let first = other()?;
            watch.advance();
            (one()?, first)
        };
        watch.advance();
        if number > 0 {
            kept.push(pair);
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn alternates_the_order_and_discards_the_warm_up() {
        let (order, count) = (RefCell::new(String::new()), Cell::new(0));
        let side = |name: char| {
            order.borrow_mut().push(name);
            count.set(count.get() + 1);
            Ok(count.get())
        };
        let kept = in_pairs(&() as &dyn Watch<()>, "x", 2, || side('a'), || side('b')).unwrap();
        assert_eq!(order.into_inner(), "abbaab");
        assert_eq!(kept, [(4, 3), (5, 6)]);
    }

    #[test]
    fn a_watcher_can_stop_it() {
        struct Impatient;
        impl Watch<()> for Impatient {
            fn goes_on(&self) -> bool {
                false
            }
        }
        let never = || -> Result<(), BenchError> { panic!("must not be called") };
        let ended = in_pairs(&Impatient as &dyn Watch<()>, "x", 1, never, never);
        assert!(matches!(ended, Err(BenchError::Interrupted)));
    }
}
