use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;

const BOUNDS: Bounds = Bounds {
    memory: DeviceRange { addr: 0x2000_0000_0000, bytes: 1 << 20 },
    arena_bytes: 1 << 16,
    from: (1 << 16) + 4096,
    to: (2 << 16) + 4096,
};

fn tensor() -> TensorRecord {
    TensorRecord {
        task_id: 5,
        payload_pos: BOUNDS.from,
        start_offset: 5,
        address: BOUNDS.memory.addr + 4096,
        stage: DumpStage::BeforeDispatch as u8,
        role: Role::Input.tag(),
        dtype: DType::Float32.tag(),
        ndims: 2,
        flags: RECORD_HAS_PAYLOAD | RECORD_HAS_HASH,
        arg_index: 3,
        shape: [4, 6, 0, 0, 0, 0, 0, 0],
        strides: [8, -1, 0, 0, 0, 0, 0, 0],
        ..TensorRecord::default()
    }
}

/// The tensor without data in the arena.
fn bare(flags: u32) -> TensorRecord {
    TensorRecord { payload_pos: 0, flags, ..tensor() }
}

fn starting_at(element: u64) -> TensorRecord {
    TensorRecord { start_offset: element, ..tensor() }
}

fn checked(record: impl Into<DumpRecord>) -> Result<CheckedRecord, RecordFault> {
    check(record.into().as_bytes(), &BOUNDS)
}

fn fault(record: impl Into<DumpRecord>) -> Option<RecordFault> {
    checked(record).err()
}

#[test]
fn a_sound_tensor_passes_with_its_span() {
    let span = Span { position: BOUNDS.from, bytes: 96 };
    assert_eq!(checked(tensor()), Ok(CheckedRecord::Payload(tensor(), span)));
    let far = TensorRecord { arg_index: u16::MAX, flags: tensor().flags | ARGUMENT_FLAGS, ..tensor() };
    assert_eq!(checked(far), Ok(CheckedRecord::Payload(far, span)));
}

#[test]
fn each_damaged_field_is_reported_by_name() {
    let good = tensor();
    let with = |change: fn(&mut TensorRecord)| {
        let mut record = good;
        change(&mut record);
        record
    };
    let cases = [
        (with(|r| r.kind = 0), RecordFault::Kind),
        (with(|r| r.kind = 24), RecordFault::Kind),
        (with(|r| r.dtype = 99), RecordFault::DType),
        (with(|r| r.role = 0), RecordFault::Role),
        (with(|r| r.stage = 3), RecordFault::Stage),
        (with(|r| r.space = 4), RecordFault::Address),
        (with(|r| r.ndims = 9), RecordFault::View),
        (with(|r| r.shape[2] = 1), RecordFault::Reserved),
        (with(|r| r.strides[7] = 1), RecordFault::Reserved),
        // Element 5 + 0 * 8 - 5 is the first of the buffer; one less is outside.
        (starting_at(4), RecordFault::View),
        (starting_at(1 << 53), RecordFault::View),
        (with(|r| (r.shape, r.ndims) = ([1 << 40; 8], 8)), RecordFault::View),
        (with(|r| r.flags = RECORD_HAS_PAYLOAD), RecordFault::Flags),
        (with(|r| r.flags |= RECORD_HAS_STATS), RecordFault::Flags),
        (with(|r| r.flags |= RECORD_PAYLOAD_DROPPED), RecordFault::Flags),
        (with(|r| r.flags |= RECORD_ALREADY_STORED), RecordFault::Flags),
        (with(|r| r.flags |= RECORD_FILLED_LATER), RecordFault::Flags),
        (with(|r| r.flags |= RECORD_TRUNCATED), RecordFault::Flags),
        (with(|r| r.flags |= RECORD_HAS_PARENT), RecordFault::Flags),
        (with(|r| r.flags |= 1 << 31), RecordFault::Flags),
        (bare(RECORD_ALREADY_STORED), RecordFault::Flags),
        (bare(RECORD_FILLED_LATER | RECORD_HAS_HASH), RecordFault::Flags),
        (with(|r| r.address = BOUNDS.memory.addr - 1), RecordFault::Address),
        (with(|r| r.address = BOUNDS.memory.end() - 115), RecordFault::Address),
        (with(|r| r.address = u64::MAX), RecordFault::Address),
        (with(|r| r.payload_pos = BOUNDS.from - 1), RecordFault::Position),
        (with(|r| r.payload_pos = BOUNDS.to - 95), RecordFault::Position),
        (with(|r| r.payload_pos = u64::MAX), RecordFault::Position),
        (with(|r| r.flags = 0), RecordFault::Position),
        // Past the arena's end.
        (with(|r| r.payload_pos = (2 << 16) - 95), RecordFault::Position),
    ];
    assert_eq!(fault(good), None);
    for (record, expected) in cases {
        assert_eq!(fault(record), Some(expected), "{record:?}");
    }
}

