use std::fs;
use std::path::Path;

use serde_json::Value;
use tensortap::interchange::{NamedArrays, read_txt};

use crate::assert_snapshot;
use crate::dumps::{Folder, vector_example};
use crate::json::{document, keys};

/// The bytes of a record, read only from the manifest and the payload file; the raw bits of a scalar.
fn content(folder: &Folder, dump: &str, record: &Value) -> Vec<u8> {
    if let Some(bits) = record["scalar_value"].as_str() {
        let bits = u64::from_str_radix(bits.strip_prefix("0x").unwrap(), 16).unwrap();
        let width = if record["dtype"] == "float64" || record["dtype"] == "int64" { 8 } else { 4 };
        return bits.to_le_bytes()[..width].to_vec();
    }
    let at = |key: &str| usize::try_from(record[key].as_u64().unwrap()).unwrap();
    fs::read(folder.path(dump).join("tensor_dump.bin")).unwrap()[at("bin_offset")..][..at("bin_size")]
        .to_vec()
}

fn array_name(record: &Value) -> String {
    let stage = if record["stage"] == "before_dispatch" { "before" } else { "after" };
    let role = record["role"].as_str().unwrap().replace("input", "in").replace("output", "out");
    format!("task_{}_{stage}_{role}{}", record["task_id"].as_str().unwrap(), record["arg_index"])
}

fn assert_same(folder: &Folder, exported: &Path) {
    let golden = NamedArrays::open(exported).unwrap();
    let manifest = folder.manifest("d");
    let records = manifest["tensors"].as_array().unwrap();
    assert_eq!(golden.arrays().len(), records.len());
    for record in records {
        let array = golden.get(&array_name(record)).unwrap();
        assert_eq!(array.dtype.name(), record["dtype"]);
        assert_eq!(Value::from(array.shape.clone()), record["shape"]);
        assert_eq!(array.content().unwrap(), content(folder, "d", record), "{}", array.name);
    }
}

#[test]
fn round_trips_every_record_in_every_binary_format_and_layout() {
    let folder = vector_example();
    for (line, files) in [
        ("--format npy", 18),
        ("--format npy --by-task --jobs 3", 18),
        ("--format npz", 18),
        ("--format npz --pack", 1),
        ("--format npz --by-task", 5),
        ("--format safetensors", 18),
        ("--format safetensors --by-task", 5),
        ("--format safetensors --pack --jobs 1", 1),
    ] {
        let out = line.replace([' ', '-'], "_");
        let said = document(&folder.good(&format!("export d {line} --out {out} --json")));
        assert_eq!((&said["exported"], &said["files"]), (&18.into(), &files.into()), "{line}");
        assert_eq!(
            (&said["tensors"], &said["scalars"], &said["skipped"]),
            (&13.into(), &5.into(), &Value::Array(vec![]))
        );
        assert_same(&folder, &folder.path(&out));
    }
}

#[test]
fn text_and_raw_files_contain_the_same_values() {
    let folder = vector_example();
    folder.good("export d --format txt --out t");
    folder.good("export d --format raw --out r");
    folder.good("export d --format csv --out c");
    for record in folder.manifest("d")["tensors"].as_array().unwrap() {
        let (name, expected) = (array_name(record), content(&folder, "d", record));
        let text = read_txt(&folder.path("t").join(format!("{name}.txt"))).unwrap();
        assert_eq!(
            (text.dtype.name(), &text.content),
            (record["dtype"].as_str().unwrap(), &expected),
            "{name}"
        );
        let note =
            |key: &str| text.notes.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
        assert_eq!(note("task_id").as_deref(), record["task_id"].as_str());
        assert_eq!(fs::read(folder.path("r").join(format!("{name}.bin"))).unwrap(), expected, "{name}");
        let csv = folder.path("c").join(format!("{name}.csv"));
        assert_eq!(
            tensortap::interchange::read_csv(&csv, text.dtype, &text.shape).unwrap(),
            expected,
            "{name}"
        );
    }
}

