//! Tests deferred content in a whole session.

use tensortap_format::PayloadState;
use tensortap_record::*;
use tensortap_values::content_hash;

use crate::host::{Host, Kind, PLAIN};

fn fill(ticket: &Ticket, byte: u8) {
    // SAFETY: only this ticket uses the space until it is committed.
    unsafe { ticket.start.write_bytes(byte, usize::try_from(ticket.bytes).unwrap()) };
}

#[test]
fn reservations_commit_in_any_order_and_canceled_ones_keep_their_metadata() {
    let host = Host::new(PLAIN);
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    let device =
        Tensor::elsewhere(0xdead_0000, 3000, DType::UInt8, MemorySpace::Device).shape(&[3, 1000]).unwrap();
    let mut task = recorder.begin(&TaskInfo::default()).unwrap();
    let tickets: Vec<_> = (0..6)
        .map(|arg| {
            recorder
                .reserve(&mut task, DumpStage::AfterCompletion, &device.arg(arg).role(Role::Output))
                .unwrap()
                .unwrap()
        })
        .collect();
    // Other records do not wait for reservations.
    recorder.end(&mut task).unwrap();
    for (ticket, byte) in tickets.iter().zip(1..) {
        fill(ticket, byte);
    }
    for at in [4, 0, 2] {
        assert_eq!(recorder.commit(tickets[at].number, None).unwrap(), Outcome::Recorded);
    }
    let given = content_hash(&[2_u8; 3000]);
    recorder.commit(tickets[1].number, Some(given)).unwrap();
    assert!(matches!(recorder.commit(tickets[1].number, None), Err(RecordError::NotReserved { ticket: 1 })));
    assert!(matches!(recorder.give_up(99), Err(RecordError::NotReserved { ticket: 99 })));
    recorder.give_up(tickets[3].number).unwrap();
    // The last one is still open when the handle is dropped.
    drop((recorder, session));

    let (_dir, dump, summary) = host.dump();
    let records: Vec<_> = dump.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 6);
    for (record, byte) in records.iter().zip(1..) {
        assert_eq!(
            (record.arg_index, record.address, record.shape()),
            (u16::from(byte) - 1, 0xdead_0000, &[3, 1000][..])
        );
        if [4, 6].contains(&byte) {
            assert_eq!(record.payload, PayloadState::Dropped);
        } else {
            assert_eq!(dump.payload(record).unwrap(), vec![byte; 3000]);
        }
    }
    assert_eq!((summary.counters.dropped_records, summary.counters.corrupt_records), (2, 0));
}

#[test]
fn refuses_reservations_that_need_a_commit_first_or_exceed_the_limit() {
    let host = Host::new(PLAIN);
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    let mut task = recorder.begin(&TaskInfo::default()).unwrap();
    // With an arena of 64 KiB, the limit is half of it minus a page.
    let most = (32 << 10) - 4096;
    let of = |bytes: u64| {
        Tensor::elsewhere(0x1000, bytes, DType::UInt8, MemorySpace::Device).shape(&[bytes]).unwrap()
    };
    let refused = recorder.reserve(&mut task, DumpStage::AfterCompletion, &of(most + 1));
    assert!(matches!(refused, Err(RecordError::TooLarge { most: 28_672, .. })), "{refused:?}");
    let mut held = Vec::new();
    for round in 0..40 {
        match recorder.reserve(&mut task, DumpStage::AfterCompletion, &of(most)) {
            Ok(ticket) => held.push(ticket.unwrap()),
            Err(RecordError::CommitFirst) => {
                assert!(held.len() <= 2, "no more fit");
                for ticket in held.drain(..) {
                    fill(&ticket, round);
                    recorder.commit(ticket.number, None).unwrap();
                }
            }
            Err(other) => panic!("{other}"),
        }
    }
    let open = held.len() as u64;
    recorder.end(&mut task).unwrap();
    drop((recorder, session));
    let (_dir, _dump, summary) = host.dump();
    assert_eq!((summary.counters.dropped_records, summary.counters.corrupt_records), (open, 0));
}

/// Content of this size, with the result that a device would compute.
fn found(seed: u8, bytes: usize) -> (Vec<u8>, ContentDigest) {
    let content: Vec<u8> = (0..=250).cycle().take(bytes).map(|byte: u8| byte ^ seed).collect();
    let stats = TensorStats { min: 1.0, max: 2.0, numel: bytes as u64, ..TensorStats::default() };
    let found = ContentDigest { hash: content_hash(&content), stats: Some(stats) };
    (content, found)
}

fn elsewhere(bytes: usize) -> Tensor<'static> {
    let bytes = bytes as u64;
    Tensor::elsewhere(0xdead_0000, bytes, DType::UInt8, MemorySpace::Device).shape(&[bytes]).unwrap()
}

