//! What is lost when the recorder is behind or gone.

use std::time::Duration;

use tensortap_format::PayloadState;
use tensortap_record::*;

use crate::host::{Host, PLAIN};

/// More than the lane's arena holds.
const TOO_MANY: u64 = 12;

fn record(recorder: &mut ThreadRecorder, tasks: u64) -> Vec<Outcome> {
    let content = [3_u8; 10_000];
    (0..tasks)
        .map(|_| {
            let mut task = recorder.begin(&TaskInfo::default()).unwrap();
            let outcome = recorder
                .tensor(&mut task, DumpStage::AfterCompletion, &Tensor::of(&content, DType::UInt8).unwrap())
                .unwrap();
            recorder.end(&mut task).unwrap();
            outcome
        })
        .collect()
}

#[test]
fn a_recorder_that_is_behind_is_waited_for() {
    let host = Host::new(PLAIN);
    host.stalled.raise();
    let session = host.session();
    std::thread::scope(|scope| {
        let recording = scope.spawn(|| record(&mut session.thread().unwrap(), TOO_MANY));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!recording.is_finished(), "there is no room");
        host.stalled.lower();
        assert!(recording.join().unwrap().iter().all(|&outcome| outcome == Outcome::Recorded));
    });
    assert_eq!(session.counters().unwrap().dropped, 0);
    drop(session);
    assert_eq!(host.dump().1.len(), TOO_MANY);
}

#[test]
fn nobody_waits_longer_than_said_and_what_is_dropped_meanwhile_is_counted() {
    let host = Host::new(PLAIN);
    host.stalled.raise();
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    recorder.set_max_wait(Some(Duration::from_millis(2)));
    let outcomes = record(&mut recorder, TOO_MANY);
    let lost =
        outcomes.iter().filter(|&&outcome| outcome == Outcome::Dropped(DropReason::NoSpace)).count() as u64;
    assert!(lost >= 4 && outcomes[0] == Outcome::Recorded, "{outcomes:?}");
    let counters = session.counters().unwrap();
    assert!(counters.dropped >= lost && counters.lost_bytes >= 4 * 10_000, "{counters:?}");
    drop((recorder, session));
    host.stalled.lower();
    let (_dir, dump, summary) = host.dump();
    let stored =
        dump.records().map(Result::unwrap).filter(|record| record.payload == PayloadState::Stored).count();
    assert_eq!(stored as u64 + lost, TOO_MANY, "every one is stored or counted");
    assert_eq!(summary.counters.dropped_records, counters.dropped);
}

#[test]
fn when_the_recorder_dies_every_lane_goes_on_without_it_at_once() {
    let host = Host::new(PLAIN);
    host.stalled.raise();
    let session = host.session();
    let mut other = session.thread().unwrap();
    let alone = std::thread::scope(|scope| {
        let recording = scope.spawn(|| record(&mut session.thread().unwrap(), TOO_MANY));
        std::thread::sleep(Duration::from_millis(20));
        let alone = host.die();
        let outcomes = recording.join().unwrap();
        assert_eq!(outcomes.last(), Some(&Outcome::Dropped(DropReason::NoHost)), "{outcomes:?}");
        alone
    });
    // This one has room in its own lane, and knows it all the same.
    assert_eq!(record(&mut other, 1), [Outcome::Dropped(DropReason::NoHost)]);
    assert!(!other.flush().unwrap());
    assert!(session.counters().unwrap().dropped > 0);
    drop((other, session));
    drop(alone);
}

#[test]
fn a_recorder_that_was_gone_in_the_end_is_told_by_the_close() {
    let host = Host::new(PLAIN);
    let session = host.session();
    record(&mut session.thread().unwrap(), 1);
    let alone = host.die();
    assert!(matches!(session.close(), Err(RecordError::RecorderGone)));
    drop(alone);
}
