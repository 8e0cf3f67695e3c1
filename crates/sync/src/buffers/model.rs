//! Model checks of buffers going round, both halves running the real code.

use std::convert::Infallible;
use std::sync::Arc;

use loom::thread;

use super::{BufferOrderings, BufferWords, Drainer, Filler};
use crate::atomic::Ordering;
use crate::lease::Lease;
use crate::model::{Copied, CopiedWithoutFences, Guarded, RACE, Steps, holds, refuted, weakened};
use crate::orderings::{CommitOrderings, LeaseOrderings, Proven, SpscOrderings};
use crate::spsc::{QueueCells, QueueWords};
use crate::{SharedU32, SharedU64, Word};

weakened! {
    PublishRelaxed: CommitOrderings { PUBLISH = Relaxed }
    SeeRelaxed: CommitOrderings { SEE = Relaxed }
    PushRelaxed: SpscOrderings { PUSH = Relaxed }
    SeePushedRelaxed: SpscOrderings { SEE_PUSHED = Relaxed }
    TakeRelaxed: LeaseOrderings { TAKE = Relaxed }
    GiveBackRelaxed: LeaseOrderings { GIVE_BACK = Relaxed }
}
impl SpscOrderings for PublishRelaxed {}
impl SpscOrderings for SeeRelaxed {}
impl CommitOrderings for PushRelaxed {}
impl CommitOrderings for SeePushedRelaxed {}

/// The only buffer of a lane.
struct Lane {
    records_per_buffer: u32,
    lease: SharedU64,
    free_pushed: SharedU64,
    free_popped: SharedU64,
    ready_pushed: SharedU64,
    ready_popped: SharedU64,
    entries: [[SharedU32; 1]; 2],
    current: SharedU64,
    committed: SharedU64,
    first_seq: Guarded<u64>,
    records: [Guarded<u64>; 2],
    steps: Steps,
}

impl Lane {
    fn of_records(records_per_buffer: u32) -> Arc<Lane> {
        let word = |value| SharedU64::new(value);
        Arc::new(Lane {
            records_per_buffer,
            lease: word(0),
            free_pushed: word(1),
            free_popped: word(0),
            ready_pushed: word(0),
            ready_popped: word(0),
            entries: [[SharedU32::new(0)], [SharedU32::new(0)]],
            current: word(0),
            committed: word(0),
            first_seq: Guarded::new(99),
            records: [Guarded::new(99), Guarded::new(99)],
            steps: Steps::new(),
        })
    }
}

/// The lane's words, as one side reaches them.
struct Words<'m, W>(&'m Lane, fn(&'m SharedU64) -> W);

struct Queue<'m, W> {
    cells: QueueCells<'m>,
    word: fn(&'m SharedU64) -> W,
}

impl<'m, W: Word<Error = Infallible>> QueueWords for Queue<'m, W> {
    type Error = Infallible;

    fn pushed(&self) -> impl Word<Error = Infallible> {
        (self.word)(self.cells.pushed)
    }

    fn popped(&self) -> impl Word<Error = Infallible> {
        (self.word)(self.cells.popped)
    }

    fn capacity(&self) -> u64 {
        self.cells.capacity()
    }

    fn entry(&self, cell: u64) -> Result<u32, Infallible> {
        self.cells.entry(cell)
    }

    fn set_entry(&self, cell: u64, entry: u32) -> Result<(), Infallible> {
        self.cells.set_entry(cell, entry)
    }
}

impl<'m, W: Word<Error = Infallible>> BufferWords for Words<'m, W> {
    type Error = Infallible;
    type Word = W;
    type Queue = Queue<'m, W>;

    fn free(&self) -> Queue<'m, W> {
        let Lane { free_pushed: pushed, free_popped: popped, entries: [cells, _], .. } = self.0;
        Queue { cells: QueueCells { pushed, popped, cells }, word: self.1 }
    }

    fn ready(&self) -> Queue<'m, W> {
        let Lane { ready_pushed: pushed, ready_popped: popped, entries: [_, cells], .. } = self.0;
        Queue { cells: QueueCells { pushed, popped, cells }, word: self.1 }
    }

    fn current(&self) -> W {
        (self.1)(&self.0.current)
    }

    fn committed(&self, _number: u32) -> W {
        (self.1)(&self.0.committed)
    }

    fn buffers(&self) -> u32 {
        1
    }

    fn records(&self) -> u32 {
        self.0.records_per_buffer
    }
}

/// Times that a buffer of one record is filled, taken and given back.
const FILLINGS: u64 = 2;

fn fill<O: BufferOrderings>(lane: &Lane) {
    let mut filler = Filler::<_, O>::with_orderings(Words(lane, |word| word));
    for seq in 0..FILLINGS {
        while !filler.begin(|_| lane.first_seq.write(seq)) {
            thread::yield_now();
        }
        lane.records[0].write(10 + seq);
        assert!(filler.publish(), "one record fills it");
    }
}

/// As the device would do it that does not say that it fills nothing any more, before it hands the buffer over.
fn fill_without_closing<O: BufferOrderings>(lane: &Lane) {
    let mut filler = Filler::<_, O>::with_orderings(Words(lane, |word| word));
    for seq in 0..FILLINGS {
        while !filler.begin(|_| lane.first_seq.write(seq)) {
            thread::yield_now();
        }
        lane.records[0].write(10 + seq);
        let filling = filler.filling.as_mut().unwrap();
        filling.publisher.publish();
        let filling = filler.filling.take().unwrap();
        filler.ready.push(filling.number).unwrap();
    }
}