/// Fills incoming content and returns the number of pieces.
fn come_in(recorder: &mut ThreadRecorder, mut partial: PartialContent, content: &[u8]) -> usize {
    let (mut at, mut open, mut pieces) = (0, Vec::new(), 0);
    loop {
        match recorder.next_space(&mut partial) {
            Ok(Some(ticket)) => {
                let bytes = usize::try_from(ticket.bytes).unwrap();
                // SAFETY: only this ticket uses the space until it is committed.
                unsafe { ticket.start.copy_from_nonoverlapping(content[at..].as_ptr(), bytes) };
                at += bytes;
                pieces += 1;
                open.push(ticket.number);
            }
            Ok(None) => break,
            Err(RecordError::CommitFirst) => {
                for ticket in open.drain(..) {
                    recorder.commit(ticket, None).unwrap();
                }
            }
            Err(other) => panic!("{other}"),
        }
    }
    for ticket in open {
        recorder.commit(ticket, None).unwrap();
    }
    assert_eq!(at, content.len());
    pieces
}

#[test]
fn content_hashed_by_a_device_is_stored_once_at_any_size() {
    let host = Host::new(PLAIN);
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    let sizes = [1_usize, 1000, 16 << 10, (16 << 10) + 1, 300_000];
    let mut task = recorder.begin(&TaskInfo::default()).unwrap();
    let (before, after) = (DumpStage::BeforeDispatch, DumpStage::AfterCompletion);
    for (arg, bytes) in (0..).zip(sizes) {
        let (content, found) = found(u8::try_from(arg).unwrap(), bytes);
        let tensor = elsewhere(bytes).arg(arg);
        let partial = recorder.incoming(&mut task, before, &tensor, &found).unwrap().unwrap();
        let pieces = come_in(&mut recorder, partial, &content);
        assert_eq!(pieces > 1, bytes > 16 << 10, "pieces are a quarter of the arena");
        recorder.found_again(&mut task, after, &tensor.role(Role::Output), &found).unwrap();
    }
    // Content that was never stored is recorded as dropped.
    let (_, never) = found(99, 700);
    recorder.found_again(&mut task, after, &elsewhere(700).arg(9), &never).unwrap();
    assert!(matches!(
        recorder.found(&mut task, after, &elsewhere(700).arg(10), &never).unwrap(),
        Outcome::Dropped(_)
    ));
    recorder.end(&mut task).unwrap();
    drop((recorder, session));

    let (_dir, dump, summary) = host.dump();
    let (mut seen, mut places) = (0, std::collections::HashMap::new());
    for record in dump.records().map(Result::unwrap) {
        if record.arg_index >= 9 {
            assert_eq!(record.payload, PayloadState::Dropped);
            assert_eq!(record.hash, Some(never.hash));
            continue;
        }
        seen += 1;
        let (content, found) =
            found(u8::try_from(record.arg_index).unwrap(), sizes[usize::from(record.arg_index)]);
        assert_eq!(dump.payload(&record).unwrap(), content);
        assert_eq!(record.hash, Some(found.hash));
        let place = places.entry(record.arg_index).or_insert(record.bin_offset);
        assert_eq!(*place, record.bin_offset, "stored once");
    }
    assert_eq!(seen, 2 * sizes.len());
    assert_eq!(
        (summary.counters.dropped_records, summary.counters.corrupt_records),
        (2, 0),
        "both are counted"
    );
}

#[test]
fn levels_without_payloads_record_the_hash_and_statistics_of_the_device() {
    let host = Host::new(Kind { level: DumpLevel::Hash, ..PLAIN });
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    let mut task = recorder.begin(&TaskInfo::default()).unwrap();
    let (_, whole) = found(1, 5000);
    let bare = ContentDigest { stats: None, ..whole };
    let stage = DumpStage::AfterCompletion;
    recorder.found(&mut task, stage, &elsewhere(5000), &whole).unwrap();
    recorder.found(&mut task, stage, &elsewhere(5000).arg(1), &bare).unwrap();
    assert!(recorder.incoming(&mut task, stage, &elsewhere(5000).arg(2), &whole).unwrap().is_none());
    recorder.found_again(&mut task, stage, &elsewhere(5000).arg(3), &whole).unwrap();
    recorder.end(&mut task).unwrap();
    drop((recorder, session));
    let (_dir, dump, summary) = host.dump();
    let records: Vec<_> = dump.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 4);
    for record in &records {
        assert_eq!(record.hash, Some(whole.hash));
        assert_eq!(record.stats.map(|stats| stats.max), (record.arg_index != 1).then_some(2.0));
    }
    assert_eq!(summary.counters.dropped_records, 0);
}
