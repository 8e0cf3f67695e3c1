//! Real dumps of `simpler`, recorded with its own simulator. Skipped with a notice if they are not
//! available.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::common::foreign::peer_dumps;
use serde_json::Value;
use tensortap_format::{Dump, DumpFormat, PayloadState, Record, ScalarValue, verify};

/// Folder, generation, and the numbers of records, scalars, tasks and payload bytes according to their
/// README.
const DUMPS: [(&str, DumpFormat, u64, u64, usize, u64); 11] = [
    ("gen1-vector", DumpFormat::SimplerFirst, 13, 0, 5, 851_968),
    ("gen1-paged", DumpFormat::SimplerFirst, 63, 0, 12, 32_832),
    ("gen2-vector", DumpFormat::SimplerSecond, 18, 5, 5, 851_968),
    ("gen2-host-graph", DumpFormat::SimplerSecond, 5, 0, 2, 327_680),
    ("gen3-vector-full", DumpFormat::SimplerThird, 18, 5, 5, 851_968),
    ("gen3-vector-meta", DumpFormat::SimplerThird, 18, 5, 5, 0),
    ("gen3-marked", DumpFormat::SimplerThird, 11, 4, 4, 458_752),
    ("gen3-host-graph-hybrid", DumpFormat::SimplerThird, 6, 1, 2, 131_072),
    ("gen3-paged-full", DumpFormat::SimplerThird, 72, 9, 12, 32_832),
    ("blame-vector-good", DumpFormat::SimplerThird, 18, 5, 5, 851_968),
    ("blame-vector-fault_mul", DumpFormat::SimplerThird, 18, 5, 5, 851_968),
];

/// The manifest of a dump, found without the reader.
fn manifest_path(dir: &Path) -> PathBuf {
    let inner = dir.join("args_dump");
    let dir = if inner.is_dir() { inner } else { dir.to_owned() };
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.to_string_lossy().ends_with(".json")).unwrap()
}

fn key<'v>(manifest: &'v Value, tensors: &str, args: &str) -> &'v Value {
    manifest.get(tensors).unwrap_or_else(|| &manifest[args])
}

