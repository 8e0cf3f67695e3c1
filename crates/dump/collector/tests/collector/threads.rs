//! Real devices, each in a thread of this process, with the collector running at the same time.

use std::{
    mem::offset_of,
    ops::Range,
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tensortap_abi::{
    DType, DeviceRange, DumpBufferState, DumpCollect, DumpFilter, DumpGeometry, DumpLevel, DumpPolicy,
    DumpSetupHeader, DumpStage, Role, TensorDesc,
};
use tensortap_collector::{
    Collection, Collector, CollectorOptions, DeviceRegion, PayloadPath, RegionMemory, RunEnd, Sink, Summary,
};
use tensortap_format::{
    Dump, DumpWriter, Footer, FormatError, IndexRecord, PayloadPlace, RunInfo, Status, Totals, WriterOptions,
    split_position, verify,
};
use tensortap_platform::{Device, DeviceEvent, DeviceLink, DeviceMode, DeviceOptions, DeviceProgram, find};
use tensortap_recorder::{
    HostLink, Memory, Outcome, Region, SetupOptions, TensorCapture, TensorDetails, setup_bytes,
};

use crate::rig::{Rig, content};

const GEOMETRY: DumpGeometry = DumpGeometry { lanes: 3, buffers: 3, records: 16, arena_bytes: 512 << 10 };
const TASKS_PER_THREAD: u64 = 120;

/// Sizes of a task's payload: small, page-sized, large, larger than the arena.
fn bytes_of(task: u64) -> usize {
    [200, 4096, 70_000, 5, 130_000, 900_000, 256][task as usize % 7]
}

/// Records from every thread of the region at `args`.
struct Program;

impl DeviceProgram for Program {
    fn run(&self, link: &DeviceLink, base: u64) {
        // SAFETY: the link keeps device memory mapped, and only recorders of this region and the host write there.
        let memory = unsafe { Memory::new(link.memory().range()) };
        let region = Region::open(memory, base).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..region.lanes() {
                let recorder = region.recorder(thread, Link { link, started: Instant::now() }).unwrap();
                scope.spawn(move || play(recorder, link, base, thread));
            }
        });
    }
}

fn play(
    mut recorder: tensortap_recorder::LaneRecorder<'_, Link<'_>>,
    link: &DeviceLink,
    base: u64,
    thread: u32,
) {
    // Each thread has its own tensor after the region.
    let buffer_addr = base + GEOMETRY.bytes() + u64::from(thread) * (1 << 20);
    for index in 0..TASKS_PER_THREAD {
        let task_id = u64::from(thread) << 32 | index;
        let bytes = content(task_id, bytes_of(index));
        let target = link.memory().ptr(buffer_addr, bytes.len() as u64).unwrap();
        // SAFETY: the range belongs to this thread and is inside device memory.
        unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        let mut desc = TensorDesc {
            buffer_addr,
            buffer_bytes: 1 << 20,
            dtype: DType::UInt8.tag(),
            ndims: 1,
            ..TensorDesc::default()
        };
        (desc.shape[0], desc.strides[0]) = (bytes.len() as u64, 1);
        let capture = TensorCapture {
            task_id,
            stage: DumpStage::AfterCompletion,
            role: Role::Output,
            arg_index: 0,
            desc: &desc,
            marked: false,
            in_flight: false,
            details: TensorDetails::default(),
        };
        assert_eq!(recorder.tensor(&capture), Outcome::Recorded);
    }
    recorder.flush();
}

struct Link<'a> {
    link: &'a DeviceLink,
    started: Instant,
}

impl HostLink for Link<'_> {
    fn wake_host(&self) {
        self.link.wake_host();
    }

    fn pause(&self, limit: Duration) {
        self.link.wait_for_host(limit);
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn waiting(&self, _waiting: bool) {}
}

fn open(platform: &str) -> Box<dyn Device> {
    let mut options = DeviceOptions::new(Arc::new(Program));
    options.mode = DeviceMode::Thread;
    options.memory_bytes = Some(16 << 20);
    find(platform).unwrap().open(&options).unwrap()
}

fn region_of(device: &dyn Device, base: u64, run_id: u64) -> DeviceRegion {
    let range = DeviceRange { addr: base, bytes: GEOMETRY.bytes() };
    let region = DeviceRegion::new(device.access(), range).unwrap();
    let setup = SetupOptions {
        base,
        run_id,
        level: DumpLevel::Full,
        policy: DumpPolicy::Block,
        collect: DumpCollect::Live,
        liveness_ms: 30_000,
        filter: DumpFilter::ALL,
        of_process: false,
    };
    setup_bytes(GEOMETRY, &setup).unwrap().try_write(|offset, bytes| region.write(offset, bytes)).unwrap();
    region
}

