//! Interprets the keys of a manifest after all of it was read.

use std::path::Path;

use serde_json::{Map, Value};
use tensortap_abi::DumpLevel;

use super::{
    DumpFormat,
    manifest::{List, ReadManifest},
    manifest_records::{ManifestRecords, StatedCounter},
    simpler,
};
use crate::{
    Footer, FormatError, Loss, RunInfo, SEGMENTED_SCHEMA_VERSION, Status, Totals, manifest::MANIFEST_KEYS,
    names::is_plain_file_name,
};

impl ReadManifest {
    pub(super) fn into_held(mut self, path: &Path) -> Result<ManifestRecords, FormatError> {
        let format = self.format(path)?;
        let version = self.head.get("schema_version").and_then(Value::as_u64);
        let is_segmented = version.is_some_and(|version| version >= SEGMENTED_SCHEMA_VERSION.into());
        self.count_stored();
        self.check_byte_order(path)?;
        let bin_file = self.bin_file(path)?;
        let stated = self.stated(path)?;
        let (mut info, footer) = match format {
            DumpFormat::Manifest => self.own_head(path)?,
            _ => self.foreign_head(path)?,
        };
        info.bin_file = bin_file;
        Ok(ManifestRecords {
            manifest: path.to_owned(),
            format,
            is_segmented,
            info,
            footer: Some(footer),
            totals: self.totals,
            stated,
            uncaptured: self.uncaptured,
            graph: None,
            facts: Box::default(),
            shared: super::task_graph::SharedBuffers::default(),
            unreadable: Vec::new(),
            table: self.table,
            tasks: self.tasks,
            definitions: self.definitions,
            passed_over: None,
        })
    }

    fn format(&self, path: &Path) -> Result<DumpFormat, FormatError> {
        let not_a_dump =
            |reason: &str| FormatError::NotADump { path: path.to_owned(), reason: reason.into() };
        match (self.list, self.head.get("schema_version")) {
            (None, _) => Err(not_a_dump("it has no list of records")),
            (Some(_), Some(version)) => {
                let found =
                    version.as_u64().ok_or_else(|| bad(path, "`schema_version` is not a number".into()))?;
                let known = SEGMENTED_SCHEMA_VERSION;
                if found > u64::from(known) {
                    return Err(FormatError::SchemaVersion { path: path.to_owned(), found, known });
                }
                Ok(DumpFormat::Manifest)
            }
            (Some(List::Args), None) => Ok(DumpFormat::SimplerThird),
            (Some(List::Tensors), None) => {
                let first = !self.has_kinds.unwrap_or(!self.head.contains_key("timestamp"));
                Ok(if first { DumpFormat::SimplerFirst } else { DumpFormat::SimplerSecond })
            }
        }
    }

    /// Payloads that several records share are stored once.
    fn count_stored(&mut self) {
        self.stored.sort_unstable();
        let all = self.totals.stored_bytes;
        self.stored.dedup();
        let once = self.stored.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        self.totals.stored_bytes = once;
        self.totals.deduplicated_bytes = all.saturating_sub(once);
    }

    fn check_byte_order(&self, path: &Path) -> Result<(), FormatError> {
        let Some(format) = self.head.get("bin_format") else { return Ok(()) };
        for (key, only) in [("type", "logical_contiguous"), ("byte_order", "little_endian")] {
            if format.get(key).is_some_and(|value| value != only) {
                return Err(bad(path, format!("`{key}` of `bin_format` is not `{only}`")));
            }
        }
        Ok(())
    }

    fn bin_file(&mut self, path: &Path) -> Result<String, FormatError> {
        let name = match self.head.remove("bin_file") {
            Some(Value::String(name)) => name,
            Some(Value::Null) if self.stored.is_empty() => return Ok(RunInfo::default().bin_file),
            Some(Value::Null) => {
                return Err(bad(path, "records have payloads, but `bin_file` is null".into()));
            }
            Some(_) => return Err(bad(path, "`bin_file` is not a string".into())),
            None => simpler::payload_file(path),
        };
        if is_plain_file_name(&name) { Ok(name) } else { Err(FormatError::BadBinFile { name }) }
    }

