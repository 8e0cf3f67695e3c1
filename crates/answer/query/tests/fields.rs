//! The field table, JSON documents and CSV files agree on the name and value of every field.

use std::error::Error;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::analysis::Work;
use tensortap::analysis::diff::{DiffOptions, diff_dumps};
use tensortap::format::{Dump, Record};
use tensortap::judge::RuleBook;
use tensortap::{DeviceMode, DumpConfig, DumpLevel, RecordSummary, RunConfig};
use tensortap_query::diff::{DiffReport, Sort, ranked};
use tensortap_query::document::{DiffDocument, ListDocument, StatsHead};
use tensortap_query::fields::{Cells, FIELDS, Field, FieldSource, Row};
use tensortap_query::{Part, Rows, Selectors};

type Outcome = Result<(), Box<dyn Error>>;

fn dump(folder: &Path, name: &str, level: DumpLevel, fault: bool) -> Result<PathBuf, Box<dyn Error>> {
    let mut config = RunConfig::new("vector_example");
    config.device_mode = DeviceMode::Thread;
    config.dump = Some(DumpConfig::new(level));
    config.out = Some(folder.join(name));
    if fault {
        config.inject_fault = Some(("mul".into(), tensortap::scene::FaultKind::Sign));
    }
    tensortap::run(&config)?;
    Ok(folder.join(name))
}

/// The value of a field in a row's JSON; `None` if the key is missing.
fn in_json<'v>(field: &Field, row: &'v Value) -> Option<&'v Value> {
    match field.inside {
        Some(inside) => row.get(inside).and_then(|object| object.get(field.key)),
        None => row.get(field.key),
    }
}

/// A JSON value as the text of a cell.
fn as_cell(value: &Value, between: &str) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            items.iter().map(|item| as_cell(item, between)).collect::<Vec<_>>().join(between)
        }
        other => other.to_string(),
    }
}

/// Whether a cell and a JSON value are equal: same text or same number.
fn same(field: &Field, cell: &str, json: &Value) -> bool {
    let between = if ["shape", "strides"].contains(&field.key) { "x" } else { "+" };
    let text = as_cell(json, between);
    let hex = |text: &str| u128::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let equal_hex = hex(cell).is_some() && hex(cell) == hex(&text);
    // JSON parsing may be off by the last bit.
    let near = match (cell.parse::<f64>(), text.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= a.abs() * 1e-15,
        _ => false,
    };
    cell == text || equal_hex || near
}

#[test]
fn list_and_stats_documents_contain_every_record_field() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dump = Dump::open(&dump(folder.path(), "d", DumpLevel::Hash, false)?)?;
    let all = Selectors::default().selection(&dump, &|_, _| {})?;
    let rows = Rows::of(&dump, &all, &[], None)?;
    let list: Value = serde_json::from_str(&serde_json::to_string(&ListDocument::of(&rows))?)?;
    let mut written = Vec::new();
    ListDocument::of(&rows).write::<Box<dyn Error>>(&mut written)?;
    assert!(
        serde_json::from_slice::<Value>(&written)? == list,
        "both ways of writing give the same document"
    );

    let mut seen = vec![0; FIELDS.len()];
    let mut cells = Cells::new(&dump);
    for (record, json) in dump.records().zip(list["records"].as_array().ok_or("records")?) {
        let record = record?;
        for (field, seen) in FIELDS.iter().zip(&mut seen).filter(|(field, _)| field.of == FieldSource::Record)
        {
            let mut cell = String::new();
            field.write_for_machines(&mut cells, &Row::of(&record), &mut cell);
            match in_json(field, json) {
                Some(value) => {
                    assert!(same(field, &cell, value), "{}: `{cell}` and {value}", field.key);
                    *seen += 1;
                }
                // A scalar has no hash, and a tensor has no value.
                None => assert!(cell.is_empty() || cell == "0x0", "{}: `{cell}` is not in {json}", field.key),
            }
        }
    }
    let missing: Vec<&str> = FIELDS
        .iter()
        .zip(seen)
        .filter(|(field, seen)| field.of == FieldSource::Record && *seen == 0)
        // Only recorded programs have these.
        .filter(|(field, _)| !["pid", "step_name", "queue", "module", "source"].contains(&field.key))
        .map(|(field, _)| field.key)
        .collect();
    assert!(missing.is_empty(), "in no record of the document: {missing:?}");
    Ok(())
}

