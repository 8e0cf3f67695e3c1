//! The run folders of one run: `record` writes one on each host. A folder that contains those of all hosts is read as one run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tensortap::RunFile;
use tensortap::format::FormatError;

use super::{FolderName, named};

/// One process folder with its run folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessFolder {
    pub name: FolderName,
    pub path: PathBuf,
    /// The host that recorded it, if the run has several.
    pub host: Option<String>,
}

/// The run folders of a run, in the order of their names.
#[derive(Debug, Default)]
pub(super) struct RunFolders {
    folders: Vec<(PathBuf, RunFile)>,
    is_of_hosts: bool,
}

impl RunFolders {
    /// The run that a folder contains: its processes, or the run folders of its hosts. Empty if it contains neither.
    pub fn of(path: &Path) -> RunFolders {
        if has_processes(path) {
            return RunFolders {
                folders: vec![(path.to_owned(), RunFile::read(path).unwrap_or_default())],
                is_of_hosts: false,
            };
        }
        let hosts = subfolders(path).into_iter().filter(|folder| has_processes(folder));
        let hosts = hosts.filter_map(|folder| Some((folder.clone(), RunFile::read(&folder).ok()?)));
        let hosts: Vec<(PathBuf, RunFile)> = hosts.collect();
        // A folder of unrelated runs, such as `outputs`: none of them is a part of a run of several hosts.
        if hosts.iter().all(|(_, run)| run.run_id.is_none()) {
            return RunFolders::default();
        }
        RunFolders { folders: hosts, is_of_hosts: true }
    }

    /// The run that contains a run folder: that of all hosts if it is next to run folders of the same run.
    pub fn around(path: &Path) -> RunFolders {
        let own = RunFolders::of(path);
        let is_part = own.folders.iter().any(|(_, run)| run.run_id.is_some()) && !own.is_of_hosts;
        let parent = path.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
        let around = parent.filter(|_| is_part).map(|parent| RunFolders::of(&parent));
        around.filter(|around| around.is_of_hosts && around.check(path).is_ok()).unwrap_or(own)
    }

    /// Checks that the folders are those of one run.
    pub fn check(&self, path: &Path) -> Result<(), FormatError> {
        let [(first, run), others @ ..] = &self.folders[..] else { return Ok(()) };
        let differ = |reason: String| Err(FormatError::DifferentRuns { dir: path.to_owned(), reason });
        let base = |folder: &Path| folder.file_name().unwrap_or_default().display().to_string();
        for (folder, other) in others {
            let (one, two) = (base(first), base(folder));
            if other.run_id != run.run_id {
                let id = |run: &RunFile| {
                    run.run_id
                        .as_ref()
                        .map_or("no run id".to_owned(), |id| format!("the run id `{}`", id.escape_debug()))
                };
                return differ(format!("{one} has {}, and {two} has {}", id(run), id(other)));
            }
            if let (Some(ours), Some(theirs)) = (run.expected_ranks, other.expected_ranks)
                && ours != theirs
            {
                return differ(format!("{one} expects {ours} ranks, and {two} expects {theirs}"));
            }
        }
        let mut ranks: BTreeMap<u64, PathBuf> = BTreeMap::new();
        for process in self.processes() {
            let Some(rank) = process.name.rank.filter(|_| process.name.pid.is_none()) else { continue };
            let folder = process.path.parent().unwrap_or(path).to_owned();
            if let Some(other) = ranks.insert(rank, folder.clone()) {
                return differ(format!("rank {rank} is in {} and in {}", base(&other), base(&folder)));
            }
        }
        Ok(())
    }

    /// The process folders, sorted. Those without a rank come last.
    pub fn processes(&self) -> Vec<ProcessFolder> {
        let mut found = Vec::new();
        for (folder, run) in &self.folders {
            let host = self.is_of_hosts.then(|| match run.host.as_str() {
                "" => folder.file_name().unwrap_or_default().display().to_string(),
                host => host.to_owned(),
            });
            let processes = subfolders(folder)
                .into_iter()
                .filter_map(|path| Some(ProcessFolder { name: name_of(&path)?, path, host: host.clone() }));
            found.extend(processes);
        }
        found.sort_by_key(|ProcessFolder { name: FolderName { rank, pid, session }, path, .. }| {
            (rank.is_none(), *rank, *pid, *session, path.clone())
        });
        found
    }

    /// The run files of the folders, in the order of their names.
    pub fn runs(&self) -> impl Iterator<Item = (&Path, &RunFile)> {
        self.folders.iter().map(|(folder, run)| (&**folder, run))
    }
}

fn name_of(path: &Path) -> Option<FolderName> {
    named(path.file_name()?.to_str()?)
}

fn has_processes(path: &Path) -> bool {
    subfolders(path).iter().any(|folder| name_of(folder).is_some())
}

fn subfolders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}