#[test]
fn a_device_buffer_must_be_in_device_memory_and_may_end_at_its_end() {
    // The view covers elements 0 to 29: 120 bytes.
    let last = TensorRecord { address: BOUNDS.memory.end() - 120, ..tensor() };
    assert_eq!(fault(last), None);
    let past_end = TensorRecord { address: last.address + 1, ..last };
    assert_eq!(fault(past_end), Some(RecordFault::Address));
    assert_eq!(fault(TensorRecord { space: MemorySpace::Host as u8, ..past_end }), None);
    let nowhere = TensorRecord { space: MemorySpace::Host as u8, address: u64::MAX - 100, ..past_end };
    assert_eq!(fault(nowhere), Some(RecordFault::Address));
}

#[test]
fn statistics_are_smaller_than_the_content_they_describe() {
    let flags = RECORD_HAS_STATS | RECORD_HAS_HASH;
    let record = TensorRecord { flags, payload_pos: BOUNDS.to - 64, ..tensor() };
    let span = Span { position: BOUNDS.to - 64, bytes: 64 };
    assert_eq!(checked(record), Ok(CheckedRecord::Stats(record, span)));
    assert_eq!(fault(TensorRecord { payload_pos: BOUNDS.to - 63, ..record }), Some(RecordFault::Position));
}

#[test]
fn an_empty_view_needs_no_memory() {
    let mut record = TensorRecord { address: 0, ..starting_at(0) };
    record.shape[1] = 0;
    assert_eq!(fault(record), None);
}

#[test]
fn the_payload_flags_of_a_tensor_decide_how_it_is_stored() {
    for (flags, expected) in [
        (0, CheckedRecord::Tensor(bare(0), None)),
        (RECORD_PAYLOAD_DROPPED, CheckedRecord::Tensor(bare(RECORD_PAYLOAD_DROPPED), None)),
        (RECORD_PAYLOAD_FILTERED, CheckedRecord::Tensor(bare(RECORD_PAYLOAD_FILTERED), None)),
        (RECORD_FILLED_LATER, CheckedRecord::Later(bare(RECORD_FILLED_LATER))),
        (
            RECORD_ALREADY_STORED | RECORD_HAS_HASH,
            CheckedRecord::Stored(bare(RECORD_ALREADY_STORED | RECORD_HAS_HASH)),
        ),
    ] {
        assert_eq!(checked(bare(flags)), Ok(expected));
    }
    // The space of a payload that never arrived is released with its record. No other record may name such
    // a space.
    let lost = |payload_pos| TensorRecord { payload_pos, ..bare(RECORD_PAYLOAD_DROPPED) };
    let end = Span { position: BOUNDS.to, bytes: 0 };
    assert_eq!(checked(lost(BOUNDS.to)), Ok(CheckedRecord::Tensor(lost(BOUNDS.to), Some(end))));
    assert_eq!(fault(lost(BOUNDS.to + 1)), Some(RecordFault::Position));
    assert_eq!(fault(TensorRecord { payload_pos: BOUNDS.to, ..bare(0) }), Some(RecordFault::Position));
}

