//! Tests of the live comparison, record by record.

use std::path::Path;

use tensortap_abi::{DType, DumpStage, NO_KERNEL, RECORD_HAS_HASH, Role, TaskRecord, TensorRecord};
use tensortap_format::{Footer, Payload, Status};
use tensortap_values::content_hash;

use super::*;

/// Size of each tensor: 64 floats.
const BYTES: u64 = 256;

fn content(task_id: u64, stage: DumpStage) -> Vec<u8> {
    let value = if stage == DumpStage::BeforeDispatch { 1.0 } else { 2.0 }
        + f32::from(u8::try_from(task_id).unwrap());
    [value; 64].iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// The task record and its tensor record at a stage, with the payload in the file.
fn records(writer: &mut DumpWriter, task_id: u64, stage: DumpStage, bytes: &[u8]) -> [IndexRecord; 2] {
    let is_before = stage == DumpStage::BeforeDispatch;
    let task = TaskRecord {
        task_id,
        func_id: [0, NO_KERNEL, NO_KERNEL],
        block_num: 1,
        started_ns: 1,
        completed_ns: if is_before { 0 } else { 2 },
        ..TaskRecord::default()
    };
    let mut tensor = TensorRecord {
        task_id,
        stage: stage as u8,
        role: if is_before { Role::Input } else { Role::Output }.tag(),
        dtype: DType::Float32.tag(),
        ndims: 1,
        arg_index: u16::from(!is_before),
        flags: RECORD_HAS_HASH,
        hash: content_hash(bytes).to_le_bytes(),
        ..TensorRecord::default()
    };
    (tensor.shape[0], tensor.strides[0]) = (64, 1);
    let offset = writer.reserve(BYTES);
    writer.write_payload(offset, bytes).unwrap();
    [IndexRecord::plain(&task), IndexRecord::tensor(&tensor, Payload::Stored { offset, bytes: BYTES })]
}

fn info() -> RunInfo {
    RunInfo { scene: "made".into(), runtime: "host_build_graph".into(), dump_level: 2, ..RunInfo::default() }
}

/// A run of four tasks that is compared with its golden.
struct Feed {
    live: LiveComparison,
    writer: DumpWriter,
    next: u64,
    state: LiveState,
    _folder: tempfile::TempDir,
}

impl Feed {
    fn new(change: impl FnOnce(&mut LiveConfig)) -> Feed {
        let folder = tempfile::tempdir().unwrap();
        write_golden(&folder.path().join("golden"));
        let mut config = LiveConfig::new(folder.path().join("golden"));
        change(&mut config);
        let state = LiveState::default();
        let live = LiveComparison::open(&config, &info(), state.clone()).unwrap().entering_as(1);
        let writer = DumpWriter::create(&folder.path().join("dump"), &info()).unwrap();
        Feed { live, writer, next: 0, state, _folder: folder }
    }

    fn give(&mut self, task_id: u64, stage: DumpStage, bytes: &[u8]) {
        let records = records(&mut self.writer, task_id, stage, bytes);
        let seqs = self.next..self.next + 2;
        self.next += 2;
        self.live.append(&mut self.writer, 0, seqs, &records).unwrap();
    }

    fn give_right(&mut self, task_id: u64, stage: DumpStage) {
        self.give(task_id, stage, &content(task_id, stage));
    }

    fn waiting(&self) -> Vec<u64> {
        let mut waiting: Vec<u64> = self.live.waiting.keys().copied().collect();
        waiting.sort_unstable();
        waiting
    }

    fn report(&self) -> LiveReport {
        self.state.report(true)
    }
}

fn write_golden(path: &Path) {
    let mut writer = DumpWriter::create(path, &info()).unwrap();
    let mut all = Vec::new();
    for task_id in 0..4 {
        for stage in [DumpStage::BeforeDispatch, DumpStage::AfterCompletion] {
            all.extend(records(&mut writer, task_id, stage, &content(task_id, stage)));
        }
    }
    writer.append(0, 0..all.len() as u64, &all).unwrap();
    writer.finish(&Footer::new(Status::Complete)).unwrap();
}

#[test]
fn above_the_limit_the_oldest_task_is_stored_without_a_verdict() {
    let mut feed = Feed::new(|config| config.scratch_bytes = 2 * BYTES);
    feed.give_right(0, DumpStage::BeforeDispatch);
    feed.give_right(1, DumpStage::BeforeDispatch);
    assert_eq!(
        (feed.waiting(), feed.live.payloads.waiting_bytes(), feed.report().unjudged),
        (vec![0, 1], 2 * BYTES, 0)
    );
    feed.give_right(2, DumpStage::BeforeDispatch);
    assert_eq!(
        (feed.waiting(), feed.live.payloads.waiting_bytes(), feed.report().unjudged),
        (vec![1, 2], 2 * BYTES, 1)
    );
    // A judged task makes room.
    feed.give_right(1, DumpStage::AfterCompletion);
    feed.give_right(3, DumpStage::BeforeDispatch);
    assert_eq!((feed.waiting(), feed.live.payloads.waiting_bytes()), (vec![2, 3], 2 * BYTES));
    for task_id in [0, 2, 3] {
        feed.give_right(task_id, DumpStage::AfterCompletion);
    }
    let LiveReport { judged, unjudged, differing, released_bytes, .. } = feed.report();
    assert_eq!((judged, unjudged, differing, released_bytes), (3, 1, 0, 3 * 2 * BYTES));
    assert_eq!((feed.waiting(), feed.live.payloads.waiting_bytes()), (vec![], 0));
    assert!(!feed.report().agrees(), "one task was not compared");
}

#[test]
fn only_a_wrong_task_with_right_inputs_ends_the_run_if_requested() {
    for stop in [false, true] {
        let mut feed = Feed::new(|config| config.stop_at_first = stop);
        feed.give(0, DumpStage::BeforeDispatch, &content(7, DumpStage::BeforeDispatch));
        feed.give(0, DumpStage::AfterCompletion, &content(7, DumpStage::AfterCompletion));
        assert_eq!((feed.report().differing, feed.report().stop_found, feed.state.stop()), (1, false, false));
        feed.give_right(1, DumpStage::BeforeDispatch);
        feed.give(1, DumpStage::AfterCompletion, &content(7, DumpStage::AfterCompletion));
        assert_eq!(
            feed.report().wrong_here,
            [WrongTask { task_id: 1, kernels: vec!["func_0".into()], scope: None, task_name: None }]
        );
        assert_eq!((feed.report().stopped, feed.state.stop()), (stop, stop));
    }
}
