//! Opening dumps: a single one, or those of all processes of a run.
//!
//! A run of several processes writes a folder with a dump for each process. The dump is named by rank
//! (`rank-0`, `rank-1`, …) or, without a rank, by process id (`pid-4711`). A further process of a rank is
//! named by both (`rank-0_pid-4712`). A process that attached several times has several dumps with a number
//! at the end (`pid-4711_2`). A folder with the run folders of several hosts is one run if they have the same run id.

mod run_folders;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tensortap::format::{Dump, FormatError, TypeRule, find_newest};

use crate::QueryError;
use crate::ids::{IdRange, holds, parse_id};
use crate::words::printable;
use run_folders::{ProcessFolder, RunFolders};

/// The folder where runs write their dumps.
pub const OUTPUTS: &str = "outputs";

/// One dump of a run.
pub struct Member {
    /// Rank of the process, if it has one.
    pub rank: Option<u64>,
    /// Its process id, if its folder is named by it.
    pub pid: Option<u64>,
    /// Number of this dump among those of one process, from 1.
    pub session: u64,
    /// The host that recorded it, if the run has several.
    pub host: Option<String>,
    /// The dump.
    pub dump: Dump,
}

/// The dumps of a run, sorted by rank and process id.
///
/// ```
/// use tensortap_query::DumpSet;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # for rank in ["rank-0", "rank-1"] {
/// #     let mut config = tensortap::RunConfig::new("vector_example");
/// #     config.device_mode = tensortap::DeviceMode::Thread;
/// #     config.dump = Some(tensortap::DumpConfig::new(tensortap::DumpLevel::Full));
/// #     config.out = Some(folder.path().join(rank));
/// #     tensortap::run(&config)?;
/// # }
/// # let run_folder = folder.path();
/// let all = DumpSet::open(run_folder)?;
/// let ranks: Vec<_> = all.members().iter().map(|member| member.rank).collect();
/// assert_eq!(ranks, [Some(0), Some(1)]);
/// let second = all.of_ranks(&[(1, 1)])?.one()?;
/// assert!(second.dir().ends_with("rank-1"));
/// # Ok(())
/// # }
/// ```
pub struct DumpSet {
    path: PathBuf,
    members: Vec<Member>,
}

