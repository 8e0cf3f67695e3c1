//! A lane announces memory before it writes there, so that another thread can make the pages present.

use tensortap_abi::{DumpGeometry, DumpLevel, DumpPolicy, DumpRecord};
use tensortap_recorder::Outcome;

use crate::link::ScriptedLink;
use crate::rig::{Rig, input};

#[test]
fn records_and_content_are_written_only_to_announced_memory() {
    const CONTENT_BYTES: u64 = 256;
    // More of both than one announcement covers.
    let geometry = DumpGeometry { lanes: 1, buffers: 4, records: 1024, arena_bytes: 1 << 20 };
    let rig = Rig::new(geometry);
    let region = rig.open(&rig.options(DumpLevel::Full, DumpPolicy::Drop));
    let link = ScriptedLink::never();
    let mut recorder = region.recorder(0, &link).unwrap();
    let desc = rig.tensor(CONTENT_BYTES);
    let (buffers, arena) = (rig.addr(geometry.buffers_offset()), rig.addr(geometry.arenas_offset()));
    let is_named = |addr: u64| {
        link.named.borrow().iter().any(|range| (range.addr..range.addr + range.bytes).contains(&addr))
    };
    for task_id in 0..3000 {
        let (buffer, place) = (task_id / u64::from(geometry.records), task_id % u64::from(geometry.records));
        let record = buffers + buffer * geometry.buffer_bytes() + place * size_of::<DumpRecord>() as u64;
        assert!(is_named(record), "record {task_id}");
        assert!(is_named(arena + task_id * CONTENT_BYTES), "content {task_id}");
        assert_eq!(recorder.tensor(&input(task_id, &desc)), Outcome::Recorded);
    }
    let mut named: Vec<_> =
        link.named.take().iter().map(|range| (range.addr, range.addr + range.bytes)).collect();
    named.sort_unstable();
    assert!(named.windows(2).all(|two| two[0].1 <= two[1].0), "twice: {named:x?}");
}
