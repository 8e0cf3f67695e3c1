//! Files of arrays as a list of named arrays.

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

/// Folders below the one named: an export by task has one.
const MAX_DEPTH: usize = 1;

/// Arrays from `.npy`, `.npz` and `.safetensors` files. Opening reads headers only.
///
/// An array of a `.npy` file is named as the file without its extension, others as their file names them. When the folder
/// has the manifest of an export, dtypes that the format lacks are put right.
#[derive(Debug)]
pub struct NamedArrays {
    arrays: Vec<NamedArray>,
    places: HashMap<String, usize>,
}

/// One named array. Its bytes are read when asked for.
#[derive(Clone)]
pub struct NamedArray {
    /// Its name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<u64>,
    path: PathBuf,
    bytes: u64,
    /// Bytes of an element as the file has them.
    width: usize,
    order: Order,
    bytes_at: BytesAt,
}

/// Where an array's bytes are.
#[derive(Clone)]
pub(crate) enum BytesAt {
    File { offset: u64 },
    Zip { archive: SharedArchive, entry: usize, skip: u64 },
}

impl NamedArrays {
    /// Opens a file, or all such files of a folder and of the folders in it.
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

    /// Opens one `.safetensors` file, whatever it is called; with the notes in its header, key and text.
    ///
    /// The dtypes are those that the file itself names.
    pub fn open_safetensors(path: &Path) -> Result<(NamedArrays, Vec<(String, String)>), InterchangeError> {
        let (arrays, notes) = safetensors::open(path, open_regular(path)?)?;
        let mut opened = NamedArrays { arrays: Vec::new(), places: HashMap::new() };
        arrays.into_iter().try_for_each(|array| opened.add(array))?;
        Ok((opened, notes))
    }

    /// Every array, in the order of file names, then of the file.
    #[must_use]
    pub fn arrays(&self) -> &[NamedArray] {
        &self.arrays
    }

    /// Where in [`arrays`](NamedArrays::arrays) the array of a name is.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The array of a name.
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

    /// By the manifest beside the files, or one folder up where files are grouped by task.
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
    /// `have` is how many bytes there can be at `bytes_at`.
    pub(crate) fn new(
        path: &Path,
        name: String,
        dtype: DType,
        shape: Vec<u64>,
        order: Order,
        bytes_at: BytesAt,
        have: u64,
    ) -> Result<NamedArray, InterchangeError> {
        let need = content_bytes(dtype, &shape).unwrap_or(u64::MAX);
        if need > have {
            return Err(InterchangeError::Short { path: path.into(), name, need, have });
        }
        let width = dtype.bits().div_ceil(8) as usize;
        Ok(NamedArray { name, dtype, shape, path: path.into(), bytes: need, width, order, bytes_at })
    }

    /// Bytes of content.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Elements.
    #[must_use]
    pub fn numel(&self) -> u64 {
        crate::storage::numel(&self.shape).unwrap_or(u64::MAX)
    }

    /// The file that holds it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which record it belongs to, when it is named as `export` names arrays.
    #[must_use]
    pub fn record_name(&self) -> Option<ArrayName> {
        self.name.parse().ok()
    }

    /// All of the content: little endian, last dimension fastest, whatever the file's order.
    pub fn content(&self) -> Result<Vec<u8>, InterchangeError> {
        let NamedArray { path, name, bytes, .. } = self;
        let no_memory =
            || InterchangeError::NoMemory { path: path.clone(), name: name.clone(), bytes: *bytes };
        let length = usize::try_from(*bytes).map_err(|_| no_memory())?;
        let mut content = Vec::new();
        content.try_reserve_exact(length).map_err(|_| no_memory())?;
        content.resize(length, 0);
        self.read_stored(0, &mut content)?;
        Ok(if self.order.is_ours() { content } else { self.order.to_ours(content, self.width, &self.shape) })
    }

    /// A part of the content. Of an array in another order, or compressed, that takes as long as all of it.
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
            BytesAt::File { offset: start } => {
                let file = open_regular(&self.path)?;
                file.read_exact_at(into, start.saturating_add(offset)).at("read", &self.path)
            }
            BytesAt::Zip { archive, entry, skip } => {
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

/// Files of arrays in a folder.
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
    let bytes_at = BytesAt::File { offset: header.data_offset };
    NamedArray::new(path, name, header.dtype, header.shape, header.order, bytes_at, have)
}

/// A pipe or a device could block for ever.
fn open_regular(path: &Path) -> Result<File, InterchangeError> {
    if !fs::metadata(path).at("open", path)?.is_file() {
        return Err(InterchangeError::damaged(path, "a file of arrays", "it is not a regular file"));
    }
    File::open(path).at("open", path)
}
