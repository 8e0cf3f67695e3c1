//! Places that a search or an order leaves: looked for in the background, shown as far as they are known.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::answer::Problem;
use super::jobs::unwind;
use super::shelf::lock;

/// Lists that are kept, those asked for last.
const KEPT: usize = 6;
/// Lists that are looked for at once, of all dumps together; others wait for their turn.
const AT_ONCE: usize = 6;
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
    /// Nobody wants it any more.
    abandoned: Mutex<bool>,
}

type Work = Box<dyn FnOnce(&Found) -> Result<(), Problem> + Send>;

/// Searches that wait for their turn, and how many threads take them.
struct Pool {
    waiting: VecDeque<(Arc<Found>, Work)>,
    threads: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { waiting: VecDeque::new(), threads: 0 });

/// Has a list looked for, at once or when it is its turn. What waits and is wanted no more goes.
fn begin(found: &Arc<Found>, work: Work) -> Result<(), Problem> {
    let mut pool = lock(&POOL);
    pool.waiting.retain(|(found, _)| found.is_wanted());
    pool.waiting.push_back((Arc::clone(found), work));
    if pool.threads < AT_ONCE {
        let begun = thread::Builder::new().name("search".into()).spawn(|| {
            while let Some((found, work)) = next() {
                found.look_for(work);
            }
            // Sorting took more than the list does.
            super::heap::give_back();
        });
        if let Err(error) = begun {
            pool.waiting.pop_back();
            return Err(Problem::new(error));
        }
        pool.threads += 1;
    }
    Ok(())
}

/// The next search; without one, the thread that asks ends.
fn next() -> Option<(Arc<Found>, Work)> {
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
        begin(&found, Box::new(work))?;
        known.push_back((name, Arc::clone(&found)));
        if known.len() > KEPT
            && let Some((_, oldest)) = known.pop_front()
        {
            oldest.abandon();
        }
        Ok(found)
    }

    /// Lets all of them go.
    pub fn abandon(&self) {
        lock(&self.0).drain(..).for_each(|(_, found)| found.abandon());
    }
}

impl Found {
    fn abandon(&self) {
        *lock(&self.abandoned) = true;
    }

    /// Whether somebody still wants it.
    pub fn is_wanted(&self) -> bool {
        !*lock(&self.abandoned)
    }

    /// Whether to go on, for what ends with an error.
    pub fn go_on(&self) -> Result<(), Problem> {
        if self.is_wanted() { Ok(()) } else { Err(Problem::new("the search was given up")) }
    }

    /// Ends the search where nobody wants it, for what cannot be told to stop.
    pub fn go_on_or_unwind(&self) {
        if !self.is_wanted() {
            unwind();
        }
    }

    fn look_for(&self, work: Work) {
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.go_on()?;
            work(self)
        }));
        let mut list = lock(&self.list);
        list.done = true;
        list.problem = made.unwrap_or_else(|_| Err(Problem::new("the search failed"))).err();
        self.grown.notify_all();
    }

    /// Adds places; whether to go on.
    pub fn push(&self, places: &[u64]) -> bool {
        let mut list = lock(&self.list);
        let room = MOST - list.places.len();
        list.cut |= places.len() > room;
        list.places.extend_from_slice(&places[..places.len().min(room)]);
        self.grown.notify_all();
        self.is_wanted() && !list.cut
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
    fn a_list_is_looked_for_once_and_the_oldest_are_let_go() {
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
    /// One more runs.
    fn count(running: &Mutex<(usize, usize)>) {
        let mut running = lock(running);
        running.0 += 1;
        running.1 = running.1.max(running.0);
    }

    #[test]
    fn few_run_at_once_and_those_let_go_really_stop() {
        // How many run, and how many ever did at once.
        static RUNNING: Mutex<(usize, usize)> = Mutex::new((0, 0));
        let all = [Searches::default(), Searches::default()];
        for name in 0..40 {
            let endless = |found: &Found| {
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
    fn what_was_let_go_is_never_said_to_be_complete() {
        let found = Found::default();
        found.abandon();
        found.look_for(Box::new(|found| {
            found.go_on_or_unwind();
            Ok(())
        }));
        assert!(!found.page(0, 1).expect("a page").complete);
    }
}
