//! Damaged and forged manifests: each one causes an error that describes the problem, and never a panic, a
//! hang or unbounded memory.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::common::{foreign::*, *};
use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};
use tensortap_format::{Dump, verify};

/// A change to a dump of the second generation.
enum ManifestAttack {
    /// To its manifest.
    Value(fn(&mut Value)),
    /// To the text of its manifest.
    Text(fn(&str) -> String),
    /// To its files.
    Files(fn(&Path)),
}

use ManifestAttack::{Files, Text, Value as Change};

fn tensor(manifest: &mut Value) -> &mut Value {
    &mut manifest["tensors"][0]
}

fn deep() -> String {
    "[".repeat(100_000) + &"]".repeat(100_000)
}

fn bin(dir: &Path) -> PathBuf {
    dir.join("tensor_dump.bin")
}

#[rustfmt::skip]
fn corpus() -> Vec<(&'static str, ManifestAttack)> {
    vec![
        ("empty file", Text(|_| String::new())),
        ("not JSON", Text(|_| "BEGIN".into())),
        ("not an object", Text(|_| "[1, 2]".into())),
        ("bytes after the end", Text(|text| format!("{text} {{}}"))),
        ("cut within a record", Text(|text| text[..text.len() / 2].into())),
        ("cut before its end", Text(|text| text.trim_end().strip_suffix('}').unwrap().into())),
        ("NaN literal", Text(|text| text.replace("\"start_offset\": 5", "\"start_offset\": NaN"))),
        ("deep JSON in a record", Text(|text| text.replace("\"colour\": ", &format!("\"deep\": {}, \"colour\": ", deep())))),
        ("deep JSON in the head", Text(|text| text.replacen('{', &format!("{{\"deep\": {}, ", deep()), 1))),
        ("records in records", Text(|text| text.replacen("\"tensors\": [", &format!("\"tensors\": [{}, ", deep()), 1))),
        ("key of a record twice", Text(|text| text.replacen("\"numel\": 4", "\"numel\": 4, \"numel\": 5", 1))),
        ("unknown key of a record twice", Text(|text| text.replacen("\"colour\"", "\"colour\": 1, \"colour\"", 1))),
        ("key of the head twice", Text(|text| text.replacen("\"bin_file\"", "\"bin_file\": \"x\", \"bin_file\"", 1))),
        ("two lists of records", Text(|text| text.replacen("\"tensors\"", "\"tensors\": [], \"tensors\"", 1))),
        ("element of 2 MiB", Text(|text| text.replace("\"blue\"", &format!("\"{}\"", "b".repeat(2 << 20))))),
        ("head of 20 MiB", Text(|text| text.replace("\"new\"", &format!("\"{}\"", "n".repeat(20 << 20))))),
        ("invalid UTF-16 escape", Text(|text| text.replace("\"blue\"", "\"\\ud800\""))),
        ("records are an object", Change(|m| m["tensors"] = json!({"0": 1}))),
        ("record is a number", Change(|m| m["tensors"][0] = json!(3))),
        ("no list of records", Change(|m| m["tensors"] = Value::Null)),
        ("task id is an object", Change(|m| tensor(m)["task_id"] = json!({}))),
        ("task id is no number", Change(|m| tensor(m)["task_id"] = json!("0xzz"))),
        ("task id is too long", Change(|m| tensor(m)["task_id"] = json!("0x10000000000000000"))),
        ("no stage", Change(|m| { tensor(m).as_object_mut().unwrap().remove("stage"); })),
        ("unknown stage", Change(|m| tensor(m)["stage"] = json!("during\nlunch"))),
        ("unknown role", Change(|m| tensor(m)["role"] = json!("spectator"))),
        ("unknown kind", Change(|m| tensor(m)["kind"] = json!("matrix"))),
        ("unknown dtype", Change(|m| tensor(m)["dtype"] = json!("FLOAT31"))),
        ("dtype is a number", Change(|m| tensor(m)["dtype"] = json!(2))),
        ("argument out of range", Change(|m| tensor(m)["arg_index"] = json!(70_000))),
        ("negative argument", Change(|m| tensor(m)["arg_index"] = json!(-1))),
        ("negative shape", Change(|m| tensor(m)["shape"] = json!([-2, 2]))),
        ("fractional shape", Change(|m| tensor(m)["shape"] = json!([2.5, 2]))),
        ("shape is text", Change(|m| tensor(m)["shape"] = json!("2x2"))),
        ("9 dimensions", Change(|m| tensor(m)["shape"] = json!([1, 1, 1, 1, 1, 1, 1, 1, 4]))),
        ("product over 2^63", Change(|m| tensor(m)["shape"] = json!([1u64 << 32, 1u64 << 32]))),
        ("dimension over 2^53", Change(|m| {
            tensor(m)["shape"] = json!([0, u64::MAX]);
            tensor(m)["bin_size"] = json!(0);
        })),
        ("stride out of range", Change(|m| tensor(m)["strides"] = json!([i64::MIN, 1]))),
        ("strides of another rank", Change(|m| tensor(m)["strides"] = json!([1]))),
        ("start out of range", Change(|m| tensor(m)["start_offset"] = json!(u64::MAX))),
        ("raw shape out of range", Change(|m| {
            tensor(m).as_object_mut().unwrap().remove("strides");
            tensor(m)["raw_shape"] = json!([1u64 << 40, 1u64 << 63]);
        })),
        ("offsets of another rank", Change(|m| {
            tensor(m).as_object_mut().unwrap().remove("strides");
            tensor(m)["offsets"] = json!([0]);
        })),
        ("numel contradicts shape", Change(|m| tensor(m)["numel"] = json!(5))),
        ("ndims contradicts shape", Change(|m| tensor(m)["ndims"] = json!(3))),
        ("size contradicts shape", Change(|m| tensor(m)["bin_size"] = json!(15))),
        ("more stored than there is", Change(|m| { tensor(m)["bin_size"] = json!(17); tensor(m)["truncated"] = json!(true); })),
        ("offset near 2^64", Change(|m| tensor(m)["bin_offset"] = json!(u64::MAX - 3))),
        ("offset past the file", Change(|m| tensor(m)["bin_offset"] = json!(1u64 << 40))),
        ("overlapping payloads", Change(|m| tensor(m)["bin_offset"] = json!(12))),
        ("huge count", Change(|m| m["total_tensors"] = json!(1u64 << 60))),
        ("count is text", Change(|m| m["total_tensors"] = json!("many"))),
        ("four kernels", Change(|m| tensor(m)["func_id"] = json!([1, 2, 3, 4]))),
        ("kernel -2", Change(|m| tensor(m)["func_id"] = json!(-2))),
        ("scalar without value", Change(|m| { m["tensors"][1].as_object_mut().unwrap().remove("value"); })),
        ("scalar out of range", Change(|m| m["tensors"][1]["value"] = json!(-1))),
        ("scalar with a shape", Change(|m| m["tensors"][1]["shape"] = json!([1]))),
        ("value is a list", Change(|m| m["tensors"][1]["value"] = json!([1]))),
        ("bits contradict value", Change(|m| m["tensors"][1]["scalar_value"] = json!("0x1"))),
        ("big endian", Change(|m| m["bin_format"]["byte_order"] = json!("big_endian"))),
        ("later version", Change(|m| m["schema_version"] = json!(99))),
        ("version is text", Change(|m| m["schema_version"] = json!("new"))),
        ("ours without status", Change(|m| m["schema_version"] = json!(1))),
        ("payload file elsewhere", Change(|m| m["bin_file"] = json!("../secret"))),
        ("absolute payload file", Change(|m| m["bin_file"] = json!("/etc/passwd"))),
        ("payload file is a number", Change(|m| m["bin_file"] = json!(3))),
        ("payloads and no payload file", Change(|m| m["bin_file"] = Value::Null)),
        ("payload file is missing", Files(|dir| fs::remove_file(bin(dir)).unwrap())),
        ("payload file is cut", Files(|dir| fs::write(bin(dir), [0; 10]).unwrap())),
        ("payload file is a folder", Files(|dir| { fs::remove_file(bin(dir)).unwrap(); fs::create_dir(bin(dir)).unwrap(); })),
        ("payload file is a link", Files(|dir| {
            fs::rename(bin(dir), dir.join("elsewhere")).unwrap();
            symlink(dir.join("elsewhere"), bin(dir)).unwrap();
        })),
        ("payload file is a pipe", Files(|dir| { fs::remove_file(bin(dir)).unwrap(); pipe(&bin(dir)); })),
        ("manifest is a pipe", Files(|dir| { fs::remove_file(dir.join("tensor_dump.json")).unwrap(); pipe(&dir.join("tensor_dump.json")); })),
        ("manifest is a folder", Files(|dir| {
            fs::remove_file(dir.join("tensor_dump.json")).unwrap();
            fs::create_dir(dir.join("tensor_dump.json")).unwrap();
        })),
        ("dependencies are a link", Files(|dir| symlink("/etc/hostname", dir.join("deps.json")).unwrap())),
        ("dependencies are deep", Files(|dir| fs::write(dir.join("deps.json"), format!("{{\"tasks\": {}}}", deep())).unwrap())),
        ("dependencies of wrong type", Files(|dir| fs::write(dir.join("deps.json"), "{\"edges\": [{\"pred\": -1}]}").unwrap())),
        ("names of wrong type", Files(|dir| fs::write(dir.join("name_map.json"), "[3]").unwrap())),
    ]
}

