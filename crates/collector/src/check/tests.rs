use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;

const BOUNDS: Bounds = Bounds {
    memory: DeviceRange { addr: 0x2000_0000_0000, bytes: 1 << 20 },
    arena_bytes: 1 << 16,
    from: (1 << 16) + 4096,
    to: (2 << 16) + 4096,
};

fn tensor() -> TensorDumpRecord {
    TensorDumpRecord {
        task_id: 5,
        payload_pos: BOUNDS.from,
        payload_bytes: 24 * 4,
        start_offset: 2,
        address: BOUNDS.memory.addr + 4096,
        kind: RecordKind::Tensor as u8,
        stage: DumpStage::BeforeDispatch as u8,
        role: Role::Input.tag(),
        dtype: DType::Float32.tag(),
        ndims: 2,
        flags: RECORD_HAS_PAYLOAD | RECORD_HAS_HASH,
        arg_index: 3,
        shape: [4, 6, 0, 0, 0, 0, 0, 0],
        strides: [8, -1, 0, 0, 0, 0, 0, 0],
        ..TensorDumpRecord::default()
    }
}

fn starting_at(element: u64) -> TensorDumpRecord {
    TensorDumpRecord { start_offset: element, ..tensor() }
}

fn fault(record: &TensorDumpRecord) -> Option<RecordFault> {
    check(record.as_bytes(), &BOUNDS).err()
}

#[test]
fn a_sound_tensor_passes_with_its_span() {
    let record = starting_at(5);
    let span = Span { position: BOUNDS.from, bytes: 96 };
    assert_eq!(check(record.as_bytes(), &BOUNDS), Ok(Checked::InArena(record, span)));
}

#[test]
fn each_damaged_field_is_named() {
    let good = starting_at(5);
    let cases = [
        (TensorDumpRecord { kind: 0, ..good }, RecordFault::Kind),
        (TensorDumpRecord { kind: 11, ..good }, RecordFault::Kind),
        (TensorDumpRecord { dtype: 18, ..good }, RecordFault::DType),
        (TensorDumpRecord { role: 0, ..good }, RecordFault::Role),
        (TensorDumpRecord { stage: 3, ..good }, RecordFault::Stage),
        (TensorDumpRecord { arg_index: 48, ..good }, RecordFault::ArgIndex),
        (TensorDumpRecord { ndims: 9, ..good }, RecordFault::View),
        // Element 5 + 0 * 8 - 5 is the first of the buffer; one further down is none.
        (starting_at(4), RecordFault::View),
        (TensorDumpRecord { start_offset: 1 << 53, ..good }, RecordFault::View),
        (TensorDumpRecord { shape: [1 << 40; 8], ..good }, RecordFault::View),
        (TensorDumpRecord { payload_bytes: 95, ..good }, RecordFault::Size),
        (
            TensorDumpRecord { payload_bytes: 97, flags: good.flags | RECORD_TRUNCATED, ..good },
            RecordFault::Size,
        ),
        (TensorDumpRecord { flags: RECORD_HAS_PAYLOAD, ..good }, RecordFault::Flags),
        (TensorDumpRecord { flags: good.flags | RECORD_HAS_STATS, ..good }, RecordFault::Flags),
        (TensorDumpRecord { flags: good.flags | RECORD_PAYLOAD_DROPPED, ..good }, RecordFault::Flags),
        (TensorDumpRecord { flags: good.flags | RECORD_ALREADY_STORED, ..good }, RecordFault::Flags),
        (TensorDumpRecord { flags: RECORD_ALREADY_STORED, ..good }, RecordFault::Flags),
        (TensorDumpRecord { address: BOUNDS.memory.addr - 1, ..good }, RecordFault::Address),
        (TensorDumpRecord { address: BOUNDS.memory.end() - 115, ..good }, RecordFault::Address),
        (TensorDumpRecord { address: u64::MAX, ..good }, RecordFault::Address),
        (TensorDumpRecord { payload_pos: BOUNDS.from - 1, ..good }, RecordFault::Position),
        (TensorDumpRecord { payload_pos: BOUNDS.to - 95, ..good }, RecordFault::Position),
        (TensorDumpRecord { payload_pos: u64::MAX, ..good }, RecordFault::Position),
        // Across the arena's end.
        (TensorDumpRecord { payload_pos: (2 << 16) - 95, ..good }, RecordFault::Position),
    ];
    assert_eq!(fault(&good), None);
    for (record, expected) in cases {
        assert_eq!(fault(&record), Some(expected), "{record:?}");
    }
}

