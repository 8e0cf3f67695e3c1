//! The real recorder on one side, the files on the other.

use std::{
    cell::{Cell, RefCell},
    mem::offset_of,
    time::Duration,
};

use tensortap_abi::{
    DType, DumpBufferState, DumpCollect, DumpGeometry, DumpLevel, DumpPolicy, DumpStage, EdgeCause,
    KernelArg, Role, StepRecord, StringRecord, TaskRecord, TensorDesc,
};
use tensortap_collector::{ArenaGrowth, ArenaUse, Collector, Summary};
use tensortap_format::{Dump, DumpWriter, PayloadState, Status};
use tensortap_recorder::{
    EdgeCapture, HostLink, KernelDefinition, LaneRecorder, Memory, Outcome, Region, ScalarCapture,
    TensorCapture, TensorDetails,
};

use crate::{
    RegionMemory,
    device::content_hash,
    rig::{GEOMETRY, Rig, TENSOR_BYTES, content, finish},
    testing::TestMemory,
};

type SharedCollector = RefCell<Option<Collector<TestMemory, DumpWriter>>>;

/// A host that drains only when the device waits for it.
struct SlowHost<'a> {
    collector: &'a SharedCollector,
    pauses: &'a Cell<u64>,
    clock_ns: Cell<u64>,
}

impl HostLink for SlowHost<'_> {
    fn wake_host(&self) {}

    fn pause(&self, _limit: Duration) {
        self.pauses.set(self.pauses.get() + 1);
        if let Some(collector) = self.collector.borrow_mut().as_mut() {
            collector.step().unwrap();
        }
    }

    fn now_ns(&self) -> u64 {
        self.clock_ns.set(self.clock_ns.get() + 10);
        self.clock_ns.get()
    }

    fn waiting(&self, _waiting: bool) {}
}

/// Runs `script` with the recorder of lane 0. Returns the results, and how often the device waited.
fn record(rig: &Rig, script: impl FnOnce(&mut LaneRecorder<'_, SlowHost<'_>>)) -> (Summary, u64) {
    let collector = RefCell::new(Some(rig.collector()));
    let pauses = Cell::new(0);
    // SAFETY: the rig's memory outlives the region and its recorder, all of its bytes are atomic words, and
    // only the collector writes to the region.
    let memory = unsafe { Memory::new(rig.memory.range()) };
    let region = Region::open(memory, rig.memory.range().addr).unwrap();
    let link = SlowHost { collector: &collector, pauses: &pauses, clock_ns: Cell::new(0) };
    let mut recorder = region.recorder(0, link).unwrap();
    script(&mut recorder);
    recorder.flush();
    let summary = finish(collector.take().unwrap());
    assert_eq!(summary.lanes[0].committed_records, recorder.counters().records);
    (summary, pauses.get())
}

/// Puts bytes after the region and describes them.
fn place(rig: &Rig, bytes: &[u8], dtype: DType, shape: &[u64], strides: &[i64]) -> TensorDesc {
    assert!(bytes.len() as u64 <= TENSOR_BYTES);
    let offset = rig.options.geometry.bytes();
    rig.memory.write(offset, bytes).unwrap();
    let mut desc = TensorDesc {
        buffer_addr: rig.memory.range().addr + offset,
        buffer_bytes: bytes.len() as u64,
        dtype: dtype.tag(),
        ndims: shape.len() as u8,
        ..TensorDesc::default()
    };
    desc.shape[..shape.len()].copy_from_slice(shape);
    desc.strides[..strides.len()].copy_from_slice(strides);
    desc
}

fn capture(task_id: u64, arg_index: u16, desc: &TensorDesc) -> TensorCapture<'_> {
    TensorCapture {
        task_id,
        stage: DumpStage::BeforeDispatch,
        role: Role::Input,
        arg_index,
        desc,
        marked: false,
        in_flight: false,
        details: TensorDetails::default(),
    }
}

fn payloads(dump: &Dump) -> Vec<Vec<u8>> {
    dump.records().map(|record| dump.payload(&record.unwrap()).unwrap()).collect()
}

