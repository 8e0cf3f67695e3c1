//! Model checks of taking and returning places.

use std::sync::Arc;

use loom::thread;

use super::{EnclosureCells, Enclosures};
use crate::SharedU64;
use crate::model::{holds, refuted};

struct Shared {
    used: SharedU64,
    places: [[SharedU64; 2]; 2],
}

impl Shared {
    fn new() -> Arc<Self> {
        let place = || [SharedU64::new(0), SharedU64::new(0)];
        Arc::new(Self { used: SharedU64::new(0), places: [place(), place()] })
    }

    fn enclosures(&self) -> Enclosures<'_, impl Fn(usize) -> Option<EnclosureCells<'_>>> {
        let cells = |[thread, task]: &[SharedU64; 2]| EnclosureCells { thread, task };
        Enclosures::new(&self.used, move |place: usize| self.places.get(place).map(cells))
    }

    /// Opens two tasks, one in the other, and looks like two libraries would.
    fn nest(&self, thread: u64) {
        let (outer, inner) = (thread * 10, thread * 10 + 1);
        assert_eq!(self.enclosures().enter(thread, outer), Some(0), "there is a place for each thread");
        assert_eq!(self.enclosures().enclosing(thread), outer);
        assert_eq!(self.enclosures().enter(thread, inner), Some(outer));
        assert_eq!(self.enclosures().enclosing(thread), inner);
        self.enclosures().leave(thread, inner, outer);
        self.enclosures().leave(thread, outer, 0);
        assert_eq!(self.enclosures().enclosing(thread), 0);
    }

    /// Takes the first free place without an exchange.
    fn take_carelessly(&self, thread: u64) {
        let [owner, task] = self.places.iter().find(|[owner, _]| owner.get() == 0).unwrap();
        owner.set(thread);
        task.set(thread * 10);
        self.used.set(2);
        assert_eq!(self.enclosures().enclosing(thread), thread * 10, "it lost its place");
    }
}

fn two_threads(body: fn(&Shared, u64)) {
    let shared = Shared::new();
    let other = thread::spawn({
        let shared = Arc::clone(&shared);
        move || body(&shared, 1)
    });
    body(&shared, 2);
    if other.join().is_err() {
        panic!("it lost its place");
    }
}

#[test]
fn each_thread_sees_its_own_tasks_in_order() {
    holds(|| two_threads(Shared::nest));
}

#[test]
fn taking_a_place_without_an_exchange_is_refuted() {
    refuted("it lost its place", || two_threads(Shared::take_carelessly));
}
