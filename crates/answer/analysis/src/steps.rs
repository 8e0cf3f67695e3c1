//! Step budgets for expensive analyses. A dump is not trusted, and a query about many tasks that share memory
//! without an order may take quadratic time. A query that exceeds its budget is undecided, and its caller
//! reports that.

use std::sync::{Arc, Mutex, PoisonError};

/// A limit on the steps of all queries of one kind together, and of each single query. One step costs about
/// as much as looking at one task, some ten nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    left: Arc<Mutex<u64>>,
    most: u64,
}

/// The least total number of steps, for small dumps.
const LEAST: u64 = 1 << 26;
/// Total steps per argument.
const OF_ARGUMENT: u64 = 512;

impl Budget {
    /// A budget for a dump with this many arguments, with at most `most` steps per query.
    pub fn of(arguments: usize, most: u64) -> Budget {
        Budget::new(LEAST.max((arguments as u64).saturating_mul(OF_ARGUMENT)), most)
    }

    /// `all` steps in total and at most `most` per query.
    pub fn new(all: u64, most: u64) -> Budget {
        Budget { left: Arc::new(Mutex::new(all)), most }
    }

    /// Starts a query. Dropping it subtracts its steps from the budget.
    pub fn query_steps(&self) -> QuerySteps<'_> {
        let given = (*self.left.lock().unwrap_or_else(PoisonError::into_inner)).min(self.most);
        QuerySteps { budget: self, given, left: given }
    }
}

/// The steps that one query may take.
pub(crate) struct QuerySteps<'b> {
    budget: &'b Budget,
    given: u64,
    left: u64,
}

impl QuerySteps<'_> {
    /// Takes steps; `None` if they are used up, now and for later calls.
    pub fn take(&mut self, steps: usize) -> Option<()> {
        let left = self.left.checked_sub(steps as u64);
        self.left = left.unwrap_or(0);
        left.map(drop)
    }
}

impl Drop for QuerySteps<'_> {
    fn drop(&mut self) {
        let mut left = self.budget.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.saturating_sub(self.given - self.left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_limited_by_its_own_steps_and_by_the_total() {
        let budget = Budget::new(10, 6);
        let mut first = budget.query_steps();
        assert_eq!((first.take(4), first.take(3), first.take(0)), (Some(()), None, Some(())));
        drop(first);
        let mut second = budget.query_steps();
        assert_eq!((second.take(4), second.take(1)), (Some(()), None));
        drop(second);
        assert_eq!(budget.query_steps().take(1), None);
    }
}
