//! Long-running jobs: started once, polled for progress, and cancelable.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::answer::Problem;
use serde::Serialize;

/// Jobs that run at the same time.
const AT_ONCE: usize = 2;
/// Jobs that may wait.
const WAITING: usize = 16;
/// Jobs that are remembered. The oldest finished one is forgotten first.
const REMEMBERED: usize = 32;

/// The result of a job: a serialized document.
pub(crate) type Outcome = Result<String, Problem>;

/// A job.
pub(crate) struct Job {
    pub id: u64,
    /// Identifies the work: two jobs with the same key are the same.
    key: String,
    state: Mutex<JobState>,
}

#[derive(Default)]
struct JobState {
    done: u64,
    of: u64,
    canceled: bool,
    outcome: Option<Outcome>,
}

/// The state of a job without its document.
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

/// Cancels work whose callbacks cannot return an error: unwinds silently to where the work was started.
pub(crate) fn unwind() -> ! {
    std::panic::resume_unwind(Box::new("canceled"))
}

fn canceled() -> Problem {
    Problem::new("canceled")
}

impl Job {
    /// Reports progress. Unwinds if the job was canceled.
    pub fn reach_or_unwind(&self, done: u64, of: u64) {
        if !self.reach(done, of) {
            unwind();
        }
    }

    /// Returns an error if the job was canceled. Call it between two parts of the work.
    pub fn go_on(&self) -> Result<(), Problem> {
        if self.is_canceled() { Err(canceled()) } else { Ok(()) }
    }

    /// Reports progress. Returns false if the job was canceled.
    pub fn reach(&self, done: u64, of: u64) -> bool {
        let mut state = lock(&self.state);
        (state.done, state.of) = (done, of);
        !state.canceled
    }

    /// Reports additional progress. Returns false if the job was canceled.
    pub fn advance(&self, by: u64) -> bool {
        let mut state = lock(&self.state);
        state.done = state.done.saturating_add(by);
        !state.canceled
    }

    pub fn cancel(&self) {
        lock(&self.state).canceled = true;
    }

    pub fn is_canceled(&self) -> bool {
        lock(&self.state).canceled
    }

    fn has_ended(&self) -> bool {
        lock(&self.state).outcome.is_some()
    }

    /// Progress or result, as JSON.
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
        // The document is already JSON and may be long: insert it as it is.
        text.pop();
        text + ",\"document\":" + document + "}"
    }
}

/// All jobs.
#[derive(Default)]
pub(crate) struct Jobs {
    list: Mutex<JobList>,
    queue: Arc<JobQueue>,
}

#[derive(Default)]
struct JobList {
    next: u64,
    jobs: VecDeque<Arc<Job>>,
}

/// Limits how many jobs run at the same time.
#[derive(Default)]
struct JobQueue {
    running: Mutex<usize>,
    free: Condvar,
}

impl Jobs {
    /// Returns the job with this key, or starts it. A canceled job is started again.
    pub fn begin(
        &self,
        key: String,
        work: impl FnOnce(&Job) -> Outcome + Send + 'static,
    ) -> Result<Arc<Job>, Problem> {
        let mut list = lock(&self.list);
        if let Some(known) = list.jobs.iter().find(|job| job.key == key && !job.is_canceled()) {
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
        let (mine, queue) = (Arc::clone(&job), Arc::clone(&self.queue));
        let begun = thread::Builder::new().name("job".into()).spawn(move || {
            queue.wait();
            // A panic also ends the job and frees its slot.
            let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                mine.go_on()?;
                work(&mine)
            }));
            queue.release();
            let broken =
                |_| Err(if mine.is_canceled() { canceled() } else { Problem::new("the job failed") });
            let made = made.unwrap_or_else(broken);
            lock(&mine.state).outcome = Some(made);
        });
        begun.map_err(Problem::new)?;
        Ok(job)
    }

    pub fn find(&self, id: u64) -> Option<Arc<Job>> {
        lock(&self.list).jobs.iter().find(|job| job.id == id).cloned()
    }

    /// How many jobs were ever started.
    pub fn count(&self) -> u64 {
        lock(&self.list).next
    }

    /// Cancels all jobs.
    pub fn stop(&self) {
        lock(&self.list).jobs.iter().for_each(|job| job.cancel());
    }
}

impl JobQueue {
    fn wait(&self) {
        let mut running = lock(&self.running);
        while *running >= AT_ONCE {
            running = self.free.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        *running += 1;
    }

    fn release(&self) {
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
    fn starts_the_same_job_once_and_limits_how_many_run() {
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
    fn reports_failures_and_panics_and_stops_canceled_jobs() {
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
        jobs.find(endless.id).expect("known").cancel();
        assert_eq!(wait(&endless)["error"]["error"], "stopped");
        // Work on its own threads that only reports progress stops as well.
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
        deaf.cancel();
        assert_eq!(wait(&deaf)["error"]["error"], "canceled");
    }
}
