//! Work that takes long: begun once, looked at as often as one likes, given up when asked to.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::answer::Problem;
use serde::Serialize;

/// Jobs that run at once.
const AT_ONCE: usize = 2;
/// Jobs that wait for their turn.
const WAITING: usize = 16;
/// Jobs that are remembered, those that ended first forgotten first.
const REMEMBERED: usize = 32;

/// What came of a job: a document, as text.
pub(crate) type Outcome = Result<String, Problem>;

/// A job, as those see it who wait for it.
pub(crate) struct Job {
    pub id: u64,
    /// What makes two jobs the same.
    key: String,
    state: Mutex<JobState>,
}

#[derive(Default)]
struct JobState {
    done: u64,
    of: u64,
    given_up: bool,
    outcome: Option<Outcome>,
}

/// What is said of a job, but for its document.
#[derive(Serialize)]
struct JobHead<'a> {
    job: u64,
    /// `running`, `done` or `failed`.
    state: &'static str,
    done: u64,
    of: u64,
    error: Option<&'a Problem>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends work whose callbacks cannot tell it to stop: unwinds, without a word, to where the work was begun.
pub(crate) fn unwind() -> ! {
    std::panic::resume_unwind(Box::new("given up"))
}

fn given_up() -> Problem {
    Problem::new("it was given up")
}

impl Job {
    /// Says how far it has come; ends the work when it was given up.
    pub fn reach_or_unwind(&self, done: u64, of: u64) {
        if !self.reach(done, of) {
            unwind();
        }
    }

    /// An error when it was given up: for between two parts of the work.
    pub fn go_on(&self) -> Result<(), Problem> {
        if self.is_given_up() { Err(given_up()) } else { Ok(()) }
    }

    /// Says how far it has come; whether to go on.
    pub fn reach(&self, done: u64, of: u64) -> bool {
        let mut state = lock(&self.state);
        (state.done, state.of) = (done, of);
        !state.given_up
    }

    /// Says how much more is done; whether to go on.
    pub fn advance(&self, by: u64) -> bool {
        let mut state = lock(&self.state);
        state.done = state.done.saturating_add(by);
        !state.given_up
    }

    pub fn give_up(&self) {
        lock(&self.state).given_up = true;
    }

    pub fn is_given_up(&self) -> bool {
        lock(&self.state).given_up
    }

    fn has_ended(&self) -> bool {
        lock(&self.state).outcome.is_some()
    }

    /// How far it has come or what came of it, as JSON.
    pub fn text(&self) -> String {
        let state = lock(&self.state);
        let (done, of) = (state.done, state.of);
        let (name, error, document) = match &state.outcome {
            None => ("running", None, "null"),
            Some(Err(problem)) => ("failed", Some(problem), "null"),
            Some(Ok(text)) => ("done", None, text.as_str()),
        };
        let head = JobHead { job: self.id, state: name, done, of, error };
        let mut text = serde_json::to_string(&head).unwrap_or_else(|_| "{}".into());
        // The document is JSON already, and may be long: it goes in as it is.
        text.pop();
        text + ",\"document\":" + document + "}"
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct Jobs {
    list: Mutex<JobList>,
    turns: Arc<Turns>,
}

#[derive(Default)]
struct JobList {
    next: u64,
    jobs: VecDeque<Arc<Job>>,
}

/// Who may run.
#[derive(Default)]
struct Turns {
    running: Mutex<usize>,
    free: Condvar,
}

impl Jobs {
    /// The job with this key, begun now where there is none that runs or ended well.
    pub fn begin(
        &self,
        key: String,
        work: impl FnOnce(&Job) -> Outcome + Send + 'static,
    ) -> Result<Arc<Job>, Problem> {
        let mut list = lock(&self.list);
        if let Some(known) = list.jobs.iter().find(|job| job.key == key && !job.is_given_up()) {
            return Ok(Arc::clone(known));
        }
        let unfinished = list.jobs.iter().filter(|job| !job.has_ended()).count();
        if unfinished >= AT_ONCE + WAITING {
            return Err(Problem::with_hint(
                "too many jobs are waiting",
                "wait for one of them, or cancel it",
            ));
        }
        list.next += 1;
        let job = Arc::new(Job { id: list.next, key, state: Mutex::default() });
        list.jobs.push_back(Arc::clone(&job));
        if list.jobs.len() > REMEMBERED
            && let Some(oldest) = list.jobs.iter().position(|job| job.has_ended())
        {
            list.jobs.remove(oldest);
        }
        let (mine, turns) = (Arc::clone(&job), Arc::clone(&self.turns));
        let begun = thread::Builder::new().name("job".into()).spawn(move || {
            turns.wait();
            // Work that panics has an end, too, and gives its turn back.
            let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                mine.go_on()?;
                work(&mine)
            }));
            turns.give_back();
            let broken =
                |_| Err(if mine.is_given_up() { given_up() } else { Problem::new("the job failed") });
            let made = made.unwrap_or_else(broken);
            lock(&mine.state).outcome = Some(made);
        });
        begun.map_err(Problem::new)?;
        Ok(job)
    }

    pub fn find(&self, id: u64) -> Option<Arc<Job>> {
        lock(&self.list).jobs.iter().find(|job| job.id == id).cloned()
    }

    /// How many were ever begun.
    pub fn count(&self) -> u64 {
        lock(&self.list).next
    }

    /// Gives all of them up.
    pub fn stop(&self) {
        lock(&self.list).jobs.iter().for_each(|job| job.give_up());
    }
}

