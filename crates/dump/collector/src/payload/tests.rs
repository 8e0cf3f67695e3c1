use std::{
    fs::File,
    io::Read,
    os::{fd::AsFd, unix::fs::FileExt},
    sync::Arc,
};

use proptest::prelude::*;
use tensortap_abi::{DumpGeometry, LARGE_PAYLOAD_ALIGN, SMALL_PAYLOAD_ALIGN};

use super::*;
use crate::{check::Span, lane_offsets::LaneOffsets, testing::TestMemory};

const GEOMETRY: DumpGeometry = DumpGeometry { lanes: 2, buffers: 2, records: 4, arena_bytes: 4 << 20 };

/// Both arenas, filled with bytes that depend on their position.
fn memory(mapped: bool) -> TestMemory {
    let memory = TestMemory::new(GEOMETRY.bytes(), mapped);
    for word in (GEOMETRY.arenas_offset()..GEOMETRY.bytes()).step_by(8) {
        memory.write_u64(word, word.wrapping_mul(0x9e37_79b9_7f4a_7c15)).unwrap();
    }
    memory
}

fn bytes_at(memory: &TestMemory, extent: Extent) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(extent.bytes).unwrap()];
    memory.read(extent.offset, &mut bytes).unwrap();
    bytes
}

/// Payloads of these sizes, one after another in an arena, as a device places them.
fn lay_out(lane: u32, sizes: &[u64]) -> Vec<Extent> {
    let mut position = 0;
    let spans: Vec<_> = sizes
        .iter()
        .map(|&bytes| {
            let align = DumpGeometry::payload_align(bytes);
            let span = Span { position: u64::next_multiple_of(position, align), bytes };
            position = span.end();
            Some(span)
        })
        .collect();
    let offsets = LaneOffsets::new(GEOMETRY, lane);
    extents(offsets, lane, GEOMETRY.arena_bytes, &spans).into_iter().flatten().collect()
}

struct Target {
    file: File,
    end: u64,
}

impl Target {
    fn new() -> Target {
        Target { file: tempfile::tempfile().unwrap(), end: 0 }
    }

    fn reserve(&mut self, bytes: u64) -> u64 {
        let at = self.end.next_multiple_of(DumpGeometry::payload_align(bytes));
        self.end = at + bytes;
        at
    }

    fn place(&self, at: u64) -> PayloadPlace<'_> {
        PayloadPlace { number: 0, file: self.file.as_fd(), offset: at }
    }

    fn assert_holds(&self, memory: &TestMemory, extent: Extent, at: u64) {
        let mut written = vec![0; usize::try_from(extent.bytes).unwrap()];
        self.file.read_exact_at(&mut written, at).unwrap();
        assert!(written == bytes_at(memory, extent), "{extent:?} at {at}");
    }
}

