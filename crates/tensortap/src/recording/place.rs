//! The private folder that a recorder's socket lies in.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// What the address of a Unix socket holds, but for the zero at its end.
const MAX_SOCKET_PATH: usize = 107;
const PREFIX: &str = "tensortap-record-";
const SOCKET: &str = "socket";
/// Recorders of one process at a time; more is something gone wrong.
const MAX_SAME_PROCESS: u32 = 1000;

/// A folder that only this user can enter. It goes away with this value.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
}

impl Place {
    /// Makes one in the first of the usual folders that takes it: `XDG_RUNTIME_DIR`, `TMPDIR`, `/tmp`.
    pub fn make() -> io::Result<Place> {
        let named = ["XDG_RUNTIME_DIR", "TMPDIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
        let usual = named.chain([PathBuf::from("/tmp")]).filter(|folder| folder.is_absolute());
        let mut failed = io::Error::other("there is no folder for it");
        for folder in usual {
            clear_away(&folder);
            match Place::make_in(&folder) {
                Ok(place) => return Ok(place),
                Err(error) => failed = io::Error::new(error.kind(), format!("{}: {error}", folder.display())),
            }
        }
        Err(failed)
    }

    fn make_in(folder: &Path) -> io::Result<Place> {
        for number in 0..MAX_SAME_PROCESS {
            let dir = folder.join(format!("{PREFIX}{}-{number}", std::process::id()));
            if dir.join(SOCKET).as_os_str().as_bytes().len() > MAX_SOCKET_PATH {
                return Err(io::Error::other(format!(
                    "a socket there has more than {MAX_SOCKET_PATH} bytes of path"
                )));
            }
            match DirBuilder::new().mode(0o700).create(&dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Place { dir }),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Where the socket is to be.
    pub fn socket(&self) -> PathBuf {
        self.dir.join(SOCKET)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        remove(&self.dir);
    }
}

/// Removes a folder and the socket in it, and nothing else.
fn remove(dir: &Path) {
    let _ = fs::remove_file(dir.join(SOCKET));
    let _ = fs::remove_dir(dir);
}

/// Removes what recorders of this user left that were killed.
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

/// The process whose folder it is.
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
    fn a_place_is_the_users_alone_and_goes_away_with_what_lies_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) =
            (Place::make_in(folder.path()).unwrap(), Place::make_in(folder.path()).unwrap());
        assert_ne!(first.socket(), second.socket());
        assert_eq!(fs::metadata(&first.dir).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(first.socket(), "").unwrap();
        drop((first, second));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(100));
        fs::create_dir(&long).unwrap();
        assert!(Place::make_in(&long).unwrap_err().to_string().contains("107 bytes"));
        assert_eq!(fs::read_dir(&long).unwrap().count(), 0);
    }

    #[test]
    fn what_killed_recorders_left_is_cleared_away_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let living = Place::make_in(folder.path()).unwrap();
        // Process numbers end far below this.
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
