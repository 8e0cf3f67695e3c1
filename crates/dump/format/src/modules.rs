//! `modules/`: the images of a dump's modules. Each distinct image is stored once, in a file named by its
//! hash.
//!
//! A dump is untrusted. A file's name is computed from hash and kind and never taken from the dump, and
//! readers return an image only if it has that hash.

use std::{
    fs::{self, File},
    io::{ErrorKind, Read, Write},
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;
use tensortap_abi::{MAX_IMAGE_BYTES, ModuleKind};
use tensortap_values::{ContentHasher, content_hash};

use crate::{FormatError, RunInfo, error::AtPath, files::sync_dir, json::Hex128};

/// The folder in a dump with the images of its modules.
pub const MODULES_DIR: &str = "modules";

/// Name of an image's file in [`MODULES_DIR`].
///
/// ```
/// use tensortap_abi::ModuleKind;
/// let name = tensortap_format::image_file_name(0xab, ModuleKind::OpenClC);
/// assert_eq!(name, "000000000000000000000000000000ab.cl");
/// ```
#[must_use]
pub fn image_file_name(hash: u128, kind: ModuleKind) -> String {
    format!("{hash:032x}.{}", kind.extension())
}

/// A module: code that contains kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Number by which tasks and kernels refer to it.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Format of its image.
    pub kind: ModuleKind,
    /// Its build options.
    pub options: String,
    /// The device it was built for.
    pub device: String,
    /// Size of its image; 0 if not known.
    pub bytes: u64,
    /// `xxh3_128_tree4k` of its image; 0 if not known.
    pub hash: u128,
    /// Whether the dump states that it contains the image.
    pub has_image: bool,
}

impl Module {
    /// The file with its image, relative to the dump's folder, if the dump states that it contains the
    /// image.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        self.has_image.then(|| Path::new(MODULES_DIR).join(image_file_name(self.hash, self.kind)))
    }

    /// Reads the image from the dump in `dir` and checks its hash.
    ///
    /// # Errors
    /// If the image is missing, or its content differs from the recorded one.
    pub fn image(&self, dir: &Path) -> Result<Vec<u8>, FormatError> {
        let bad = |reason: String| FormatError::BadModule { id: self.id, name: self.name.clone(), reason };
        let file = self.file().ok_or_else(|| bad("its image was not stored".into()))?;
        let path = dir.join(&file);
        let most = self.bytes.min(MAX_IMAGE_BYTES);
        let mut image = Vec::new();
        open_plain(&path).at("open", &path)?.take(most + 1).read_to_end(&mut image).at("read", &path)?;
        if image.len() as u64 != self.bytes || content_hash(&image) != self.hash {
            return Err(bad(format!("{} differs from the recorded image", path.display())));
        }
        Ok(image)
    }
}

/// The form in the manifest.
impl Serialize for Module {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(8))?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("kind", self.kind.name())?;
        map.serialize_entry("options", &self.options)?;
        map.serialize_entry("device", &self.device)?;
        map.serialize_entry("bytes", &self.bytes)?;
        map.serialize_entry("hash", &Hex128(self.hash))?;
        map.serialize_entry("file", &self.file())?;
        map.end()
    }
}

/// The modules that a manifest lists, for dumps without an index. Invalid ones are skipped.
pub(crate) fn listed_modules(info: &RunInfo) -> Vec<Module> {
    let stated = info.extra.get("modules").and_then(Value::as_array);
    stated.map_or(Vec::new(), |stated| stated.iter().filter_map(listed_module).collect())
}

fn listed_module(stated: &Value) -> Option<Module> {
    let text = |key: &str| stated.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = text("kind");
    Some(Module {
        id: stated.get("id")?.as_u64().and_then(|id| u32::try_from(id).ok())?,
        name: text("name"),
        kind: ModuleKind::ALL.into_iter().find(|known| known.name() == kind).unwrap_or_default(),
        options: text("options"),
        device: text("device"),
        bytes: stated.get("bytes")?.as_u64()?,
        hash: u128::from_str_radix(stated.get("hash")?.as_str()?.strip_prefix("0x")?, 16).ok()?,
        has_image: stated.get("file").is_some_and(Value::is_string),
    })
}

