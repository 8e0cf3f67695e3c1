//! Parallel work on a stream of items, in batches, with results in the order of the items.

use tensortap_sync::parallel::{cpu_count, map_with};

/// Items per batch: enough that threads seldom wait for each other, few enough that memory stays bounded.
const BATCH: usize = 4096;

/// The requested number of threads, or one per CPU.
pub fn threads(jobs: Option<usize>) -> usize {
    jobs.unwrap_or_else(cpu_count).max(1)
}

/// Applies `work` to every item with several threads, each with its own state, and passes the results to `each` in
/// the order of the items. The error of the first failed item ends the work.
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
        while states.len() < jobs.min(batch.len()).max(1) {
            states.push(state());
        }
        let used = jobs.min(batch.len()).max(1);
        let (results, error) = map_with(&mut states[..used], &batch, &work);
        for (item, result) in batch.into_iter().zip(results) {
            each(item, result)?;
        }
        if let Some(error) = error {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_for_any_number_of_threads() {
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
    fn the_first_error_ends_the_work() {
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
