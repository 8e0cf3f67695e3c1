//! What a JSON file is, told from its keys. Stops reading as soon as it knows.

use std::{fmt, path::Path};

use serde::{
    Deserialize,
    de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::{
    beside::{MAX_HEAD_BYTES, json_reader},
    metered::Meter,
};
use crate::index::open_regular;

/// What a JSON file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detected {
    /// A manifest of this project.
    Own,
    /// A manifest of `simpler`.
    Foreign,
    /// The orchestration's own arguments.
    OrchestrationArgs,
    /// Something else.
    Other,
}

/// Looks into a file. One that cannot be read is something else; whoever opens it will say why.
pub(crate) fn detect(path: &Path) -> Detected {
    let Ok(file) = open_regular(path) else { return Detected::Other };
    let meter = Meter::new(MAX_HEAD_BYTES);
    let mut seen = Seen::default();
    // Stopping early is an error to the parser; what was seen by then is what counts.
    let _ = seen.deserialize(&mut json_reader(file, &meter));
    seen.verdict()
}

#[derive(Default)]
struct Seen {
    schema_version: bool,
    bin_format: bool,
    args_dump: bool,
    /// A list whose first element is a record.
    records: bool,
    empty_list: bool,
}

impl Seen {
    fn verdict(&self) -> Detected {
        let is_manifest = self.records || self.empty_list && self.bin_format;
        match (is_manifest, self.schema_version) {
            (true, true) => Detected::Own,
            (true, false) => Detected::Foreign,
            (false, _) if self.args_dump => Detected::OrchestrationArgs,
            (false, _) => Detected::Other,
        }
    }
}

impl<'de> DeserializeSeed<'de> for &mut Seen {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Seen {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
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

/// Looks at the first element of a list that may hold records; one that does ends the parsing there.
struct FirstElement<'s>(&'s mut Seen);

impl<'de> DeserializeSeed<'de> for FirstElement<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for FirstElement<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        match seq.next_element::<HasTaskId>()? {
            None => self.0.empty_list = true,
            Some(HasTaskId(true)) => {
                self.0.records = true;
                return Err(de::Error::custom("seen enough"));
            }
            Some(HasTaskId(false)) => while seq.next_element::<IgnoredAny>()?.is_some() {},
        }
        Ok(())
    }
}

struct HasTaskId(bool);

impl<'de> Deserialize<'de> for HasTaskId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HasTaskId, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = HasTaskId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HasTaskId, A::Error> {
                let mut found = false;
                while let Some(key) = map.next_key::<String>()? {
                    found |= key == "task_id";
                    map.next_value::<IgnoredAny>()?;
                }
                Ok(HasTaskId(found))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}