/// Opens a regular file. Rejects pipes, links that point outside the folder, and folders that are links.
pub(crate) fn open_plain(path: &Path) -> std::io::Result<File> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(std::io::Error::new(
            ErrorKind::InvalidInput,
            "its path does not name a file in a folder",
        ));
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags | OFlags::DIRECTORY, Mode::empty())?;
    let file = File::from(rustix::fs::openat(&folder, name, flags | OFlags::NONBLOCK, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(std::io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Writes an image into a folder. The file gets its final name only when it is complete and has the right
/// hash.
#[derive(Debug)]
pub struct ImageWriter {
    path: PathBuf,
    temporary: PathBuf,
    /// `None` after the rename, or if the same image already exists.
    file: Option<File>,
    hasher: ContentHasher,
    hash: u128,
}

impl ImageWriter {
    /// Starts an image of `bytes` bytes in a dump's folder. `place` distinguishes it from images that are
    /// written at the same time.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(
        dir: &Path,
        kind: ModuleKind,
        hash: u128,
        bytes: u64,
        place: (u32, u64),
    ) -> Result<ImageWriter, FormatError> {
        let folder = dir.join(MODULES_DIR);
        fs::create_dir_all(&folder).at("create", &folder)?;
        let name = image_file_name(hash, kind);
        let path = folder.join(&name);
        let temporary = folder.join(format!("{name}.{}-{}.tmp", place.0, place.1));
        let is_there = open_plain(&path).and_then(|file| file.metadata()).is_ok_and(|is| is.len() == bytes);
        let file = if is_there { None } else { Some(File::create(&temporary).at("create", &temporary)?) };
        Ok(ImageWriter { path, temporary, file, hasher: ContentHasher::new(bytes), hash })
    }

    /// Appends bytes. The caller must not exceed the announced size.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), FormatError> {
        self.hasher.update(piece);
        match &mut self.file {
            Some(file) => file.write_all(piece).at("write", &self.temporary),
            None => Ok(()),
        }
    }

    /// Renames the file if it matches the announced size and hash. Returns whether it does.
    ///
    /// # Errors
    /// If it cannot be synced or renamed.
    pub fn finish(mut self, sync: bool) -> Result<bool, FormatError> {
        if self.hasher.left_bytes() > 0 || self.hasher.clone().finish() != self.hash {
            return Ok(false);
        }
        let Some(file) = self.file.take() else { return Ok(true) };
        if sync {
            file.sync_all().at("sync", &self.temporary)?;
        }
        fs::rename(&self.temporary, &self.path).at("create", &self.path)?;
        if sync && let Some(folder) = self.path.parent() {
            sync_dir(folder)?;
        }
        Ok(true)
    }
}

impl Drop for ImageWriter {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // A file that cannot be removed does no harm: its name is not that of an image.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(image: &[u8]) -> Module {
        let (bytes, hash) = (image.len() as u64, content_hash(image));
        Module { id: 1, kind: ModuleKind::SpirV, bytes, hash, has_image: true, ..Module::default() }
    }

    fn write(dir: &Path, image: &[u8], hash: u128) -> bool {
        let bytes = image.len() as u64;
        let mut writer = ImageWriter::create(dir, ModuleKind::SpirV, hash, bytes, (0, 1)).unwrap();
        image.chunks(1000).for_each(|piece| writer.write(piece).unwrap());
        writer.finish(true).unwrap()
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir.join(MODULES_DIR)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn an_image_is_stored_once_under_its_hash_and_read_only_if_it_matches() {
        let dir = tempfile::tempdir().unwrap();
        let image: Vec<u8> = (0..10_000_u32).map(|at| (at * at).to_le_bytes()[1]).collect();
        let module = module(&image);
        assert!(write(dir.path(), &image, module.hash) && write(dir.path(), &image, module.hash));
        assert_eq!(names(dir.path()), [image_file_name(module.hash, ModuleKind::SpirV)]);
        assert_eq!(module.image(dir.path()).unwrap(), image);
        let path = dir.path().join(module.file().unwrap());
        let mut damaged = image.clone();
        damaged[9_999] ^= 1;
        for content in [&damaged[..], &image[..9_999], b""] {
            fs::write(&path, content).unwrap();
            assert!(matches!(module.image(dir.path()), Err(FormatError::BadModule { id: 1, .. })));
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(matches!(module.image(dir.path()), Err(FormatError::Io { action: "open", .. })));
        // A folder that is a link is not followed either, although the image is there.
        fs::remove_file(&path).unwrap();
        fs::write(&path, &image).unwrap();
        assert_eq!(module.image(dir.path()).unwrap(), image);
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(dir.path().join(MODULES_DIR), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, dir.path().join(MODULES_DIR)).unwrap();
        assert!(matches!(module.image(dir.path()), Err(FormatError::Io { action: "open", .. })));
    }

    #[test]
    fn an_incomplete_or_wrong_image_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let image = [7_u8; 5000];
        assert!(!write(dir.path(), &image, 1));
        let mut cut = ImageWriter::create(dir.path(), ModuleKind::SpirV, 2, 5000, (0, 1)).unwrap();
        cut.write(&image[..100]).unwrap();
        assert_eq!(names(dir.path()).len(), 1);
        assert!(!cut.finish(false).unwrap());
        assert_eq!(names(dir.path()), [""; 0]);
    }
}