fn pipe(path: &Path) {
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

/// The first error or problem of a dump.
fn complaint(path: &Path) -> String {
    let dump = match Dump::open(path) {
        Ok(dump) => dump,
        Err(error) => return format!("open: {error}"),
    };
    for record in dump.records() {
        let record = record.expect("accepted records can be read");
        if record.bin_size > 0
            && let Err(error) = dump.payload(&record)
        {
            return format!("payload: {error}");
        }
    }
    match verify(&dump) {
        Err(error) => format!("verify: {error}"),
        Ok(verdict) => {
            verdict.problems.first().map_or("nothing".into(), |problem| format!("verify: {problem}"))
        }
    }
}

#[test]
fn each_hostile_manifest_is_an_error_in_plain_words() {
    let mut complaints = String::new();
    for (name, hostile) in corpus() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("d");
        fs::create_dir(&dir).unwrap();
        let mut manifest = second(&dir);
        let path = dir.join("tensor_dump.json");
        match hostile {
            ManifestAttack::Value(change) => {
                change(&mut manifest);
                write_json(&path, &manifest);
            }
            ManifestAttack::Text(change) => {
                // One line per record, as the writer formats it.
                let text = serde_json::to_string(&manifest).unwrap().replace("\":", "\": ");
                let changed = change(&text);
                assert_ne!(changed, text, "{name}: the text is unchanged");
                fs::write(&path, changed).unwrap();
            }
            ManifestAttack::Files(change) => change(&dir),
        }
        let said = complaint(&dir).replace(root.path().to_str().unwrap(), "");
        let _ = writeln!(complaints, "{name}: {said}");
    }
    insta::assert_snapshot!(complaints);
}

