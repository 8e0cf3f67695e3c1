//! Model checks of committing records. [`crate::buffers`] checks how a buffer is named and reused.

use std::sync::Arc;

use loom::thread;

use super::{Observer, Publisher};
use crate::atomic::Ordering;
use crate::model::{CopiedWord, RACE, RaceChecked, UnfencedWord, holds, refuted, weakened};
use crate::orderings::{CommitOrderings, ProvenOrderings};
use crate::{SharedU64, Word};

weakened! {
    PublishRelaxed: CommitOrderings { PUBLISH = Relaxed }
    SeeRelaxed: CommitOrderings { SEE = Relaxed }
}

const RECORDS: usize = 2;

struct Buffer {
    committed: SharedU64,
    records: [RaceChecked<u64>; RECORDS],
}

fn records_of_a_buffer<O: CommitOrderings + 'static>() -> (Arc<Buffer>, thread::JoinHandle<()>) {
    let buffer = Arc::new(Buffer {
        committed: SharedU64::new(0),
        records: [RaceChecked::new(0), RaceChecked::new(0)],
    });
    let producer = thread::spawn({
        let buffer = Arc::clone(&buffer);
        move || {
            let mut publisher = Publisher::<_, O>::with_orderings(&buffer.committed);
            for (record, value) in buffer.records.iter().zip(5..) {
                record.write(value);
                publisher.publish();
            }
        }
    });
    (buffer, producer)
}

fn observe<W: Word<Error = core::convert::Infallible>, O: CommitOrderings>(buffer: &Buffer, word: W) {
    let mut observer = Observer::<_, O>::with_orderings(word, RECORDS as u64);
    while !observer.is_taken() {
        for place in observer.poll(RECORDS as u64).unwrap() {
            assert_eq!(buffer.records[usize::from(place == 1)].read(), 5 + place);
        }
        thread::yield_now();
    }
}

fn mapped<O: CommitOrderings + 'static>() {
    let (buffer, producer) = records_of_a_buffer::<O>();
    observe::<_, O>(&buffer, &buffer.committed);
    producer.join().unwrap();
}

fn copied<O: CommitOrderings + 'static>() {
    let (buffer, producer) = records_of_a_buffer::<O>();
    observe::<_, O>(&buffer, CopiedWord(&buffer.committed));
    producer.join().unwrap();
}

fn copied_without_fences() {
    let (buffer, producer) = records_of_a_buffer::<ProvenOrderings>();
    observe::<_, ProvenOrderings>(&buffer, UnfencedWord(&buffer.committed));
    producer.join().unwrap();
}

#[test]
fn a_record_is_visible_once_counted() {
    holds(mapped::<ProvenOrderings>);
    holds(copied::<ProvenOrderings>);
}

#[test]
fn publish_without_release_is_refuted() {
    refuted(RACE, mapped::<PublishRelaxed>);
    refuted(RACE, copied::<PublishRelaxed>);
}

#[test]
fn poll_without_acquire_is_refuted() {
    refuted(RACE, mapped::<SeeRelaxed>);
    refuted(RACE, copied_without_fences);
}
