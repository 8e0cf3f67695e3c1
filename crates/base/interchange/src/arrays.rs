//! Opens files of arrays as a list of named arrays.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tensortap_abi::DType;

use crate::error::AtPath;
use crate::manifest::restore;
use crate::npy::{self, NpyRefusal};
use crate::npz::{self, SharedArchive};
use crate::order::Order;
use crate::storage::content_bytes;
use crate::{ArrayName, Content, EXPORT_MANIFEST_FILE, ExportManifest, InterchangeError, safetensors};

/// Levels of subfolders that are searched; an export by task has one.
const MAX_DEPTH: usize = 1;

/// Arrays from `.npy`, `.npz` and `.safetensors` files. Opening reads headers only.
///
/// An array of a `.npy` file has the name of the file without its extension; other formats store names. If
/// the folder has the manifest of an export, dtypes that the format lacks are restored.
#[derive(Debug)]
pub struct NamedArrays {
    arrays: Vec<NamedArray>,
    places: HashMap<String, usize>,
}

/// One named array. Its bytes are read on demand.
#[derive(Clone)]
pub struct NamedArray {
    /// Name of the array.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<u64>,
    path: PathBuf,
    bytes: u64,
    /// Size of an element in the file, in bytes.
    width: usize,
    /// Size of a number in the file: of a part of a complex number, otherwise of an element.
    part_width: usize,
    order: Order,
    bytes_at: ByteSource,
}

/// The location of an array's bytes.
#[derive(Clone)]
pub(crate) enum ByteSource {
    File { offset: u64 },
    Zip { archive: SharedArchive, entry: usize, skip: u64 },
}

impl NamedArrays {
    /// Opens a file, or all supported files of a folder and its subfolders.
    pub fn open(path: &Path) -> Result<NamedArrays, InterchangeError> {
        let metadata = fs::metadata(path).at("open", path)?;
        let mut files = Vec::new();
        if metadata.is_dir() {
            collect(path, MAX_DEPTH, &mut files)?;
            files.sort();
        } else {
            files.push(path.to_path_buf());
        }
        let mut opened = NamedArrays { arrays: Vec::new(), places: HashMap::new() };
        for file in &files {
            open_file(file)?.into_iter().try_for_each(|array| opened.add(array))?;
        }
        if opened.arrays.is_empty() {
            return Err(InterchangeError::NoArrays { path: path.into() });
        }
        opened.restore_dtypes(path)?;
        Ok(opened)
    }

    /// Opens one `.safetensors` file with any name. Also returns the notes in its header, as key and text.
    ///
    /// The dtypes are those of the file.
    pub fn open_safetensors(path: &Path) -> Result<(NamedArrays, Vec<(String, String)>), InterchangeError> {
        let (arrays, notes) = safetensors::open(path, open_regular(path)?)?;
        let mut opened = NamedArrays { arrays: Vec::new(), places: HashMap::new() };
        arrays.into_iter().try_for_each(|array| opened.add(array))?;
        Ok((opened, notes))
    }

    /// All arrays, sorted by file name and then in file order.
    #[must_use]
    pub fn arrays(&self) -> &[NamedArray] {
        &self.arrays
    }

    /// Position of the array with this name in [`arrays`](NamedArrays::arrays).
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The array with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&NamedArray> {
        Some(&self.arrays[self.position(name)?])
    }

    fn add(&mut self, array: NamedArray) -> Result<(), InterchangeError> {
        if let Some(place) = self.places.get(&array.name) {
            let NamedArray { name, path: one, .. } = &self.arrays[*place];
            let (name, one, other) = (name.clone(), one.clone(), array.path);
            return Err(InterchangeError::Duplicate { name, one, other });
        }
        self.places.insert(array.name.clone(), self.arrays.len());
        self.arrays.push(array);
        Ok(())
    }

    /// Restores dtypes from the manifest next to the files, or one folder up if files are grouped by task.
    fn restore_dtypes(&mut self, path: &Path) -> Result<(), InterchangeError> {
        let dir = if path.is_dir() { Some(path) } else { path.parent() };
        for dir in [dir, dir.and_then(Path::parent)].into_iter().flatten() {
            let manifest = dir.join(EXPORT_MANIFEST_FILE);
            if manifest.is_file() {
                for entry in ExportManifest::read(&manifest)?.arrays {
                    if let Some(place) = self.places.get(&entry.name) {
                        restore(&mut self.arrays[*place], Some(&entry.meaning()));
                    }
                }
                break;
            }
        }
        Ok(())
    }
}