/// Reads everything. The results do not matter.
fn read_all(dir: &Path) {
    let Ok(dump) = Dump::open(dir) else { return };
    for record in dump.records().flatten() {
        let _ = dump.payload(&record);
        let _ = (serde_json::to_string(&record), record.to_string(), dump.unknown(&record));
    }
    let _ = (dump.tasks(), dump.edges(), dump.uncaptured(), verify(&dump));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_change_to_any_manifest_is_handled(
        which in 0..4,
        changes in prop::collection::vec((any::<Index>(), prop::sample::select(b"0129-.eE\"[]{},:ntf \\\xff".to_vec())), 1..6),
        cut in prop::option::of(any::<Index>()),
    ) {
        let dir = tempfile::tempdir().unwrap();
        match which {
            0 => { first(dir.path()); }
            1 => { second(dir.path()); }
            2 => { third(dir.path()); write_json(&dir.path().join("deps.json"), &deps()); }
            _ => {
                finished(dir.path(), 1, 20);
                fs::remove_file(dir.path().join("tensor_dump.idx")).unwrap();
            }
        }
        let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        for path in files.filter(|path| path.extension().is_some_and(|e| e == "json")) {
            let mut text = fs::read(&path).unwrap();
            for (place, byte) in &changes {
                let place = place.index(text.len());
                text[place] = *byte;
            }
            if let Some(cut) = cut {
                text.truncate(cut.index(text.len()));
            }
            fs::write(&path, text).unwrap();
        }
        read_all(dir.path());
    }

    #[test]
    fn any_geometry_of_the_first_generation_is_right_or_rejected(
        dims in prop::collection::vec((0u64..5, 0u64..5, 0u64..5), 0..5),
    ) {
        // Brute force: numbers the elements of the view by their position in the buffer.
        let shape: Vec<u64> = dims.iter().map(|d| d.0).collect();
        let raw_shape: Vec<u64> = dims.iter().map(|d| d.0 + d.1 + d.2).collect();
        let offsets: Vec<u64> = dims.iter().map(|d| d.1).collect();
        let numel: u64 = shape.iter().product();
        let dir = tempfile::tempdir().unwrap();
        let mut manifest = first(dir.path());
        manifest["tensors"][0]["shape"] = json!(shape);
        manifest["tensors"][0]["raw_shape"] = json!(raw_shape);
        manifest["tensors"][0]["offsets"] = json!(offsets);
        manifest["tensors"][0]["numel"] = json!(numel);
        manifest["tensors"][0]["bin_size"] = json!(0);
        write_json(&dir.path().join("tensor_dump_20260415_101500.json"), &manifest);
        let record = Dump::open(dir.path()).unwrap().record(0).unwrap();
        for flat in 0..numel {
            let (mut rest, mut at, mut expected) = (flat, record.start_offset, 0);
            let mut coordinates = vec![0; shape.len()];
            for (place, size) in shape.iter().enumerate().rev() {
                coordinates[place] = rest % size;
                rest /= size;
            }
            for (place, coordinate) in coordinates.iter().enumerate() {
                at += coordinate * u64::try_from(record.strides()[place]).unwrap();
                expected = expected * raw_shape[place] + coordinate + offsets[place];
            }
            prop_assert_eq!(at, expected);
        }
    }
}
