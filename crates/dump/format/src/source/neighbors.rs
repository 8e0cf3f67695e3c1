//! Files that belong to a manifest: next to it, or one folder up.

use std::{
    fs::{self, File},
    io::{BufReader, ErrorKind, Read},
    path::{Path, PathBuf},
};

use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_json::Value;

use super::{
    metered_reader::{Meter, MeteredReader},
    simpler,
};
use crate::{FormatError, KernelInfo, index::open_beside};

/// Maximum size of one element of a list. Real elements have at most a thousandth of it.
pub(super) const MAX_ELEMENT_BYTES: usize = 1 << 20;
/// Maximum size of everything in a file that is not an element of a list.
pub(super) const MAX_HEAD_BYTES: usize = 16 << 20;
/// Maximum size of a file with names.
const MAX_NAMES_BYTES: u64 = 4 << 20;
const BUFFER_BYTES: usize = 1 << 18;

pub(super) type JsonReader = serde_json::Deserializer<serde_json::de::IoRead<MeteredReader<BufReader<File>>>>;

/// A JSON file that is read in bounded memory.
pub(super) fn json_reader(file: File, meter: &Meter) -> JsonReader {
    // Most files next to a dump are small.
    let bytes = file
        .metadata()
        .map_or(BUFFER_BYTES, |metadata| usize::try_from(metadata.len()).unwrap_or(usize::MAX));
    let file = BufReader::with_capacity(bytes.clamp(1, BUFFER_BYTES), file);
    serde_json::Deserializer::from_reader(MeteredReader::new(file, meter))
}

/// Calls a function with every element of a list, each read in bounded memory.
pub(super) struct ForEach<'m, T, F> {
    meter: &'m Meter,
    each: F,
    element: std::marker::PhantomData<T>,
}

impl<'m, T, F> ForEach<'m, T, F> {
    pub(super) fn new(meter: &'m Meter, each: F) -> Self {
        ForEach { meter, each, element: std::marker::PhantomData }
    }
}

impl<'de, T: serde::Deserialize<'de>, F: FnMut(T) -> Result<(), String>> DeserializeSeed<'de>
    for ForEach<'_, T, F>
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: serde::Deserialize<'de>, F: FnMut(T) -> Result<(), String>> Visitor<'de> for ForEach<'_, T, F> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let outside = self.meter.allow(MAX_ELEMENT_BYTES);
        while let Some(element) = seq.next_element()? {
            (self.each)(element).map_err(serde::de::Error::custom)?;
            self.meter.allow(MAX_ELEMENT_BYTES);
        }
        self.meter.allow(outside);
        Ok(())
    }
}

/// Opens a file next to the manifest or one folder up; `None` if neither folder has it.
pub(super) fn find(dir: &Path, name: &str) -> Result<Option<(PathBuf, File)>, FormatError> {
    for dir in [Some(dir), parent(dir).as_deref()].into_iter().flatten() {
        if let Some(found) = open_in(dir, name)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Opens a file in a folder; `None` if it does not exist.
pub(super) fn open_in(dir: &Path, name: &str) -> Result<Option<(PathBuf, File)>, FormatError> {
    let path = dir.join(name);
    match open_beside(&path) {
        Ok(file) => Ok(Some((path, file))),
        Err(FormatError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The parent folder, also of a path such as `.`.
fn parent(dir: &Path) -> Option<PathBuf> {
    fs::canonicalize(dir).ok()?.parent().map(Path::to_owned)
}

/// Names of a run's kernels and of its orchestration.
#[derive(Default)]
pub(super) struct Names {
    pub(super) kernels: Vec<KernelInfo>,
    pub(super) orchestration: Option<String>,
}

/// Reads the first `name_map*.json` with kernel names.
pub(super) fn names(dir: &Path) -> Result<Names, FormatError> {
    for dir in [Some(dir.to_owned()), parent(dir)].into_iter().flatten() {
        for name in name_maps(&dir) {
            let Some((path, file)) = open_in(&dir, &name)? else { continue };
            if let Some(names) = read_names(&file).map_err(|reason| FormatError::Beside { path, reason })? {
                return Ok(names);
            }
        }
    }
    Ok(Names::default())
}

fn name_maps(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with(simpler::NAME_MAP) && name.ends_with(".json")).collect();
    names.sort();
    names
}

/// Returns `None` if the names are not those of kernels.
fn read_names(file: &File) -> Result<Option<Names>, String> {
    let mut text = Vec::new();
    file.take(MAX_NAMES_BYTES + 1).read_to_end(&mut text).map_err(|e| e.to_string())?;
    if text.len() as u64 > MAX_NAMES_BYTES {
        return Err(format!("it has more than {MAX_NAMES_BYTES} bytes"));
    }
    let map: Value = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
    if map.get("level").and_then(Value::as_u64).is_some_and(|level| level != simpler::KERNEL_LEVEL) {
        return Ok(None);
    }
    let by_id = map.get("callable_id_to_name").unwrap_or(&map).as_object().ok_or("it is not an object")?;
    let kernel = |(id, name): (&String, &Value)| {
        let (func_id, name) = (id.parse().ok()?, name.as_str()?.to_owned());
        Some(KernelInfo { func_id, name, ..KernelInfo::default() })
    };
    let mut kernels: Vec<KernelInfo> = by_id.iter().filter_map(kernel).collect();
    kernels.sort_by_key(|kernel| kernel.func_id);
    let orchestration = map.get("orchestrator_name").and_then(Value::as_str).map(str::to_owned);
    Ok(Some(Names { kernels, orchestration }))
}