impl NamedArray {
    /// `have` is the number of bytes available at `bytes_at`.
    pub(crate) fn new(
        path: &Path,
        name: String,
        dtype: DType,
        shape: Vec<u64>,
        order: Order,
        bytes_at: ByteSource,
        have: u64,
    ) -> Result<NamedArray, InterchangeError> {
        let need = content_bytes(dtype, &shape).unwrap_or(u64::MAX);
        if need > have {
            return Err(InterchangeError::Short { path: path.into(), name, need, have });
        }
        let width = dtype.bits().div_ceil(8) as usize;
        let part_width = dtype.part().bits().div_ceil(8) as usize;
        let path = path.into();
        Ok(NamedArray { name, dtype, shape, path, bytes: need, width, part_width, order, bytes_at })
    }

    /// Size of the content in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of elements.
    #[must_use]
    pub fn numel(&self) -> u64 {
        crate::storage::numel(&self.shape).unwrap_or(u64::MAX)
    }

    /// The file that contains the array.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The record that the array belongs to, if it has the name of an exported record.
    #[must_use]
    pub fn record_name(&self) -> Option<ArrayName> {
        self.name.parse().ok()
    }

    /// The whole content: little endian, last dimension fastest, whatever the order in the file.
    pub fn content(&self) -> Result<Vec<u8>, InterchangeError> {
        let NamedArray { path, name, bytes, .. } = self;
        let no_memory =
            || InterchangeError::NoMemory { path: path.clone(), name: name.clone(), bytes: *bytes };
        let length = usize::try_from(*bytes).map_err(|_| no_memory())?;
        let mut content = Vec::new();
        content.try_reserve_exact(length).map_err(|_| no_memory())?;
        content.resize(length, 0);
        self.read_stored(0, &mut content)?;
        if self.order.is_ours() {
            return Ok(content);
        }
        Ok(self.order.to_ours(content, self.width, self.part_width, &self.shape))
    }

    /// Reads a part of the content. If the array is compressed or in another order, this reads all of it.
    pub fn read_part(&self, offset: u64, into: &mut [u8]) -> Result<(), InterchangeError> {
        let need = offset.saturating_add(into.len() as u64);
        if need > self.bytes {
            let NamedArray { path, name, bytes: have, .. } = self.clone();
            return Err(InterchangeError::Short { path, name, need, have });
        }
        if self.order.is_ours() {
            return self.read_stored(offset, into);
        }
        self.content()?.read_at(offset, into).at("read", &self.path)
    }

    fn read_stored(&self, offset: u64, into: &mut [u8]) -> Result<(), InterchangeError> {
        match &self.bytes_at {
            ByteSource::File { offset: start } => {
                let file = open_regular(&self.path)?;
                file.read_exact_at(into, start.saturating_add(offset)).at("read", &self.path)
            }
            ByteSource::Zip { archive, entry, skip } => {
                npz::read_entry(&self.path, archive, *entry, skip.saturating_add(offset), into)
            }
        }
    }
}

impl fmt::Debug for NamedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:?} in {}", self.name, self.dtype, self.shape, self.path.display())
    }
}

/// Collects the files of arrays in a folder.
fn collect(dir: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), InterchangeError> {
    for entry in fs::read_dir(dir).at("list", dir)? {
        let path = entry.at("list", dir)?.path();
        if path.is_dir() && depth > 0 {
            collect(&path, depth - 1, files)?;
        } else if format_of(&path).is_some() {
            files.push(path);
        }
    }
    Ok(())
}

fn format_of(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?;
    ["npy", "npz", "safetensors"].into_iter().find(|known| extension.eq_ignore_ascii_case(known))
}

fn open_file(path: &Path) -> Result<Vec<NamedArray>, InterchangeError> {
    let file = open_regular(path)?;
    match format_of(path) {
        Some("npz") => npz::open(path, file),
        Some("safetensors") => Ok(safetensors::open(path, file)?.0),
        Some(_) => Ok(vec![open_npy(path, file)?]),
        None => Err(InterchangeError::NoArrays { path: path.into() }),
    }
}

fn open_npy(path: &Path, mut file: File) -> Result<NamedArray, InterchangeError> {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut prefix = Vec::new();
    (&mut file).take(npy::MAX_PREFIX_BYTES as u64).read_to_end(&mut prefix).at("read", path)?;
    let header = match npy::decode(&prefix) {
        Ok(header) => header,
        Err(NpyRefusal::Damaged(reason)) => return Err(InterchangeError::damaged(path, npy::FORMAT, reason)),
        Err(NpyRefusal::DType(dtype)) => {
            return Err(InterchangeError::UnknownDType { path: path.into(), name, dtype });
        }
    };
    let have = file.metadata().at("measure", path)?.len().saturating_sub(header.data_offset);
    let bytes_at = ByteSource::File { offset: header.data_offset };
    NamedArray::new(path, name, header.dtype, header.shape, header.order, bytes_at, have)
}

/// Opens a regular file. Opening a pipe or a device could block forever.
fn open_regular(path: &Path) -> Result<File, InterchangeError> {
    if !fs::metadata(path).at("open", path)?.is_file() {
        return Err(InterchangeError::damaged(path, "a file of arrays", "it is not a regular file"));
    }
    File::open(path).at("open", path)
}
