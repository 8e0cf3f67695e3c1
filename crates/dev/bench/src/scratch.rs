use std::fs;
use std::path::{Path, PathBuf};

use crate::BenchError;
use crate::error::io;

/// A temporary folder for the files of a benchmark. Dropping the value removes it.
pub(crate) struct Scratch {
    dir: PathBuf,
    /// The parent folder, if it was created as well.
    made_parent: Option<PathBuf>,
}

impl Scratch {
    /// A new folder inside `parent`.
    pub(crate) fn new(parent: &Path) -> Result<Scratch, BenchError> {
        let made_parent = (!parent.exists()).then(|| parent.to_path_buf());
        let dir = parent.join(format!("bench_dump_{}", std::process::id()));
        fs::create_dir_all(&dir).map_err(io("creating", &dir))?;
        Ok(Scratch { dir, made_parent })
    }

    /// The path of a file or folder in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Free bytes of its disk for this user.
    pub(crate) fn free_bytes(&self) -> Result<u64, BenchError> {
        let disk = rustix::fs::statvfs(&self.dir)
            .map_err(|errno| io("reading the free disk space of", &self.dir)(errno.into()))?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Removes a file or folder in it.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), BenchError> {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.map_err(io("removing", path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Files that cannot be removed stay.
        let _ = fs::remove_dir_all(&self.dir);
        if let Some(parent) = &self.made_parent {
            let _ = fs::remove_dir(parent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_folder_removes_itself_and_nothing_else() {
        let outer = tempfile::tempdir().unwrap();
        let parent = outer.path().join("outputs");
        let scratch = Scratch::new(&parent).unwrap();
        fs::write(scratch.path("file"), b"x").unwrap();
        assert!(scratch.free_bytes().unwrap() > 0);
        drop(scratch);
        assert!(!parent.exists());
        fs::create_dir(&parent).unwrap();
        drop(Scratch::new(&parent).unwrap());
        assert!(parent.exists() && fs::read_dir(&parent).unwrap().next().is_none());
    }
}