#[test]
fn every_payload_of_a_blocked_device_arrives() {
    for mapped in [true, false] {
        let rig = Rig::new(GEOMETRY, mapped);
        let sizes = [0, 1, 64, 4096, 4097, 10_000, 16_384, 16_385, 65_536, 300_001, 77];
        let contents: Vec<_> =
            (0u64..).zip(sizes.iter().cycle()).take(66).map(|(seed, &size)| content(seed, size)).collect();
        let (summary, pauses) = record(&rig, |recorder| {
            for (task, bytes) in (0u64..).zip(&contents) {
                let task_record = TaskRecord {
                    task_id: task,
                    func_id: [3, u32::MAX, 4],
                    block_num: 2,
                    ..TaskRecord::default()
                };
                assert_eq!(recorder.task(&task_record), Outcome::Recorded);
                let desc = place(&rig, bytes, DType::UInt8, &[bytes.len() as u64], &[1]);
                assert_eq!(recorder.tensor(&capture(task, 1, &desc)), Outcome::Recorded);
            }
        });
        assert!(pauses > 0, "the region is much smaller than the data");
        assert!(payloads(&rig.verified()) == contents);
        let total = contents.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
        assert_eq!(
            (summary.counters.tensors, summary.counters.bytes_captured, summary.counters.dropped_records),
            (66, total, 0)
        );
        assert_eq!((summary.status, summary.counters.corrupt_records), (Status::Complete, 0));
        assert_eq!(summary.lanes[0].acknowledged, summary.lanes[0].committed_records);
        assert!(summary.held_up_ns > 0 && summary.held_up_max_ns == summary.held_up_ns);
        assert!(rig.dump().records().all(|record| record.unwrap().func_ids().eq([3, 4])));
    }
}

#[test]
fn arenas_grow_while_the_device_waits_as_far_as_the_budget_allows() {
    const KIB: u64 = 1 << 10;
    let pauses = |start: u64, budget: u64| {
        let geometry = DumpGeometry { lanes: 1, buffers: 64, records: 64, arena_bytes: 1 << 20 };
        let mut rig = Rig::new(geometry, true);
        rig.options.arena = ArenaGrowth { start, budget };
        rig.set_up();
        let contents: Vec<_> = (0..200).map(|seed| content(seed, 8192)).collect();
        let (summary, pauses) = record(&rig, |recorder| {
            for (task, bytes) in (0u64..).zip(&contents) {
                let desc = place(&rig, bytes, DType::UInt8, &[8192], &[1]);
                assert_eq!(recorder.tensor(&capture(task, 0, &desc)), Outcome::Recorded);
            }
        });
        assert!(payloads(&rig.verified()) == contents);
        (summary.arena, pauses)
    };
    let arena_use =
        |largest_bytes, grown_bytes, wanted_more| ArenaUse { largest_bytes, grown_bytes, wanted_more };
    let (fixed, all) = (pauses(64 * KIB, 0), pauses(0, 0));
    assert_eq!(fixed.0, arena_use(64 * KIB, 0, true));
    assert_eq!(all.0, arena_use(0, 0, false), "nothing to grow");
    let grown = pauses(64 * KIB, 1 << 30);
    assert_eq!(grown.0, arena_use(1024 * KIB, 960 * KIB, false), "all of the arena");
    let short = pauses(64 * KIB, 100 * KIB + 1);
    assert_eq!(short.0, arena_use(164 * KIB, 100 * KIB, true));
    assert!(
        fixed.1 > short.1 && short.1 > grown.1 && grown.1 > all.1,
        "{fixed:?} {short:?} {grown:?} {all:?}"
    );
}

#[test]
fn a_start_that_is_no_part_of_the_arena_is_rejected() {
    for start in [4095, GEOMETRY.arena_bytes + 4096] {
        let mut rig = Rig::new(GEOMETRY, true);
        rig.options.arena = ArenaGrowth { start, budget: 0 };
        let writer = rig.writer(tensortap_format::WriterOptions::default());
        assert!(Collector::new(rig.memory.clone(), writer, &rig.options, rig.listener()).is_err(), "{start}");
    }
}

