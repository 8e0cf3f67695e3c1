//! Tests losses when the recorder is slow or has exited.

use std::time::Duration;

use tensortap_format::PayloadState;
use tensortap_record::*;

use crate::host::{Host, PLAIN};

/// More tasks than fit into the lane's arena.
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
fn waits_for_a_slow_recorder() {
    let host = Host::new(PLAIN);
    host.stalled.raise();
    let session = host.session();
    std::thread::scope(|scope| {
        let recording = scope.spawn(|| record(&mut session.thread().unwrap(), TOO_MANY));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!recording.is_finished(), "no space");
        host.stalled.lower();
        assert!(recording.join().unwrap().iter().all(|&outcome| outcome == Outcome::Recorded));
    });
    assert_eq!(session.counters().unwrap().dropped, 0);
    drop(session);
    assert_eq!(host.dump().1.len(), TOO_MANY);
}

#[test]
fn drops_and_counts_records_after_the_wait_limit() {
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
    assert_eq!(stored as u64 + lost, TOO_MANY, "every record is stored or counted");
    assert_eq!(summary.counters.dropped_records, counters.dropped);
}

#[test]
fn every_lane_continues_immediately_when_the_recorder_dies() {
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
    // This lane has space, but notices it, too.
    assert_eq!(record(&mut other, 1), [Outcome::Dropped(DropReason::NoHost)]);
    assert!(!other.flush().unwrap());
    assert!(session.counters().unwrap().dropped > 0);
    drop((other, session));
    drop(alone);
}

#[test]
fn close_reports_that_the_recorder_has_exited() {
    let host = Host::new(PLAIN);
    let session = host.session();
    record(&mut session.thread().unwrap(), 1);
    let alone = host.die();
    assert!(matches!(session.close(), Err(RecordError::RecorderGone)));
    drop(alone);
}