    /// Counters that the manifest states, each with the count of its records.
    fn stated(&self, path: &Path) -> Result<Vec<StatedCounter>, FormatError> {
        let totals = &self.totals;
        let counters = [
            ("total_tensors", totals.total_tensors),
            ("total_args", totals.total_tensors),
            ("before_dispatch", totals.before_dispatch),
            ("after_completion", totals.after_completion),
            ("input_tensors", totals.input_tensors),
            ("input_args", totals.input_tensors),
            ("output_tensors", totals.output_tensors),
            ("output_args", totals.output_tensors),
            ("inout_tensors", totals.inout_tensors),
            ("inout_args", totals.inout_tensors),
            ("truncated_tensors", totals.truncated_tensors),
            ("truncated_args", totals.truncated_tensors),
            ("scalars", totals.scalars),
            ("stored_bytes", totals.stored_bytes),
            ("deduplicated_bytes", totals.deduplicated_bytes),
        ];
        let mut stated = Vec::new();
        for (key, counted) in counters {
            let Some(value) = self.head.get(key) else { continue };
            let number = value.as_u64().ok_or_else(|| bad(path, format!("`{key}` is not a counter")))?;
            stated.push(StatedCounter { key, stated: number, counted });
        }
        Ok(stated)
    }

    fn own_head(&mut self, path: &Path) -> Result<(RunInfo, Footer), FormatError> {
        let not_understood = |e: serde_json::Error| bad(path, e.to_string());
        let head = Value::Object(std::mem::take(&mut self.head));
        let mut footer: Footer = serde_json::from_value(head.clone()).map_err(not_understood)?;
        footer.totals = serde_json::from_value(head.clone()).map_err(not_understood)?;
        footer.extra = Map::new();
        let mut info: RunInfo = serde_json::from_value(head).map_err(not_understood)?;
        info.extra.retain(|key, _| key == "modules" || !MANIFEST_KEYS.contains(&key.as_str()));
        Ok((info, footer))
    }

    /// The level of a `simpler` dump as one of tensortap's levels. The meaning of `simpler`'s number has
    /// changed (2 and 3 were swapped), so the records decide. Only the level `marked` cannot be seen in the
    /// records.
    fn level(&self, stated: Option<u64>) -> u32 {
        let tensors = self.totals.total_tensors.saturating_sub(self.totals.scalars);
        let level = match stated {
            Some(1) => DumpLevel::Marked,
            _ if self.with_payload < tensors => DumpLevel::Meta,
            _ => DumpLevel::Full,
        };
        level as u32
    }

    /// Run and losses of a `simpler` manifest. It does not state how the run ended; `Dump::status` handles
    /// that.
    fn foreign_head(&mut self, path: &Path) -> Result<(RunInfo, Footer), FormatError> {
        let mut head = std::mem::take(&mut self.head);
        let level = match head.get("dump_args_level") {
            None => None,
            Some(level) => {
                Some(level.as_u64().ok_or_else(|| bad(path, "`dump_args_level` is not a number".into()))?)
            }
        };
        let dropped = number(&mut head, "dropped_records", path)?.unwrap_or(0);
        let mut info = RunInfo {
            dump_level: self.level(level),
            dump_policy: String::new(),
            dump_collect: String::new(),
            ..RunInfo::default()
        };
        if let Some(Value::String(run_dir)) = head.remove("run_dir") {
            info.run_dir = run_dir;
        }
        head.retain(|key, _| !simpler::KEYS.contains(&key.as_str()));
        info.extra = head;
        let mut footer = Footer { totals: Totals { ..self.totals.clone() }, ..Footer::new(Status::Complete) };
        if dropped > 0 {
            footer.losses.push(Loss { thread: 0, reason: "dropped".into(), records: dropped, bytes: 0 });
        }
        Ok((info, footer))
    }
}

fn number(head: &mut Map<String, Value>, key: &str, path: &Path) -> Result<Option<u64>, FormatError> {
    let value = head.remove(key);
    let not_a_number = || bad(path, format!("`{key}` is not a number"));
    value.map(|value| value.as_u64().ok_or_else(not_a_number)).transpose()
}

fn bad(path: &Path, reason: String) -> FormatError {
    FormatError::BadManifest { path: path.to_owned(), record: None, reason }
}
