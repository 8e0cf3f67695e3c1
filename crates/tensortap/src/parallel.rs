//! The same work on many items by several threads, with results in the order of the items.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::thread;

use tensortap_sync::{Counter, Flag};

/// Items taken at a time: enough that threads seldom wait for each other, few enough that memory stays bounded.
const BATCH: usize = 4096;

/// A number of threads: as many as asked for, or one for each CPU.
pub fn threads(jobs: Option<usize>) -> usize {
    jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZeroUsize::get)).max(1)
}

/// Does `work` with every number below `count` by several threads.
pub fn spread(jobs: usize, count: usize, work: &(dyn Fn(usize) + Sync)) {
    let next = Counter::new();
    let take = || {
        while let Some(number) = usize::try_from(next.next()).ok().filter(|&number| number < count) {
            work(number);
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs.min(count) {
            scope.spawn(take);
        }
        take();
    });
}

/// Does `work` on every item, each thread with a state of its own, and gives the results to `each` in the order of the
/// items. The first error ends it: that of the first item that has one, as far as items were begun.
pub fn in_order<I: Send + Sync, S: Send, R: Send, E: Send>(
    jobs: usize,
    mut items: impl Iterator<Item = Result<I, E>>,
    state: impl Fn() -> S,
    work: impl Fn(&mut S, &I) -> Result<R, E> + Sync,
    mut each: impl FnMut(I, R) -> Result<(), E>,
) -> Result<(), E> {
    let mut states: Vec<S> = Vec::new();
    loop {
        let batch: Vec<I> = items.by_ref().take(BATCH).collect::<Result<_, E>>()?;
        if batch.is_empty() {
            return Ok(());
        }
        while states.len() < jobs.min(batch.len()) {
            states.push(state());
        }
        let results = work_on(&batch, &mut states, &work);
        for (item, result) in batch.into_iter().zip(results) {
            // An item without a result comes after one with an error.
            let Some(result) = result else { break };
            each(item, result?)?;
        }
    }
}

fn work_on<I: Sync, S: Send, R: Send, E: Send>(
    batch: &[I],
    states: &mut [S],
    work: &(impl Fn(&mut S, &I) -> Result<R, E> + Sync),
) -> Vec<Option<Result<R, E>>> {
    let results: Vec<Mutex<Option<Result<R, E>>>> = batch.iter().map(|_| Mutex::new(None)).collect();
    let (next, failed) = (Counter::new(), Flag::new());
    let take = |state: &mut S| {
        while !failed.is_raised() {
            let place = usize::try_from(next.next()).unwrap_or(usize::MAX);
            let Some(item) = batch.get(place) else { break };
            let result = work(state, item);
            if result.is_err() {
                failed.raise();
            }
            *results[place].lock().expect("nobody panics with it") = Some(result);
        }
    };
    match states {
        [only] => take(only),
        several => thread::scope(|scope| {
            let take = &take;
            several.iter_mut().for_each(|state| {
                scope.spawn(move || take(state));
            });
        }),
    }
    results.into_iter().map(|result| result.into_inner().expect("nobody panics with it")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_worked_on_once_by_any_number_of_threads() {
        for (jobs, count) in [(1, 5), (2, 1000), (7, 3), (3, 0)] {
            let done: Vec<Counter> = (0..count).map(|_| Counter::new()).collect();
            spread(jobs, count, &|number| {
                done[number].next();
            });
            assert!(done.iter().all(|done| done.count() == 1), "{jobs} threads");
        }
    }

    #[test]
    fn results_come_in_order_from_any_number_of_threads() {
        for jobs in [1, 2, 7] {
            let items = (0..3 * BATCH as u64 + 5).map(Ok::<_, ()>);
            let mut seen = Vec::new();
            in_order(
                jobs,
                items,
                || 0_u64,
                |sum, item| {
                    *sum += 1;
                    Ok(item * 2)
                },
                |item, result| {
                    assert_eq!(result, item * 2);
                    seen.push(item);
                    Ok(())
                },
            )
            .unwrap();
            assert!(seen.into_iter().eq(0..3 * BATCH as u64 + 5));
        }
    }

    #[test]
    fn the_first_error_ends_it() {
        for jobs in [1, 3] {
            let mut seen = 0;
            let outcome = in_order(
                jobs,
                (0..BATCH * 2).map(Ok),
                || (),
                |(), item| if *item >= 100 { Err(format!("item {item}")) } else { Ok(()) },
                |_, ()| {
                    seen += 1;
                    Ok(())
                },
            );
            assert_eq!((outcome.unwrap_err(), seen), ("item 100".into(), 100));
        }
    }
}
