//! Files that accept no more data.

use std::{
    fs::File,
    io,
    mem::offset_of,
    ops::Range,
    os::fd::AsFd,
    sync::{Arc, Mutex},
};

use tensortap_abi::{DumpBufferState, DumpSetupHeader};
use tensortap_collector::Sink;
use tensortap_format::{
    DumpWriter, Footer, FormatError, IndexRecord, PayloadPlace, Status, Totals, WriterOptions,
};

use crate::{
    RegionMemory,
    device::tensor_of,
    rig::{GEOMETRY, Rig, content, finish},
    testing::TestMemory,
};

/// A sink that fails in one of three operations once the test enables it.
struct FailingSink {
    writer: DumpWriter,
    full: File,
    at: Fault,
    /// Number of frames that still succeed.
    frames: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Payload,
    Append,
    Sync,
}

impl FailingSink {
    fn new(writer: DumpWriter, at: Fault, frames: u32) -> FailingSink {
        FailingSink { writer, full: File::options().write(true).open("/dev/full").unwrap(), at, frames }
    }

    fn is_due(&self, at: Fault) -> bool {
        self.at == at && self.frames == 0
    }

    fn fail(&self, at: Fault) -> Result<(), FormatError> {
        if !self.is_due(at) {
            return Ok(());
        }
        let source = io::Error::from(io::ErrorKind::StorageFull);
        Err(FormatError::Io { action: "write", path: "index".into(), source })
    }
}

impl Sink for FailingSink {
    fn reserve(&mut self, bytes: u64) -> u64 {
        self.writer.reserve(bytes)
    }

    fn cancel(&mut self, offset: u64) {
        self.writer.cancel(offset);
    }

    fn payload_place(&mut self, position: u64) -> Result<PayloadPlace<'_>, FormatError> {
        let place = self.writer.payload_place(position)?;
        if self.is_due(Fault::Payload) {
            Ok(PayloadPlace { file: self.full.as_fd(), ..place })
        } else {
            Ok(place)
        }
    }

    fn append(&mut self, lane: u32, seqs: Range<u64>, records: &[IndexRecord]) -> Result<(), FormatError> {
        self.fail(Fault::Append)?;
        self.writer.append(lane, seqs, records)?;
        self.frames = self.frames.saturating_sub(1);
        Ok(())
    }

    fn sync_data(&mut self) -> Result<(), FormatError> {
        self.fail(Fault::Sync)?;
        self.writer.sync_data()
    }

    fn sync_index(&mut self) -> Result<(), FormatError> {
        self.writer.sync_index()
    }

    fn free_window(&mut self) -> Result<Vec<Range<u64>>, FormatError> {
        self.writer.free_before_window()
    }

    fn settle(&mut self) -> Totals {
        self.writer.settle().clone()
    }

    fn finish(self, footer: &Footer) -> Result<Footer, FormatError> {
        self.writer.finish(footer)
    }
}

#[test]
fn a_full_disk_is_reported_at_once_and_earlier_data_is_complete() {
    for fault in [Fault::Payload, Fault::Append, Fault::Sync] {
        let mut rig = Rig::new(GEOMETRY, true);
        rig.options.sync = true;
        let sink = FailingSink::new(rig.writer(WriterOptions::default()), fault, 2);
        let (mut collector, mut device) = (rig.collector_with(sink), rig.lane(0));
        let discard = offset_of!(DumpSetupHeader, discard) as u64;
        for task in 0..40 {
            while !device.tensor(task, 0, &content(task, 3000)) {
                collector.step().unwrap();
            }
            // Three frames; the third fails.
            if task % 2 == 1 && task < 6 {
                assert_eq!(rig.memory.read_u64(discard).unwrap(), 0);
                collector.step().unwrap();
            }
        }
        assert_eq!(rig.memory.read_u64(discard).unwrap(), 1, "{fault:?}");
        let heard = rig.heard();
        assert_eq!(heard.len(), 1, "{fault:?}: {heard:?}");
        assert!(heard[0].contains("WriteFailed"), "{heard:?}");

        let summary = finish(collector);
        assert_eq!(summary.status, Status::DumpFailed);
        assert!(summary.failure.as_ref().is_some_and(|text| text.contains("space")), "{summary:?}");
        assert_eq!(
            (summary.counters.entries, summary.counters.tensors, summary.counters.bytes_captured),
            (4, 4, 12_000),
            "{fault:?}"
        );
        assert_eq!(summary.counters.bytes_written, 12_000, "{fault:?}: unreferenced bytes do not count");
        assert_eq!(summary.counters.dropped_records, 36);
        let dump = rig.verified();
        assert_eq!(dump.status(), Some(Status::DumpFailed));
        for (task, record) in (0..4).zip(dump.records()) {
            assert!(dump.payload(&record.unwrap()).unwrap() == content(task, 3000));
        }
    }
}

