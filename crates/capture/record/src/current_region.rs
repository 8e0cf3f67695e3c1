//! The open regions of each thread. A task that begins on a thread belongs to the thread's innermost region.
//!
//! This is the only place that knows them. [`current`] reads them, and [`enter`] and [`leave`] change them.

use std::cell::RefCell;

/// Regions that may be open on a thread. Tasks in deeper regions belong to the last one within this limit.
const MAX_OPEN: usize = 1024;

/// An open region.
#[derive(Clone, Copy, PartialEq, Eq)]
struct OpenRegion {
    /// Run id of its session, because a process may have several sessions.
    session: u64,
    task_id: u64,
}

thread_local! {
    static OPEN: RefCell<Vec<OpenRegion>> = const { RefCell::new(Vec::new()) };
}

/// The innermost region of a session that is open on this thread.
#[inline]
pub(crate) fn current(session: u64) -> Option<u64> {
    let last = |open: &RefCell<Vec<OpenRegion>>| {
        open.borrow().iter().rfind(|region| region.session == session).map(|region| region.task_id)
    };
    // Without an answer while the thread's data is being destroyed.
    OPEN.try_with(last).ok().flatten()
}

/// Opens a region on this thread.
pub(crate) fn enter(session: u64, task_id: u64) {
    let _ = OPEN.try_with(|open| {
        let mut open = open.borrow_mut();
        if open.len() < MAX_OPEN {
            open.push(OpenRegion { session, task_id });
        }
    });
}

/// Closes a region, and those inside of it that were not closed. A thread can only close its own regions.
pub(crate) fn leave(session: u64, task_id: u64) {
    let _ = OPEN.try_with(|open| {
        let mut open = open.borrow_mut();
        if let Some(place) = open.iter().rposition(|region| *region == OpenRegion { session, task_id }) {
            let mut at = 0;
            open.retain(|region| {
                at += 1;
                at <= place || region.session != session
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_nest_for_each_session_and_thread() {
        enter(1, 10);
        enter(2, 20);
        enter(1, 11);
        enter(1, 12);
        assert_eq!((current(1), current(2), current(3)), (Some(12), Some(20), None));
        std::thread::spawn(|| assert_eq!(current(1), None)).join().unwrap();
        // Region 12 was not closed, for example because of an exception.
        leave(1, 11);
        assert_eq!((current(1), current(2)), (Some(10), Some(20)));
        leave(1, 99);
        leave(1, 10);
        assert_eq!((current(1), current(2)), (None, Some(20)));
        for task in 0..2 * MAX_OPEN as u64 {
            enter(1, task);
        }
        assert_eq!(current(1), Some(MAX_OPEN as u64 - 2));
    }
}