fn scalar() -> ScalarRecord {
    ScalarRecord { stage: 1, dtype: 1, bits: u64::MAX, arg_index: u16::MAX, ..ScalarRecord::default() }
}

fn task() -> TaskRecord {
    TaskRecord { task_id: 9, tensor_count: 60_000, scalar_count: 5_535, ..TaskRecord::default() }
}

fn uncaptured() -> UncapturedRecord {
    let reason = UncapturedReason::BadDescriptor as u8;
    UncapturedRecord { task_id: 9, reason, role: 3, ..UncapturedRecord::default() }
}

fn attribute() -> AttributeRecord {
    let mut record = AttributeRecord { task_id: 9, name: 3, total: 1, count: 1, ..Default::default() };
    (record.types[0], record.values[0]) = (3, u64::MAX);
    record
}

fn collective() -> CollectiveRecord {
    CollectiveRecord { task_id: 9, sequence: 5, group: 3, collective: 2, ..CollectiveRecord::default() }
}

fn edge() -> EdgeRecord {
    EdgeRecord::new(1, 2, EdgeCause::WriteAfterRead, 60_000)
}

#[test]
fn records_without_arena_data_pass_unchanged() {
    let parent = TaskRecord { flags: RECORD_HAS_PARENT | RECORD_IN_FLIGHT, parent_task: 3, ..task() };
    let operator = TaskRecord { operation: Operation::Operator as u8, ..task() };
    let region = TaskRecord { flags: RECORD_REGION, ..task() };
    let records: [DumpRecord; 14] = [
        region.into(),
        attribute().into(),
        collective().into(),
        scalar().into(),
        task().into(),
        parent.into(),
        operator.into(),
        uncaptured().into(),
        edge().into(),
        tensortap_abi::ScopeRecord { id: 1, name: 2, parent: 3, ..Default::default() }.into(),
        tensortap_abi::QueueRecord { id: 1, name: 2, ..Default::default() }.into(),
        tensortap_abi::LaneRecord { tid: 77, lane: 3, ..Default::default() }.into(),
        tensortap_abi::StepRecord { id: 1, started_ns: 5, ..Default::default() }.into(),
        AllocationRecord { address: u64::MAX, bytes: 9, space: 1, freed: 1, ..AllocationRecord::default() }
            .into(),
    ];
    for record in records {
        assert_eq!(checked(record), Ok(CheckedRecord::Plain(record)));
        let flagged = DumpRecord { flags: record.flags | RECORD_HAS_PAYLOAD, ..record };
        assert_eq!(fault(flagged), Some(RecordFault::Flags), "{record:?}");
        let mut reserved = record;
        reserved.body[175] = 1;
        assert_eq!(fault(reserved), Some(RecordFault::Reserved), "{record:?}");
    }
}