/// One run on an open device, collected in the background.
fn run(device: &mut dyn Device, base: u64, run_id: u64, path: PayloadPath, dir: &TempDir) -> Summary {
    let region = region_of(device, base, run_id);
    let mut options = CollectorOptions::new(GEOMETRY, run_id, region.device_memory());
    (options.writers, options.files) = (3, if run_id == 1 { 1 } else { 3 });
    options.payload_path = path;
    let writer = DumpWriter::create(dir.path(), &RunInfo::default()).unwrap();
    let listener = Box::new(|event: tensortap_collector::CollectEvent<'_>| panic!("{event:?}"));
    let collection = Collection::start(Collector::new(region, writer, &options, listener).unwrap()).unwrap();
    device.launch(base).unwrap();
    loop {
        match device.wait(Duration::from_millis(50)).unwrap() {
            DeviceEvent::Woken => collection.notify(),
            DeviceEvent::TimedOut => {}
            DeviceEvent::Finished => break,
            DeviceEvent::Died(cause) => panic!("{cause}"),
        }
    }
    collection.finish(&RunEnd::new(Status::Complete)).unwrap()
}

#[test]
fn what_three_device_threads_record_arrives_on_every_platform_run_after_run() {
    for platform in ["a2a3sim", "a5sim"] {
        let mut device = open(platform);
        let base = device.allocate(GEOMETRY.bytes() + (3 << 20), 4096, "dump region").unwrap();
        for (run_id, path) in
            [(1, PayloadPath::Buffered), (2, PayloadPath::Direct), (3, PayloadPath::Buffered)]
        {
            let dir = TempDir::new().unwrap();
            let summary = run(&mut *device, base, run_id, path, &dir);
            assert_eq!(
                (summary.counters.dropped_records, summary.counters.corrupt_records),
                (0, 0),
                "{platform}"
            );
            assert_eq!(summary.counters.tensors, 3 * TASKS_PER_THREAD, "{platform}");
            let dump = Dump::open(dir.path()).unwrap();
            let verdict = verify(&dump).unwrap();
            assert!(verdict.is_ok(), "{platform}: {:?}", verdict.problems);
            let (mut next, mut in_files) = ([0; 3], [0; 3]);
            for record in dump.records() {
                let record = record.unwrap();
                in_files[split_position(record.bin_offset).0] += 1;
                let index = &mut next[record.thread as usize];
                assert_eq!(record.task_id, u64::from(record.thread) << 32 | *index, "{platform}");
                let expected = content(record.task_id, bytes_of(*index));
                assert!(dump.payload(&record).unwrap() == expected, "{platform} task {:#x}", record.task_id);
                *index += 1;
            }
            assert_eq!(next, [TASKS_PER_THREAD; 3], "{platform}");
            assert_eq!(in_files.iter().all(|records| *records > 0), run_id > 1, "{platform}: {in_files:?}");
        }
    }
}

/// Takes long for the first frame.
struct SlowSink {
    writer: DumpWriter,
    release: Receiver<()>,
}

impl Sink for SlowSink {
    fn reserve(&mut self, bytes: u64) -> u64 {
        self.writer.reserve(bytes)
    }

    fn cancel(&mut self, offset: u64) {
        self.writer.cancel(offset);
    }

    fn payload_place(&mut self, position: u64) -> Result<PayloadPlace<'_>, FormatError> {
        self.writer.payload_place(position)
    }

    fn append(&mut self, thread: u32, seqs: Range<u64>, records: &[IndexRecord]) -> Result<(), FormatError> {
        // A failing test must not hang.
        let _ = self.release.recv_timeout(Duration::from_secs(60));
        self.writer.append(thread, seqs, records)
    }

    fn sync_data(&mut self) -> Result<(), FormatError> {
        Ok(())
    }

    fn sync_index(&mut self) -> Result<(), FormatError> {
        Ok(())
    }

    fn free_window(&mut self) -> Result<Vec<Range<u64>>, FormatError> {
        Ok(Vec::new())
    }

    fn settle(&mut self) -> Totals {
        self.writer.settle().clone()
    }

    fn finish(self, footer: &Footer) -> Result<Footer, FormatError> {
        self.writer.finish(footer)
    }
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_heartbeat_continues_during_a_long_write() {
    let rig = Rig::new(crate::rig::GEOMETRY, true);
    let mut device = rig.lane(0);
    let (release, blocked) = channel();
    let sink = SlowSink { writer: rig.writer(WriterOptions::default()), release: blocked };
    let collection = Collection::start(rig.collector_with(sink)).unwrap();
    assert!(device.tensor(0, 0, &content(0, 100)));
    collection.notify();
    let heartbeat = || rig.memory.read_u64(offset_of!(DumpSetupHeader, heartbeat) as u64).unwrap();
    let from = heartbeat();
    eventually("five beats", || heartbeat() >= from + 5);
    assert_eq!(rig.state(0, offset_of!(DumpBufferState, acknowledged)), 0);
    drop(release);
    eventually("the record is taken", || rig.state(0, offset_of!(DumpBufferState, acknowledged)) == 1);
    let summary = collection.finish(&RunEnd::new(Status::Complete)).unwrap();
    assert_eq!(summary.counters.entries, 1);
}

#[test]
fn a_device_that_waits_for_a_slow_disk_is_not_stuck() {
    let mut rig = Rig::new(crate::rig::GEOMETRY, true);
    rig.options.liveness = Duration::from_millis(200);
    let mut device = rig.lane(0);
    let (release, blocked) = channel();
    let sink = SlowSink { writer: rig.writer(WriterOptions::default()), release: blocked };
    let collection = Collection::start(rig.collector_with(sink)).unwrap();
    assert!(device.tensor(0, 0, &content(0, 40_000)));
    collection.notify();
    for _ in 0..50 {
        assert!(!device.tensor(1, 0, &content(1, 40_000)), "the disk is slow");
        device.wait();
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(release);
    eventually("the record is taken", || rig.state(0, offset_of!(DumpBufferState, acknowledged)) == 1);
    let summary = collection.finish(&RunEnd::new(Status::Complete)).unwrap();
    assert_eq!((summary.counters.entries, &summary.lanes[0].ended), (1, &None));
}

#[test]
fn a_collection_ends_a_stuck_lane() {
    let mut rig = Rig::new(crate::rig::GEOMETRY, true);
    rig.options.liveness = Duration::from_millis(200);
    let collection = Collection::start(rig.collector()).unwrap();
    let discard = offset_of!(DumpSetupHeader, discard) as u64;
    eventually("producers discard", || {
        rig.lane(0).wait();
        std::thread::sleep(Duration::from_millis(5));
        rig.memory.read_u64(discard).unwrap() == 1
    });
    let summary = collection.finish(&RunEnd::new(Status::Complete)).unwrap();
    assert!(summary.lanes[0].ended.is_some());
}

#[test]
fn a_collector_that_panics_releases_the_device() {
    struct Panics;
    impl Sink for Panics {
        fn reserve(&mut self, _: u64) -> u64 {
            panic!("a test ends this thread")
        }
        fn cancel(&mut self, offset: u64) {
            panic!("nothing was reserved: {offset}")
        }
        fn payload_place(&mut self, _: u64) -> Result<PayloadPlace<'_>, FormatError> {
            unreachable!()
        }
        fn append(&mut self, _: u32, _: Range<u64>, _: &[IndexRecord]) -> Result<(), FormatError> {
            unreachable!()
        }
        fn sync_data(&mut self) -> Result<(), FormatError> {
            unreachable!()
        }
        fn sync_index(&mut self) -> Result<(), FormatError> {
            unreachable!()
        }
        fn free_window(&mut self) -> Result<Vec<Range<u64>>, FormatError> {
            unreachable!()
        }
        fn settle(&mut self) -> Totals {
            unreachable!()
        }
        fn finish(self, _: &Footer) -> Result<Footer, FormatError> {
            unreachable!()
        }
    }
    let rig = Rig::new(crate::rig::GEOMETRY, true);
    let mut device = rig.lane(0);
    let collection = Collection::start(rig.collector_with(Panics)).unwrap();
    assert!(device.tensor(0, 0, &content(0, 100)));
    collection.notify();
    let discard = offset_of!(DumpSetupHeader, discard) as u64;
    eventually("producers discard", || rig.memory.read_u64(discard).unwrap() == 1);
    let error = collection.stop().err().expect("it has panicked");
    assert!(error.to_string().contains("panicked"), "{error}");
}

#[test]
fn a_region_outside_device_memory_is_rejected() {
    let device = open("a5sim");
    let memory = device.memory();
    for (addr, bytes) in [(memory.addr - 4096, 8192), (memory.end(), 4096), (memory.addr + 64, 4096), (0, 1)]
    {
        assert!(DeviceRegion::new(device.access(), DeviceRange { addr, bytes }).is_none(), "{addr:#x}");
    }
    let region =
        DeviceRegion::new(device.access(), DeviceRange { addr: memory.addr + 4096, bytes: 4096 }).unwrap();
    assert!(!region.is_mapped());
    assert!(region.read_u64(4088).is_ok());
    assert!(region.read_u64(4096).is_err(), "other device memory is not part of the region");
    assert!(region.write(4090, &[0; 7]).is_err());
}
