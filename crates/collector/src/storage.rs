//! What a dump is written to.

use std::{fs, os::unix::fs::MetadataExt, path::Path, thread};

/// CPUs for each thread that writes: the others run the device.
const CPUS_PER_WRITER: usize = 4;

/// More were no faster where it was measured: the kernel lets one thread at a time into a file that grows.
const MOST_WRITERS: usize = 4;

/// How many threads write a dump into a folder unless `--dump-writers` says otherwise: one for every four CPUs, up to four. One alone
/// where the storage is a disk that turns, whose head would go back and forth between them.
#[must_use]
pub fn default_writers(dir: &Path) -> usize {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let turns = fs::metadata(dir).is_ok_and(|folder| turns(Path::new("/sys/dev/block"), folder.dev()));
    writers_for(cpus, turns)
}

fn writers_for(cpus: usize, turns: bool) -> usize {
    if turns { 1 } else { (cpus / CPUS_PER_WRITER).clamp(1, MOST_WRITERS) }
}

/// Whether a device is a disk that turns. A partition says nothing itself; its disk, one folder up, does. What says nothing at all,
/// as memory and network do, does not turn.
fn turns(block_devices: &Path, device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let Ok(found) = fs::canonicalize(block_devices.join(format!("{major}:{minor}"))) else { return false };
    let said = |disk: &Path| fs::read_to_string(disk.join("queue/rotational")).ok();
    let said = said(&found).or_else(|| found.parent().and_then(said));
    said.is_some_and(|said| said.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_follow_cpus_and_a_disk_that_turns_has_one() {
        assert_eq!([1, 2, 4, 8, 16, 64].map(|cpus| writers_for(cpus, false)), [1, 1, 1, 2, 4, 4]);
        assert_eq!(writers_for(64, true), 1);
    }

    #[test]
    fn a_partition_turns_as_its_disk_does() {
        let sys = tempfile::tempdir().unwrap();
        let device = rustix::fs::makedev(8, 1);
        assert!(!turns(sys.path(), device), "a device that nobody knows");
        let partition = sys.path().join("disk/part");
        fs::create_dir_all(&partition).unwrap();
        std::os::unix::fs::symlink(&partition, sys.path().join("8:1")).unwrap();
        fs::create_dir(sys.path().join("disk/queue")).unwrap();
        for (said, expected) in [("1\n", true), ("0\n", false)] {
            fs::write(sys.path().join("disk/queue/rotational"), said).unwrap();
            assert_eq!(turns(sys.path(), device), expected);
        }
    }
}