#[test]
fn every_other_kind_is_checked_by_its_own_rules() {
    assert_eq!(fault(ScalarRecord { dtype: 0, ..scalar() }), Some(RecordFault::DType));
    let wide = ScalarRecord { dtype: DType::Complex128.tag(), ..scalar() };
    assert_eq!(fault(wide), Some(RecordFault::DType), "it has 128 bits");
    assert_eq!(fault(ScalarRecord { stage: 0, ..scalar() }), Some(RecordFault::Stage));
    assert_eq!(fault(EdgeRecord { cause: 7, ..edge() }), Some(RecordFault::Reason));
    assert_eq!(fault(UncapturedRecord { reason: 99, ..uncaptured() }), Some(RecordFault::Reason));
    assert_eq!(fault(UncapturedRecord { stage: 3, ..uncaptured() }), Some(RecordFault::Stage));
    assert_eq!(fault(UncapturedRecord { role: 4, ..uncaptured() }), Some(RecordFault::Role));
    assert_eq!(fault(TaskRecord { operation: 8, ..task() }), Some(RecordFault::Task));
    assert_eq!(fault(TaskRecord { scalar_count: 5_536, ..task() }), Some(RecordFault::Task));
    assert_eq!(fault(TaskRecord { tensor_count: u32::MAX, ..task() }), Some(RecordFault::Task));
    assert_eq!(fault(TaskRecord { parent_task: 3, ..task() }), Some(RecordFault::Flags));
    let module = ModuleRecord { bytes: 1 << 53, ..ModuleRecord::default() };
    assert_eq!(fault(module), Some(RecordFault::Size));
    let (extended, payload) = (RECORD_EXTENDED, RECORD_HAS_PAYLOAD);
    let plain = ModuleRecord { id: 1, bytes: 100, ..ModuleRecord::default() };
    assert_eq!(checked(plain), Ok(CheckedRecord::Module(plain)));
    let whole = ModuleRecord { flags: extended | payload, options: 3, device: 4, image_kind: 6, ..plain };
    assert_eq!(checked(whole), Ok(CheckedRecord::Module(whole)));
    assert_eq!(fault(ModuleRecord { flags: payload, ..plain }), Some(RecordFault::Flags));
    assert_eq!(fault(ModuleRecord { options: 3, ..plain }), Some(RecordFault::Reserved));
    assert_eq!(fault(ModuleRecord { image_kind: 7, ..whole }), Some(RecordFault::Definition));
    assert_eq!(fault(ModuleRecord { reserved0: [1; 7], ..whole }), Some(RecordFault::Reserved));
    let image = ImageRecord { bytes: MAX_IMAGE_BYTES, ..ImageRecord::default() };
    assert_eq!(checked(image), Ok(CheckedRecord::Image(image)));
    assert_eq!(fault(ImageRecord { bytes: MAX_IMAGE_BYTES + 1, ..image }), Some(RecordFault::Size));
    assert_eq!(fault(ImageRecord { image_kind: 7, ..image }), Some(RecordFault::Definition));
    assert_eq!(fault(ImageRecord { flags: payload, ..image }), Some(RecordFault::Flags));
    let sized = TaskRecord { flags: extended, global_size: [5, 1, 1], work_dims: 3, ..task() };
    assert_eq!(checked(sized), Ok(CheckedRecord::Plain(sized.into())));
    assert_eq!(fault(TaskRecord { flags: 0, ..sized }), Some(RecordFault::Reserved));
    assert_eq!(fault(TaskRecord { work_dims: 4, ..sized }), Some(RecordFault::Task));
    let local = ScalarRecord { flags: RECORD_LOCAL_MEMORY, ..scalar() };
    assert_eq!(checked(local), Ok(CheckedRecord::Plain(local.into())));
    let allocation = AllocationRecord::default();
    assert_eq!(fault(AllocationRecord { space: 4, ..allocation }), Some(RecordFault::Address));
    assert_eq!(fault(AllocationRecord { freed: 2, ..allocation }), Some(RecordFault::Definition));
    assert_eq!(fault(AllocationRecord { bytes: 1 << 53, ..allocation }), Some(RecordFault::Size));
    let stored = AllocationRecord { flags: extended, storage: 7, pool: 2, ..allocation };
    assert_eq!(checked(stored), Ok(CheckedRecord::Plain(stored.into())));
    assert_eq!(fault(AllocationRecord { flags: 0, ..stored }), Some(RecordFault::Reserved));
    assert_eq!(fault(AllocationRecord { reserved1: 1, ..stored }), Some(RecordFault::Reserved));
    assert_eq!(fault(AttributeRecord { count: 2, ..attribute() }), Some(RecordFault::Attribute));
    assert_eq!(fault(AttributeRecord { types: [0; 16], ..attribute() }), Some(RecordFault::Attribute));
    let mut unused = attribute();
    unused.values[1] = 1;
    assert_eq!(fault(unused), Some(RecordFault::Reserved));
    assert_eq!(fault(CollectiveRecord { collective: 10, ..collective() }), Some(RecordFault::Collective));
    assert_eq!(fault(CollectiveRecord { group: 0, ..collective() }), Some(RecordFault::Collective));
}

