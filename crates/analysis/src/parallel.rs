//! The same work on many items, on several threads, with the results in order.

use std::sync::Mutex;
use std::thread;

/// Told now and then how far the work has come: items done, items in all; none of none before that is known.
pub type Progress<'a> = dyn Fn(u64, u64) + Sync + 'a;

/// How the work is done.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// Threads, at least one.
    pub threads: usize,
    /// Told how far it has come.
    pub progress: &'a Progress<'a>,
}

impl Default for Work<'_> {
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Work { threads, progress: &|_, _| {} }
    }
}

impl Work<'_> {
    /// For what comes before it is known how much there is to do: tells nothing, and gives whoever is told the chance to end it.
    pub(crate) fn look_up(&self) {
        (self.progress)(0, 0);
    }

    /// Applies `each` to every item. The first error, in the order of the items that were begun, ends the work.
    pub(crate) fn map<T: Sync, R: Send, E: Send>(
        &self,
        items: &[T],
        each: impl Fn(&T) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        let next = Mutex::new(0_usize);
        let run = || {
            let mut done = Vec::new();
            while let Some((place, item)) = take(&next, items) {
                (self.progress)(place as u64, items.len() as u64);
                match each(item) {
                    Ok(result) => done.push((place, result)),
                    Err(error) => {
                        *lock(&next) = items.len();
                        return Err(error);
                    }
                }
            }
            Ok(done)
        };
        let parts: Vec<Result<_, E>> = thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads.min(items.len())).map(|_| scope.spawn(run)).collect();
            let own = run();
            let joined =
                others.into_iter().map(|o| o.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
            std::iter::once(own).chain(joined).collect()
        });
        let mut all = Vec::with_capacity(items.len());
        for part in parts {
            all.extend(part?);
        }
        all.sort_unstable_by_key(|(place, _)| *place);
        (self.progress)(items.len() as u64, items.len() as u64);
        Ok(all.into_iter().map(|(_, result)| result).collect())
    }
}

/// Two pieces of work of one kind, at the same time where there are threads for it.
pub(crate) fn both<R: Send>(
    threads: usize,
    first: impl FnOnce() -> R + Send,
    second: impl FnOnce() -> R,
) -> (R, R) {
    if threads < 2 {
        return (first(), second());
    }
    thread::scope(|scope| {
        let other = scope.spawn(first);
        let own = second();
        (other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), own)
    })
}

fn take<'i, T>(next: &Mutex<usize>, items: &'i [T]) -> Option<(usize, &'i T)> {
    let mut next = lock(next);
    let item = items.get(*next)?;
    *next += 1;
    Some((*next - 1, item))
}

fn lock(next: &Mutex<usize>) -> std::sync::MutexGuard<'_, usize> {
    next.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_whatever_the_threads() {
        let items: Vec<u32> = (0..1000).collect();
        for threads in [1, 2, 7] {
            let work = Work { threads, ..Work::default() };
            let doubled: Result<Vec<u32>, ()> = work.map(&items, |n| Ok(n * 2));
            assert!(doubled.unwrap().iter().zip(&items).all(|(d, n)| *d == n * 2));
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let items: Vec<u32> = (0..1000).collect();
        let failed: Result<Vec<u32>, u32> =
            Work::default().map(&items, |&n| if n == 500 { Err(n) } else { Ok(n) });
        assert_eq!(failed, Err(500));
    }
}
