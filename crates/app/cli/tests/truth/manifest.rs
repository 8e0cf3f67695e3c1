//! Reads a dump with only a JSON parser.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::expected::{Content, Key};

/// A manifest and its payload file.
pub struct Manifest {
    pub json: Value,
    bin: Vec<u8>,
}

impl Manifest {
    pub fn read(dir: &Path) -> Manifest {
        let text = std::fs::read_to_string(dir.join("tensor_dump.json")).expect("there is a manifest");
        let json: Value = serde_json::from_str(&text).expect("it is JSON");
        let bin = json["bin_file"]
            .as_str()
            .map(|name| std::fs::read(dir.join(name)).expect("there is a payload file"));
        Manifest { json, bin: bin.unwrap_or_default() }
    }

    pub fn records(&self) -> &[Value] {
        self.json["tensors"].as_array().expect("tensors[]")
    }

    pub fn count(&self, key: &str) -> u64 {
        self.json[key].as_u64().unwrap_or_else(|| panic!("{key} is a number: {:?}", self.json[key]))
    }

    /// The stored bytes of a record.
    pub fn payload(&self, record: &Value) -> &[u8] {
        let at = |key: &str| usize::try_from(record[key].as_u64().expect(key)).unwrap();
        &self.bin[at("bin_offset")..at("bin_offset") + at("bin_size")]
    }

    /// Every captured argument by its key; duplicates fail.
    pub fn contents(&self) -> BTreeMap<Key, Content> {
        let mut all = BTreeMap::new();
        for record in self.records() {
            assert!(all.insert(key(record), self.content(record)).is_none(), "twice: {record}");
        }
        all
    }

    fn content(&self, record: &Value) -> Content {
        let dtype = record["dtype"].as_str().expect("dtype").to_string();
        if record["kind"] == "scalar" {
            return Content::Scalar { dtype, bits: hex(&record["scalar_value"]) };
        }
        assert_eq!(record["payload"], "stored", "{record}");
        let shape =
            record["shape"].as_array().expect("shape").iter().map(|d| d.as_u64().expect("a size")).collect();
        Content::Tensor { dtype, shape, bytes: self.payload(record).to_vec() }
    }
}

pub fn key(record: &Value) -> Key {
    let before = match record["stage"].as_str() {
        Some("before_dispatch") => true,
        Some("after_completion") => false,
        other => panic!("stage {other:?}"),
    };
    Key {
        task_id: hex(&record["task_id"]),
        before,
        arg_index: record["arg_index"].as_u64().expect("arg_index"),
    }
}

pub fn hex(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("a hex string: {value:?}"));
    u64::from_str_radix(text.strip_prefix("0x").expect("0x"), 16).expect("hex")
}