#[test]
fn summary_and_manifest_list_the_written_files() {
    let folder = vector_example();
    let said = folder.good("export d --format npy --out out --kind tensor --func mul");
    assert_snapshot("export", &said.stdout);
    let manifest: Value =
        serde_json::from_str(&fs::read_to_string(folder.path("out/tensortap_export.json")).unwrap()).unwrap();
    assert_eq!(keys(&manifest), ["arrays", "dump", "format", "schema_version", "skipped"]);
    let arrays = manifest["arrays"].as_array().unwrap();
    assert_eq!(arrays.len(), 3);
    for array in arrays {
        assert!(folder.path("out").join(array["file"].as_str().unwrap()).exists(), "{array}");
        assert_eq!((&array["kernels"][0], &array["stored_as"]), (&"mul".into(), &"float32".into()));
    }
}

#[test]
fn dtypes_without_numpy_equivalent_keep_their_bits() {
    let folder = Folder::new();
    folder.record("paged_attention --dump-tensor", "d");
    folder.good("export d --format npy --out n --dtype bfloat16");
    let manifest: Value =
        serde_json::from_str(&fs::read_to_string(folder.path("n/tensortap_export.json")).unwrap()).unwrap();
    let array = &manifest["arrays"][0];
    assert_eq!((&array["dtype"], &array["stored_as"]), (&"bfloat16".into(), &"uint16".into()), "{array}");
    let file = fs::read(folder.path("n").join(array["file"].as_str().unwrap())).unwrap();
    assert!(String::from_utf8_lossy(&file[..80]).contains("'descr': '<u2'"));
    assert_same_dtype(&folder.path("n"), "bfloat16");
}

fn assert_same_dtype(dir: &Path, dtype: &str) {
    assert!(NamedArrays::open(dir).unwrap().arrays().iter().all(|array| array.dtype.name() == dtype));
}

#[test]
fn lists_records_without_content() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor=meta", "m");
    let said = folder.good("export m --format npy --out out");
    for part in [
        "0 tensors and 5 scalars",
        "13 records left out because their content is missing or incomplete:",
        "and 3 more, listed in",
    ] {
        assert!(said.stdout.contains(part), "no {part} in {}", said.stdout);
    }
    let said = document(&folder.good("export m --format npy --out again --json"));
    assert_eq!(said["skipped"].as_array().unwrap().len(), 13);
    assert_eq!(said["skipped"][0]["payload"], "none");
}

#[test]
fn a_folder_with_files_needs_force_and_links_are_not_followed() {
    let folder = vector_example();
    fs::create_dir(folder.path("out")).unwrap();
    fs::write(folder.path("precious"), "mine").unwrap();
    let link = folder.path("out/task_0x0000000000000000_before_in0.npy");
    std::os::unix::fs::symlink(folder.path("precious"), &link).unwrap();
    let refused = folder.tensortap("export d --format npy --out out");
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains("--force"), "{refused:?}");
    folder.good("export d --format npy --out out --force");
    assert_eq!(fs::read_to_string(folder.path("precious")).unwrap(), "mine");
    assert_same(&folder, &folder.path("out"));
    fs::create_dir(folder.path("elsewhere")).unwrap();
    fs::create_dir(folder.path("tasks")).unwrap();
    std::os::unix::fs::symlink(folder.path("elsewhere"), folder.path("tasks/task_0x0000000000000000"))
        .unwrap();
    let refused = folder.tensortap("export d --format npy --by-task --out tasks --force");
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert_eq!(fs::read_dir(folder.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn writes_next_to_the_dump_by_default() {
    let folder = Folder::new();
    folder.good("run vector_example --dump-tensor");
    folder.good("export --format raw --stage after");
    let names = folder.outputs();
    assert!(names[1].ends_with("_raw") && names[1].starts_with(&names[0]), "{names:?}");
    assert_eq!(folder.good("list --kind scalar").code, Some(0), "the export does not pass for a dump");
}

#[test]
fn rejects_invalid_requests() {
    let folder = vector_example();
    for (line, part) in [
        ("export d --format npy --pack --out x", "npz or safetensors"),
        ("export d --format npz --pack --by-task --out x", "cannot be used with"),
        ("export d --format parquet --out x", "npy"),
        ("export d --out x", "--format"),
        ("export nowhere --format npy --out x", "nowhere"),
    ] {
        let outcome = folder.tensortap(line);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{line}: {outcome:?}");
        assert!(outcome.stderr.contains(part), "{line}: {outcome:?}");
        assert!(!folder.path("x").exists(), "{line}");
    }
}
