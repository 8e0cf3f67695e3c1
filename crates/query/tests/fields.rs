//! The table of fields, JSON documents and CSV files agree about what every field is called and what it holds.

use std::error::Error;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tensortap::analysis::Work;
use tensortap::analysis::diff::{DiffOptions, diff_dumps};
use tensortap::format::{Dump, Record};
use tensortap::judge::RuleBook;
use tensortap::{DeviceMode, DumpConfig, DumpLevel, Measured, RunConfig};
use tensortap_query::diff::{DiffReport, Sort, ranked};
use tensortap_query::document::{DiffDocument, ListDocument, StatsHead};
use tensortap_query::fields::{Cells, FIELDS, Field, Of, Row};
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

/// The value of a field in a row's JSON; `None` where the key is missing.
fn in_json<'v>(field: &Field, row: &'v Value) -> Option<&'v Value> {
    match field.inside {
        Some(inside) => row.get(inside).and_then(|object| object.get(field.key)),
        None => row.get(field.key),
    }
}

/// What a JSON value is as a cell.
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

/// Whether two cells say the same: the same text, or the same number.
fn same(field: &Field, cell: &str, json: &Value) -> bool {
    let between = if ["shape", "strides"].contains(&field.key) { "x" } else { "+" };
    let text = as_cell(json, between);
    let hex = |text: &str| u128::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let equal_hex = hex(cell).is_some() && hex(cell) == hex(&text);
    // The parser of JSON may be off by a last bit.
    let near = match (cell.parse::<f64>(), text.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= a.abs() * 1e-15,
        _ => false,
    };
    cell == text || equal_hex || near
}

#[test]
fn every_field_of_a_record_is_in_the_documents_of_list_and_stats_under_its_own_name() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dump = Dump::open(&dump(folder.path(), "d", DumpLevel::Hash, false)?)?;
    let all = Selectors::default().selection(&dump, &|_, _| {})?;
    let rows = Rows::of(&dump, &all, &[], None)?;
    let list: Value = serde_json::from_str(&serde_json::to_string(&ListDocument::of(&rows))?)?;
    let mut written = Vec::new();
    ListDocument::of(&rows).write::<Box<dyn Error>>(&mut written)?;
    assert!(serde_json::from_slice::<Value>(&written)? == list, "both ways lead to one document");

    let mut seen = vec![0; FIELDS.len()];
    let mut cells = Cells::new(&dump);
    for (record, json) in dump.records().zip(list["records"].as_array().ok_or("records")?) {
        let record = record?;
        for (field, seen) in FIELDS.iter().zip(&mut seen).filter(|(field, _)| field.of == Of::Record) {
            let mut cell = String::new();
            field.write_for_machines(&mut cells, &Row::of(&record), &mut cell);
            match in_json(field, json) {
                Some(value) => {
                    assert!(same(field, &cell, value), "{}: `{cell}` and {value}", field.key);
                    *seen += 1;
                }
                // A scalar has no hash, a tensor no value.
                None => assert!(cell.is_empty() || cell == "0x0", "{}: `{cell}` is not in {json}", field.key),
            }
        }
    }
    let missing: Vec<&str> = FIELDS
        .iter()
        .zip(seen)
        .filter(|(field, seen)| field.of == Of::Record && *seen == 0)
        // Only programs say these.
        .filter(|(field, _)| !["pid", "step_name", "queue", "module", "source"].contains(&field.key))
        .map(|(field, _)| field.key)
        .collect();
    assert!(missing.is_empty(), "in no record of the document: {missing:?}");
    Ok(())
}

#[test]
fn every_field_of_content_is_in_the_document_of_stats() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dump = Dump::open(&dump(folder.path(), "d", DumpLevel::Full, false)?)?;
    let measured = tensortap::stats(&dump)?;
    let head =
        StatsHead { dump: "d".into(), total: dump.len(), selected: dump.len(), bytes: 0, dumps: Vec::new() };
    let mut out = Vec::new();
    let each = measured.clone();
    let all = Selectors::default().selection(&dump, &|_, _| {})?;
    let parts = [Part { dump: &dump, selection: &all, rank: None }];
    let show_each = |show: &mut dyn FnMut(usize, Measured) -> Outcome| {
        each.into_iter().try_for_each(|measured| show(0, measured))
    };
    head.write::<Box<dyn Error>>(&mut out, &parts, show_each, || false)?;
    let document: Value = serde_json::from_slice(&out)?;
    let mut cells = Cells::new(&dump);
    let mut checked = 0;
    for (measured, json) in measured.iter().zip(document["records"].as_array().ok_or("records")?) {
        for field in FIELDS.iter().filter(|field| field.of != Of::Comparison) {
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
fn every_field_of_a_comparison_is_in_the_document_of_diff() -> Outcome {
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
    for field in FIELDS.iter().filter(|field| field.of == Of::Comparison) {
        let value = in_json(field, first).ok_or_else(|| format!("{} is not in {first}", field.key))?;
        let mut cell = String::new();
        field.write_for_machines(&mut cells, &Row::compared(rows[0]), &mut cell);
        // A rule is an object there, and words in a cell.
        assert!(value.is_object() || same(field, &cell, value), "{}: `{cell}` and {value}", field.key);
    }
    Ok(())
}
