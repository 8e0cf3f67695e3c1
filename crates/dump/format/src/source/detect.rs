//! Detects the type of a JSON file from its keys. Stops reading as soon as the type is certain.

use std::{fmt, path::Path};

use serde::{
    Deserialize,
    de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::{
    metered_reader::Meter,
    neighbors::{MAX_HEAD_BYTES, json_reader},
};
use crate::{index::open_regular, json_stream::read_stream};

/// Type of a JSON file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonKind {
    /// A manifest of tensortap.
    Own,
    /// A manifest of `simpler`.
    Foreign,
    /// The orchestration's own arguments.
    OrchestrationArgs,
    /// Something else.
    Other,
}

/// Detects the type of a file. An unreadable file counts as other; opening it will report the reason.
pub(crate) fn detect(path: &Path) -> JsonKind {
    let Ok(file) = open_regular(path) else { return JsonKind::Other };
    let meter = Meter::new(MAX_HEAD_BYTES);
    let mut seen = ManifestHints::default();
    // The parser reports an early stop as an error; only the keys read so far matter.
    let _ = seen.deserialize(&mut json_reader(file, &meter));
    seen.verdict()
}

#[derive(Default)]
struct ManifestHints {
    schema_version: bool,
    bin_format: bool,
    args_dump: bool,
    /// A list whose first element is a record.
    records: bool,
    empty_list: bool,
}

impl ManifestHints {
    fn verdict(&self) -> JsonKind {
        let is_manifest = self.records || self.empty_list && self.bin_format;
        match (is_manifest, self.schema_version) {
            (true, true) => JsonKind::Own,
            (true, false) => JsonKind::Foreign,
            (false, _) if self.args_dump => JsonKind::OrchestrationArgs,
            (false, _) => JsonKind::Other,
        }
    }
}

read_stream!(object &mut ManifestHints, "an object");

impl ManifestHints {
    fn read<'de, A: MapAccess<'de>>(&mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "tensors" | "args" => map.next_value_seed(FirstElement(self))?,
                "stage" => self.args_dump = map.next_value::<serde_json::Value>()? == "args_dump",
                _ => {
                    self.schema_version |= key == "schema_version";
                    self.bin_format |= key == "bin_format";
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Checks the first element of a list that may hold records. Parsing stops if it is one.
struct FirstElement<'s>(&'s mut ManifestHints);

read_stream!(list FirstElement<'_>, "a list");

impl FirstElement<'_> {
    fn read<'de, A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        match seq.next_element::<TaskIdProbe>()? {
            None => self.0.empty_list = true,
            Some(TaskIdProbe(true)) => {
                self.0.records = true;
                return Err(de::Error::custom("seen enough"));
            }
            Some(TaskIdProbe(false)) => while seq.next_element::<IgnoredAny>()?.is_some() {},
        }
        Ok(())
    }
}

struct TaskIdProbe(bool);

impl<'de> Deserialize<'de> for TaskIdProbe {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TaskIdProbe, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = TaskIdProbe;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TaskIdProbe, A::Error> {
                let mut found = false;
                while let Some(key) = map.next_key::<String>()? {
                    found |= key == "task_id";
                    map.next_value::<IgnoredAny>()?;
                }
                Ok(TaskIdProbe(found))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}
