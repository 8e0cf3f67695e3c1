//! Reads and writes the JSON header. Entries are read in order and duplicates are detected, which a map would
//! hide.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

const METADATA: &str = "__metadata__";
/// Alignment of the data.
const ALIGN: usize = 8;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TensorEntry {
    pub dtype: String,
    pub shape: Vec<u64>,
    /// Offsets of the first byte and of the end, relative to the end of the header.
    pub data_offsets: [u64; 2],
}

#[derive(Debug, Default)]
pub(super) struct Header {
    pub tensors: Vec<(String, TensorEntry)>,
    pub metadata: Vec<(String, String)>,
}

/// Encodes length and header, padded with spaces.
pub(super) fn encode(tensors: &[(String, TensorEntry)], metadata: &[(String, String)]) -> Vec<u8> {
    let mut members = Vec::new();
    if !metadata.is_empty() {
        let notes: Vec<String> =
            metadata.iter().map(|(key, value)| format!("{}:{}", json(key), json(value))).collect();
        members.push(format!("\"{METADATA}\":{{{}}}", notes.join(",")));
    }
    members.extend(tensors.iter().map(|(name, entry)| format!("{}:{}", json(name), json(entry))));
    let mut text = format!("{{{}}}", members.join(","));
    text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(ALIGN) - text.len()));
    let mut header = (text.len() as u64).to_le_bytes().to_vec();
    header.extend(text.into_bytes());
    header
}

/// Encodes text and plain structs, which never fails.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Parses the header; the error describes what is wrong.
pub(super) fn decode(text: &[u8]) -> Result<Header, String> {
    serde_json::from_slice(text).map_err(|error| format!("its header is damaged: {error}"))
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one member for each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header::default();
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("two members are named {name:?}")));
            }
            if name == METADATA {
                let notes: BTreeMap<String, String> = map.next_value()?;
                header.metadata = notes.into_iter().collect();
            } else {
                header.tensors.push((name, map.next_value()?));
            }
        }
        Ok(header)
    }
}
