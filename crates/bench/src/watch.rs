//! Who watches a measurement, which takes minutes.

use crate::BenchError;

/// Told how a measurement goes on, and asked whether it shall. `P` is a part of its report, told as soon as it is known. Whoever does not want
/// to know gives `&()`.
pub trait Watch<P> {
    /// So many steps there will be.
    fn expect(&self, _steps: u64) {}
    /// A step begins.
    fn begin(&self, _what: String) {}
    /// A step is done.
    fn advance(&self) {}
    /// A part of the report.
    fn part(&self, _part: P) {}
    /// Whether to go on; else the measurement ends with [`BenchError::Interrupted`].
    fn goes_on(&self) -> bool {
        true
    }
}

impl<P> Watch<P> for () {}

/// Ends a measurement that is no longer wanted.
pub(crate) fn check<P>(watch: &dyn Watch<P>) -> Result<(), BenchError> {
    if watch.goes_on() { Ok(()) } else { Err(BenchError::Interrupted) }
}

/// Measures both sides in turn, the first of them changing, so that what drifts meets both alike. One warm-up of each is
/// not kept.
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
    fn sides_take_turns_in_going_first_and_the_warm_up_is_not_kept() {
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
    fn a_watcher_ends_it() {
        struct Impatient;
        impl Watch<()> for Impatient {
            fn goes_on(&self) -> bool {
                false
            }
        }
        let never = || -> Result<(), BenchError> { panic!("nothing is measured") };
        let ended = in_pairs(&Impatient as &dyn Watch<()>, "x", 1, never, never);
        assert!(matches!(ended, Err(BenchError::Interrupted)));
    }
}