fn dispatch() -> DispatchRecord {
    DispatchRecord {
        words_pos: BOUNDS.from,
        words_bytes: 400,
        stage: 1,
        flags: CARRIED_ARGS,
        func_id: 7,
        core_id: 5,
        subtask_id: 2,
        subtask_count: 3,
        block_idx: 3,
        block_num: 4,
        tensor_count: 65_000,
        scalar_count: 535,
        ..DispatchRecord::default()
    }
}

#[test]
fn a_dispatch_that_finished_has_a_slot_and_any_times() {
    let ran =
        FinishedRecord { task_id: 9, subtask_id: 2, completed_ns: u64::MAX, ..FinishedRecord::default() };
    assert_eq!(checked(ran), Ok(CheckedRecord::Plain(ran.into())));
    assert_eq!(fault(FinishedRecord { subtask_id: 3, ..ran }), Some(RecordFault::Dispatch));
    assert_eq!(fault(FinishedRecord { flags: RECORD_IN_FLIGHT, ..ran }), Some(RecordFault::Flags));
    assert_eq!(fault(FinishedRecord { reserved0: 1, ..ran }), Some(RecordFault::Reserved));
}

#[test]
fn a_dispatch_is_one_of_a_tasks_slots_and_blocks() {
    let span = Span { position: BOUNDS.from, bytes: 400 };
    assert_eq!(checked(dispatch()), Ok(CheckedRecord::Dispatch(dispatch(), Some(span))));
    let most = u32::try_from(8 * MAX_DISPATCH_WORDS).unwrap();
    for words_bytes in [401, most + 8] {
        assert_eq!(fault(DispatchRecord { words_bytes, ..dispatch() }), Some(RecordFault::Size));
    }
    for damaged in [
        DispatchRecord { subtask_id: 3, ..dispatch() },
        DispatchRecord { subtask_count: 4, ..dispatch() },
        DispatchRecord { block_idx: 4, ..dispatch() },
        DispatchRecord { tensor_count: 65_001, ..dispatch() },
        DispatchRecord { scalar_count: u32::MAX, ..dispatch() },
    ] {
        assert_eq!(fault(damaged), Some(RecordFault::Dispatch), "{damaged:?}");
    }
    let lost = DispatchRecord { flags: RECORD_PAYLOAD_DROPPED, ..dispatch() };
    assert_eq!(checked(lost), Ok(CheckedRecord::Dispatch(lost, None)));
    for flags in [0, RECORD_HAS_PAYLOAD, RECORD_HAS_PAYLOAD | RECORD_HAS_HASH | RECORD_PAYLOAD_DROPPED] {
        assert_eq!(fault(DispatchRecord { flags, ..dispatch() }), Some(RecordFault::Flags), "{flags}");
    }
}

#[test]
fn an_argument_of_the_orchestration_is_a_view_of_device_memory() {
    let TensorRecord { start_offset, address, role, dtype, ndims, shape, strides, .. } = tensor();
    let view = OrchestrationArgRecord { start_offset, address, role, dtype, ndims, ..Default::default() };
    let arg = OrchestrationArgRecord { shape, strides, arg_index: 300, buffer_bytes: 4096, ..view };
    assert_eq!(checked(arg), Ok(CheckedRecord::Plain(arg.into())));
    assert_eq!(fault(OrchestrationArgRecord { address: 0, ..arg }), Some(RecordFault::Address));
    assert_eq!(fault(OrchestrationArgRecord { ndims: 9, ..arg }), Some(RecordFault::View));
    assert_eq!(fault(OrchestrationArgRecord { buffer_bytes: 1 << 53, ..arg }), Some(RecordFault::Size));
    assert_eq!(fault(OrchestrationArgRecord { flags: RECORD_HAS_PAYLOAD, ..arg }), Some(RecordFault::Flags));
    assert_eq!(fault(OrchestrationArgRecord { reserved: [1; 16], ..arg }), Some(RecordFault::Reserved));
}