/// Records the order of writes, and what the device could already reuse at that time.
struct WitnessSink {
    writer: DumpWriter,
    memory: TestMemory,
    consumed: u64,
    seen: Arc<Mutex<Vec<(&'static str, u64)>>>,
}

impl WitnessSink {
    fn see(&self, what: &'static str) {
        let consumed = self.memory.read_u64(self.consumed).unwrap();
        self.seen.lock().unwrap().push((what, consumed));
    }
}

impl Sink for WitnessSink {
    fn reserve(&mut self, bytes: u64) -> u64 {
        self.writer.reserve(bytes)
    }

    fn cancel(&mut self, offset: u64) {
        self.writer.cancel(offset);
    }

    fn payload_place(&mut self, position: u64) -> Result<PayloadPlace<'_>, FormatError> {
        self.writer.payload_place(position)
    }

    fn append(&mut self, lane: u32, seqs: Range<u64>, records: &[IndexRecord]) -> Result<(), FormatError> {
        let written = self.writer.payload_path(0).metadata().unwrap().len();
        assert_eq!(written, 3000, "payloads come before their records");
        self.see("append");
        self.writer.append(lane, seqs, records)
    }

    fn sync_data(&mut self) -> Result<(), FormatError> {
        self.see("sync data");
        self.writer.sync_data()
    }

    fn sync_index(&mut self) -> Result<(), FormatError> {
        self.see("sync index");
        self.writer.sync_index()
    }

    fn free_window(&mut self) -> Result<Vec<Range<u64>>, FormatError> {
        self.writer.free_before_window()
    }

    fn settle(&mut self) -> Totals {
        self.writer.settle().clone()
    }

    fn finish(self, footer: &Footer) -> Result<Footer, FormatError> {
        self.writer.finish(footer)
    }
}

#[test]
fn data_then_index_are_synced_before_any_acknowledgment() {
    for (sync, expected) in
        [(true, &[("sync data", 0), ("append", 0), ("sync index", 0)][..]), (false, &[("append", 0)][..])]
    {
        let mut rig = Rig::new(GEOMETRY, true);
        rig.options.sync = sync;
        let mut device = rig.lane(0);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let witness = WitnessSink {
            writer: rig.writer(WriterOptions::default()),
            memory: rig.memory.clone(),
            consumed: device.state_word(offset_of!(DumpBufferState, consumed_cursor)),
            seen: seen.clone(),
        };
        let mut collector = rig.collector_with(witness);
        assert!(device.tensor(0, 0, &content(0, 3000)));
        collector.step().unwrap();
        assert_eq!(*seen.lock().unwrap(), expected);
        assert_eq!(rig.state(0, offset_of!(DumpBufferState, consumed_cursor)), 3000);
        finish(collector);
    }
}

#[test]
fn producers_discard_when_a_record_of_the_host_finds_the_disk_full() {
    let rig = Rig::new(GEOMETRY, true);
    let sink = FailingSink::new(rig.writer(WriterOptions::default()), Fault::Payload, 0);
    let mut collector = rig.collector_with(sink);
    let record = tensor_of(0, 0, 100, rig.lane(0).address());
    collector.record_tensor(&record, &content(0, 100)).unwrap();
    assert_eq!(rig.memory.read_u64(offset_of!(DumpSetupHeader, discard) as u64).unwrap(), 1);
    let summary = finish(collector);
    assert_eq!((summary.status, summary.counters.tensors), (Status::DumpFailed, 0));
}

#[test]
fn the_failure_of_a_run_takes_precedence_over_that_of_its_dump() {
    let rig = Rig::new(GEOMETRY, true);
    let sink = FailingSink::new(rig.writer(WriterOptions::default()), Fault::Append, 0);
    let (mut collector, mut device) = (rig.collector_with(sink), rig.lane(0));
    assert!(device.tensor(0, 0, &content(0, 100)));
    collector.step().unwrap();
    let mut end = tensortap_collector::RunEnd::new(Status::Crashed);
    end.message = Some("a kernel crashed".to_owned());
    let summary = collector.finish(&end).unwrap();
    assert_eq!(summary.status, Status::Crashed);
    let dump = rig.dump();
    let message = dump.footer().unwrap().message.clone().unwrap();
    assert!(message.starts_with("a kernel crashed; "), "{message}");
    assert!(message.contains(&summary.failure.unwrap()), "{message}");
}
