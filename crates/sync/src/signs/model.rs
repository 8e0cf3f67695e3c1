//! Model checks of the signs.

use std::sync::Arc;

use loom::thread;

use super::{discards, flush_with, is_flushed_with, order_discard};
use crate::SharedU64;
use crate::atomic::Ordering;
use crate::model::{Copied, Guarded, LIVELOCK, RACE, holds, refuted, weakened};
use crate::orderings::{Proven, SignOrderings};

weakened! {
    FlushRelaxed: SignOrderings { FLUSH = Relaxed }
    SeeFlushedRelaxed: SignOrderings { SEE_FLUSHED = Relaxed }
}

fn last_record<O: SignOrderings + 'static>(copies: bool) {
    let shared = Arc::new((SharedU64::new(0), Guarded::new(0)));
    let device = thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            shared.1.write(7);
            flush_with::<O>(&shared.0);
        }
    });
    let flushed =
        if copies { is_flushed_with::<O, _>(Copied(&shared.0)) } else { is_flushed_with::<O, _>(&shared.0) };
    if flushed.unwrap() {
        assert_eq!(shared.1.read(), 7);
    }
    device.join().unwrap();
}

/// A device thread that waits for space nobody will give back.
fn waits_for_nobody(host_gives_up: bool) {
    let discard = Arc::new(SharedU64::new(0));
    let host = thread::spawn({
        let discard = Arc::clone(&discard);
        move || {
            if host_gives_up {
                order_discard(&*discard).unwrap();
            }
        }
    });
    while !discards(&discard) {
        thread::yield_now();
    }
    host.join().unwrap();
}

#[test]
fn a_flushed_thread_shows_all_it_recorded() {
    holds(|| last_record::<Proven>(false));
    holds(|| last_record::<Proven>(true));
}

#[test]
fn an_order_to_discard_ends_every_wait() {
    holds(|| waits_for_nobody(true));
}

#[test]
fn flushing_without_release_is_refuted() {
    refuted(RACE, || last_record::<FlushRelaxed>(false));
    refuted(RACE, || last_record::<FlushRelaxed>(true));
}

#[test]
fn looking_without_acquire_is_refuted() {
    refuted(RACE, || last_record::<SeeFlushedRelaxed>(false));
}

#[test]
fn a_host_that_gives_up_in_silence_is_refuted() {
    refuted(LIVELOCK, || waits_for_nobody(false));
}