#[test]
fn a_buffer_may_end_where_device_memory_ends() {
    // The view touches elements 0 to 29: 120 bytes.
    let last = TensorDumpRecord { address: BOUNDS.memory.end() - 120, ..starting_at(5) };
    assert_eq!(fault(&last), None);
    assert_eq!(fault(&TensorDumpRecord { address: last.address + 1, ..last }), Some(RecordFault::Address));
}

#[test]
fn statistics_are_smaller_than_the_content_they_describe() {
    let flags = RECORD_HAS_STATS | RECORD_HAS_HASH;
    let record = TensorDumpRecord { flags, payload_pos: BOUNDS.to - 64, ..starting_at(5) };
    let span = Span { position: BOUNDS.to - 64, bytes: 64 };
    assert_eq!(check(record.as_bytes(), &BOUNDS), Ok(Checked::InArena(record, span)));
    assert_eq!(
        fault(&TensorDumpRecord { payload_pos: BOUNDS.to - 63, ..record }),
        Some(RecordFault::Position)
    );
}

#[test]
fn a_view_of_nothing_needs_no_memory() {
    let mut record = TensorDumpRecord { address: 0, payload_bytes: 0, ..starting_at(0) };
    record.shape[1] = 0;
    assert_eq!(fault(&record), None);
}

#[test]
fn other_kinds_are_checked_as_what_they_are() {
    let scalar = TensorDumpRecord {
        kind: RecordKind::Scalar as u8,
        flags: 0,
        ndims: 0,
        payload_pos: u64::MAX,
        ..tensor()
    };
    let edge = TensorDumpRecord { kind: RecordKind::Edge as u8, flags: 0, stage: 3, ..tensor() };
    let reason = UncapturedReason::BadDescriptor as u64;
    let uncaptured =
        TensorDumpRecord { kind: RecordKind::Uncaptured as u8, flags: 0, start_offset: reason, ..tensor() };
    for plain in [scalar, edge, uncaptured] {
        assert_eq!(check(plain.as_bytes(), &BOUNDS), Ok(Checked::Plain(plain)));
        let flags = RECORD_HAS_PAYLOAD;
        assert_eq!(fault(&TensorDumpRecord { flags, ..plain }), Some(RecordFault::Flags));
    }
    assert_eq!(fault(&TensorDumpRecord { ndims: 1, ..scalar }), Some(RecordFault::View));
    assert_eq!(fault(&TensorDumpRecord { dtype: 0, ..scalar }), Some(RecordFault::DType));
    assert_eq!(fault(&TensorDumpRecord { stage: 4, ..edge }), Some(RecordFault::Reason));
    assert_eq!(fault(&TensorDumpRecord { start_offset: 7, ..uncaptured }), Some(RecordFault::Reason));

    let task = TaskDumpRecord { task_id: 9, kind: RecordKind::Task as u8, ..TaskDumpRecord::default() };
    assert_eq!(check(task.as_bytes(), &BOUNDS), Ok(Checked::Task(task)));
    let flagged = TaskDumpRecord { flags: RECORD_HAS_PAYLOAD, ..task };
    assert_eq!(check(flagged.as_bytes(), &BOUNDS), Err(RecordFault::Flags));
}

#[test]
fn a_dispatch_is_one_of_a_tasks_slots_and_blocks() {
    let shape = [7, 5, 2, 3, 3, 4, 16, 32];
    let dispatch =
        TensorDumpRecord { kind: RecordKind::Dispatch as u8, payload_bytes: 400, shape, ..tensor() };
    assert!(matches!(check(dispatch.as_bytes(), &BOUNDS), Ok(Checked::InArena(..))));
    let most = 8 * MAX_DISPATCH_WORDS as u64;
    for payload_bytes in [401, most + 8] {
        assert_eq!(fault(&TensorDumpRecord { payload_bytes, ..dispatch }), Some(RecordFault::Size));
    }
    for (place, value) in [(0, 1 << 32), (1, 1 << 32), (2, 3), (3, 4), (4, 4), (5, 1 << 32), (6, 17), (7, 33)]
    {
        let mut damaged = dispatch;
        damaged.shape[place] = value;
        assert_eq!(fault(&damaged), Some(RecordFault::Dispatch), "number {place}");
    }
    let lost = TensorDumpRecord { flags: RECORD_PAYLOAD_DROPPED, ..dispatch };
    assert_eq!(check(lost.as_bytes(), &BOUNDS), Ok(Checked::Plain(lost)));
    for flags in [0, RECORD_HAS_PAYLOAD, RECORD_HAS_PAYLOAD | RECORD_HAS_HASH | RECORD_PAYLOAD_DROPPED] {
        assert_eq!(fault(&TensorDumpRecord { flags, ..dispatch }), Some(RecordFault::Flags), "{flags}");
    }
}

