//! Content of a fresh region.

use std::vec;
use std::vec::Vec;

use super::*;

const GEOMETRY: DumpGeometry = DumpGeometry { lanes: 2, buffers: 70, records: 3, arena_bytes: 8192 };

fn options() -> SetupOptions {
    SetupOptions {
        base: 0x2000_0000_0000,
        run_id: 9,
        level: DumpLevel::Hash,
        policy: DumpPolicy::Drop,
        collect: DumpCollect::Batch,
        liveness_ms: 77,
        filter: DumpFilter::ALL,
        of_process: false,
    }
}

#[test]
fn the_header_describes_every_part_and_the_parts_fill_the_region() {
    let header = setup_bytes(GEOMETRY, &options()).unwrap().header;
    let DumpSetupHeader { states, queues, buffers, arenas, .. } = header;
    assert_eq!(states.addr, 0x2000_0000_0000 + 640);
    assert_eq!((states.bytes, queues.bytes), (2 * 256, 2 * 576));
    assert_eq!((buffers.bytes, arenas.bytes), (2 * 70 * (64 + 3 * 192), 2 * 8192));
    assert_eq!((states.end(), queues.end()), (queues.addr, buffers.addr));
    assert!(buffers.end() <= arenas.addr && arenas.addr - buffers.end() < 4096);
    assert_eq!(arenas.end(), 0x2000_0000_0000 + GEOMETRY.bytes());
    assert_eq!((header.level, header.policy, header.collect, header.liveness_ms), (4, 1, 1, 77));
}

#[test]
fn every_byte_that_needs_setup_is_written_once_and_the_header_last() {
    let mut written = vec![0_u32; usize::try_from(GEOMETRY.bytes()).unwrap()];
    let mut region = vec![0xee_u8; written.len()];
    let mut order = Vec::new();
    let setup = setup_bytes(GEOMETRY, &options()).unwrap();
    setup.write(|offset, bytes| {
        let range = usize::try_from(offset).unwrap()..usize::try_from(offset).unwrap() + bytes.len();
        written[range.clone()].iter_mut().for_each(|count| *count += 1);
        region[range].copy_from_slice(bytes);
        order.push(offset);
    });
    let buffers_at = usize::try_from(GEOMETRY.buffers_offset()).unwrap();
    assert!(written[..buffers_at].iter().all(|&count| count == 1));
    assert!(written[buffers_at..].iter().all(|&count| count == 0));
    assert_eq!(order.last(), Some(&0));

    let second_queue = usize::try_from(GEOMETRY.queues_offset() + GEOMETRY.queue_bytes()).unwrap();
    let words: Vec<u32> = region[second_queue..buffers_at]
        .chunks(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let expected: Vec<u32> = (0..70).chain([0; 74]).collect();
    assert_eq!(words, expected);
    assert_eq!(setup.queue_words().collect::<Vec<_>>(), expected);
}

#[test]
fn a_failing_write_ends_the_setup() {
    let setup = setup_bytes(GEOMETRY, &options()).unwrap();
    let mut writes = 0;
    let result = setup.try_write(|offset, _| {
        writes += 1;
        if writes == 3 { Err(offset) } else { Ok(()) }
    });
    assert!(result.is_err() && writes == 3);
}

#[test]
fn options_that_no_device_would_accept_are_rejected_by_name() {
    let with = |geometry| setup_bytes(geometry, &options()).unwrap_err();
    let size = |error| match error {
        SetupError::BadSize { field, value, .. } => (field, value),
        other => panic!("{other}"),
    };
    let crowd = MAX_LANES + 1;
    assert_eq!(size(with(DumpGeometry { lanes: crowd, ..GEOMETRY })), ("lanes", crowd.into()));
    assert_eq!(size(with(DumpGeometry { lanes: 0, ..GEOMETRY })), ("lanes", 0));
    assert_eq!(size(with(DumpGeometry { buffers: 0, ..GEOMETRY })), ("buffers", 0));
    assert_eq!(size(with(DumpGeometry { records: 0, ..GEOMETRY })), ("records", 0));
    assert_eq!(size(with(DumpGeometry { arena_bytes: 5000, ..GEOMETRY })), ("arena bytes", 5000));
    assert_eq!(size(with(DumpGeometry { arena_bytes: 0, ..GEOMETRY })), ("arena bytes", 0));
    let huge = DumpGeometry { buffers: u32::MAX, records: u32::MAX, ..GEOMETRY };
    assert_eq!(with(huge), SetupError::TooLarge);
    let far = SetupOptions { base: u64::MAX - 63, ..options() };
    assert_eq!(setup_bytes(GEOMETRY, &far), Err(SetupError::TooLarge));
    let unaligned = SetupOptions { base: 32, ..options() };
    assert_eq!(setup_bytes(GEOMETRY, &unaligned), Err(SetupError::Unaligned { base: 32, align: 64 }));
    let filter = DumpFilter { task_ranges: 17, ..DumpFilter::ALL };
    let refused = setup_bytes(GEOMETRY, &SetupOptions { filter, ..options() });
    assert_eq!(refused, Err(SetupError::TooManyTaskRanges { ranges: 17, most: 16 }));
}
