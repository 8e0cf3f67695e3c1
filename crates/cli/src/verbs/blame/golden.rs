//! Whether a golden can be one.

use std::collections::BTreeSet;

use serde_json::Value;
use tensortap::format::{Dump, RunInfo};

use tensortap_query::words::printable;

/// Says that dump and golden are of different scenes.
pub(super) fn other_scene(dump: &Dump, golden: &Dump) -> Option<String> {
    let (here, there) = (&dump.info().scene, &golden.info().scene);
    let differ = here != there && !here.is_empty() && !there.is_empty();
    differ.then(|| format!("the dump is of scene {}, the golden of {}", printable(here), printable(there)))
}

/// Says which parameters of the same scene differ.
pub(super) fn other_params(dump: &Dump, golden: &Dump) -> Option<String> {
    let (here, there) = (dump.info(), golden.info());
    let names: BTreeSet<&String> = here.params.keys().chain(there.params.keys()).collect();
    let differing: Vec<String> = names
        .into_iter()
        .filter(|name| here.params.get(*name) != there.params.get(*name))
        .map(|name| format!("{} {}, not {}", printable(name), value(there, name), value(here, name)))
        .collect();
    (here.scene == there.scene && !differing.is_empty())
        .then(|| format!("the golden ran with other parameters: {}", differing.join("; ")))
}

fn value(info: &RunInfo, name: &str) -> String {
    match info.params.get(name) {
        Some(Value::String(text)) => printable(text).into_owned(),
        Some(value) => printable(&value.to_string()).into_owned(),
        None => "unset".into(),
    }
}
