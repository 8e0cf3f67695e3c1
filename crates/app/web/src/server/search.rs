//! Searched or sorted lists. They are computed in the background and shown as far as they are known.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::answer::Problem;
use super::jobs::unwind;
use super::open_dumps::lock;

/// Lists kept per dump, the most recently used ones.
const KEPT: usize = 6;
/// Searches that run at the same time, over all dumps. Others wait.
const AT_ONCE: usize = 6;
/// Maximum places of one list: 128 MiB. A longer list is cut and marked as such.
const MOST: usize = 1 << 24;
/// How long an answer waits for places that are not known yet.
const PATIENCE: Duration = Duration::from_millis(60);

/// The lists of one dump, by query.
#[derive(Default)]
pub(crate) struct Searches(Mutex<VecDeque<(String, Arc<SearchHits>)>>);

/// A list that may still grow.
#[derive(Default)]
pub(crate) struct SearchHits {
    list: Mutex<List>,
    grown: Condvar,
    /// Whether the list was dropped, so that its search should stop.
    abandoned: Mutex<bool>,
}

type Work = Box<dyn FnOnce(&SearchHits) -> Result<(), Problem> + Send>;

/// Waiting searches, and the number of threads that run them.
struct Pool {
    waiting: VecDeque<(Arc<SearchHits>, Work)>,
    threads: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { waiting: VecDeque::new(), threads: 0 });

/// Queues a search. Removes waiting searches that were abandoned.
fn begin(found: &Arc<SearchHits>, work: Work) -> Result<(), Problem> {
    let mut pool = lock(&POOL);
    pool.waiting.retain(|(found, _)| found.is_wanted());
    pool.waiting.push_back((Arc::clone(found), work));
    if pool.threads < AT_ONCE {
        let begun = thread::Builder::new().name("search".into()).spawn(|| {
            while let Some((found, work)) = next() {
                found.search(work);
            }
            // Sorting used more memory than the list needs.
            super::heap::release_memory();
        });
        if let Err(error) = begun {
            pool.waiting.pop_back();
            return Err(Problem::new(error));
        }
        pool.threads += 1;
    }
    Ok(())
}

/// The next search. If there is none, the calling thread ends.
fn next() -> Option<(Arc<SearchHits>, Work)> {
    let mut pool = lock(&POOL);
    let next = pool.waiting.pop_front();
    if next.is_none() {
        pool.threads -= 1;
    }
    next
}

#[derive(Default)]
struct List {
    places: Vec<u64>,
    done: bool,
    cut: bool,
    problem: Option<Problem>,
}

/// A part of a list.
pub(crate) struct Page {
    pub places: Vec<u64>,
    /// Number of known places.
    pub total: u64,
    /// Whether all places are known.
    pub complete: bool,
    /// Whether there are more than are kept.
    pub cut: bool,
}

impl Searches {
    /// Returns the list of this name, and starts its search if it is new.
    pub fn get(
        &self,
        name: String,
        work: impl FnOnce(&SearchHits) -> Result<(), Problem> + Send + 'static,
    ) -> Result<Arc<SearchHits>, Problem> {
        let mut known = lock(&self.0);
        if let Some(place) = known.iter().position(|(other, _)| *other == name)
            && let Some((name, found)) = known.remove(place)
        {
            known.push_back((name, Arc::clone(&found)));
            return Ok(found);
        }
        let found = Arc::new(SearchHits::default());
        begin(&found, Box::new(work))?;
        known.push_back((name, Arc::clone(&found)));
        if known.len() > KEPT
            && let Some((_, oldest)) = known.pop_front()
        {
            oldest.abandon();
        }
        Ok(found)
    }

    /// Abandons all lists.
    pub fn abandon(&self) {
        lock(&self.0).drain(..).for_each(|(_, found)| found.abandon());
    }
}

impl SearchHits {
    fn abandon(&self) {
        *lock(&self.abandoned) = true;
    }

    /// Whether the list is still in use.
    pub fn is_wanted(&self) -> bool {
        !*lock(&self.abandoned)
    }