#[test]
fn an_argument_of_the_orchestration_is_a_view_of_device_memory() {
    let kind = RecordKind::OrchestrationArg as u8;
    let arg = TensorDumpRecord { kind, flags: 0, stage: 0, arg_index: 300, ..starting_at(5) };
    assert_eq!(check(arg.as_bytes(), &BOUNDS), Ok(Checked::Plain(arg)));
    assert_eq!(fault(&TensorDumpRecord { address: 0, ..arg }), Some(RecordFault::Address));
    assert_eq!(fault(&TensorDumpRecord { ndims: 9, ..arg }), Some(RecordFault::View));
    assert_eq!(fault(&TensorDumpRecord { payload_bytes: 1 << 53, ..arg }), Some(RecordFault::Size));
    assert_eq!(fault(&TensorDumpRecord { flags: RECORD_HAS_PAYLOAD, ..arg }), Some(RecordFault::Flags));
}

#[test]
fn steps_of_large_payloads_carry_only_their_own_flags() {
    let begin = TensorDumpRecord { kind: RecordKind::Begin as u8, flags: RECORD_IN_FLIGHT, ..starting_at(5) };
    assert_eq!(check(begin.as_bytes(), &BOUNDS), Ok(Checked::Begin(begin)));
    assert_eq!(fault(&TensorDumpRecord { flags: RECORD_HAS_PAYLOAD, ..begin }), Some(RecordFault::Flags));
    let piece = TensorDumpRecord { kind: RecordKind::Piece as u8, flags: RECORD_HAS_PAYLOAD, ..tensor() };
    assert!(matches!(check(piece.as_bytes(), &BOUNDS), Ok(Checked::Piece(..))));
    assert_eq!(fault(&TensorDumpRecord { flags: 0, ..piece }), Some(RecordFault::Flags));
    let commit = TensorDumpRecord { kind: RecordKind::Commit as u8, flags: RECORD_HAS_HASH, ..tensor() };
    assert_eq!(check(commit.as_bytes(), &BOUNDS), Ok(Checked::Commit(commit)));
    assert_eq!(fault(&TensorDumpRecord { flags: 0, ..commit }), Some(RecordFault::Flags));
    let huge = [1 << 41, 1, 0, 0, 0, 0, 0, 0];
    let wide = TensorDumpRecord { shape: huge, strides: [0; 8], payload_bytes: 1 << 43, ..begin };
    assert_eq!(fault(&wide), Some(RecordFault::Size));
}

proptest! {
    /// Any bytes give an answer, and what passes lies inside the bounds.
    #[test]
    fn arbitrary_bytes_never_get_past_the_bounds(
        mut bytes in prop::collection::vec(any::<u8>(), 192),
        kind in 0u8..12,
        dims in 0u8..10,
        flags in any::<u8>(),
        position in BOUNDS.from - 200..BOUNDS.to + 200,
        size in 0u64..200,
    ) {
        bytes[8..16].copy_from_slice(&position.to_le_bytes());
        bytes[16..24].copy_from_slice(&size.to_le_bytes());
        (bytes[56], bytes[60], bytes[61]) = (kind, dims, flags);
        if let Ok(Some(span)) = check(&bytes, &BOUNDS).map(|checked| checked.span()) {
            prop_assert!(span.position >= BOUNDS.from && span.end() <= BOUNDS.to);
            prop_assert!(span.bytes == 0 || span.position / BOUNDS.arena_bytes == (span.end() - 1) / BOUNDS.arena_bytes);
        }
    }
}
