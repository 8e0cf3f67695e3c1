//! Cases of version 1: translates their description into a manifest and a graph, which are then read like those of a dump.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::case::{PayloadRange, place};
use crate::SCHEMA_VERSION;

const KIND: &str = "tensortap_case";
const VERSION: u64 = 1;
/// Facts that are in the section `case` of a manifest.
const CASE_KEYS: [&str; 7] =
    ["from", "captured_by", "libraries", "assumed", "expected", "tolerance", "redacted"];

#[derive(Deserialize)]
struct Description {
    kind: String,
    schema_version: u64,
    task_id: Value,
    block_num: u32,
    subtasks: Vec<Map<String, Value>>,
    tensors: Vec<Tensor>,
    scalars: Vec<Scalar>,
    /// Facts about the run and the case.
    #[serde(flatten)]
    facts: Map<String, Value>,
}

#[derive(Deserialize)]
struct Tensor {
    before: Option<Content>,
    after: Option<Content>,
    #[serde(flatten)]
    view: Map<String, Value>,
}

#[derive(Deserialize)]
struct Content {
    payload: String,
    tensor: Option<String>,
    #[serde(default)]
    hash: Value,
    #[serde(default)]
    reason: Value,
    #[serde(default)]
    stats: Value,
}

#[derive(Deserialize)]
struct Scalar {
    arg_index: Value,
    dtype: Value,
    #[serde(default)]
    bits: Value,
}

/// The manifest and the graph that describe the same task. `tensors` are the payloads.
pub(super) fn documents(
    description: &[u8],
    tensors: &HashMap<String, PayloadRange>,
) -> Result<(Map<String, Value>, Value), String> {
    let mut old: Description = serde_json::from_slice(description).map_err(|error| error.to_string())?;
    if old.kind != KIND {
        return Err(format!("its kind is `{}`, not `{KIND}`", old.kind));
    }
    if old.schema_version != VERSION {
        let version = old.schema_version;
        return Err(format!(
            "it has version {version}, but this program reads version {VERSION}; use a newer tensortap"
        ));
    }
    let slots: Vec<Value> =
        old.subtasks.iter_mut().map(|kernel| kernel.remove("subtask_id").unwrap_or_default()).collect();
    let func_id: Vec<Value> =
        old.subtasks.iter().map(|kernel| kernel.get("func_id").cloned().unwrap_or_default()).collect();
    let task = json!({
        "task_id": old.task_id, "func_id": func_id, "subtask_id": slots, "block_num": old.block_num,
        "tensor_count": old.tensors.len(), "scalar_count": old.scalars.len(),
    });
    let (mut records, mut notes): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    let of_task = |record: &mut Map<String, Value>, stage: &str, kind: &str| {
        for (key, value) in [("task_id", old.task_id.clone()), ("func_id", func_id.clone().into())] {
            record.insert(key.into(), value);
        }
        record.insert("stage".into(), stage.into());
        record.insert("kind".into(), kind.into());
    };
    for Tensor { before, after, view } in old.tensors {
        for (stage, content) in [("before_dispatch", before), ("after_completion", after)] {
            let Some(content) = content else { continue };
            let mut record = view.clone();
            of_task(&mut record, stage, "tensor");
            notes.extend(content.fill(&mut record, tensors)?);
            records.push(record.into());
        }
    }
    for Scalar { arg_index, dtype, bits } in old.scalars.into_iter().filter(|scalar| !scalar.bits.is_null()) {
        let mut record = Map::from_iter([
            ("arg_index".into(), arg_index),
            ("dtype".into(), dtype),
            ("scalar_value".into(), bits),
        ]);
        of_task(&mut record, "before_dispatch", "scalar");
        records.push(record.into());
    }
    let mut manifest = old.facts;
    let facts = CASE_KEYS.iter().filter_map(|key| Some(((*key).to_owned(), manifest.remove(*key)?)));
    let mut case: Map<String, Value> = facts.collect();
    case.insert("contents".into(), notes.into());
    for (key, value) in [
        ("schema_version", SCHEMA_VERSION.into()),
        ("dump_level", 2.into()),
        ("status", "complete".into()),
        ("kernels", old.subtasks.into()),
        ("case", case.into()),
        ("tensors", records.into()),
    ] {
        manifest.insert(key.into(), value);
    }
    Ok((manifest, json!({"tasks": [task]})))
}

impl Content {
    /// Describes the payload in a record. Returns the note about content that is not as captured.
    fn fill(
        self,
        record: &mut Map<String, Value>,
        tensors: &HashMap<String, PayloadRange>,
    ) -> Result<Option<Value>, String> {
        let (payload, is_captured) = match self.payload.as_str() {
            "noise" => ("stored", false),
            "missing" => ("none", false),
            other => (other, true),
        };
        record.insert("payload".into(), payload.into());
        if payload != "none" {
            place(record, &self.tensor.ok_or("a stored payload has no tensor")?, tensors)?;
        }
        if is_captured {
            record.insert("hash".into(), self.hash);
            return Ok(None);
        }
        Ok(Some(json!({
            "arg_index": record.get("arg_index"), "stage": record.get("stage"), "hash": self.hash,
            "reason": self.reason, "stats": self.stats,
        })))
    }
}
