//! Threads and progress reporting of an analysis.

use tensortap_sync::{Counter, parallel};

/// Called regularly with the number of items done and in total; `(0, 0)` before the total is known.
pub type Progress<'a> = dyn Fn(u64, u64) + Sync + 'a;

/// Threads and progress reporting of an analysis.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// Number of threads, at least one.
    pub threads: usize,
    /// Called with the progress.
    pub progress: &'a Progress<'a>,
}

impl Default for Work<'_> {
    fn default() -> Self {
        Work { threads: parallel::cpu_count(), progress: &|_, _| {} }
    }
}

impl Work<'_> {
    /// Reports no progress but lets the progress callback cancel the work. For phases before the total is
    /// known.
    pub(crate) fn check_canceled(&self) {
        (self.progress)(0, 0);
    }

    /// Applies `each` to every item with several threads and reports progress. The error of the first failed
    /// item ends the work.
    pub(crate) fn map<T: Sync, R: Send, E: Send>(
        &self,
        items: &[T],
        each: impl Fn(&T) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        let total = items.len() as u64;
        let started = Counter::new();
        let results = parallel::map(self.threads, items, |item| {
            (self.progress)(started.next(), total);
            each(item)
        })?;
        (self.progress)(total, total);
        Ok(results)
    }
}