#[test]
fn every_real_dump_opens_with_the_counts_of_its_manifest() {
    let Some(peers) = peer_dumps() else { return };
    for (name, format, records, scalars, tasks, bytes) in DUMPS {
        let dump = Dump::open(&peers.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let totals = dump.totals();
        assert_eq!((dump.format(), dump.len(), totals.scalars), (format, records, scalars), "{name}");
        assert_eq!((dump.tasks().unwrap().len(), totals.stored_bytes), (tasks, bytes), "{name}");
        let manifest: Value =
            serde_json::from_slice(&fs::read(manifest_path(&peers.join(name))).unwrap()).unwrap();
        for (tensors, args, counted) in [
            ("total_tensors", "total_args", dump.len()),
            ("before_dispatch", "", totals.before_dispatch),
            ("after_completion", "", totals.after_completion),
            ("input_tensors", "input_args", totals.input_tensors),
            ("output_tensors", "output_args", totals.output_tensors),
            ("inout_tensors", "inout_args", totals.inout_tensors),
        ] {
            assert_eq!(key(&manifest, tensors, args), counted, "{name}: {tensors}");
        }
        let verdict = verify(&dump).unwrap();
        assert!(verdict.is_ok(), "{name}: {:?}", verdict.problems);
        assert_eq!((verdict.records, verdict.unverifiable), (records, records), "{name}");
    }
}

#[test]
fn records_and_bytes_of_real_dumps_equal_those_of_a_plain_json_parser() {
    let Some(peers) = peer_dumps() else { return };
    for (name, ..) in DUMPS {
        let path = manifest_path(&peers.join(name));
        let dump = Dump::open(&path).unwrap();
        let manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let payloads =
            manifest["bin_file"].as_str().map(|bin| fs::read(path.parent().unwrap().join(bin)).unwrap());
        let listed = key(&manifest, "tensors", "args").as_array().unwrap();
        for (record, said) in dump.records().map(Result::unwrap).zip(listed) {
            let what = format!("{name} {record}");
            check_fields(&record, said, &what);
            let number = |key: &str| usize::try_from(said[key].as_u64().unwrap()).unwrap();
            let (offset, size) = (number("bin_offset"), number("bin_size"));
            if size > 0 {
                let expected = &payloads.as_ref().unwrap()[offset..offset + size];
                assert_eq!(dump.payload(&record).unwrap(), expected, "{what}");
            } else {
                assert_eq!(record.payload, PayloadState::None, "{what}");
            }
        }
    }
}

fn check_fields(record: &Record, said: &Value, what: &str) {
    let ours = serde_json::to_value(record).unwrap();
    let task = u64::from_str_radix(said["task_id"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    assert_eq!(record.task_id, task, "{what}");
    for key in ["role", "stage", "arg_index", "shape", "numel", "bin_offset", "bin_size", "is_contiguous"] {
        assert_eq!(ours[key], said[key], "{what}: {key}");
    }
    for key in ["kind", "strides", "start_offset"] {
        assert!(said.get(key).is_none_or(|value| *value == ours[key]), "{what}: {key}");
    }
    assert_eq!(
        said["dtype"].as_str().unwrap().to_ascii_lowercase(),
        ours["dtype"].as_str().unwrap(),
        "{what}"
    );
}

#[test]
fn a_real_view_of_the_first_generation_has_the_strides_of_its_buffer() {
    let Some(peers) = peer_dumps() else { return };
    let dump = Dump::open(&peers.join("gen1-paged")).unwrap();
    // One column of a 16×16 buffer: the only view with gaps in that dump.
    let strided: Vec<_> =
        dump.records().map(Result::unwrap).filter(|record| !record.is_contiguous()).collect();
    let [column] = strided[..] else { panic!("one record: {strided:?}") };
    assert_eq!((column.index, column.shape(), column.strides()), (45, &[16, 1][..], &[16, 1][..]));
    assert_eq!((column.content_bytes(), dump.payload(&column).unwrap().len()), (64, 64));
}

#[test]
fn values_of_the_vector_example_equal_its_formula() {
    let Some(peers) = peer_dumps() else { return };
    let constants = |name: &str| {
        let dump = Dump::open(&peers.join(name)).unwrap();
        let outputs = dump.records().map(Result::unwrap).filter(|r| r.stage.name() == "after_completion");
        let mut values: Vec<(u64, f32)> = outputs
            .map(|record| {
                let bytes = dump.payload(&record).unwrap();
                assert!(
                    bytes.chunks(4).all(|element| element == &bytes[..4]),
                    "{name}: {record} is constant"
                );
                (record.task_id, f32::from_le_bytes(bytes[..4].try_into().unwrap()))
            })
            .collect();
        values.sort_by_key(|(task, _)| *task);
        values.into_iter().map(|(_, value)| value).collect::<Vec<_>>()
    };
    // c = a+b, d = c+1, e = c+2, g = d*e, f = g+c, with a = 2 and b = 3.
    for name in ["gen1-vector", "gen2-vector", "gen3-vector-full", "blame-vector-good"] {
        assert_eq!(constants(name), [5.0, 6.0, 7.0, 42.0, 47.0], "{name}");
    }
    assert_eq!(constants("blame-vector-fault_mul"), [5.0, 6.0, 7.0, 13.0, 18.0]);
}

#[test]
fn real_scalars_have_their_type_or_their_bits() {
    let Some(peers) = peer_dumps() else { return };
    let scalars = |name: &str| {
        let dump = Dump::open(&peers.join(name)).unwrap();
        dump.records().filter_map(|record| record.unwrap().value()).collect::<Vec<_>>()
    };
    let (float, uint, raw) = (ScalarValue::Float, ScalarValue::UInt, ScalarValue::UInt64);
    let expected = [float(1.0), uint(3), float(2.0), uint(3), uint(3)];
    assert_eq!(scalars("gen3-vector-full"), expected);
    let bits = [raw(0x3f80_0000), raw(3), raw(0x4000_0000), raw(3), raw(3)];
    assert_eq!(scalars("gen2-vector"), bits);
}

#[test]
fn real_dependencies_are_read() {
    let Some(peers) = peer_dumps() else { return };
    let dump = Dump::open(&peers.join("blame-vector-good")).unwrap();
    let edges: Vec<(u64, u64, u16, &str)> =
        dump.edges().unwrap().iter().map(|e| (e.from, e.to, e.arg_index, e.why)).collect();
    let task = |local: u64| (1 << 32) + local;
    let raw = "read_after_write";
    assert_eq!(
        edges,
        [
            (0, task(0), 0, raw),
            (0, task(1), 0, raw),
            (task(0), task(2), 0, raw),
            (task(1), task(2), 1, raw),
            (task(2), task(3), 0, raw),
            (0, task(3), 1, raw)
        ]
    );
    let func_ids: Vec<[u32; 3]> = dump.tasks().unwrap().iter().map(|task| task.func_id).collect();
    let none = tensortap_abi::NO_KERNEL;
    assert_eq!(func_ids, [0, 1, 1, 2, 0].map(|kernel| [none, kernel, none]));
}