    /// Returns an error if the search was abandoned.
    pub fn go_on(&self) -> Result<(), Problem> {
        if self.is_wanted() { Ok(()) } else { Err(Problem::new("the search was canceled")) }
    }

    /// Unwinds if the search was abandoned, for callbacks that cannot return an error.
    pub fn go_on_or_unwind(&self) {
        if !self.is_wanted() {
            unwind();
        }
    }

    fn search(&self, work: Work) {
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.go_on()?;
            work(self)
        }));
        let mut list = lock(&self.list);
        list.done = true;
        list.problem = made.unwrap_or_else(|_| Err(Problem::new("the search failed"))).err();
        self.grown.notify_all();
    }

    /// Adds places. Returns whether the search should go on.
    pub fn push(&self, places: &[u64]) -> bool {
        let mut list = lock(&self.list);
        let room = MOST - list.places.len();
        list.cut |= places.len() > room;
        list.places.extend_from_slice(&places[..places.len().min(room)]);
        self.grown.notify_all();
        self.is_wanted() && !list.cut
    }

    /// A part of the list. Waits until the part is known, but at most [`PATIENCE`].
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
        let wanted = self.is_wanted();
        if let Some(problem) = list.problem.as_ref().filter(|_| wanted) {
            return Err(problem.clone());
        }
        let places = list.places.iter().skip(from).take(count).copied().collect();
        Ok(Page { places, total: list.places.len() as u64, complete: list.done && wanted, cut: list.cut })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn shows_known_places_before_the_search_ends() {
        let searches = Searches::default();
        let (go_on, gate) = channel::<()>();
        let found = searches.get("a".into(), move |found| {
            found.push(&[3, 5]);
            let _ = gate.recv();
            found.push(&[9]);
            Ok(())
        });
        let found = found.expect("begun");
        let page = loop {
            let page = found.page(0, 9).expect("a page");
            if page.total > 0 {
                break page;
            }
        };
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
    fn searches_each_list_once_and_drops_the_oldest() {
        let searches = Searches::default();
        let nothing = |name: &str| searches.get(name.into(), |_| Ok(())).expect("begun");
        let first = nothing("0");
        assert!(Arc::ptr_eq(&first, &nothing("0")));
        for name in 1..=KEPT {
            nothing(&name.to_string());
        }
        assert!(!first.is_wanted() && !first.push(&[1]));
        assert!(!Arc::ptr_eq(&first, &nothing("0")));
        let wrong = searches.get("x".into(), |_| Err(Problem::new("no such kernel"))).expect("begun");
        assert_eq!(wrong.page(0, 1).err().map(|problem| problem.error), Some("no such kernel".into()));
    }
    /// Counts one more running search.
    fn count(running: &Mutex<(usize, usize)>) {
        let mut running = lock(running);
        running.0 += 1;
        running.1 = running.1.max(running.0);
    }

    #[test]
    fn limits_running_searches_and_stops_abandoned_ones() {
        // How many run now, and the maximum so far.
        static RUNNING: Mutex<(usize, usize)> = Mutex::new((0, 0));
        let all = [Searches::default(), Searches::default()];
        for name in 0..40 {
            let endless = |found: &SearchHits| {
                count(&RUNNING);
                while found.is_wanted() {
                    thread::sleep(Duration::from_millis(1));
                }
                lock(&RUNNING).0 -= 1;
                found.go_on()
            };
            let found = all[name % 2].get(name.to_string(), endless).expect("begun");
            assert!(!found.page(0, 1).expect("a page").complete);
        }
        assert!((1..=AT_ONCE).contains(&lock(&RUNNING).1), "{RUNNING:?}");
        assert!(lock(&POOL).waiting.len() <= 2 * KEPT + 2);
        all.iter().for_each(Searches::abandon);
        let until = Instant::now() + Duration::from_secs(20);
        while lock(&RUNNING).0 > 0 {
            assert!(Instant::now() < until, "they go on");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn an_abandoned_list_is_never_complete() {
        let found = SearchHits::default();
        found.abandon();
        found.search(Box::new(|found| {
            found.go_on_or_unwind();
            Ok(())
        }));
        assert!(!found.page(0, 1).expect("a page").complete);
    }
}
