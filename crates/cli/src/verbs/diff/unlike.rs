//! What two runs differ in before any record does, and which option helps.

use std::collections::BTreeSet;

use serde_json::Value;
use tensortap::analysis::diff::{Diff, DiffRow};
use tensortap::format::Dump;
use tensortap::judge::{Evidence, Verdict};

use tensortap_query::golden::Golden;
use tensortap_query::number::counted_in;
use tensortap_query::words::printable;

/// Says that dump and golden are of different scenes or parameters; nothing when they are not, or when one does not say.
pub fn runs(dump: &Dump, golden: &Dump) -> Option<String> {
    let (ours, theirs) = (dump.info(), golden.info());
    if dump.format().is_foreign() || golden.format().is_foreign() {
        return None;
    }
    if ours.scene != theirs.scene {
        let (ours, theirs) = (printable(&ours.scene), printable(&theirs.scene));
        return Some(format!("different scenes: the dump is of {ours}, the golden of {theirs}"));
    }
    let names: BTreeSet<&String> = ours.params.keys().chain(theirs.params.keys()).collect();
    let differing: Vec<String> = names
        .into_iter()
        .filter(|name| ours.params.get(*name) != theirs.params.get(*name))
        .map(|name| {
            let [ours, theirs] = [&ours.params, &theirs.params].map(|params| value(params.get(name)));
            printable(&format!("{name} is {ours} in the dump, {theirs} in the golden")).into_owned()
        })
        .collect();
    (!differing.is_empty()).then(|| format!("different parameters: {}", differing.join("; ")))
}

fn value(value: Option<&Value>) -> String {
    match value {
        None => "missing".into(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Names the option that compares floats of different dtypes, where that is what failed.
pub fn hint(golden: &Golden, diff: &Diff, allowed: bool) -> Option<String> {
    let is_refused = |row: &&DiffRow| {
        let unmeasured = matches!(row.outcome.evidence, Evidence::None(_));
        row.outcome.verdict == Verdict::Outside
            && unmeasured
            && row.record.dtype.is_float()
            && golden.dtype(row).is_some_and(|theirs| theirs != row.record.dtype && theirs.is_float())
    };
    let refused = diff.rows.iter().filter(|_| !allowed).filter(is_refused).count();
    let records = counted_in(refused as u64, "record has", "records have");
    (refused > 0).then(|| {
        format!("{records} another float dtype in the golden; --golden-dtype compares across float dtypes")
    })
}
