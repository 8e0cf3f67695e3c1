//! The parts of an argument that each level records.

use tensortap_abi::*;
use tensortap_recorder::*;
use tensortap_values::content_hash;
use zerocopy::FromBytes;

use crate::host::{DrainedRecord, FakeHost};
use crate::link::ScriptedLink;
use crate::rig::{Rig, SMALL, input};

/// The records of one tensor and one scalar, each unmarked and marked.
fn taken_at(
    level: DumpLevel,
    desc: impl Fn(&Rig) -> TensorDesc,
) -> (Vec<Outcome>, Vec<DrainedRecord>, Vec<u8>) {
    let rig = Rig::new(SMALL);
    let region = rig.open(&rig.options(level, DumpPolicy::Block));
    let mut recorder = region.recorder(0, ScriptedLink::never()).unwrap();
    let desc = desc(&rig);
    let mut outcomes = Vec::new();
    for marked in [false, true] {
        outcomes.push(recorder.tensor(&TensorCapture { marked, ..input(1, &desc) }));
        outcomes.push(recorder.scalar(&ScalarCapture {
            task_id: 1,
            stage: DumpStage::BeforeDispatch,
            arg_index: 1,
            dtype: DType::Bool,
            bits: 1,
            is_local: false,
            marked,
            name: 0,
        }));
    }
    let counters = recorder.counters();
    let lost = counters.filtered_records + counters.dropped_no_space + counters.dropped_no_buffer;
    assert_eq!(lost, 0, "arguments that the level does not want count nowhere");
    let mut host = FakeHost::new(&rig, 0);
    host.drain();
    (outcomes, host.taken, rig.content(&desc))
}

fn floats(rig: &Rig) -> TensorDesc {
    rig.view(DType::Int8, &[30, 20], &[1, 30], 0, 600)
}

use Outcome::{NotWanted, Recorded};

#[test]
fn off_records_no_argument() {
    let (outcomes, taken, _) = taken_at(DumpLevel::Off, floats);
    assert_eq!((outcomes, taken.len()), (vec![NotWanted; 4], 0));
}

#[test]
fn marked_records_marked_arguments_in_full() {
    let (outcomes, taken, content) = taken_at(DumpLevel::Marked, floats);
    assert_eq!(outcomes, [NotWanted, NotWanted, Recorded, Recorded]);
    assert_eq!(taken[0].payload, Some(content));
    assert_eq!(taken[1].record.kind, RecordKind::Scalar as u8);
}

#[test]
fn meta_records_everything_and_payloads_of_marked_arguments() {
    let (outcomes, taken, content) = taken_at(DumpLevel::Meta, floats);
    assert_eq!(outcomes, [Recorded; 4]);
    assert_eq!((taken[0].record.flags, taken[0].content_bytes()), (0, 600));
    assert_eq!((&taken[0].payload, &taken[2].payload), (&None, &Some(content)));
    assert_eq!(
        [taken[0].tensor().shape, taken[0].tensor().hash.map(u64::from)[..8].try_into().unwrap()],
        [[30, 20, 0, 0, 0, 0, 0, 0], [0; 8]]
    );
}

#[test]
fn hash_records_hash_and_statistics_of_the_logical_content() {
    let (outcomes, taken, content) = taken_at(DumpLevel::Hash, floats);
    assert_eq!(outcomes, [Recorded; 4]);
    let DrainedRecord { payload, .. } = &taken[0];
    let record = taken[0].tensor();
    assert_eq!((record.flags, taken[0].content_bytes()), (RECORD_HAS_STATS | RECORD_HAS_HASH, 600));
    assert_eq!(record.hash, content_hash(&content).to_le_bytes());
    let stats = TensorStats::read_from_bytes(payload.as_deref().unwrap()).unwrap();
    let values: Vec<f64> = content.iter().map(|byte| byte.cast_signed().into()).collect();
    let mean = values.iter().sum::<f64>() / 600.0;
    let std = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 600.0).sqrt();
    assert_eq!(stats.min, values.iter().copied().fold(f64::INFINITY, f64::min));
    assert_eq!(stats.max, values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    assert!((stats.mean - mean).abs() < 1e-12 && (stats.std - std).abs() < 1e-12, "{stats:?}");
    assert_eq!((stats.numel, stats.nan, stats.inf), (600, 0, 0));
    assert_eq!(stats.zeros, content.iter().filter(|&&byte| byte == 0).count() as u64);
}

#[test]
fn hash_takes_content_larger_than_the_arena() {
    let (outcomes, taken, content) = taken_at(DumpLevel::Hash, |rig| rig.tensor(50_000));
    assert_eq!(outcomes[0], Recorded);
    assert_eq!(taken[0].tensor().hash, content_hash(&content).to_le_bytes());
    assert_eq!(taken[0].content_bytes(), 50_000);
}

#[test]
fn hash_of_4_bit_elements_excludes_the_nibble_after_the_last() {
    let odd = |rig: &Rig| rig.view(DType::Int4, &[9001], &[1], 1, 4501);
    let (_, taken, content) = taken_at(DumpLevel::Hash, odd);
    let stats = TensorStats::read_from_bytes(taken[0].payload.as_deref().unwrap()).unwrap();
    let zeros =
        content.iter().flat_map(|byte| [byte & 0xf, byte >> 4]).take(9001).filter(|&n| n == 0).count();
    assert_eq!((stats.numel, stats.zeros), (9001, zeros as u64));
    assert_eq!(taken[0].tensor().hash, content_hash(&content).to_le_bytes());
}
