//! Several threads that write large payloads, each at its own offset in the file.
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

use super::{Extent, PayloadError, PayloadPath, PayloadWriter, pieces};
use crate::{RegionMemory, memory::SharedRegion};

/// Writes with the caller's thread and additional ones.
pub(crate) struct ParallelWriter {
    /// The caller's own writer: for small payloads, which it combines, and for its share of the large ones.
    own: Box<dyn PayloadWriter + Send>,
    pool: Arc<Pool>,
    others: Vec<JoinHandle<()>>,
    /// The file of the last call, for the other threads; until the next flush.
    file: Option<Arc<OwnedFd>>,
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
    running: usize,
    failed: Option<PayloadError>,
    closed: bool,
}

/// A piece of a payload, and its file offset.
struct Job {
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
        let mut started = ParallelWriter { own: path.writer(), pool, others: Vec::new(), file: None };
        for number in 1..writers {
            let (pool, mut writer) = (started.pool.clone(), path.writer());
            let named = Builder::new().name(format!("tt-writer-{number}"));
            started.others.push(named.spawn(move || pool.work_until_closed(&mut *writer))?);
        }
        Ok(started)
    }

    /// The file in a form that other threads can hold.
    fn shared(&mut self, file: BorrowedFd<'_>) -> io::Result<Arc<OwnedFd>> {
        if let Some(shared) = &self.file {
            return Ok(shared.clone());
        }
        let shared = Arc::new(file.try_clone_to_owned()?);
        Ok(self.file.insert(shared).clone())
    }
}

impl PayloadWriter for ParallelWriter {
    fn put(
        &mut self,
        memory: &dyn RegionMemory,
        file: BorrowedFd<'_>,
        from: Extent,
        at: u64,
    ) -> Result<(), PayloadError> {
        if !from.is_large() {
            return self.own.put(memory, file, from, at);
        }
        let file = self.shared(file)?;
        let job = |(start, len): (u64, usize)| {
            let (position, offset, bytes) = (from.position + start, from.offset + start, len as u64);
            let piece = Extent { lane: from.lane, position, offset, bytes, run_bytes: bytes };
            Job { file: file.clone(), from: piece, at: at + start }
        };
        let mut queue = self.pool.lock();
        // After an error the next flush fails, so further jobs are useless until then.
        if queue.failed.is_none() {
            queue.jobs.extend(pieces(from.bytes).map(job));
            self.pool.work.notify_all();
        }
        Ok(())
    }

    fn put_bytes(&mut self, file: BorrowedFd<'_>, bytes: &[u8], at: u64) -> Result<(), PayloadError> {
        self.own.put_bytes(file, bytes, at)
    }

    fn flush(&mut self, file: BorrowedFd<'_>) -> Result<(), PayloadError> {
        let own = self.own.flush(file);
        let others = self.pool.finish(&mut *self.own);
        self.file = None;
        own.and(others)
    }

    fn discard(&mut self) {
        self.pool.lock().jobs.clear();
        // Wait for open jobs: nothing may write to the file afterwards. Their errors no longer matter.
        let _ = self.pool.finish(&mut *self.own);
        self.file = None;
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
        let ended = self.done.wait_while(self.lock(), |queue| queue.running > 0);
        ended.unwrap_or_else(PoisonError::into_inner).failed.take().map_or(Ok(()), Err)
    }

    fn run(&self, job: Job, writer: &mut (dyn PayloadWriter + Send)) {
        let mut running =
            RunningJob { pool: self, ended: Err(io::Error::other("a writing thread panicked").into()) };
        let Job { file, from, at } = job;
        let put = writer.put(&*self.memory, file.as_fd(), from, at);
        // The last piece of a payload may be small, and would otherwise stay staged.
        running.ended = put.and_then(|()| writer.flush(file.as_fd()));
    }
}

impl Queue {
    fn take(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        self.running += 1;
        Some(job)
    }
}

/// A job that a thread has taken. It counts as ended when dropped, also during a panic, so that no thread
/// waits forever.
struct RunningJob<'p> {
    pool: &'p Pool,
    ended: Result<(), PayloadError>,
}

impl Drop for RunningJob<'_> {
    fn drop(&mut self) {
        let mut queue = self.pool.lock();
        queue.running -= 1;
        if let Err(error) = std::mem::replace(&mut self.ended, Ok(())) {
            queue.failed.get_or_insert(error);
            queue.jobs.clear();
        }
        if queue.running == 0 {
            self.pool.done.notify_all();
        }
    }
}
