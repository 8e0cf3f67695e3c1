//! Content that comes later, through a whole session.

use tensortap_format::PayloadState;
use tensortap_record::*;
use tensortap_values::content_hash;

use crate::host::{Host, PLAIN};

fn fill(ticket: &Ticket, byte: u8) {
    // SAFETY: the space is this ticket's until it is committed.
    unsafe { ticket.start.write_bytes(byte, usize::try_from(ticket.bytes).unwrap()) };
}

#[test]
fn reservations_are_committed_in_any_order_and_what_never_comes_leaves_its_metadata() {
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
    // Other records do not wait for them.
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
    // The last is open when the handle goes.
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
fn a_reservation_that_waits_for_nobody_but_the_caller_says_so_and_one_that_cannot_be_names_the_limit() {
    let host = Host::new(PLAIN);
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    let mut task = recorder.begin(&TaskInfo::default()).unwrap();
    // An arena of 64 KiB: half of it, less a page, at a time.
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
