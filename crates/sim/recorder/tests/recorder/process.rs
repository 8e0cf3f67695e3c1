//! A process that records itself: its region uses offsets, and its tensors may be anywhere.

use tensortap_abi::*;
use tensortap_recorder::*;
use tensortap_values::content_hash;

use crate::host::FakeHost;
use crate::link::ScriptedLink;
use crate::rig::{Rig, SMALL, input};

const STRING: u32 = 7;

fn options(rig: &Rig) -> SetupOptions {
    SetupOptions { base: 0, of_process: true, ..rig.options(DumpLevel::Full, DumpPolicy::Block) }
}

fn open(rig: &Rig) -> Result<Region<'_>, RegionError> {
    rig.write_setup(&options(rig));
    let start = core::ptr::with_exposed_provenance_mut(usize::try_from(rig.addr(0)).unwrap());
    // SAFETY: the memory lives as long as the rig, one region is open at a time, and tests pass valid
    // buffers.
    Region::open(unsafe { Memory::of_process(start, rig.range().bytes) }, 0)
}

fn desc(bytes: &[u8]) -> TensorDesc {
    let mut desc = TensorDesc {
        buffer_addr: bytes.as_ptr().expose_provenance() as u64,
        buffer_bytes: bytes.len() as u64,
        dtype: DType::UInt8.tag(),
        ndims: 1,
        ..TensorDesc::default()
    };
    (desc.shape[0], desc.strides[0]) = (bytes.len() as u64, 1);
    desc
}

#[test]
fn tensors_outside_the_regions_memory_are_captured_with_their_details() {
    let rig = Rig::new(SMALL);
    let region = open(&rig).unwrap();
    let mut recorder = region.lease(ScriptedLink::never()).unwrap();
    // One is copied at once, one takes the general path, and one is split into pieces.
    let contents = [vec![3_u8; 60], (0..=255).cycle().take(5000).collect(), vec![9; 7000]];
    let details = TensorDetails {
        name: STRING,
        space: MemorySpace::Host,
        guessed: RECORD_ROLE_UNKNOWN | RECORD_DTYPE_UNKNOWN | RECORD_HAS_STATS,
        address: 0x00de_71ce_0000,
    };
    let mut host = FakeHost::new(&rig, 0);
    for content in &contents {
        let desc = desc(content);
        assert_eq!(recorder.tensor(&TensorCapture { details, ..input(1, &desc) }), Outcome::Recorded);
        host.drain();
    }
    assert_eq!(host.taken.len(), contents.len());
    for (taken, content) in host.taken.iter().zip(&contents) {
        let tensor = taken.tensor();
        assert_eq!(taken.payload.as_ref(), Some(content));
        assert_eq!(tensor.hash, content_hash(content).to_le_bytes());
        assert_eq!((tensor.address, tensor.name), (details.address, STRING));
        assert_eq!(tensor.space, MemorySpace::Host as u8);
        let guesses = RECORD_ROLE_UNKNOWN | RECORD_DTYPE_UNKNOWN;
        assert_eq!(tensor.flags & !(RECORD_HAS_PAYLOAD | RECORD_HAS_HASH), guesses, "no other flag passes");
    }
}

#[test]
fn a_buffer_at_no_address_or_beyond_the_last_is_recorded_as_damaged() {
    let rig = Rig::new(SMALL);
    let region = open(&rig).unwrap();
    let mut recorder = region.lease(ScriptedLink::never()).unwrap();
    let content = [1_u8; 64];
    let beyond = TensorDesc { buffer_addr: u64::MAX - 8, ..desc(&content) };
    let nowhere = TensorDesc { buffer_addr: 0, ..desc(&content) };
    let outside = TensorDesc { start_offset: 1, ..desc(&content) };
    for desc in [beyond, nowhere, outside] {
        assert_eq!(recorder.tensor(&input(1, &desc)), Outcome::Uncaptured);
    }
    let mut host = FakeHost::new(&rig, 0);
    host.drain();
    for taken in &host.taken {
        let uncaptured: &UncapturedRecord = taken.record.get().expect("the record of an uncaptured argument");
        assert_eq!(uncaptured.reason, UncapturedReason::BadDescriptor as u8);
    }
    assert_eq!(host.taken.len(), 3);
}

#[test]
fn a_region_is_opened_only_by_the_kind_of_producer_it_was_made_for() {
    let rig = Rig::new(SMALL);
    assert!(open(&rig).is_ok());
    assert!(matches!(rig.reopen(rig.addr(0)), Err(RegionError::BadField { field: "flags", value: 1 })));
    rig.write_setup(&rig.options(DumpLevel::Full, DumpPolicy::Block));
    let start = core::ptr::with_exposed_provenance_mut(usize::try_from(rig.addr(0)).unwrap());
    // SAFETY: as above.
    let refused = Region::open(unsafe { Memory::of_process(start, rig.range().bytes) }, 0);
    assert!(matches!(refused, Err(RegionError::BadField { field: "flags", value: 0 })));
}

#[test]
fn after_a_process_discards_no_call_waits_and_every_record_is_counted() {
    let rig = Rig::new(DumpGeometry { lanes: 2, ..SMALL });
    let region = open(&rig).unwrap();
    let mut recorders = [0, 1].map(|lane| region.recorder(lane, ScriptedLink::never()).unwrap());
    region.discard();
    let content = [5_u8; 4000];
    let desc = desc(&content);
    for recorder in &mut recorders {
        for _ in 0..20 {
            assert_eq!(recorder.tensor(&input(1, &desc)), Outcome::Dropped(DropReason::NoHost));
        }
        assert_eq!(recorder.counters().dropped_no_host, 20);
        assert_eq!(recorder.counters().dropped_bytes, 20 * 4000);
        assert!(!recorder.settle(), "nothing is outstanding, but not everything is stored");
    }
}