fn drain<'m, W: Word<Error = Infallible>, O: BufferOrderings>(lane: &'m Lane, word: fn(&'m SharedU64) -> W) {
    let mut drainer = Drainer::<_, O>::with_orderings(Words(lane, word));
    let mut taken = 0;
    while taken < FILLINGS {
        if drainer.open().unwrap().is_some() {
            assert_eq!(lane.first_seq.read(), taken, "{STALE}");
        }
        if let Some(records) = drainer.poll(1).unwrap() {
            assert_eq!((records.places, lane.records[0].read()), (0..1, 10 + taken));
            taken += 1;
        }
        drainer.give_back().unwrap();
        thread::yield_now();
    }
}

/// Leases the lane, goes on where its last holder left off, records once and returns it.
fn record_once<O: LeaseOrderings>(lane: &Lane) -> bool {
    lane.steps.mark();
    let Some(lease) = Lease::<O>::take_with(&lane.lease) else { return false };
    let mut filler = Filler::new(Words(lane, |word| word));
    if filler.filling().is_none() {
        assert!(filler.begin(|_| lane.first_seq.write(0)), "the buffer is free");
    }
    let place = filler.published();
    assert_eq!(place, lease.earlier(), "each holder has recorded once");
    lane.records[usize::from(place == 1)].write(10 + place);
    filler.publish();
    lane.steps.mark();
    lease.give_back();
    true
}

/// Two threads record in one lane, one after the other or only one of them; the host takes what there is.
fn a_lane_changes_hands<O: LeaseOrderings + 'static>() {
    let lane = Lane::of_records(2);
    let other = thread::spawn({
        let lane = Arc::clone(&lane);
        move || record_once::<O>(&lane)
    });
    let recorded = u64::from(record_once::<O>(&lane)) + u64::from(other.join().unwrap());
    let mut drainer = Drainer::new(Words(&lane, Copied));
    assert_eq!(drainer.open(), Ok(Some(0)));
    let taken = drainer.poll(2).unwrap().expect("somebody has recorded");
    assert_eq!(taken.places, 0..recorded);
    for place in taken.places {
        assert_eq!(lane.records[usize::from(place == 1)].read(), 10 + place);
    }
    assert_eq!(drainer.give_back(), Ok(recorded == 2), "a full buffer was handed over, by whoever filled it");
}

#[derive(Clone, Copy)]
enum Host {
    Maps,
    Copies,
    CopiesWithoutFences,
}

fn two_fillings<O: BufferOrderings + 'static>(host: Host, closes: bool) {
    let lane = Lane::of_records(1);
    let device = thread::spawn({
        let lane = Arc::clone(&lane);
        move || if closes { fill::<O>(&lane) } else { fill_without_closing::<O>(&lane) }
    });
    match host {
        Host::Maps => drain::<_, O>(&lane, |word| word),
        Host::Copies => drain::<_, O>(&lane, Copied),
        Host::CopiesWithoutFences => drain::<_, O>(&lane, CopiedWithoutFences),
    }
    device.join().unwrap();
}

const STALE: &str = "the header is that of the filling before";

#[test]
fn a_buffer_goes_round_and_nothing_of_it_is_read_too_soon() {
    holds(|| two_fillings::<Proven>(Host::Maps, true));
}

#[test]
fn nor_by_a_host_that_copies() {
    holds(|| two_fillings::<Proven>(Host::Copies, true));
}

#[test]
fn copies_without_fences_are_refuted() {
    refuted(RACE, || two_fillings::<Proven>(Host::CopiesWithoutFences, true));
}

#[test]
fn publishing_without_release_is_refuted() {
    refuted(RACE, || two_fillings::<PublishRelaxed>(Host::Maps, true));
    refuted(RACE, || two_fillings::<PublishRelaxed>(Host::Copies, true));
}

#[test]
fn looking_without_acquire_is_refuted() {
    refuted(RACE, || two_fillings::<SeeRelaxed>(Host::Maps, true));
}

#[test]
fn giving_back_without_release_is_refuted() {
    refuted(RACE, || two_fillings::<PushRelaxed>(Host::Maps, true));
}

#[test]
fn taking_a_free_buffer_without_acquire_is_refuted() {
    refuted(RACE, || two_fillings::<SeePushedRelaxed>(Host::Maps, true));
    refuted(RACE, || two_fillings::<SeePushedRelaxed>(Host::Copies, true));
}

#[test]
fn handing_over_without_closing_is_refuted() {
    // A name left over lets the host read a header that is being written, or find the one before.
    refuted(RACE, || two_fillings::<Proven>(Host::Maps, false));
}

#[test]
fn whoever_leases_a_lane_goes_on_where_its_last_holder_left_off() {
    holds(a_lane_changes_hands::<Proven>);
}

#[test]
fn a_lane_that_changes_hands_without_acquire_is_refuted() {
    refuted(RACE, a_lane_changes_hands::<TakeRelaxed>);
}

#[test]
fn a_lane_that_changes_hands_without_release_is_refuted() {
    refuted(RACE, a_lane_changes_hands::<GiveBackRelaxed>);
}