impl DumpSet {
    /// Opens the dump at `path` (one of its files, its folder, or a folder that contains it), or every dump
    /// of a run folder, or of a folder with the run folders of all hosts. Processes without a dump are skipped.
    ///
    /// # Errors
    /// If a dump cannot be read, or if the run folders of several hosts are not those of one run.
    pub fn open(path: &Path) -> Result<DumpSet, FormatError> {
        let mut members = Vec::new();
        let run = RunFolders::of(path);
        run.check(path)?;
        for ProcessFolder { name: FolderName { rank, pid, session }, path, host } in run.processes() {
            match Dump::open(&path) {
                Ok(dump) => members.push(Member { rank, pid, session, host, dump }),
                Err(FormatError::NoDump { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let is_dump_itself = || Dump::open(path).is_ok_and(|dump| dump.dir() == path);
        if members.is_empty() || is_dump_itself() {
            let dump = Dump::open(path)?;
            let named = dump.dir().file_name().and_then(|name| named(name.to_str()?));
            let FolderName { rank, pid, session } = named.unwrap_or_default();
            members = vec![Member { rank, pid, session, host: None, dump }];
        }
        Ok(DumpSet { path: path.to_owned(), members })
    }

    /// The path that was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The dumps; at least one.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Applies type rules to records of unknown type in all dumps.
    pub fn read_as(&mut self, rules: &[TypeRule]) {
        self.members.iter_mut().for_each(|member| member.dump.read_as(rules));
    }

    /// The dumps, by value.
    pub fn into_members(self) -> impl Iterator<Item = Member> {
        self.members.into_iter()
    }

    /// Only the dumps of these ranks; all if `ranks` is empty.
    pub fn of_ranks(self, ranks: &[IdRange]) -> Result<DumpSet, QueryError> {
        if ranks.is_empty() {
            return Ok(self);
        }
        self.those("rank", |member| member.rank.is_some_and(|rank| holds(ranks, rank)))
    }

    /// Only the dumps of these processes; all if `pids` is empty. The process id comes from the folder name
    /// or the dump.
    pub fn of_pids(self, pids: &[IdRange]) -> Result<DumpSet, QueryError> {
        if pids.is_empty() {
            return Ok(self);
        }
        self.those("process", |member| member.process().is_some_and(|pid| holds(pids, pid)))
    }

    fn those(self, what: &'static str, is_meant: impl Fn(&Member) -> bool) -> Result<DumpSet, QueryError> {
        let DumpSet { path, members } = self;
        let is_single = matches!(&members[..], [one] if one.rank.is_none() && one.process().is_none());
        let there_are = if is_single { Vec::new() } else { members.iter().map(Member::name).collect() };
        let members: Vec<Member> = members.into_iter().filter(is_meant).collect();
        if members.is_empty() {
            return Err(QueryError::NoRank { what, path, ranks: there_are });
        }
        Ok(DumpSet { path, members })
    }

    /// The only dump. If there are several, the error lists them.
    pub fn one(self) -> Result<Dump, QueryError> {
        self.one_member().map(|member| member.dump)
    }

    /// The only dump with its rank and process id.
    pub fn one_member(mut self) -> Result<Member, QueryError> {
        match (self.members.pop(), self.members.is_empty()) {
            (Some(member), true) => Ok(member),
            (last, _) => {
                let dumps = self.members.iter().chain(last.as_ref()).map(Member::name).collect();
                Err(QueryError::SeveralDumps { path: self.path, dumps })
            }
        }
    }
}

impl Member {
    /// Its name among the dumps: `rank 1`, `pid 4711`, else its folder.
    #[must_use]
    pub fn name(&self) -> String {
        let name = match (self.rank, self.pid) {
            (Some(rank), None) => format!("rank {rank}"),
            (Some(rank), Some(pid)) => format!("rank {rank} pid {pid}{}", self.place()),
            (None, Some(pid)) => format!("pid {pid}{}", self.place()),
            (None, None) => return self.dump.dir().display().to_string(),
        };
        if self.session > 1 { format!("{name} (session {})", self.session) } else { name }
    }

    /// The host, if process ids of several hosts may be equal.
    fn place(&self) -> String {
        self.host.as_ref().map_or_else(String::new, |host| format!(" on {}", printable(host)))
    }

    /// Its process id, if known.
    #[must_use]
    pub fn process(&self) -> Option<u64> {
        self.pid.or_else(|| self.dump.info().process())
    }
}

/// The parts of a process folder's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FolderName {
    rank: Option<u64>,
    pid: Option<u64>,
    session: u64,
}

impl Default for FolderName {
    fn default() -> FolderName {
        FolderName { rank: None, pid: None, session: 1 }
    }
}

/// Parses the name of a process folder.
fn named(name: &str) -> Option<FolderName> {
    let mut named = FolderName::default();
    for (place, part) in name.split('_').enumerate() {
        let number = |prefix| part.strip_prefix(prefix).and_then(|digits: &str| parse_id(digits).ok());
        match (number("rank-"), number("pid-")) {
            (Some(rank), _) if place == 0 => named.rank = Some(rank),
            (_, Some(pid)) if named.pid.is_none() => named.pid = Some(pid),
            _ if named.pid.is_some() && named.session == 1 => {
                named.session = parse_id(part).ok().filter(|&n| n > 1)?
            }
            _ => return None,
        }
    }
    Some(named)
}

/// Whether a folder contains process folders.
#[must_use]
pub fn is_run_folder(path: &Path) -> bool {
    !RunFolders::of(path).processes().is_empty()
}

/// What shows that a run has a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RankOfRun {
    /// The folder of its dump.
    Folder(PathBuf),
    /// `run.json` lists its process.
    Attached,
    /// `run.json` has the number of ranks, and the rank never attached.
    Expected,
}

/// The ranks of a run by the names of its folders and by its `run.json`; for a host's run folder, those of all hosts.
pub(crate) fn ranks_of_run(path: &Path) -> BTreeMap<u64, RankOfRun> {
    /// A larger number of ranks is not credible.
    const MOST_EXPECTED: u32 = 1 << 20;
    let run = RunFolders::around(path);
    let expected = run.runs().filter_map(|(_, run)| run.expected_ranks);
    let expected = expected.filter(|&ranks| ranks <= MOST_EXPECTED).max().unwrap_or(0);
    let mut ranks: BTreeMap<u64, RankOfRun> =
        (0..expected).map(|rank| (rank.into(), RankOfRun::Expected)).collect();
    let attached = run.runs().flat_map(|(_, run)| &run.processes).filter_map(|process| process.rank);
    ranks.extend(attached.map(|rank| (rank.into(), RankOfRun::Attached)));
    let folders = run.processes().into_iter().filter(|process| process.name.pid.is_none());
    ranks.extend(folders.filter_map(|process| Some((process.name.rank?, RankOfRun::Folder(process.path)))));
    ranks
}

/// The folders of a run's processes, in the order in which they attached, host after host.
pub(crate) fn attach_order(path: &Path) -> Vec<PathBuf> {
    let run = RunFolders::of(path);
    let folders =
        run.runs().flat_map(|(folder, run)| run.processes.iter().map(|one| folder.join(&one.folder)));
    folders.collect()
}

/// The newest dump under `outputs/`, or its run folder if it is the dump of a process.
pub fn newest() -> Result<PathBuf, FormatError> {
    find_newest(Path::new(OUTPUTS)).map(|dir| {
        let of_a_process = dir.file_name().and_then(|name| named(name.to_str()?)).is_some();
        match dir.parent().filter(|_| of_a_process) {
            Some(run_folder) => run_folder.to_owned(),
            None => dir,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn finds_process_folders_by_name_and_sorts_them_by_rank() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "rank-10",
            "pid-5",
            "rank-2",
            "rank-",
            "rank-x",
            "notes",
            "pid-3",
            "pid-3_2",
            "rank-2_pid-9",
            "rank-2_7",
        ];
        for name in names {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("rank-1"), "a file").unwrap();
        let found: Vec<_> = RunFolders::of(folder.path())
            .processes()
            .into_iter()
            .map(|ProcessFolder { name: FolderName { rank, pid, session }, .. }| (rank, pid, session))
            .collect();
        let expected = [
            (Some(2), None, 1),
            (Some(2), Some(9), 1),
            (Some(10), None, 1),
            (None, Some(3), 1),
            (None, Some(3), 2),
            (None, Some(5), 1),
        ];
        assert_eq!(found, expected);
        assert!(
            matches!(DumpSet::open(folder.path()), Err(FormatError::NoDump { .. })),
            "none of them has a dump"
        );
    }
}
