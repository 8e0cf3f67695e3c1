//! The task that the calling thread is inside of. Tasks that the thread begins, through any library of the
//! process, have it as parent.

use std::{
    cell::Cell,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{RecordError, Task, ThreadRecorder, core::Core, sanitizer};

/// The open tasks of this library that contain others. The innermost one of each thread is in the memory that
/// all libraries of the process share; see [`tensortap_sync::enclosure`].
#[derive(Debug, Default)]
pub(crate) struct OpenTasks(Mutex<Vec<OpenTask>>);

/// An open task that contains others.
#[derive(Clone, Copy, Debug)]
struct OpenTask {
    task: u64,
    /// The thread that entered it.
    thread: u64,
    /// The lane of the recorder that entered it.
    lane: u32,
    /// The task around it; 0 for none.
    around: u64,
}

struct Guard<'t>(MutexGuard<'t, Vec<OpenTask>>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        sanitizer::release(&raw const *self.0);
    }
}

impl OpenTasks {
    fn lock(&self) -> Guard<'_> {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sanitizer::acquire(&raw const *tasks);
        Guard(tasks)
    }
}

impl Core {
    /// The task that this thread is inside of; `None` without one. A program that never enters a task pays for
    /// one load.
    #[inline]
    pub fn enclosing(&self) -> Option<u64> {
        let enclosures = self.region().enclosures();
        if enclosures.is_unused() {
            return None;
        }
        Some(enclosures.enclosing(self.this_thread())).filter(|task| *task != 0)
    }

    /// The number of this thread in its process, as every library sees it.
    fn this_thread(&self) -> u64 {
        thread_local! {
            /// The number, and the attachment for which it was read: a forked process has other numbers.
            static THREAD: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
        }
        let core = std::ptr::from_ref(self).addr();
        THREAD.with(|known| {
            if known.get().0 != core {
                let thread = rustix::thread::gettid().as_raw_nonzero().get();
                known.set((core, u64::try_from(thread).unwrap_or(0)));
            }
            known.get().1
        })
    }

    fn enter(&self, task: u64, lane: u32) -> bool {
        let thread = self.this_thread();
        let mut open = self.open.lock();
        let Some(around) = self.region().enclosures().enter(thread, task) else { return false };
        open.0.push(OpenTask { task, thread, lane, around });
        true
    }

    /// Leaves a task if it is open.
    fn leave(&self, task: u64) {
        let mut open = self.open.lock();
        if let Some(at) = open.0.iter().rposition(|open| open.task == task) {
            self.leave_at(&mut open.0, at);
        }
    }

    /// Leaves the tasks that the recorder of a lane has entered, or all recorders.
    pub fn leave_all(&self, lane: Option<u32>) {
        // Without the lock for programs that never enter a task.
        if self.region().enclosures().is_unused() {
            return;
        }
        let mut open = self.open.lock();
        while let Some(at) = open.0.iter().rposition(|open| lane.is_none_or(|lane| open.lane == lane)) {
            self.leave_at(&mut open.0, at);
        }
    }

    /// Leaves a task, and those inside of it that the thread has not left, for example because of an exception.
    fn leave_at(&self, open: &mut Vec<OpenTask>, at: usize) {
        let OpenTask { task, thread, around, .. } = open[at];
        let is_inside = |other: &OpenTask| other.thread == thread;
        let innermost = open[at..].iter().rfind(|other| is_inside(other)).map_or(task, |other| other.task);
        let mut place = 0;
        open.retain(|other| {
            place += 1;
            place <= at || !is_inside(other)
        });
        let enclosures = self.region().enclosures();
        match thread == self.this_thread() {
            true => enclosures.leave(thread, innermost, around),
            false => enclosures.leave_from_outside(thread, innermost, around),
        }
    }
}

impl ThreadRecorder {
    /// Notes that the calling thread is inside of a task until [`leave`](ThreadRecorder::leave) or
    /// [`end`](ThreadRecorder::end). Tasks that begin in this thread meanwhile have it as parent, unless they name
    /// another one. That includes launches that a library for OpenCL or CUDA records in this process.
    ///
    /// Returns false if more threads than lanes are inside of tasks at the moment. Tasks then get no parent.
    ///
    /// # Errors
    /// If the task has ended. See also [`ThreadRecorder`].
    pub fn enter(&mut self, task: &mut Task) -> Result<bool, RecordError> {
        self.core.check()?;
        // The dump does not have a task that was filtered. What is inside of it is inside of the task around it.
        if !task.check()? {
            return Ok(true);
        }
        task.set_entered(self.core.enter(task.id(), self.lane.lane()));
        Ok(task.is_entered())
    }

    /// Notes that the thread which entered a task has left it. Any thread may call this. Without effect if no
    /// thread is inside of it.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn leave(&mut self, task: &mut Task) -> Result<(), RecordError> {
        self.core.check()?;
        if task.is_entered() {
            task.set_entered(false);
            self.core.leave(task.id());
        }
        Ok(())
    }
}