#[test]
fn the_stats_document_contains_every_content_field() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dump = Dump::open(&dump(folder.path(), "d", DumpLevel::Full, false)?)?;
    let measured = tensortap::stats(&dump)?;
    let head =
        StatsHead { dump: "d".into(), total: dump.len(), selected: dump.len(), bytes: 0, dumps: Vec::new() };
    let mut out = Vec::new();
    let each = measured.clone();
    let all = Selectors::default().selection(&dump, &|_, _| {})?;
    let parts = [Part { dump: &dump, selection: &all, rank: None }];
    let show_each = |show: &mut dyn FnMut(usize, RecordSummary) -> Outcome| {
        each.into_iter().try_for_each(|measured| show(0, measured))
    };
    head.write::<Box<dyn Error>>(&mut out, &parts, show_each, || false)?;
    let document: Value = serde_json::from_slice(&out)?;
    let mut cells = Cells::new(&dump);
    let mut checked = 0;
    for (measured, json) in measured.iter().zip(document["records"].as_array().ok_or("records")?) {
        for field in FIELDS.iter().filter(|field| field.of != FieldSource::Comparison) {
            let mut cell = String::new();
            field.write_for_machines(&mut cells, &Row::measured(measured), &mut cell);
            match in_json(field, json) {
                Some(value) => {
                    assert!(same(field, &cell, value), "{}: `{cell}` and {value}", field.key);
                    checked += 1;
                }
                None => assert!(cell.is_empty() || cell == "0x0", "{}: `{cell}` is not in {json}", field.key),
            }
        }
    }
    assert!(checked > 18 * 20, "only {checked} cells were compared");
    Ok(())
}

#[test]
fn the_diff_document_contains_every_comparison_field() -> Outcome {
    let folder = tempfile::tempdir()?;
    let right = Dump::open(&dump(folder.path(), "right", DumpLevel::Full, false)?)?;
    let wrong = Dump::open(&dump(folder.path(), "wrong", DumpLevel::Full, true)?)?;
    let records = wrong.records().collect::<Result<Vec<Record>, _>>()?;
    let options = DiffOptions {
        rules: RuleBook::default(),
        other_dtypes: false,
        steps: Vec::new(),
        golden_steps: Vec::new(),
        work: Work { threads: 1, progress: &|_, _| {} },
    };
    let diff = diff_dumps(&wrong, &right, &records, &options)?;
    let report = DiffReport {
        dump: &wrong,
        golden: "right".into(),
        diff: &diff,
        details: Default::default(),
        passes: false,
        unlike: None,
        hint: None,
    };
    let rows = ranked(&diff, Sort::Order);
    let document = serde_json::to_value(DiffDocument::of(&report, &rows))?;
    let mut cells = Cells::new(&wrong);
    let first = &document["records"][0];
    assert_eq!(first["verdict"], "fail");
    for field in FIELDS.iter().filter(|field| field.of == FieldSource::Comparison) {
        let value = in_json(field, first).ok_or_else(|| format!("{} is not in {first}", field.key))?;
        let mut cell = String::new();
        field.write_for_machines(&mut cells, &Row::compared(rows[0]), &mut cell);
        // A rule is an object in JSON, but text in a cell.
        assert!(value.is_object() || same(field, &cell, value), "{}: `{cell}` and {value}", field.key);
    }
    Ok(())
}
