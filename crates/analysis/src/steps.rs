//! How much may be done to find out what a dump does not say itself. A dump is not trusted, and questions about many tasks that share
//! memory without being ordered may take as long as the square of their number: what cannot be answered within its steps is not
//! decided, and whoever asks says so.

use std::sync::{Arc, Mutex, PoisonError};

/// Steps that all questions of one kind may take together, and each alone. A step is about what it takes to look at one task: some
/// ten nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    left: Arc<Mutex<u64>>,
    most: u64,
}

/// Steps for all, however few tasks there are.
const LEAST: u64 = 1 << 26;
/// Steps for all for each argument, on average.
const OF_ARGUMENT: u64 = 512;

impl Budget {
    /// For a dump of so many arguments, and at most so many steps for one question.
    pub fn of(arguments: usize, most: u64) -> Budget {
        Budget::new(LEAST.max((arguments as u64).saturating_mul(OF_ARGUMENT)), most)
    }

    /// So many for all, and at most so many for one.
    pub fn new(all: u64, most: u64) -> Budget {
        Budget { left: Arc::new(Mutex::new(all)), most }
    }

    /// Begins a question. What it took is gone when it is dropped.
    pub fn question(&self) -> Question<'_> {
        let given = (*self.left.lock().unwrap_or_else(PoisonError::into_inner)).min(self.most);
        Question { budget: self, given, left: given }
    }
}

/// What one question may take.
pub(crate) struct Question<'b> {
    budget: &'b Budget,
    given: u64,
    left: u64,
}

impl Question<'_> {
    /// Takes steps; `None` when there are not as many, and from then on.
    pub fn take(&mut self, steps: usize) -> Option<()> {
        let left = self.left.checked_sub(steps as u64);
        self.left = left.unwrap_or(0);
        left.map(drop)
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut left = self.budget.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.saturating_sub(self.given - self.left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_takes_what_is_its_own_and_all_of_them_what_there_is() {
        let budget = Budget::new(10, 6);
        let mut first = budget.question();
        assert_eq!((first.take(4), first.take(3), first.take(0)), (Some(()), None, Some(())));
        drop(first);
        let mut second = budget.question();
        assert_eq!((second.take(4), second.take(1)), (Some(()), None));
        drop(second);
        assert_eq!(budget.question().take(1), None);
    }
}
