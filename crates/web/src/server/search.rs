//! Places that a search or an order leaves: looked for in the background, shown as far as they are known.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::answer::Problem;
use super::shelf::lock;

/// Lists that are kept, those asked for last.
const KEPT: usize = 6;
/// Places of one list: 128 MiB. A list that has more is cut, and says so.
const MOST: usize = 1 << 24;
/// An answer waits no longer than this for places that are not known yet.
const PATIENCE: Duration = Duration::from_millis(60);

/// Lists of one dump, by what was asked.
#[derive(Default)]
pub(crate) struct Searches(Mutex<VecDeque<(String, Arc<Found>)>>);

/// A list that may still grow.
#[derive(Default)]
pub(crate) struct Found {
    list: Mutex<List>,
    grown: Condvar,
}

#[derive(Default)]
struct List {
    places: Vec<u64>,
    done: bool,
    cut: bool,
    /// Nobody wants it any more.
    abandoned: bool,
    problem: Option<Problem>,
}

/// A part of a list.
pub(crate) struct Page {
    pub places: Vec<u64>,
    /// Places that are known.
    pub total: u64,
    /// Whether these are all.
    pub complete: bool,
    /// Whether there are more than are kept.
    pub cut: bool,
}

impl Searches {
    /// The list of this name, looked for from now on where it is not known.
    pub fn get(
        &self,
        name: String,
        work: impl FnOnce(&Found) -> Result<(), Problem> + Send + 'static,
    ) -> Result<Arc<Found>, Problem> {
        let mut known = lock(&self.0);
        if let Some(place) = known.iter().position(|(other, _)| *other == name)
            && let Some((name, found)) = known.remove(place)
        {
            known.push_back((name, Arc::clone(&found)));
            return Ok(found);
        }
        let found = Arc::new(Found::default());
        let mine = Arc::clone(&found);
        thread::Builder::new()
            .name("search".into())
            .spawn(move || {
                let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mine)));
                let mut list = lock(&mine.list);
                list.done = true;
                list.problem = made.unwrap_or_else(|_| Err(Problem::new("the search failed"))).err();
                mine.grown.notify_all();
            })
            .map_err(Problem::new)?;
        known.push_back((name, Arc::clone(&found)));
        if known.len() > KEPT
            && let Some((_, oldest)) = known.pop_front()
        {
            lock(&oldest.list).abandoned = true;
        }
        Ok(found)
    }
}

impl Found {
    /// Adds places; whether to go on.
    pub fn push(&self, places: &[u64]) -> bool {
        let mut list = lock(&self.list);
        let room = MOST - list.places.len();
        list.cut |= places.len() > room;
        list.places.extend_from_slice(&places[..places.len().min(room)]);
        self.grown.notify_all();
        !list.abandoned && !list.cut
    }

    /// A part of the list: as soon as it is there or all is known, or what there is when that takes too long.
    pub fn page(&self, from: usize, count: usize) -> Result<Page, Problem> {
        let until = Instant::now() + PATIENCE;
        let mut list = lock(&self.list);
        while !list.done && list.places.len() < from.saturating_add(count) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            list = self.grown.wait_timeout(list, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(problem) = &list.problem {
            return Err(problem.clone());
        }
        let places = list.places.iter().skip(from).take(count).copied().collect();
        Ok(Page { places, total: list.places.len() as u64, complete: list.done, cut: list.cut })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_is_known_is_shown_before_all_is_known() {
        let searches = Searches::default();
        let (go_on, gate) = channel::<()>();
        let found = searches.get("a".into(), move |found| {
            found.push(&[3, 5]);
            let _ = gate.recv();
            found.push(&[9]);
            Ok(())
        });
        let found = found.expect("begun");
        let page = found.page(0, 9).expect("a page");
        assert_eq!((page.places, page.total, page.complete), (vec![3, 5], 2, false));
        drop(go_on);
        let page = loop {
            let page = found.page(1, 9).expect("a page");
            if page.complete {
                break page;
            }
        };
        assert_eq!((page.places, page.total), (vec![5, 9], 3));
    }

    #[test]
    fn a_list_is_looked_for_once_and_the_oldest_are_let_go() {
        let searches = Searches::default();
        let nothing = |name: &str| searches.get(name.into(), |_| Ok(())).expect("begun");
        let first = nothing("0");
        assert!(Arc::ptr_eq(&first, &nothing("0")));
        for name in 1..=KEPT {
            nothing(&name.to_string());
        }
        assert!(lock(&first.list).abandoned && !first.push(&[1]));
        assert!(!Arc::ptr_eq(&first, &nothing("0")));
        let wrong = searches.get("x".into(), |_| Err(Problem::new("no such kernel"))).expect("begun");
        assert_eq!(wrong.page(0, 1).err().map(|problem| problem.error), Some("no such kernel".into()));
    }
}