impl Turns {
    fn wait(&self) {
        let mut running = lock(&self.running);
        while *running >= AT_ONCE {
            running = self.free.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        *running += 1;
    }

    fn give_back(&self) {
        *lock(&self.running) -= 1;
        self.free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    fn wait(job: &Job) -> serde_json::Value {
        for _ in 0..1000 {
            if job.has_ended() {
                return serde_json::from_str(&job.text()).expect("JSON");
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("the job does not end");
    }

    #[test]
    fn the_same_job_is_begun_once_and_few_run_at_a_time() {
        let jobs = Jobs::default();
        let (release, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let held = |key: &str| {
            let gate = Arc::clone(&gate);
            jobs.begin(key.into(), move |job| {
                job.reach(1, 2);
                let _ = lock(&gate).recv();
                Ok("[7]".into())
            })
        };
        let first = held("a").expect("begun");
        assert_eq!(held("a").expect("known").id, first.id);
        let others: Vec<_> =
            (0..AT_ONCE + WAITING - 1).map(|n| held(&n.to_string()).expect("begun")).collect();
        assert!(held("one too many").is_err());
        drop(release);
        assert_eq!(wait(&first)["document"], serde_json::json!([7]));
        assert!(others.iter().all(|job| wait(job)["state"] == "done"));
        assert!(held("now").is_ok());
    }

    #[test]
    fn a_job_that_fails_or_panics_says_so_and_one_given_up_stops() {
        let jobs = Jobs::default();
        let failed = jobs.begin("f".into(), |_| Err(Problem::new("no such thing"))).expect("begun");
        assert_eq!(wait(&failed)["error"]["error"], "no such thing");
        let broken = jobs.begin("p".into(), |_| panic!("on purpose")).expect("begun");
        assert_eq!(wait(&broken)["state"], "failed");
        let endless = jobs.begin("e".into(), |job| {
            while job.advance(1) {
                thread::sleep(Duration::from_millis(1));
            }
            Err(Problem::new("stopped"))
        });
        let endless = endless.expect("begun");
        while lock(&endless.state).done == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        jobs.find(endless.id).expect("known").give_up();
        assert_eq!(wait(&endless)["error"]["error"], "stopped");
        // What runs on threads of its own and tells without listening stops as well.
        let deaf = jobs.begin("d".into(), |job| {
            let run = || (1..20_000_000).for_each(|done| job.reach_or_unwind(done, u64::MAX));
            thread::scope(|scope| {
                let other = scope.spawn(run);
                run();
                let _ = other.join();
            });
            Ok("[]".into())
        });
        let deaf = deaf.expect("begun");
        while lock(&deaf.state).done == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        deaf.give_up();
        assert_eq!(wait(&deaf)["error"]["error"], "it was given up");
    }
}
