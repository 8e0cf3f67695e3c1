//! The private folder of a recorder's socket.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Maximum length of a Unix socket address, without the terminating zero.
const MAX_SOCKET_PATH: usize = 107;
const PREFIX: &str = "tensortap-record-";
const SOCKET: &str = "socket";
/// Maximum number of recorders of one process at a time. More indicates a problem.
const MAX_SAME_PROCESS: u32 = 1000;

/// A folder that only this user can enter. It is removed with this value.
#[derive(Debug)]
pub struct SocketDir {
    dir: PathBuf,
}

impl SocketDir {
    /// Creates the folder in the first usable location: `XDG_RUNTIME_DIR`, `TMPDIR`, `/tmp`.
    pub fn make() -> io::Result<SocketDir> {
        let named = ["XDG_RUNTIME_DIR", "TMPDIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
        let usual = named.chain([PathBuf::from("/tmp")]).filter(|folder| folder.is_absolute());
        let mut failed = io::Error::other("no folder is usable");
        for folder in usual {
            clear_away(&folder);
            match SocketDir::make_in(&folder) {
                Ok(place) => return Ok(place),
                Err(error) => failed = io::Error::new(error.kind(), format!("{}: {error}", folder.display())),
            }
        }
        Err(failed)
    }

    fn make_in(folder: &Path) -> io::Result<SocketDir> {
        for number in 0..MAX_SAME_PROCESS {
            let dir = folder.join(format!("{PREFIX}{}-{number}", std::process::id()));
            if dir.join(SOCKET).as_os_str().as_bytes().len() > MAX_SOCKET_PATH {
                return Err(io::Error::other(format!(
                    "the socket's path would have more than {MAX_SOCKET_PATH} bytes"
                )));
            }
            match DirBuilder::new().mode(0o700).create(&dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| SocketDir { dir }),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join(SOCKET)
    }
}

impl Drop for SocketDir {
    fn drop(&mut self) {
        remove(&self.dir);
    }
}

/// Removes a folder and the socket in it, and no other files.
fn remove(dir: &Path) {
    let _ = fs::remove_file(dir.join(SOCKET));
    let _ = fs::remove_dir(dir);
}

/// Removes folders of killed recorders of this user.
fn clear_away(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(recorder_of);
        let is_ours = || entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == geteuid().as_raw());
        let has_ended = |process: u32| !Path::new(&format!("/proc/{process}")).exists();
        if process.is_some_and(has_ended) && is_ours() {
            remove(&entry.path());
        }
    }
}

/// Process id of the recorder that owns a folder.
fn recorder_of(name: &str) -> Option<u32> {
    let (process, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    number.parse::<u32>().ok()?;
    process.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_folder_is_private_and_is_removed_with_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) =
            (SocketDir::make_in(folder.path()).unwrap(), SocketDir::make_in(folder.path()).unwrap());
        assert_ne!(first.socket(), second.socket());
        assert_eq!(fs::metadata(&first.dir).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(first.socket(), "").unwrap();
        drop((first, second));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(100));
        fs::create_dir(&long).unwrap();
        assert!(SocketDir::make_in(&long).unwrap_err().to_string().contains("107 bytes"));
        assert_eq!(fs::read_dir(&long).unwrap().count(), 0);
    }

    #[test]
    fn only_folders_of_killed_recorders_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let living = SocketDir::make_in(folder.path()).unwrap();
        // Process ids are always below this.
        let dead = folder.path().join(format!("{PREFIX}4000000000-0"));
        let full = folder.path().join(format!("{PREFIX}4000000000-1"));
        let other = folder.path().join("tensortap-record-notes");
        for dir in [&dead, &full, &other] {
            fs::create_dir(dir).unwrap();
        }
        fs::write(dead.join(SOCKET), "").unwrap();
        fs::write(full.join("kept"), "").unwrap();
        clear_away(folder.path());
        assert!(!dead.exists());
        assert!(full.exists() && other.exists() && living.dir.exists());
    }
}