#[test]
fn piece_records_carry_only_their_own_flags() {
    let begin = BeginRecord::new(&bare(RECORD_IN_FLIGHT | RECORD_MARKED), 7);
    assert_eq!(checked(begin), Ok(CheckedRecord::Begin(begin)));
    assert_eq!(fault(BeginRecord { flags: RECORD_HAS_PAYLOAD, ..begin }), Some(RecordFault::Flags));
    assert_eq!(fault(BeginRecord { reserved: [9; 16], ..begin }), Some(RecordFault::Reserved));
    let (stage, flags) = (1, RECORD_HAS_PAYLOAD);
    let piece = PieceRecord { stage, flags, payload_pos: BOUNDS.from, bytes: 96, ..PieceRecord::default() };
    let span = Span { position: BOUNDS.from, bytes: 96 };
    assert_eq!(checked(piece), Ok(CheckedRecord::Piece(piece, span)));
    assert_eq!(fault(PieceRecord { flags: 0, ..piece }), Some(RecordFault::Flags));
    assert_eq!(fault(PieceRecord { bytes: u64::MAX, ..piece }), Some(RecordFault::Position));
    let commit = CommitRecord { stage, flags: RECORD_HAS_HASH, ..CommitRecord::default() };
    assert_eq!(checked(commit), Ok(CheckedRecord::Commit(commit)));
    assert_eq!(fault(CommitRecord { flags: 0, ..commit }), Some(RecordFault::Flags));
    let huge = [1 << 41, 1, 0, 0, 0, 0, 0, 0];
    let wide = BeginRecord { shape: huge, strides: [0; 8], ..begin };
    assert_eq!(fault(wide), Some(RecordFault::Size));
}

#[test]
fn a_later_payload_is_in_the_arena_or_states_why_not() {
    let filled = FilledRecord {
        stage: 1,
        flags: CARRIED_ARGS,
        payload_pos: BOUNDS.from,
        payload_bytes: 96,
        ..FilledRecord::default()
    };
    assert_eq!(
        checked(filled),
        Ok(CheckedRecord::Filled(filled, Some(Span { position: BOUNDS.from, bytes: 96 })))
    );
    assert_eq!(fault(FilledRecord { payload_bytes: 1 << 40, ..filled }), Some(RecordFault::Position));
    let none = FilledRecord { payload_pos: 0, ..filled };
    for flags in [RECORD_PAYLOAD_DROPPED, RECORD_ALREADY_STORED | RECORD_HAS_HASH] {
        let lost = FilledRecord { flags, ..none };
        assert_eq!(checked(lost), Ok(CheckedRecord::Filled(lost, None)));
        assert_eq!(fault(FilledRecord { flags, ..filled }), Some(RecordFault::Position));
    }
    for flags in [0, RECORD_ALREADY_STORED, RECORD_HAS_PAYLOAD, RECORD_PAYLOAD_DROPPED | CARRIED_ARGS] {
        assert_eq!(fault(FilledRecord { flags, ..filled }), Some(RecordFault::Flags), "{flags}");
    }
}

