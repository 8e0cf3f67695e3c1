//! The expected content of dumps, from the sequential executor, and their actual content, read without the
//! project's own reader.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tensortap_scene::{Params, SequentialGraph};

use crate::tally::{Failure, Violation};

/// A captured argument: task, whether it is from before the task, index.
pub type Key = (u64, bool, u64);

/// Content of an argument.
#[derive(PartialEq, Eq)]
enum Content {
    Tensor(Vec<u8>),
    Scalar(u64),
}

/// Every argument of every task of a run.
pub struct Truth {
    contents: BTreeMap<Key, Content>,
}

/// A scene with its parameters.
pub type Load = (&'static str, Vec<(&'static str, String)>);

/// Number of rings of `tensormap_and_ringbuffer`; the depth of the scope selects one.
const RINGS: usize = 4;

/// Expected contents by load and runtime, each computed once.
#[derive(Default)]
pub struct Truths(Mutex<HashMap<(Load, &'static str), Arc<Truth>>>);

impl Truths {
    /// The expected content of a full dump of the load.
    pub fn of(&self, load: &Load, runtime: &'static str) -> Arc<Truth> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry((load.clone(), runtime)).or_insert_with(|| Arc::new(Truth::compute(load, runtime))).clone()
    }
}

impl Truth {
    fn compute((scene, params): &Load, runtime: &str) -> Truth {
        let registry = tensortap_scenes::builtin();
        let scene = registry.find(scene).expect("a built-in scene");
        let pairs = params.iter().map(|(key, value)| (*key, value.as_str()));
        let params = Params::resolve(scene.name(), scene.params(), pairs).expect("valid parameters");
        let mut graph =
            SequentialGraph::record(scene, &params, &scene.host_args(&params)).expect("it builds");
        let (mut next, mut contents) = ([0_u64; RINGS], BTreeMap::new());
        graph
            .run_observed(|step| {
                let task = if runtime == "tensormap_and_ringbuffer" {
                    let ring = step.scope.len().min(RINGS - 1);
                    next[ring] += 1;
                    (ring as u64) << 32 | (next[ring] - 1)
                } else {
                    step.index as u64
                };
                for (index, role) in step.roles.iter().enumerate() {
                    for (before, tensor) in
                        [(true, &step.before.tensors[index]), (false, &step.after.tensors[index])]
                    {
                        if if before { role.reads() } else { role.writes() } {
                            contents
                                .insert((task, before, index as u64), Content::Tensor(tensor.bytes.clone()));
                        }
                    }
                }
                for (index, scalar) in step.before.scalars.iter().enumerate() {
                    let key = (task, true, (step.roles.len() + index) as u64);
                    contents.insert(key, Content::Scalar(scalar.bits));
                }
            })
            .expect("it runs");
        Truth { contents }
    }

    /// Number of records of a full dump.
    pub fn len(&self) -> usize {
        self.contents.len()
    }

    /// Checks that every record of the dump is right.
    pub fn holds_each(&self, kept: &DumpContents) -> Result<(), Failure> {
        for (key, content) in &kept.contents {
            let wrong = |what: &str| Failure::new(Violation::WrongRecord, format!("record {key:x?} {what}"));
            match (content, self.contents.get(key)) {
                (_, None) => return Err(wrong("belongs to no task of the scene")),
                (None, _) => {}
                (Some(content), Some(expected)) if content == expected => {}
                _ => return Err(wrong("differs from the task's data")),
            }
        }
        Ok(())
    }

    /// Checks that every record of the dump is right, and that no record is missing before a later one.
    /// Returns their number.
    pub fn holds(&self, kept: &DumpContents) -> Result<usize, Failure> {
        self.holds_each(kept)?;
        for key in kept.contents.keys() {
            let (task, before, _) = *key;
            let inputs = self.contents.range((task, true, 0)..).take_while(|(k, _)| k.0 == task && k.1);
            for (input, _) in inputs.filter(|_| !before) {
                if !kept.contents.contains_key(input) {
                    let what = format!("record {input:x?} is missing, but a later one exists: {key:x?}");
                    return Err(Failure::new(Violation::LostRecord, what));
                }
            }
        }
        Ok(kept.contents.len())
    }
}

/// The content of a manifest and its payload file.
pub struct DumpContents {
    /// `None` if the record states that it has no content or only a part of it.
    contents: BTreeMap<Key, Option<Content>>,
}

impl DumpContents {
    /// Reads the JSON and the referenced bytes.
    pub fn read(dump: &Path) -> Result<DumpContents, Failure> {
        let broken = |what: String| Failure::new(Violation::Promise, what);
        let text =
            fs::read(dump.join("tensor_dump.json")).map_err(|e| broken(format!("no manifest: {e}")))?;
        let manifest: Value =
            serde_json::from_slice(&text).map_err(|e| broken(format!("the manifest: {e}")))?;
        // The number of the payload file is in the bits from 44 on, if there are several.
        let is_segmented = number(&manifest["schema_version"]) >= 3;
        let payload = |position: u64, bytes: &mut [u8]| {
            let (file, offset) =
                if is_segmented { (position >> 44, position % (1 << 44)) } else { (0, position) };
            let name = if file == 0 { "tensor_dump.bin".into() } else { format!("tensor_dump.{file}.bin") };
            File::open(dump.join(name)).and_then(|file| file.read_exact_at(bytes, offset))
        };
        let mut contents = BTreeMap::new();
        for record in manifest["tensors"].as_array().into_iter().flatten() {
            let key =
                (hex(&record["task_id"]), record["stage"] == "before_dispatch", number(&record["arg_index"]));
            contents.insert(key, content_of(record, &payload)?);
        }
        Ok(DumpContents { contents })
    }

    /// Number of records of the manifest.
    pub fn len(&self) -> usize {
        self.contents.len()
    }
}

fn content_of(
    record: &Value,
    payload: &dyn Fn(u64, &mut [u8]) -> io::Result<()>,
) -> Result<Option<Content>, Failure> {
    if record["in_flight"] == true {
        return Ok(None);
    }
    if record["kind"] == "scalar" {
        return Ok(Some(Content::Scalar(hex(&record["scalar_value"]))));
    }
    if record["payload"] != "stored" {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(number(&record["bin_size"])).unwrap_or_default()];
    match payload(number(&record["bin_offset"]), &mut bytes) {
        Ok(()) => Ok(Some(Content::Tensor(bytes))),
        Err(_) => Err(Failure::new(
            Violation::LostRecord,
            format!("the payload of {} is missing", record["task_id"]),
        )),
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(u64::MAX)
}

fn hex(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x")).unwrap_or("");
    u64::from_str_radix(digits, 16).unwrap_or(u64::MAX)
}

/// For each lane, the sequence numbers from 0 that complete frames of an index cover without a gap.
pub fn accounted(index: &[u8]) -> BTreeMap<u32, u64> {
    let word = |at: usize| index.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let long = |at: usize| Some(u64::from(word(at)?) | u64::from(word(at + 4)?) << 32);
    let mut lanes = BTreeMap::new();
    let (Some(run), Some(mut at)) = (long(16), word(12).map(|bytes| bytes as usize)) else { return lanes };
    while let (Some(b"TFRM"), Some(bytes), Some(lane)) = (index.get(at..at + 4), word(at + 4), word(at + 8)) {
        let end = at + 32 + bytes as usize;
        let (Some(first), Some(past), Some(sum)) = (long(at + 16), long(at + 24), long(end)) else { break };
        if xxhash_rust::xxh3::xxh3_64_with_seed(&index[at..end], run) != sum {
            break;
        }
        let reached = lanes.entry(lane).or_insert(0);
        if first <= *reached {
            *reached = (*reached).max(past);
        }
        at = end + 8;
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth() -> Truth {
        Truth::compute(&("stream", vec![("tasks", "4".into()), ("bytes", "8".into())]), "host_build_graph")
    }

    /// A dump with the expected content.
    fn kept(truth: &Truth) -> DumpContents {
        let copy = |content: &Content| match content {
            Content::Tensor(bytes) => Content::Tensor(bytes.clone()),
            Content::Scalar(bits) => Content::Scalar(*bits),
        };
        DumpContents {
            contents: truth.contents.iter().map(|(key, content)| (*key, Some(copy(content)))).collect(),
        }
    }

    #[test]
    fn a_changed_byte_and_an_unknown_task_are_wrong_records_and_a_missing_input_is_a_lost_one() {
        let truth = truth();
        let broken = |kept: &DumpContents| truth.holds(kept).map_err(|failure| failure.broken);
        assert_eq!(broken(&kept(&truth)), Ok(12), "two tensors and a scalar of each task");

        let mut changed = kept(&truth);
        let Some(Some(Content::Tensor(bytes))) = changed.contents.get_mut(&(2, false, 1)) else {
            panic!("task 2 has an output")
        };
        bytes[7] ^= 1;
        assert_eq!(broken(&changed), Err(Violation::WrongRecord));

        let mut foreign = kept(&truth);
        foreign.contents.insert((9, true, 0), None);
        assert_eq!(broken(&foreign), Err(Violation::WrongRecord));

        let mut torn = kept(&truth);
        torn.contents.remove(&(3, true, 2));
        assert_eq!(broken(&torn), Err(Violation::LostRecord));
    }

    #[test]
    fn an_index_accounts_for_complete_frames_up_to_the_first_gap() {
        let frame = |lane: u32, first: u64, past: u64| {
            let mut bytes =
                [&b"TFRM"[..], &8_u32.to_le_bytes(), &lane.to_le_bytes(), &1_u32.to_le_bytes()].concat();
            bytes.extend([first, past, 0].map(u64::to_le_bytes).concat());
            bytes.extend(xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, 5).to_le_bytes());
            bytes
        };
        let header =
            [&b"TAPINDEX"[..], &2_u32.to_le_bytes(), &24_u32.to_le_bytes(), &5_u64.to_le_bytes()].concat();
        let whole = [header, frame(0, 0, 3), frame(1, 0, 2), frame(0, 3, 7), frame(1, 4, 9)].concat();
        assert_eq!(accounted(&whole), BTreeMap::from([(0, 7), (1, 2)]));
        let mut damaged = whole.clone();
        damaged[24 + 2 * 48 + 20] ^= 1;
        assert_eq!(accounted(&damaged), BTreeMap::from([(0, 3), (1, 2)]));
        assert_eq!(accounted(&whole[..whole.len() - 1]), BTreeMap::from([(0, 7), (1, 2)]));
    }
}