fn sizes() -> impl Strategy<Value = Vec<u64>> {
    let size = prop_oneof![4 => 1u64..700, 1 => 60_000u64..70_000, 1 => 100_000u64..1_300_000];
    prop::collection::vec(size, 1..40).prop_map(|mut sizes| {
        let mut left = GEOMETRY.arena_bytes - 40 * LARGE_PAYLOAD_ALIGN;
        sizes.retain(|&size| left.checked_sub(size).inspect(|&rest| left = rest).is_some());
        sizes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_payload_arrives_at_its_offset(
        sizes in sizes(),
        mapped in any::<bool>(),
        first in prop::option::of(0u64..2_000_000),
        path in prop::sample::select(&PayloadPath::ALL),
        writers in 1_usize..4,
        skipped in any::<u32>(),
        files in 1_usize..4,
    ) {
        let memory = Arc::new(memory(mapped));
        let shared: SharedRegion = memory.clone();
        let mut writer: Box<dyn PayloadWriter> = match first {
            Some(first) if writers == 1 => Box::new(DirectWriter::from_offset(first)),
            _ => path.writer_with(writers, &shared).unwrap(),
        };
        let mut targets: Vec<Target> = (0..files).map(|_| Target::new()).collect();
        let mut placed = Vec::new();
        for lane in 0..2 {
            for (index, extent) in lay_out(lane, &sizes).into_iter().enumerate() {
                // Known content is skipped, so that neighbors in the arena are not neighbors in the file.
                if skipped >> (index % 32) & 1 == 0 {
                    let number = if extent.is_large() { index % files } else { 0 };
                    let at = targets[number].reserve(extent.bytes);
                    let place = PayloadPlace { number, ..targets[number].place(at) };
                    writer.put(&*memory, place, extent).unwrap();
                    placed.push((extent, number, at));
                }
            }
        }
        writer.flush(targets[0].file.as_fd()).unwrap();
        for (extent, number, at) in placed {
            targets[number].assert_holds(&memory, extent, at);
        }
    }
}

#[test]
fn neighboring_small_payloads_are_read_and_written_at_once() {
    let memory = memory(false);
    let (mut writer, mut target) = (BufferedWriter::default(), Target::new());
    let extents = lay_out(1, &[250; 200]);
    let before = memory.copies();
    for &extent in &extents {
        let at = target.reserve(extent.bytes);
        writer.put(&memory, target.place(at), extent).unwrap();
    }
    assert_eq!(memory.copies() - before, 1);
    assert_eq!(target.file.metadata().unwrap().len(), 0, "nothing is written before the flush");
    writer.flush(target.file.as_fd()).unwrap();
    for (index, &extent) in (0u64..).zip(&extents) {
        target.assert_holds(&memory, extent, index * 256);
    }
}

#[test]
fn padding_between_staged_payloads_is_zero_and_nothing_else_is_touched() {
    let memory = memory(true);
    let (mut writer, mut target) = (BufferedWriter::default(), Target::new());
    target.file.write_all_at(&[0x5a; 1024], 0).unwrap();
    for extent in lay_out(0, &[10, 20]) {
        let at = target.reserve(extent.bytes);
        writer.put(&memory, target.place(at), extent).unwrap();
    }
    writer.flush(target.file.as_fd()).unwrap();
    let mut bytes = Vec::new();
    target.file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes[10..64], [0; 54]);
    assert_eq!(bytes[84..], [0x5a; 940]);
}

#[test]
fn a_run_ends_at_the_arenas_end_and_before_large_payloads() {
    let arena = GEOMETRY.arena_bytes;
    let spans = [
        (arena - 128, 64),
        (arena - 64, 64),
        (arena, 64),
        (arena + 64, 100),
        (arena + 4096, 1 << 20),
        (arena + (2 << 20), 10),
    ];
    let spans = spans.map(|(position, bytes)| Some(Span { position, bytes }));
    let found = extents(LaneOffsets::new(GEOMETRY, 0), 0, arena, &spans);
    let runs = found.iter().flatten().map(|extent| extent.run_bytes).collect::<Vec<_>>();
    assert_eq!(runs, [128, 64, 164, 100, 1 << 20, 10]);
    let offsets = found.iter().flatten().map(|extent| extent.offset - GEOMETRY.arenas_offset());
    assert_eq!(offsets.take(3).collect::<Vec<_>>(), [arena - 128, arena - 64, 0]);
}

/// Every writer, with one thread and with several.
fn ways(memory: &Arc<TestMemory>) -> Vec<Box<dyn PayloadWriter + Send>> {
    let shared: SharedRegion = memory.clone();
    let ways = PayloadPath::ALL.into_iter().flat_map(|path| [(path, 1), (path, 3)]);
    ways.map(|(path, writers)| path.writer_with(writers, &shared).unwrap()).collect()
}

#[test]
fn discarded_bytes_never_reach_the_file() {
    let memory = Arc::new(memory(true));
    for mut writer in ways(&memory) {
        let target = Target::new();
        writer.put(&*memory, target.place(0), lay_out(0, &[64])[0]).unwrap();
        writer.discard();
        writer.flush(target.file.as_fd()).unwrap();
        assert_eq!(target.file.metadata().unwrap().len(), 0);
    }
}

#[test]
fn nothing_is_written_after_a_discard_by_any_thread() {
    let memory = Arc::new(memory(true));
    for mut writer in ways(&memory) {
        let target = Target::new();
        for (place, extent) in (0_u64..).zip(lay_out(0, &[1 << 20, 1 << 20, 1 << 20])) {
            writer.put(&*memory, target.place(place << 20), extent).unwrap();
        }
        writer.discard();
        target.file.set_len(0).unwrap();
        writer.flush(target.file.as_fd()).unwrap();
        drop(writer);
        assert_eq!(target.file.metadata().unwrap().len(), 0);
    }
}

#[test]
fn a_full_disk_is_an_error_of_the_file() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    for path in PayloadPath::ALL {
        for mapped in [true, false] {
            let memory = Arc::new(memory(mapped));
            let shared: SharedRegion = memory.clone();
            for (bytes, writers) in
                [(SMALL_PAYLOAD_ALIGN, 1), (1 << 20, 1), (SMALL_PAYLOAD_ALIGN, 3), (3 << 20, 3)]
            {
                let mut writer = path.writer_with(writers, &shared).unwrap();
                let place = PayloadPlace { number: 0, file: full.as_fd(), offset: 0 };
                let put = writer.put(&*memory, place, lay_out(0, &[bytes])[0]);
                let error = put.and_then(|()| writer.flush(full.as_fd())).unwrap_err();
                assert!(
                    matches!(&error, PayloadError::File(error) if error.kind() == io::ErrorKind::StorageFull),
                    "{error:?}"
                );
                // The error was reported, and its data is discarded.
                writer.discard();
                writer.flush(full.as_fd()).unwrap();
            }
        }
    }
}