#[test]
fn a_transposed_view_a_scalar_and_an_edge_arrive_unchanged() {
    let rig = Rig::new(GEOMETRY, true);
    let elements: Vec<u16> = (0..12).map(|i| 1000 + i).collect();
    let bytes: Vec<u8> = elements.iter().flat_map(|e| e.to_le_bytes()).collect();
    let desc = place(&rig, &bytes, DType::UInt16, &[4, 3], &[1, 4]);
    record(&rig, |recorder| {
        recorder.tensor(&capture(1, 0, &desc));
        recorder.scalar(&ScalarCapture {
            task_id: 1,
            stage: DumpStage::BeforeDispatch,
            arg_index: 1,
            dtype: DType::Float64,
            bits: 2.5f64.to_bits(),
            is_local: false,
            marked: false,
            name: 0,
        });
        recorder.edge(&EdgeCapture {
            consumer: 1,
            producer: 0,
            cause: EdgeCause::ReadAfterWrite,
            arg_index: 0,
        });
    });
    let dump = rig.verified();
    let transposed: Vec<u8> =
        (0..4).flat_map(|row| (0..3).flat_map(move |col| (1000u16 + row + 4 * col).to_le_bytes())).collect();
    let view = dump.record(0).unwrap();
    assert_eq!(dump.payload(&view).unwrap(), transposed);
    assert_eq!((view.shape(), view.strides()), (&[4, 3][..], &[1, 4][..]));
    assert_eq!(dump.record(1).unwrap().scalar_bits, Some(2.5f64.to_bits()));
    let edge = &dump.edges().unwrap()[0];
    assert_eq!((edge.from, edge.to), (0, 1));
}

#[test]
fn dropped_and_stored_records_add_up() {
    let mut rig = Rig::new(GEOMETRY, true);
    rig.setup.policy = DumpPolicy::Drop;
    rig.set_up();
    let asked = 300;
    let (summary, pauses) = record(&rig, |recorder| {
        for task in 0..asked {
            let bytes = content(task, 100 + task as usize * 97 % 9000);
            let desc = place(&rig, &bytes, DType::UInt8, &[bytes.len() as u64], &[1]);
            recorder.tensor(&capture(task, 0, &desc));
        }
    });
    assert_eq!(pauses, 0);
    let dump = rig.verified();
    let whole = dump.records().filter(|r| r.as_ref().unwrap().payload == PayloadState::Stored).count() as u64;
    assert!(whole > 0 && summary.counters.dropped_records > 0);
    assert_eq!(whole + summary.counters.dropped_records, asked);
    for record in dump.records().map(Result::unwrap).filter(|record| record.payload == PayloadState::Stored) {
        let bytes = content(record.task_id, 100 + record.task_id as usize * 97 % 9000);
        assert!(dump.payload(&record).unwrap() == bytes);
    }
}

#[test]
fn level_hash_stores_hash_and_statistics_without_bytes() {
    let mut rig = Rig::new(GEOMETRY, false);
    rig.setup.level = DumpLevel::Hash;
    rig.set_up();
    let values: Vec<f32> = (0..5000u16).map(|i| f32::from(i) - 100.0).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let desc = place(&rig, &bytes, DType::Float32, &[5000], &[1]);
    let (summary, _) = record(&rig, |recorder| {
        for task in 0..100 {
            recorder.tensor(&capture(task, 0, &desc));
        }
    });
    let dump = rig.verified();
    assert_eq!((dump.len(), summary.counters.bytes_written), (100, 0));
    for record in dump.records() {
        let record = record.unwrap();
        assert_eq!(record.hash, Some(u128::from_le_bytes(content_hash(&bytes))));
        let stats = record.stats.unwrap();
        assert_eq!((stats.min, stats.max, stats.zeros, stats.numel), (-100.0, 4899.0, 1, 5000));
    }
}

#[test]
fn batch_mode_keeps_the_payloads_still_in_the_arena() {
    let mut rig = Rig::batch(DumpGeometry { buffers: 16, records: 8, ..GEOMETRY });
    rig.options.collect = DumpCollect::Batch;
    let (summary, pauses) = record(&rig, |recorder| {
        for task in 0..60 {
            let bytes = content(task, 3000);
            let desc = place(&rig, &bytes, DType::UInt8, &[3000], &[1]);
            assert_eq!(recorder.tensor(&capture(task, 0, &desc)), Outcome::Recorded);
        }
    });
    assert_eq!(pauses, 0);
    let dump = rig.verified();
    assert_eq!(dump.len(), 60);
    let records: Vec<_> = dump.records().map(Result::unwrap).collect();
    let first_kept = records.iter().position(|record| record.payload == PayloadState::Stored).unwrap();
    assert!((30..59).contains(&first_kept), "an arena holds 21 of them: {first_kept}");
    for record in &records[first_kept..] {
        assert!(dump.payload(record).unwrap() == content(record.task_id, 3000));
    }
    assert_eq!(summary.counters.dropped_overwrite, first_kept as u64);
}

