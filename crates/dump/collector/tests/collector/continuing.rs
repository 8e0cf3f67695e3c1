//! A device that continues to record when its dump must be closed.

use std::{ops::Range, time::Duration};

use tensortap_abi::TaskRecord;
use tensortap_collector::Sink;
use tensortap_format::{DumpWriter, Footer, FormatError, IndexRecord, PayloadPlace, Totals, WriterOptions};
use tensortap_recorder::{DropReason, HostLink, LaneRecorder, Memory, Outcome, Region};

use crate::rig::{GEOMETRY, Rig, finish};

/// A host link that never waits.
struct NoWait;

impl HostLink for NoWait {
    fn wake_host(&self) {}

    fn pause(&self, _limit: Duration) {
        panic!("there is always room");
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn waiting(&self, _waiting: bool) {}
}

fn recorder(rig: &Rig) -> LaneRecorder<'static, NoWait> {
    // SAFETY: the memory is leaked below, all of its bytes are atomic words, and only the collector writes
    // to the region.
    let memory = unsafe { Memory::new(rig.memory.range()) };
    std::mem::forget(rig.memory.clone());
    let region = Box::leak(Box::new(Region::open(memory, rig.memory.range().addr).unwrap()));
    region.recorder(0, NoWait).unwrap()
}

fn task(task_id: u64) -> TaskRecord {
    TaskRecord { task_id, ..TaskRecord::default() }
}

/// A sink that makes the device record one more task at every write, up to a limit.
struct FeedingSink {
    writer: DumpWriter,
    device: LaneRecorder<'static, NoWait>,
    left: u64,
}

impl Sink for FeedingSink {
    fn reserve(&mut self, bytes: u64) -> u64 {
        Sink::reserve(&mut self.writer, bytes)
    }

    fn cancel(&mut self, offset: u64) {
        Sink::cancel(&mut self.writer, offset);
    }

    fn payload_place(&mut self, position: u64) -> Result<PayloadPlace<'_>, FormatError> {
        self.writer.payload_place(position)
    }

    fn append(&mut self, thread: u32, seqs: Range<u64>, records: &[IndexRecord]) -> Result<(), FormatError> {
        if self.left > 0 {
            self.left -= 1;
            self.device.task(&task(self.left));
        }
        Sink::append(&mut self.writer, thread, seqs, records)
    }

    fn sync_data(&mut self) -> Result<(), FormatError> {
        Sink::sync_data(&mut self.writer)
    }

    fn sync_index(&mut self) -> Result<(), FormatError> {
        Sink::sync_index(&mut self.writer)
    }

    fn free_window(&mut self) -> Result<Vec<Range<u64>>, FormatError> {
        Sink::free_window(&mut self.writer)
    }

    fn settle(&mut self) -> Totals {
        Sink::settle(&mut self.writer)
    }

    fn finish(self, footer: &Footer) -> Result<Footer, FormatError> {
        Sink::finish(self.writer, footer)
    }
}

#[test]
fn finish_takes_at_most_one_region_full_of_records() {
    const ENDLESS: u64 = 10_000;
    let rig = Rig::new(GEOMETRY, true);
    let mut device = recorder(&rig);
    assert_eq!(device.task(&task(ENDLESS)), Outcome::Recorded);
    let sink = FeedingSink { writer: rig.writer(WriterOptions::default()), device, left: ENDLESS };
    let summary = finish(rig.collector_with(sink));
    let capacity = u64::from(GEOMETRY.lanes) * u64::from(GEOMETRY.buffers) * u64::from(GEOMETRY.records);
    assert!(summary.lanes[0].acknowledged >= 1, "{summary:?}");
    assert!(summary.lanes[0].acknowledged <= 2 * capacity, "{summary:?}");
}

#[test]
fn a_dismissed_device_discards_new_data_and_loses_no_earlier_data() {
    let rig = Rig::new(GEOMETRY, true);
    let (mut device, collector) = (recorder(&rig), rig.collector());
    assert_eq!(device.task(&task(1)), Outcome::Recorded);
    collector.dismiss().unwrap();
    assert_eq!(device.task(&task(2)), Outcome::Dropped(DropReason::NoHost));
    let summary = finish(collector);
    assert_eq!((summary.lanes[0].acknowledged, summary.counters.dropped_records), (1, 1));
}
