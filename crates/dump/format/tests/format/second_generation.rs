//! Tools for the second generation of `simpler`'s manifests understand tensortap's manifest.
//!
//! Two differences are intentional: dtypes are in lower case, and `value` of a scalar is typed. The raw
//! bits, which the second generation has in `value`, are in `scalar_value`.

use std::fs;

use crate::common::{foreign::*, *};
use serde_json::{Map, Value, json};
use tensortap_abi::Role;
use tensortap_format::Status;

/// A tensortap dump with tensors of both stages and scalars.
fn ours(dir: &std::path::Path) -> Value {
    finished(dir, 3, 100);
    manifest(dir)
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap()
}

/// The type of a JSON value.
fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_u64() => "count",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

fn check_same_keys(theirs: &Value, ours: &Value, what: &str) {
    for (key, value) in object(theirs) {
        if what.ends_with("scalar") && key == "value" {
            continue;
        }
        let found = ours.get(key).unwrap_or_else(|| panic!("{what} has no `{key}`"));
        assert_eq!(json_type(value), json_type(found), "{what}: `{key}`");
    }
}

fn first_of<'v>(manifest: &'v Value, kind: &str) -> &'v Value {
    manifest["tensors"].as_array().unwrap().iter().find(|record| record["kind"] == kind).unwrap()
}

fn check_against(theirs: &Value, ours: &Value, what: &str) {
    check_same_keys(theirs, ours, what);
    for kind in ["tensor", "scalar"] {
        if theirs["tensors"].as_array().unwrap().iter().any(|record| record["kind"] == kind) {
            check_same_keys(first_of(theirs, kind), first_of(ours, kind), &format!("{what}, {kind}"));
        }
    }
}

#[test]
fn every_key_of_the_second_generation_is_there_with_its_type() {
    let (mine, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ours = ours(mine.path());
    let mut theirs = second(other.path());
    // This key only exists in the fixture, to check that unknown keys are kept.
    theirs.as_object_mut().unwrap().remove("made_by");
    theirs["tensors"][1].as_object_mut().unwrap().remove("colour");
    check_against(&theirs, &ours, "fixture");
    if let Some(peers) = peer_dumps() {
        for name in ["gen2-vector", "gen2-host-graph"] {
            let text = fs::read(peers.join(name).join("tensor_dump.json")).unwrap();
            check_against(&serde_json::from_slice(&text).unwrap(), &ours, name);
        }
    }
}

#[test]
fn counters_have_the_same_meaning() {
    let dir = tempfile::tempdir().unwrap();
    let ours = ours(dir.path());
    let records = ours["tensors"].as_array().unwrap();
    let with = |key: &str, value: &str| json!(records.iter().filter(|record| record[key] == value).count());
    assert_eq!(ours["total_tensors"], json!(records.len()), "scalars count too");
    for (counter, key, value) in [
        ("before_dispatch", "stage", "before_dispatch"),
        ("after_completion", "stage", "after_completion"),
        ("input_tensors", "role", "input"),
        ("output_tensors", "role", "output"),
        ("inout_tensors", "role", "inout"),
        ("scalars", "kind", "scalar"),
    ] {
        assert_eq!(ours[counter], with(key, value), "{counter}");
    }
    assert_eq!(ours["bin_format"], json!({"type": "logical_contiguous", "byte_order": "little_endian"}));
}

#[test]
fn payloads_are_decoded_only_with_a_json_parser_and_the_two_bin_fields() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    let contents = [content(1, 10), content(2, 70_000), content(1, 10), content(3, 4096)];
    for (arg, bytes) in (0u16..).zip(&contents) {
        let record = scribe.stored(5, BEFORE, Role::Input, arg, bytes);
        scribe.append(0, &[record]);
    }
    scribe.finish(Status::Complete);
    let manifest = manifest(dir.path());
    let payloads = fs::read(dir.path().join(manifest["bin_file"].as_str().unwrap())).unwrap();
    let records = manifest["tensors"].as_array().unwrap();
    assert_eq!(records.len(), contents.len());
    for (record, expected) in records.iter().zip(&contents) {
        let number = |key: &str| usize::try_from(record[key].as_u64().unwrap()).unwrap();
        let (offset, size) = (number("bin_offset"), number("bin_size"));
        assert!(payloads[offset..offset + size] == expected[..], "{record}");
        assert_eq!(record["shape"], json!([size]));
    }
}
