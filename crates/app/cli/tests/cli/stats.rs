use serde_json::Value;

use crate::assert_snapshot;
use crate::dumps::{Folder, vector_example};
use crate::json::{document, keys};

fn records(document: &Value) -> &[Value] {
    document["records"].as_array().expect("records")
}

#[test]
fn measures_every_record_and_counts_flags() {
    let folder = Folder::new();
    // Two tasks in sequence, so that the table is deterministic.
    folder.record("dump_tensor_example --dump-tensor", "d");
    let table = folder.good("stats d").stdout;
    assert_snapshot("stats", &table);
    assert!(table.lines().all(|line| line.trim_end() == line), "{table}");
    assert_eq!(folder.good("stats d --jobs 1").stdout, table, "threads change nothing");
}

#[test]
fn statistics_equal_the_payload() {
    let folder = vector_example();
    let stats = document(&folder.good("stats d --json"));
    assert_eq!(keys(&stats), ["bytes", "cut", "dump", "flagged", "records", "selected", "total"]);
    assert_eq!((&stats["total"], &stats["selected"], &stats["flagged"]), (&18.into(), &18.into(), &0.into()));
    let payloads = std::fs::read(folder.path("d/tensor_dump.bin")).unwrap();
    let manifest = folder.manifest("d");
    for (record, said) in records(&stats).iter().zip(manifest["tensors"].as_array().unwrap()) {
        assert_eq!(record["task_id"], said["task_id"]);
        let number = |key: &str| record["stats"][key].as_f64().unwrap_or_else(|| panic!("{key} of {record}"));
        assert_eq!(keys(&record["stats"]), ["inf", "max", "mean", "min", "nan", "std", "zeros"]);
        if said["kind"] == "scalar" {
            assert_eq!(number("min"), said["value"].as_f64().unwrap());
            continue;
        }
        let at = |key: &str| usize::try_from(said[key].as_u64().unwrap()).unwrap();
        let bytes = &payloads[at("bin_offset")..][..at("bin_size")];
        let values: Vec<f64> =
            bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect();
        let mean = values.iter().sum::<f64>() / 16384.0;
        let std = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 16384.0).sqrt();
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // The JSON parser of this test may differ in the last digit.
        for (key, expected) in [("min", min), ("max", max), ("mean", mean), ("std", std)] {
            assert!((number(key) - expected).abs() < 1e-12, "{key}, expected {expected}: {record}");
        }
    }
}

#[test]
fn device_and_host_statistics_agree() {
    let folder = vector_example();
    folder.record("vector_example --dump-tensor=hash", "h");
    let (here, device) = (document(&folder.good("stats d --json")), document(&folder.good("stats h --json")));
    // Concurrent tasks may be recorded in a different order.
    let sorted = |document: &Value| {
        let mut sorted: Vec<Value> = records(document).to_vec();
        sorted.sort_by_key(|r| (r["task_id"].to_string(), r["stage"].to_string(), r["arg_index"].as_u64()));
        sorted
    };
    assert_eq!(records(&device).len(), 18);
    for (here, device) in sorted(&here).iter().zip(sorted(&device)) {
        for key in ["min", "max", "mean", "std"] {
            let (a, b) = (here["stats"][key].as_f64().unwrap(), device["stats"][key].as_f64().unwrap());
            assert!((a - b).abs() <= 1e-12 * a.abs().max(1.0), "{key}: {a} {b}");
        }
    }
    assert!(folder.good("stats h").stdout.contains("13 records with statistics that the device computed."));
}

#[test]
fn only_flagged_shows_only_flagged_records() {
    let folder = Folder::new();
    let run = folder.tensortap("run vector_example --dump-tensor --inject-fault mul=nan --out d");
    assert_eq!(run.code, Some(1), "{run:?}");
    let flagged = document(&folder.good("stats d --only-flagged --json"));
    let found = records(&flagged);
    assert!(!found.is_empty() && found.len() < 18, "{flagged}");
    assert_eq!((&flagged["flagged"], &flagged["selected"]), (&found.len().into(), &18.into()));
    for record in found {
        assert_eq!(record["flags"][0], "nan", "{record}");
        assert!(record["stats"]["nan"].as_u64() > Some(0), "{record}");
    }
    let table = folder.good("stats d --only-flagged").stdout;
    assert_eq!(table.lines().filter(|line| line.contains(" 0x")).count(), found.len(), "{table}");
}

#[test]
fn flags_constants_zeros_and_large_values() {
    let folder = Folder::new();
    folder.record("scalar_data --dump-tensor", "d");
    let all = document(&folder.good("stats d --json"));
    let flags = |dtype: &str| {
        let of = |record: &&Value| {
            record["dtype"] == dtype && record["kind"] == "tensor" && record["role"] == "output"
        };
        records(&all).iter().find(of).unwrap()["flags"].clone()
    };
    assert_eq!(flags("float32"), serde_json::json!(["nan", "inf", "f16_overflow"]));
    let wide = records(&all).iter().find(|r| r["dtype"] == "uint64" && r["kind"] == "tensor").unwrap();
    assert_eq!((&wide["exact_min"], &wide["exact_max"]), (&"0".into(), &"18446744073709551615".into()));
    folder.record("dump_tensor_example --dump-tensor", "c");
    let table = folder.good("stats c --kind tensor").stdout;
    assert!(table.contains("constant"), "{table}");
}

#[test]
fn reports_the_limit() {
    let folder = vector_example();
    let all = document(&folder.good("stats d --json"));
    let first = document(&folder.good("stats d --json --limit 4"));
    assert_eq!((&all["cut"], &first["cut"], &first["selected"]), (&false.into(), &true.into(), &18.into()));
    assert_eq!(records(&first), &records(&all)[..4]);
    assert!(first["bytes"].as_u64() < all["bytes"].as_u64(), "{first}");
    let table = folder.good("stats d --limit 4").stdout;
    assert!(table.contains("4 of them read, 4 shown (--limit)."), "{table}");
    assert!(!folder.good("stats d --limit 18").stdout.contains("--limit"));
    assert_eq!(folder.good("stats d --csv --limit 4").stdout.lines().count(), 5);
    folder.record("dump_tensor_example --dump-tensor", "c");
    let flagged = document(&folder.good("stats c --json --only-flagged --limit 1"));
    assert_eq!((records(&flagged).len(), &flagged["flagged"], &flagged["cut"]), (1, &1.into(), &true.into()));
    assert!(records(&document(&folder.good("stats d --json --limit 0"))).is_empty());
}

#[test]
fn selectors_csv_and_records_without_content() {
    let folder = vector_example();
    let csv = folder.good("stats d --csv --func mul --stage after").stdout;
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 2, "{csv}");
    assert!(lines[0].starts_with("index,task_id,kernels,stage"), "{csv}");
    assert_eq!(lines[0].split(',').count(), lines[1].split(',').count(), "{csv}");
    folder.record("vector_example --dump-tensor=meta", "m");
    let stats = document(&folder.good("stats m --json --kind tensor"));
    for record in records(&stats) {
        assert_eq!((&record["stats"], &record["flags"][0]), (&Value::Null, &"no_payload".into()), "{record}");
    }
    let none = folder.good("stats d --role inout");
    assert!(none.stdout.contains("0 of 18 records"), "{none:?}");
    let outcome = folder.tensortap("stats d --csv --json");
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
}
