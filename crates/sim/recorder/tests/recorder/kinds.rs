//! Content of each kind of record.

use tensortap_abi::*;
use tensortap_recorder::*;
use tensortap_values::content_hash;
use zerocopy::{FromBytes, IntoBytes};

use crate::host::FakeHost;
use crate::link::ScriptedLink;
use crate::rig::{Rig, SMALL, input};

#[test]
fn a_task_is_recorded_with_its_fields_and_kind() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Marked, DumpPolicy::Block));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let task = TaskRecord {
        task_id: 0x1_0000_0002,
        func_id: [3, NO_KERNEL, 9],
        block_num: 4,
        started_ns: 11,
        completed_ns: 22,
        tensor_count: 2,
        scalar_count: 1,
        flags: RECORD_IN_FLIGHT,
        ..TaskRecord::default()
    };
    assert_eq!(recorder.task(&task), Outcome::Recorded);
    let mut host = FakeHost::new(&rig, 0);
    host.drain();
    let taken = TaskRecord::read_from_bytes(host.taken[0].record.as_bytes()).unwrap();
    assert_eq!(taken, TaskRecord { ..task });
}

#[test]
fn scalars_edges_and_uncaptured_arguments_follow_the_layout() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let stage = DumpStage::BeforeDispatch;
    let bits = 0x3f80_0000;
    recorder.scalar(&ScalarCapture {
        task_id: 5,
        stage,
        arg_index: 17,
        dtype: DType::Float32,
        bits,
        is_local: false,
        marked: false,
        name: 0,
    });
    recorder.edge(&EdgeCapture { consumer: 5, producer: 3, cause: EdgeCause::WriteAfterRead, arg_index: 2 });
    recorder.uncaptured(&UncapturedArg {
        task_id: 6,
        stage: DumpStage::AfterCompletion,
        role: Role::Output,
        arg_index: 1,
        reason: UncapturedReason::NotInSignature,
        marked: false,
        name: 0,
    });
    let mut host = FakeHost::new(&rig, 0);
    host.drain();
    let scalar = ScalarRecord {
        task_id: 5,
        bits,
        kind: 2,
        stage: 1,
        dtype: 2,
        arg_index: 17,
        ..ScalarRecord::default()
    };
    let edge =
        EdgeRecord { task_id: 5, producer: 3, kind: 9, cause: 3, arg_index: 2, ..EdgeRecord::default() };
    let blank = UncapturedRecord::default();
    let uncaptured =
        UncapturedRecord { task_id: 6, reason: 4, kind: 8, stage: 2, role: 2, arg_index: 1, ..blank };
    let expected: [DumpRecord; 3] = [scalar.into(), edge.into(), uncaptured.into()];
    assert!(host.taken.iter().map(|taken| taken.record).eq(expected));
}

#[test]
fn a_dispatch_carries_its_args_in_one_piece_past_the_arenas_end() {
    let rig = Rig::new(DumpGeometry { records: 40, arena_bytes: 4096, ..SMALL });
    let region = rig.open(&rig.options(DumpLevel::Off, DumpPolicy::Block));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let mut host = FakeHost::new(&rig, 0);
    let dispatch = DispatchCapture {
        task_id: 8,
        func_id: 1,
        core_id: 2,
        subtask_id: 3,
        subtask_count: 4,
        block: BlockContext { block_idx: 5, block_num: 6 },
        tensor_count: 7,
        scalar_count: 8,
        handed_ns: 9,
    };
    for round in 0..30_u64 {
        let args: [u64; ARG_SLOTS] = core::array::from_fn(|slot| round << 32 | slot as u64);
        assert_eq!(recorder.dispatch(&dispatch, &args), Outcome::Recorded);
        host.drain();
        let taken = host.taken.last().unwrap();
        assert_eq!(taken.payload.as_deref(), Some(args.as_bytes()));
        let record: DispatchRecord = *taken.record.get().unwrap();
        assert_eq!(record.hash, content_hash(args.as_bytes()).to_le_bytes());
        assert_eq!([record.func_id, record.core_id, record.subtask_id, record.subtask_count], [1, 2, 3, 4]);
        assert_eq!(
            [record.block_idx, record.block_num, record.tensor_count, record.scalar_count],
            [5, 6, 7, 8]
        );
        assert_eq!((record.kind, record.flags), (4, RECORD_HAS_PAYLOAD | RECORD_HAS_HASH));
        assert_eq!((record.started_ns, record.completed_ns), (9, 0));
    }
}

#[test]
fn an_empty_tensor_has_an_empty_payload_with_a_hash() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    recorder.tensor(&input(1, &rig.tensor(100)));
    recorder.tensor(&input(2, &rig.view(DType::Float32, &[3, 0], &[1, 1], 0, 0)));
    let mut host = FakeHost::new(&rig, 0);
    host.drain();
    let empty = &host.taken[1];
    assert_eq!(empty.payload.as_deref(), Some(&[][..]));
    assert_eq!(empty.tensor().hash, content_hash(&[]).to_le_bytes());
}

#[test]
fn every_record_of_a_tensor_in_flight_has_the_flag() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let (small, large) = (rig.tensor(10), rig.tensor(3000));
    for desc in [&small, &large] {
        recorder.tensor(&TensorCapture {
            stage: DumpStage::AfterCompletion,
            role: Role::InOut,
            arg_index: 4,
            in_flight: true,
            ..input(1, desc)
        });
    }
    let mut host = FakeHost::new(&rig, 0);
    host.drain();
    assert_eq!(host.taken.len(), 2);
    for taken in &host.taken {
        let TensorRecord { stage, role, arg_index, flags, .. } = taken.tensor();
        assert_eq!((stage, role, arg_index, flags & RECORD_IN_FLIGHT), (2, 3, 4, RECORD_IN_FLIGHT));
    }
}

#[test]
fn values_past_the_dimensions_in_use_stay_out_of_the_dump() {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let mut desc = rig.tensor(10);
    (desc.shape[1], desc.strides[7]) = (99, -99);
    recorder.tensor(&input(1, &desc));
    let mut host = FakeHost::new(&rig, 0);
    host.drain();
    assert_eq!(host.taken[0].tensor().shape, [10, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(host.taken[0].tensor().strides, [1, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn the_orchestrations_arguments_are_recorded_at_any_level_with_any_filter() {
    let rig = Rig::new(SMALL);
    let mut options = rig.options(DumpLevel::Off, DumpPolicy::Block);
    (options.filter.args, options.filter.stages, options.filter.first_tasks) = (0, 0, 0);
    let region = rig.open(&options);
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let mut desc = rig.tensor(100);
    (desc.shape[7], desc.strides[7]) = (77, 77);
    let arg = OrchestrationArgCapture { arg_index: 300, role: Role::InOut, desc: &desc };
    assert_eq!(recorder.orchestration_arg(&arg), Outcome::Recorded);
    let mut host = FakeHost::new(&rig, 0);
    host.drain();
    let record: OrchestrationArgRecord = *host.taken[0].record.get().unwrap();
    assert_eq!((record.kind, record.role, record.arg_index, record.flags), (10, 3, 300, 0));
    assert_eq!((record.address, record.buffer_bytes), (desc.buffer_addr, desc.buffer_bytes));
    assert_eq!((record.shape[0], record.shape[7], record.strides[7]), (desc.shape[0], 0, 0));
}
