//! Several threads that write large payloads, each at its own place in the payload files.
//!
//! The collector reserves ranges and hands them out. [`PayloadWriter::flush`], which precedes every index
//! entry, returns when all of them are written. Payload, index and acknowledgment therefore keep their
//! order with any number of threads. The threads share only a queue with a lock, which is taken once per 1
//! MiB at most.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{Builder, JoinHandle},
};

use tensortap_format::PayloadPlace;

use super::{Extent, PayloadError, PayloadPath, PayloadWriter, pieces};
use crate::{RegionMemory, memory::SharedRegion};

/// Writes with the caller's thread and additional ones.
pub(crate) struct ParallelWriter {
    /// The caller's own writer: for small payloads, which it combines, and for its share of the large ones.
    own: Box<dyn PayloadWriter + Send>,
    pool: Arc<Pool>,
    others: Vec<JoinHandle<()>>,
    /// The files of the last calls by number, for the other threads; until the next flush.
    files: Vec<Option<Arc<OwnedFd>>>,
}

/// State shared by the threads.
struct Pool {
    memory: SharedRegion,
    queue: Mutex<Queue>,
    /// There is a job, or no more jobs will come.
    work: Condvar,
    /// All open jobs have ended.
    done: Condvar,
}

/// Holds at most the payloads of one index frame: the collector flushes after that.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Numbers of the files to which running jobs write.
    running: Vec<usize>,
    failed: Option<PayloadError>,
    closed: bool,
}

/// A piece of a payload, and its place.
struct Job {
    number: usize,
    file: Arc<OwnedFd>,
    from: Extent,
    at: u64,
}

impl ParallelWriter {
    /// `writers` is the total number of threads, including the caller's.
    pub(crate) fn start(
        memory: SharedRegion,
        path: PayloadPath,
        writers: usize,
    ) -> io::Result<ParallelWriter> {
        let pool =
            Arc::new(Pool { memory, queue: Mutex::default(), work: Condvar::new(), done: Condvar::new() });
        // If a thread cannot be started, dropping this value ends the others.
        let mut started = ParallelWriter { own: path.writer(), pool, others: Vec::new(), files: Vec::new() };
        for number in 1..writers {
            let (pool, mut writer) = (started.pool.clone(), path.writer());
            let named = Builder::new().name(format!("tt-writer-{number}"));
            started.others.push(named.spawn(move || pool.work_until_closed(&mut *writer))?);
        }
        Ok(started)
    }

    /// The file in a form that other threads can hold.
    fn shared(&mut self, to: PayloadPlace<'_>) -> io::Result<Arc<OwnedFd>> {
        if self.files.len() <= to.number {
            self.files.resize(to.number + 1, None);
        }
        let held = &mut self.files[to.number];
        if let Some(shared) = held {
            return Ok(shared.clone());
        }
        let shared = Arc::new(to.file.try_clone_to_owned()?);
        Ok(held.insert(shared).clone())
    }
}

impl PayloadWriter for ParallelWriter {
    fn put(
        &mut self,
        memory: &dyn RegionMemory,
        to: PayloadPlace<'_>,
        from: Extent,
    ) -> Result<(), PayloadError> {
        if !from.is_large() {
            return self.own.put(memory, to, from);
        }
        let (number, file) = (to.number, self.shared(to)?);
        let job = |(start, len): (u64, usize)| {
            let (position, offset, bytes) = (from.position + start, from.offset + start, len as u64);
            let piece = Extent { lane: from.lane, position, offset, bytes, run_bytes: bytes };
            Job { number, file: file.clone(), from: piece, at: to.offset + start }
        };
        let mut queue = self.pool.lock();
        // After an error the next flush fails, so further jobs are useless until then.
        if queue.failed.is_none() {
            queue.jobs.extend(pieces(from.bytes).map(job));
            self.pool.work.notify_all();
        }
        Ok(())
    }

    fn put_bytes(&mut self, to: PayloadPlace<'_>, bytes: &[u8]) -> Result<(), PayloadError> {
        self.own.put_bytes(to, bytes)
    }

    fn flush(&mut self, first: BorrowedFd<'_>) -> Result<(), PayloadError> {
        let own = self.own.flush(first);
        let others = self.pool.finish(&mut *self.own);
        self.files.clear();
        own.and(others)
    }

    fn discard(&mut self) {
        self.pool.lock().jobs.clear();
        // Wait for open jobs: nothing may write to the file afterwards. Their errors no longer matter.
        let _ = self.pool.finish(&mut *self.own);
        self.files.clear();
        self.own.discard();
    }
}

impl Drop for ParallelWriter {
    fn drop(&mut self) {
        self.pool.lock().closed = true;
        self.pool.work.notify_all();
        for thread in self.others.drain(..) {
            // A thread that panicked has left its error in the queue.
            let _ = thread.join();
        }
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work_until_closed(&self, writer: &mut (dyn PayloadWriter + Send)) {
        loop {
            let next = self.work.wait_while(self.lock(), |queue| queue.jobs.is_empty() && !queue.closed);
            let mut queue = next.unwrap_or_else(PoisonError::into_inner);
            let Some(job) = queue.take() else { return };
            drop(queue);
            self.run(job, writer);
        }
    }

    /// Writes the remaining jobs, also in the caller's thread, waits for the others, and returns the first
    /// error.
    fn finish(&self, own: &mut (dyn PayloadWriter + Send)) -> Result<(), PayloadError> {
        loop {
            let mut queue = self.lock();
            let Some(job) = queue.take() else { break };
            drop(queue);
            self.run(job, own);
        }
        let ended = self.done.wait_while(self.lock(), |queue| !queue.running.is_empty());
        ended.unwrap_or_else(PoisonError::into_inner).failed.take().map_or(Ok(()), Err)
    }

    fn run(&self, job: Job, writer: &mut (dyn PayloadWriter + Send)) {
        let Job { number, file, from, at } = job;
        let ended = Err(io::Error::other("a writing thread panicked").into());
        let mut running = RunningJob { pool: self, number, ended };
        let put = writer.put(&*self.memory, PayloadPlace { number, file: file.as_fd(), offset: at }, from);
        // The last piece of a payload may be small, and would otherwise stay staged.
        running.ended = put.and_then(|()| writer.flush(file.as_fd()));
    }
}

impl Queue {
    /// The next job. One for a file to which no thread writes comes first, because threads that write to the same
    /// file wait for each other.
    fn take(&mut self) -> Option<Job> {
        let idle = self.jobs.iter().position(|job| !self.running.contains(&job.number));
        let job = self.jobs.remove(idle.unwrap_or(0))?;
        self.running.push(job.number);
        Some(job)
    }
}

/// A job that a thread has taken. It counts as ended when dropped, also during a panic, so that no thread
/// waits forever.
struct RunningJob<'p> {
    pool: &'p Pool,
    number: usize,
    ended: Result<(), PayloadError>,
}

impl Drop for RunningJob<'_> {
    fn drop(&mut self) {
        let mut queue = self.pool.lock();
        if let Some(place) = queue.running.iter().position(|number| *number == self.number) {
            queue.running.swap_remove(place);
        }
        if let Err(error) = std::mem::replace(&mut self.ended, Ok(())) {
            queue.failed.get_or_insert(error);
            queue.jobs.clear();
        }
        if queue.running.is_empty() {
            self.pool.done.notify_all();
        }
    }
}
