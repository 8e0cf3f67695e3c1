//! Model checks of circulating buffers. Both halves run the real code.

use std::convert::Infallible;
use std::sync::Arc;

use loom::thread;

use super::{BufferOrderings, BufferWords, Drainer, Filler};
use crate::atomic::Ordering;
use crate::lease::Lease;
use crate::model::{CopiedWord, RACE, RaceChecked, Steps, UnfencedWord, holds, refuted, weakened};
use crate::orderings::{CommitOrderings, LeaseOrderings, ProvenOrderings, SpscOrderings};
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
    first_seq: RaceChecked<u64>,
    records: [RaceChecked<u64>; 2],
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
            first_seq: RaceChecked::new(99),
            records: [RaceChecked::new(99), RaceChecked::new(99)],
            steps: Steps::new(),
        })
    }
}

/// The lane's words. The second field chooses how one side reaches them.
struct LaneWords<'m, W>(&'m Lane, fn(&'m SharedU64) -> W);

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

impl<'m, W: Word<Error = Infallible>> BufferWords for LaneWords<'m, W> {
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

/// How often a buffer of one record is filled, read and returned.
const FILLINGS: u64 = 2;

fn fill<O: BufferOrderings>(lane: &Lane) {
    let mut filler = Filler::<_, O>::with_orderings(LaneWords(lane, |word| word));
    for seq in 0..FILLINGS {
        while !filler.begin(|_| lane.first_seq.write(seq)) {
            thread::yield_now();
        }
        lane.records[0].write(10 + seq);
        assert!(filler.publish(), "one record fills it");
    }
}

/// What a device would do that hands a buffer over without first closing it.
fn fill_without_closing<O: BufferOrderings>(lane: &Lane) {
    let mut filler = Filler::<_, O>::with_orderings(LaneWords(lane, |word| word));
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
    let mut drainer = Drainer::<_, O>::with_orderings(LaneWords(lane, word));
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

/// Leases the lane, continues where its last holder stopped, records once and returns the lane.
fn record_once<O: LeaseOrderings>(lane: &Lane) -> bool {
    lane.steps.mark();
    let Some(lease) = Lease::<O>::take_with(&lane.lease) else { return false };
    let mut filler = Filler::new(LaneWords(lane, |word| word));
    if filler.filling().is_none() {
        assert!(filler.begin(|_| lane.first_seq.write(0)), "the buffer is free");
    }
    let place = filler.published();
    assert_eq!(place, lease.earlier(), "each holder recorded once");
    lane.records[usize::from(place == 1)].write(10 + place);
    filler.publish();
    lane.steps.mark();
    lease.give_back();
    true
}

/// One or two threads record in one lane, one after the other. The host reads what there is.
fn a_lane_changes_hands<O: LeaseOrderings + 'static>() {
    let lane = Lane::of_records(2);
    let other = thread::spawn({
        let lane = Arc::clone(&lane);
        move || record_once::<O>(&lane)
    });
    let recorded = u64::from(record_once::<O>(&lane)) + u64::from(other.join().unwrap());
    let mut drainer = Drainer::new(LaneWords(&lane, CopiedWord));
    assert_eq!(drainer.open(), Ok(Some(0)));
    let taken = drainer.poll(2).unwrap().expect("a thread has recorded");
    assert_eq!(taken.places, 0..recorded);
    for place in taken.places {
        assert_eq!(lane.records[usize::from(place == 1)].read(), 10 + place);
    }
    assert_eq!(drainer.give_back(), Ok(recorded == 2), "the thread that filled the buffer hands it over");
}

#[derive(Clone, Copy)]
enum HostAccess {
    Maps,
    Copies,
    CopiesWithoutFences,
}

fn two_fillings<O: BufferOrderings + 'static>(host: HostAccess, closes: bool) {
    let lane = Lane::of_records(1);
    let device = thread::spawn({
        let lane = Arc::clone(&lane);
        move || if closes { fill::<O>(&lane) } else { fill_without_closing::<O>(&lane) }
    });
    match host {
        HostAccess::Maps => drain::<_, O>(&lane, |word| word),
        HostAccess::Copies => drain::<_, O>(&lane, CopiedWord),
        HostAccess::CopiesWithoutFences => drain::<_, O>(&lane, UnfencedWord),
    }
    device.join().unwrap();
}

const STALE: &str = "the header belongs to the previous filling";

#[test]
fn a_circulating_buffer_is_never_read_too_early() {
    holds(|| two_fillings::<ProvenOrderings>(HostAccess::Maps, true));
}

#[test]
fn a_circulating_buffer_is_never_read_too_early_by_a_copying_host() {
    holds(|| two_fillings::<ProvenOrderings>(HostAccess::Copies, true));
}

#[test]
fn copies_without_fences_are_refuted() {
    refuted(RACE, || two_fillings::<ProvenOrderings>(HostAccess::CopiesWithoutFences, true));
}

#[test]
fn publishing_without_release_is_refuted() {
    refuted(RACE, || two_fillings::<PublishRelaxed>(HostAccess::Maps, true));
    refuted(RACE, || two_fillings::<PublishRelaxed>(HostAccess::Copies, true));
}

#[test]
fn observing_without_acquire_is_refuted() {
    refuted(RACE, || two_fillings::<SeeRelaxed>(HostAccess::Maps, true));
}

#[test]
fn returning_a_buffer_without_release_is_refuted() {
    refuted(RACE, || two_fillings::<PushRelaxed>(HostAccess::Maps, true));
}

#[test]
fn taking_a_free_buffer_without_acquire_is_refuted() {
    refuted(RACE, || two_fillings::<SeePushedRelaxed>(HostAccess::Maps, true));
    refuted(RACE, || two_fillings::<SeePushedRelaxed>(HostAccess::Copies, true));
}

#[test]
fn handing_over_without_closing_is_refuted() {
    // A stale buffer name lets the host read a header while it is written, or the header of the previous
    // filling.
    refuted(RACE, || two_fillings::<ProvenOrderings>(HostAccess::Maps, false));
}

#[test]
fn a_new_holder_of_a_lane_continues_where_the_last_one_stopped() {
    holds(a_lane_changes_hands::<ProvenOrderings>);
}

#[test]
fn a_lane_that_changes_hands_without_acquire_is_refuted() {
    refuted(RACE, a_lane_changes_hands::<TakeRelaxed>);
}

#[test]
fn a_lane_that_changes_hands_without_release_is_refuted() {
    refuted(RACE, a_lane_changes_hands::<GiveBackRelaxed>);
}
