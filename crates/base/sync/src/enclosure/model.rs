//! Model checks of taking and returning places.

use std::sync::Arc;

use loom::thread;

use super::{EnclosureCells, Enclosures};
use crate::SharedU64;
use crate::atomic::Ordering;
use crate::model::{holds, refuted, weakened};
use crate::orderings::{EnclosureOrderings, ProvenOrderings};

weakened! {
    FreeRelaxed: EnclosureOrderings { FREE = Relaxed }
    TakeRelaxed: EnclosureOrderings { TAKE = Relaxed }
}

/// What every failed check of a thread's own place says.
const LOST: &str = "it lost its place";

struct Shared {
    used: SharedU64,
    places: [[SharedU64; 2]; 2],
}

impl Shared {
    fn new() -> Arc<Self> {
        let place = || [SharedU64::new(0), SharedU64::new(0)];
        Arc::new(Self { used: SharedU64::new(0), places: [place(), place()] })
    }

    fn enclosures<'s, O: EnclosureOrderings>(
        &'s self,
    ) -> Enclosures<'s, impl Fn(usize) -> Option<EnclosureCells<'s>>, O> {
        Enclosures::with_orderings(&self.used, move |place: usize| {
            self.places.get(place).map(|[thread, task]| EnclosureCells { thread, task })
        })
    }

    /// Opens two tasks, one in the other, and looks like two libraries would.
    fn nest<O: EnclosureOrderings>(&self, thread: u64) {
        let (outer, inner) = (thread * 10, thread * 10 + 1);
        let places = || self.enclosures::<O>();
        assert_eq!(places().enter(thread, outer), Some(0), "there is a place for each thread");
        assert_eq!(places().enclosing(thread), outer, "{LOST}");
        assert_eq!(places().enter(thread, inner), Some(outer), "{LOST}");
        assert_eq!(places().enclosing(thread), inner, "{LOST}");
        places().leave(thread, inner, outer);
        places().leave(thread, outer, 0);
        assert_eq!(places().enclosing(thread), 0, "{LOST}");
    }

    /// Takes the first free place without an exchange.
    fn take_carelessly(&self, thread: u64) {
        let [owner, task] = self.places.iter().find(|[owner, _]| owner.get() == 0).unwrap();
        owner.set(thread);
        task.set(thread * 10);
        self.used.set(2);
        assert_eq!(self.enclosures::<ProvenOrderings>().enclosing(thread), thread * 10, "{LOST}");
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
        panic!("{LOST}");
    }
}

#[test]
fn each_thread_sees_its_own_tasks_in_order() {
    holds(|| two_threads(Shared::nest::<ProvenOrderings>));
}

#[test]
fn giving_back_without_release_is_refuted() {
    refuted(LOST, || two_threads(Shared::nest::<FreeRelaxed>));
}

#[test]
fn taking_without_acquire_is_refuted() {
    refuted(LOST, || two_threads(Shared::nest::<TakeRelaxed>));
}

#[test]
fn taking_a_place_without_an_exchange_is_refuted() {
    refuted(LOST, || two_threads(Shared::take_carelessly));
}
