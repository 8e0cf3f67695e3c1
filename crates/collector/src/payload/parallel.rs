//! Several threads that write large payloads, each at its own place in the file.
//!
//! The collector reserves ranges and hands them out; [`PayloadWriter::flush`], which stands before every entry in the index, returns
//! when all of them were written. So payload, index and acknowledgement keep their order however many threads write. Nothing is
//! shared but a queue behind a lock, which is taken once for up to 1 MiB.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{Builder, JoinHandle},
};

use super::{Extent, PayloadError, PayloadPath, PayloadWriter, pieces};
use crate::{RegionMemory, memory::SharedRegion};

/// Writes with a thread of the caller and others beside it.
pub(crate) struct ParallelWriter {
    /// The caller's own way: small payloads, which it gathers, and its share of the large ones.
    own: Box<dyn PayloadWriter + Send>,
    pool: Arc<Pool>,
    others: Vec<JoinHandle<()>>,
    /// The file that was last put to, for the other threads; until the next flush.
    file: Option<Arc<OwnedFd>>,
}

/// What the threads share.
struct Pool {
    memory: SharedRegion,
    queue: Mutex<Queue>,
    /// There is something to write, or nothing will come any more.
    work: Condvar,
    /// What was under way has ended.
    done: Condvar,
}

/// At most what a frame of the index covers: the collector flushes after that.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: usize,
    failed: Option<PayloadError>,
    closed: bool,
}

/// A piece of a payload, and where it belongs.
struct Job {
    file: Arc<OwnedFd>,
    from: Extent,
    at: u64,
}

impl ParallelWriter {
    /// `writers` threads in all, the caller's among them.
    pub(crate) fn start(
        memory: SharedRegion,
        path: PayloadPath,
        writers: usize,
    ) -> io::Result<ParallelWriter> {
        let pool =
            Arc::new(Pool { memory, queue: Mutex::default(), work: Condvar::new(), done: Condvar::new() });
        // Dropped when a thread cannot be started, which ends those that were.
        let mut started = ParallelWriter { own: path.writer(), pool, others: Vec::new(), file: None };
        for number in 1..writers {
            let (pool, mut writer) = (started.pool.clone(), path.writer());
            let named = Builder::new().name(format!("tt-writer-{number}"));
            started.others.push(named.spawn(move || pool.work_until_closed(&mut *writer))?);
        }
        Ok(started)
    }

    /// The file, as other threads can hold it.
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
        // What failed once fails the next flush; until then there is no use in more.
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
        // What is under way is waited for: nothing may write to the file afterwards. Whether it failed no longer matters.
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
            // A thread that panicked has left its failure in the queue.
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

    /// Writes what is left with the caller's thread, too, waits for the others, and says what went wrong.
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
            Running { pool: self, ended: Err(io::Error::other("a writing thread panicked").into()) };
        let Job { file, from, at } = job;
        let put = writer.put(&*self.memory, file.as_fd(), from, at);
        // The last piece of a payload may be small, and would be kept for its neighbours.
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

/// A job that was taken. Counted as ended when it goes, also by a panic: nobody may wait for ever.
struct Running<'p> {
    pool: &'p Pool,
    ended: Result<(), PayloadError>,
}

impl Drop for Running<'_> {
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