#[test]
fn definitions_reach_the_files_in_their_records_and_through_the_arena() {
    let long = "ä".repeat(1000);
    let arg = |name: u32| KernelArg { name, kind: 1, ..KernelArg::default() };
    let args: Vec<KernelArg> = (1..=40).map(|name| arg(name % 3)).collect();
    for mapped in [true, false] {
        let rig = Rig::new(GEOMETRY, mapped);
        let (summary, _) = record(&rig, |recorder| {
            let task = TaskRecord {
                task_id: 5,
                func_id: [9, 10, u32::MAX],
                name: 1,
                scope: 4,
                ..TaskRecord::default()
            };
            assert_eq!(recorder.task(&task), Outcome::Recorded);
            let scalar = ScalarCapture {
                task_id: 5,
                stage: DumpStage::BeforeDispatch,
                arg_index: 39,
                dtype: DType::Bool,
                bits: 1,
                is_local: false,
                marked: true,
                name: 0,
            };
            assert_eq!(recorder.scalar(&scalar), Outcome::Recorded);
            assert_eq!(recorder.define_scope(4, 2, 0), Outcome::Recorded);
            assert_eq!(recorder.define_string(1, "k_proj"), Outcome::Recorded);
            assert_eq!(recorder.define_string(2, &long), Outcome::Recorded);
            for (func_id, args) in [(9, &args[..2]), (10, &args[..])] {
                let kernel = KernelDefinition { func_id, name: 2, module: 0, core_type: None, args };
                assert_eq!(recorder.define_kernel(&kernel), Outcome::Recorded);
            }
            assert_eq!(recorder.define(StepRecord { id: 1, ..StepRecord::default() }), Outcome::Recorded);
        });
        assert_eq!((summary.counters.corrupt_records, summary.counters.entries), (0, 8));
        let dump = rig.verified();
        let record = dump.record(0).unwrap();
        let names = dump.names(&record);
        assert_eq!((names.task_name, names.scope), (Some("k_proj"), Some(long.as_str())));
        assert_eq!(names.arg_name, Some("k_proj"), "argument 39 is the fortieth, and its name is string 1");
        assert!(record.marked);
        assert_eq!(dump.info().kernels[1].arg_names.len(), 40);
    }
}

#[test]
fn an_invalid_text_is_counted_and_skipped() {
    let rig = Rig::new(GEOMETRY, true);
    let (collector, mut device) = (rig.collector(), rig.lane(0));
    let mut text = [0; 160];
    text[..2].copy_from_slice(&[0xc3, 0x28]);
    let string = StringRecord { id: 1, text_bytes: 2, text, ..StringRecord::default() };
    assert!(device.commit(zerocopy::IntoBytes::as_bytes(&string)));
    let args = StringRecord::default();
    assert!(device.commit(zerocopy::IntoBytes::as_bytes(&args)), "0 is not a valid string id");
    let summary = finish(collector);
    assert_eq!((summary.counters.corrupt_records, summary.counters.entries), (2, 0));
}

/// Compares the recorder's lease words with their meaning: 0 is never leased, odd is leased, even is
/// returned.
#[test]
fn a_lane_counts_as_flushed_only_after_it_was_leased_and_returned() {
    for (leases, flushed) in [(0, false), (1, false), (2, true), (3, false), (8, true)] {
        let rig = Rig::new(GEOMETRY, true);
        let (collector, device) = (rig.collector(), rig.lane(0));
        let other = rig.lane(1).state_word(offset_of!(DumpBufferState, leases));
        rig.memory.write_u64(device.state_word(offset_of!(DumpBufferState, leases)), leases).unwrap();
        rig.memory.write_u64(other, 2).unwrap();
        let summary = finish(collector);
        assert_eq!(summary.unflushed(), if flushed { vec![] } else { vec![0] }, "{leases}");
    }
}
