//! Compares `tensor_dump.json` with the index.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufReader, Read, Write},
    path::Path,
};

use serde::de::{DeserializeSeed, MapAccess, SeqAccess};
use serde_json::{Map, Number, Value};

use crate::{
    Dump, Footer, FormatError, MANIFEST_FILE, NamedRecord, Record, Records,
    error::AtPath,
    index::{Index, open_regular},
    json_stream::read_stream,
    manifest::{JsonInput, StreamError},
    source::Source,
    survey::in_flight,
    verify::{Problem, repair_command},
};

/// Maximum number of listed problems per manifest.
const MAX_MANIFEST_PROBLEMS: usize = 100;

/// Problems of the manifest of a closed dump. A manifest that a different program rewrote with the same
/// meaning, or with additional keys, is valid.
pub(crate) fn manifest_problems(dump: &Dump) -> Result<Vec<Problem>, FormatError> {
    let path = dump.dir().join(MANIFEST_FILE);
    let Some((index, end, footer)) = closed(dump) else { return Ok(Vec::new()) };
    let in_flight = in_flight(index, end, &footer)?;
    let input = JsonInput::new(index, end, &footer, &in_flight)?;
    if is_written_as(&path, |out| input.write_manifest(out))? {
        return Ok(Vec::new());
    }
    let head = expected_head(&input, &path)?;
    let is_old = index.schema_version() < 2;
    let mut check = Check { head: &head, dump, is_old, records: dump.stored_records(), problems: Vec::new() };
    let file = BufReader::with_capacity(1 << 18, open_regular(&path)?);
    let mut json = serde_json::Deserializer::from_reader(file);
    if let Err(error) = check.deserialize(&mut json).and_then(|()| json.end()) {
        let what = format!("{MANIFEST_FILE} cannot be read: {error}");
        check.problems.push(Problem::of_dump(what, repair_command(dump.dir())));
    }
    Ok(check.problems)
}

/// The index of a closed dump, where it ends, and its footer with the totals of the whole dump. None for other dumps.
pub(crate) fn closed(dump: &Dump) -> Option<(&Index, u64, Footer)> {
    let Source::Index(indexed) = dump.source() else { return None };
    let footer = Footer { totals: dump.totals().clone(), ..dump.footer()?.clone() };
    Some((&indexed.index, indexed.survey.end, footer))
}

/// Whether a file contains exactly what `write` writes.
pub(crate) fn is_written_as(
    path: &Path,
    write: impl FnOnce(&mut FileComparer) -> Result<(), StreamError>,
) -> Result<bool, FormatError> {
    let file = open_regular(path)?;
    let mut compare = FileComparer { file: BufReader::with_capacity(1 << 18, file), buffer: Vec::new() };
    match write(&mut compare) {
        Ok(()) => Ok(matches!(compare.file.read(&mut [0]), Ok(0))),
        Err(StreamError::Output(error)) if error.kind() == io::ErrorKind::InvalidData => Ok(false),
        Err(error) => Err(error).at("read", path),
    }
}

/// Compares written bytes with a file, and fails at the first difference.
pub(crate) struct FileComparer {
    file: BufReader<File>,
    buffer: Vec<u8>,
}

impl Write for FileComparer {
    fn write(&mut self, expected: &[u8]) -> io::Result<usize> {
        self.buffer.resize(expected.len(), 0);
        match self.file.read_exact(&mut self.buffer) {
            Ok(()) if self.buffer == expected => Ok(expected.len()),
            Ok(()) => Err(io::ErrorKind::InvalidData.into()),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(io::ErrorKind::InvalidData.into()),
            Err(e) => Err(e),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The expected manifest without its records.
fn expected_head(input: &JsonInput<'_>, path: &Path) -> Result<Map<String, Value>, FormatError> {
    let mut json = Vec::new();
    input.write_head(&mut json).at("read", path)?;
    serde_json::from_slice(&json).map_err(io::Error::from).at("read", path)
}

/// Walks the manifest's records in parallel with the index.
struct Check<'c> {
    dump: &'c Dump,
    head: &'c Map<String, Value>,
    is_old: bool,
    records: Records<'c>,
    problems: Vec<Problem>,
}

read_stream!(object &mut Check<'_>, "a manifest");

impl Check<'_> {
    fn read<'de, A: MapAccess<'de>>(&mut self, mut map: A) -> Result<(), A::Error> {
        let mut missing: BTreeSet<&str> = self.head.keys().map(String::as_str).chain(["tensors"]).collect();
        while let Some(key) = map.next_key::<String>()? {
            if key == "tensors" {
                map.next_value_seed(Tensors(self))?;
            } else {
                let value: Value = map.next_value()?;
                self.head_value(&key, &value);
            }
            missing.remove(key.as_str());
        }
        for key in missing {
            self.problem(None, format!("{MANIFEST_FILE} has no `{key}`"));
        }
        Ok(())
    }
}

impl Check<'_> {
    fn head_value(&mut self, key: &str, value: &Value) {
        let expected = self.head.get(key);
        if expected.is_some_and(|expected| !same(expected, value)) {
            self.problem(None, format!("`{key}` in {MANIFEST_FILE} differs from the index"));
        }
    }

    fn element(&mut self, element: &Value) -> Result<(), FormatError> {
        let Some(record) = self.records.next().transpose()? else {
            self.problem(None, format!("{MANIFEST_FILE} has more records than the index"));
            return Ok(());
        };
        let named = NamedRecord { record, names: self.dump.names(&record) };
        let expected = serde_json::to_value(named).unwrap_or_default();
        let keys = expected.as_object().into_iter().flatten();
        for (key, expected) in keys {
            let found = element.get(key);
            // Manifests of schema version 1 do not have them.
            let is_new = found.is_none() && self.is_old && ["space", "marked"].contains(&key.as_str());
            if !is_new && found.is_none_or(|value| !same(expected, value)) {
                let what = format!("`{key}` in {MANIFEST_FILE} differs from the index, which has {expected}");
                self.problem(Some(&record), what);
            }
        }
        Ok(())
    }

    fn problem(&mut self, record: Option<&Record>, what: String) {
        if self.problems.len() < MAX_MANIFEST_PROBLEMS {
            self.problems.push(match record {
                Some(record) => Problem::of(record, what, repair_command(self.dump.dir())),
                None => Problem::of_dump(what, repair_command(self.dump.dir())),
            });
        }
    }
}

/// Deserializer of the list of records.
struct Tensors<'a, 'c>(&'a mut Check<'c>);

read_stream!(list Tensors<'_, '_>, "a list of records");

impl Tensors<'_, '_> {
    fn read<'de, A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let check = self.0;
        while let Some(element) = seq.next_element::<Value>()? {
            check.element(&element).map_err(serde::de::Error::custom)?;
        }
        let missing = check.records.len();
        if missing > 0 {
            check.problem(None, format!("{MANIFEST_FILE} lacks the last {missing} records"));
        }
        Ok(())
    }
}

/// Equality that ignores how numbers are written. Objects may have more keys than expected.
pub(crate) fn same(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => expected == found,
    }
}

/// Compares integers exactly and other numbers by their bits, so that a zero keeps its sign.
fn same_number(a: &Number, b: &Number) -> bool {
    let whole = |number: &Number| number.as_i128();
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a.as_f64().map(f64::to_bits) == b.as_f64().map(f64::to_bits),
    }
}
