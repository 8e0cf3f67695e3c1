//! What filters and caps exclude, and how it is counted.

use core::mem::offset_of;

use tensortap_abi::*;
use tensortap_recorder::*;

use crate::host::FakeHost;
use crate::link::ScriptedLink;
use crate::rig::{Rig, SMALL, input};

fn open<'r>(rig: &'r Rig, filter: DumpFilter) -> Region<'r> {
    rig.open(&SetupOptions { filter, ..rig.options(DumpLevel::Full, DumpPolicy::Block) })
}

fn head(task_id: u64) -> TaskHead {
    TaskHead { task_id, func_ids: [0, NO_KERNEL, NO_KERNEL], records: 5 }
}

#[test]
fn a_filtered_argument_counts_with_its_bytes_and_costs_no_record() {
    let rig = Rig::new(SMALL);
    let region = open(&rig, DumpFilter { args: 1 << 1, ..DumpFilter::ALL });
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let desc = rig.tensor(300);
    let stage = DumpStage::BeforeDispatch;
    let scalar = |arg_index| ScalarCapture {
        task_id: 0,
        stage,
        arg_index,
        dtype: DType::Int8,
        bits: 0,
        is_local: false,
        marked: false,
        name: 0,
    };
    assert_eq!(recorder.tensor(&input(0, &desc)), Outcome::Filtered);
    assert_eq!(recorder.tensor(&TensorCapture { arg_index: 1, ..input(0, &desc) }), Outcome::Recorded);
    assert_eq!(recorder.scalar(&scalar(2)), Outcome::Filtered);
    assert_eq!(recorder.scalar(&scalar(1)), Outcome::Recorded);
    let reason = UncapturedReason::NoTensorInfo;
    let uncaptured =
        UncapturedArg { task_id: 0, stage, role: Role::Input, arg_index: 7, reason, marked: false, name: 0 };
    assert_eq!(recorder.uncaptured(&uncaptured), Outcome::Filtered);
    let counters = recorder.counters();
    assert_eq!((counters.filtered_records, counters.filtered_bytes, counters.records), (3, 300, 2));
}

#[test]
fn a_stage_can_be_left_out() {
    let rig = Rig::new(SMALL);
    let region = open(&rig, DumpFilter { stages: 1 << DumpStage::AfterCompletion as u8, ..DumpFilter::ALL });
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let desc = rig.tensor(10);
    assert_eq!(recorder.tensor(&input(0, &desc)), Outcome::Filtered);
    let after = TensorCapture { stage: DumpStage::AfterCompletion, ..input(0, &desc) };
    assert_eq!(recorder.tensor(&after), Outcome::Recorded);
}

#[test]
fn the_limit_of_first_tasks_covers_all_threads_together() {
    let rig = Rig::new(DumpGeometry { lanes: 2, ..SMALL });
    let mut filter = DumpFilter { first_tasks: 3, task_ranges: 1, ..DumpFilter::ALL };
    filter.tasks[0] = [1, 100];
    let region = open(&rig, filter);
    let mut recorders = [0, 1].map(|lane| region.recorder(lane, ScriptedLink::never()).unwrap());
    let wants: Vec<bool> =
        (0..8).map(|task| recorders[usize::from(task % 2 == 1)].wants_task(&head(task))).collect();
    assert_eq!(wants, [false, true, true, true, false, false, false, false]);
    assert_eq!(rig.word(offset_of!(DumpSetupHeader, tasks_captured) as u64).get(), 3);
    let filtered = recorders.map(|recorder| recorder.counters().filtered_records);
    assert_eq!(filtered, [15, 10], "five arguments of each rejected task");
}

#[test]
fn payloads_past_the_cap_keep_their_metadata() {
    let rig = Rig::new(SMALL);
    let region = open(&rig, DumpFilter { max_bytes: 1000, ..DumpFilter::ALL });
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    for bytes in [600, 400, 1, 300] {
        assert_eq!(recorder.tensor(&input(bytes, &rig.tensor(bytes))), Outcome::Recorded);
    }
    let mut host = FakeHost::new(&rig, 0);
    host.drain();
    let kept: Vec<(u64, u32, bool)> =
        host.taken.iter().map(|t| (t.content_bytes(), t.record.flags, t.payload.is_some())).collect();
    let whole = RECORD_HAS_PAYLOAD | RECORD_HAS_HASH;
    let capped = RECORD_PAYLOAD_FILTERED;
    assert_eq!(kept, [(600, whole, true), (400, whole, true), (1, capped, false), (300, capped, false)]);
    let counters = recorder.counters();
    assert_eq!((counters.filtered_bytes, counters.filtered_records, counters.payload_bytes), (301, 0, 1000));
}

#[test]
fn the_cap_keeps_the_first_bytes_and_no_smaller_later_payload() {
    let rig = Rig::new(SMALL);
    let region = open(&rig, DumpFilter { max_bytes: 1000, ..DumpFilter::ALL });
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    for bytes in [1500, 10] {
        recorder.tensor(&input(0, &rig.tensor(bytes)));
    }
    assert_eq!(recorder.counters().filtered_bytes, 1510);
}
