//! The same work on many items with several threads. Results are in the order of the items.
//!
//! The calling thread takes part in the work, so one thread spawns none. A panic in a worker is resumed in the
//! calling thread with its original payload.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::thread;

use crate::{Counter, Flag};

/// Number of CPUs that this process may use, at least 1.
#[must_use]
pub fn cpu_count() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Calls `work` once with every number below `count`.
pub fn spread(threads: usize, count: usize, work: &(dyn Fn(usize) + Sync)) {
    let next = Counter::new();
    let take = || {
        while let Some(number) = usize::try_from(next.next()).ok().filter(|&number| number < count) {
            work(number);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(take);
        }
        take();
    });
}

/// Applies `each` to every item. After an error no more items are started, and the error of the first failed item
/// is returned.
///
/// ```
/// use tensortap_sync::parallel::map;
/// assert_eq!(map(4, &[1, 2, 3], |n| Ok::<_, ()>(n * 2)), Ok(vec![2, 4, 6]));
/// assert_eq!(map(4, &[1, 2, 3], |&n| if n < 2 { Ok(n) } else { Err(n) }), Err(2));
/// ```
///
/// # Errors
/// The error of the first failed item, in the order of the items.
pub fn map<T: Sync, R: Send, E: Send>(
    threads: usize,
    items: &[T],
    each: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let mut states = vec![(); threads.min(items.len()).max(1)];
    match map_with(&mut states, items, |(), item| each(item)) {
        (results, None) => Ok(results),
        (_, Some(error)) => Err(error),
    }
}

/// Like [`map`] with one thread per state, which `each` may change. Returns the results of the items before the
/// first failed one, and its error.
pub fn map_with<S: Send, T: Sync, R: Send, E: Send>(
    states: &mut [S],
    items: &[T],
    each: impl Fn(&mut S, &T) -> Result<R, E> + Sync,
) -> (Vec<R>, Option<E>) {
    let (next, failed) = (Counter::new(), Flag::new());
    let work = |state: &mut S| {
        let mut done: Vec<(usize, Result<R, E>)> = Vec::new();
        while !failed.is_raised() {
            let place = usize::try_from(next.next()).unwrap_or(usize::MAX);
            let Some(item) = items.get(place) else { break };
            let result = each(state, item);
            if result.is_err() {
                failed.raise();
            }
            done.push((place, result));
        }
        done
    };
    let Some((own, others)) = states.split_first_mut() else { return (Vec::new(), None) };
    let mut done = thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = others.iter_mut().map(|state| scope.spawn(move || work(state))).collect();
        let mut done = work(own);
        others
            .into_iter()
            .for_each(|other| done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic))));
        done
    });
    // Items are taken in order, so those without a result come after the first failed one.
    done.sort_unstable_by_key(|(place, _)| *place);
    let mut results = Vec::with_capacity(done.len());
    for (_, result) in done {
        match result {
            Ok(result) => results.push(result),
            Err(error) => return (results, Some(error)),
        }
    }
    (results, None)
}

/// Computes two values, in parallel if `threads` allows it.
pub fn both<R: Send>(threads: usize, first: impl FnOnce() -> R + Send, second: impl FnOnce() -> R) -> (R, R) {
    if threads < 2 {
        return (first(), second());
    }
    thread::scope(|scope| {
        let other = scope.spawn(first);
        let own = second();
        (other.join().unwrap_or_else(|panic| resume_unwind(panic)), own)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn spread_calls_the_work_once_per_number() {
        for (threads, count) in [(1, 5), (2, 1000), (7, 3), (3, 0)] {
            let done: Vec<Counter> = (0..count).map(|_| Counter::new()).collect();
            spread(threads, count, &|number| {
                done[number].next();
            });
            assert!(done.iter().all(|done| done.count() == 1), "{threads} threads");
        }
    }

    #[test]
    fn results_are_in_order_for_any_number_of_threads() {
        let items: Vec<u32> = (0..1000).collect();
        for threads in [0, 1, 2, 7, 2000] {
            let doubled = map(threads, &items, |n| Ok::<_, ()>(n * 2)).unwrap();
            assert!(doubled.iter().zip(&items).all(|(doubled, n)| *doubled == n * 2));
        }
        assert_eq!(map(3, &[], |n: &u32| Ok::<_, ()>(*n)), Ok(Vec::new()));
    }

    #[test]
    fn the_first_error_ends_the_work_after_the_results_before_it() {
        let items: Vec<u32> = (0..1000).collect();
        for threads in [1, 3] {
            let mut states = vec![0_u32; threads];
            let (results, error) = map_with(&mut states, &items, |count, &n| {
                *count += 1;
                if n >= 500 { Err(n) } else { Ok(n) }
            });
            assert_eq!((results.len(), error), (500, Some(500)), "{threads} threads");
            assert!(states.iter().sum::<u32>() < 1000, "{threads} threads: every item was started");
        }
    }

    #[test]
    fn a_panic_keeps_its_payload() {
        for threads in [1, 4] {
            let work =
                || map(threads, &[0; 100], |_| -> Result<(), ()> { std::panic::panic_any("canceled") });
            let payload = catch_unwind(AssertUnwindSafe(work)).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&"canceled"));
            let payload =
                catch_unwind(|| both(threads, || std::panic::panic_any("first"), || ())).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&"first"));
        }
    }
}