#[test]
fn strings_and_kernels_are_in_their_records_or_in_the_arena() {
    let mut short = StringRecord { id: 3, text_bytes: 2, ..StringRecord::default() };
    short.text[..2].copy_from_slice(b"qk");
    assert_eq!(checked(short), Ok(CheckedRecord::String(short, None)));
    assert_eq!(fault(StringRecord { id: 0, ..short }), Some(RecordFault::Definition));
    assert_eq!(fault(StringRecord { text_bytes: 1, ..short }), Some(RecordFault::Reserved));
    assert_eq!(fault(StringRecord { text_pos: BOUNDS.from, ..short }), Some(RecordFault::Position));
    let long = StringRecord { text_bytes: 161, text_pos: BOUNDS.from, text: [0; 160], ..short };
    let span = Span { position: BOUNDS.from, bytes: 161 };
    assert_eq!(checked(long), Ok(CheckedRecord::String(long, Some(span))));
    assert_eq!(fault(StringRecord { text_bytes: 1 << 17, ..long }), Some(RecordFault::Definition));
    assert_eq!(fault(StringRecord { text_pos: 0, ..long }), Some(RecordFault::Position));
    assert_eq!(fault(StringRecord { text: [1; 160], ..long }), Some(RecordFault::Reserved));

    let arg = KernelArg { name: 1, kind: 2, reserved: [0; 3] };
    let few = KernelRecord { arg_count: 19, args: [arg; 19], core_type: 2, ..KernelRecord::default() };
    assert_eq!(checked(few), Ok(CheckedRecord::Kernel(few, None)));
    assert_eq!(fault(KernelRecord { core_type: 3, ..few }), Some(RecordFault::Definition));
    assert_eq!(fault(KernelRecord { arg_count: 18, ..few }), Some(RecordFault::Reserved));
    let none = KernelRecord::default().args;
    let many = KernelRecord { arg_count: 20, args: none, args_pos: BOUNDS.from, ..few };
    let span = Span { position: BOUNDS.from, bytes: 160 };
    assert_eq!(checked(many), Ok(CheckedRecord::Kernel(many, Some(span))));
    assert_eq!(fault(KernelRecord { arg_count: u16::MAX, ..many }), Some(RecordFault::Position));
}

proptest! {
    /// Whatever bytes of a valid record are damaged: the check returns, and an accepted record stays within
    /// the bounds.
    #[test]
    fn damaged_records_never_exceed_the_bounds(
        which in 0usize..8,
        damage in prop::collection::vec((0usize..192, any::<u8>()), 0..4),
        position in BOUNDS.from - 200..BOUNDS.to + 200,
        size in 0u64..200,
    ) {
        let mut long = StringRecord { id: 3, text_bytes: 161, text_pos: position, ..StringRecord::default() };
        long.text_bytes += u32::try_from(size).unwrap();
        let sound: [DumpRecord; 8] = [
            TensorRecord { payload_pos: position, ..tensor() }.into(),
            TensorRecord { payload_pos: position, flags: RECORD_HAS_STATS, ..tensor() }.into(),
            DispatchRecord { words_pos: position, words_bytes: u32::try_from(size).unwrap() * 8, ..dispatch() }.into(),
            PieceRecord { stage: 1, flags: RECORD_HAS_PAYLOAD, payload_pos: position, bytes: size, ..Default::default() }.into(),
            FilledRecord { stage: 1, flags: CARRIED_ARGS, payload_pos: position, payload_bytes: size, ..Default::default() }.into(),
            long.into(),
            KernelRecord { arg_count: 20 + u16::try_from(size).unwrap(), args_pos: position, ..Default::default() }.into(),
            BeginRecord::new(&bare(0), size).into(),
        ];
        let mut record = sound[which];
        for (at, byte) in damage {
            record.as_mut_bytes()[at] ^= byte;
        }
        if let Ok(Some(span)) = checked(record).map(|checked| checked.span()) {
            prop_assert!(span.position >= BOUNDS.from && span.end() <= BOUNDS.to);
            prop_assert!(span.bytes == 0 || span.position / BOUNDS.arena_bytes == (span.end() - 1) / BOUNDS.arena_bytes);
        }
    }

    /// The check also returns for completely random bytes.
    #[test]
    fn arbitrary_bytes_are_checked_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 192), kind in 0u8..22, zeros in 0usize..192) {
        bytes[zeros.max(1)..].fill(0);
        bytes[0] = kind;
        if let Ok(Some(span)) = check(&bytes, &BOUNDS).map(|checked| checked.span()) {
            prop_assert!(span.position >= BOUNDS.from && span.end() <= BOUNDS.to);
        }
    }
}
