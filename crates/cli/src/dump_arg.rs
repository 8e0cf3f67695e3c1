//! The dump that a verb is about.

use std::cmp::Reverse;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use clap::Args;
use tensortap::RunFile;
use tensortap::format::Dump;
use tensortap_query::ids::{IdRange, holds, parse_range};
use tensortap_query::words::{printable, printable_path};
use tensortap_query::{DumpSet, OUTPUTS, QueryError, is_run_folder};

use crate::error::UsageError;
use crate::program::program;

pub use tensortap::format::quoted;
use tensortap_query::newest;

/// Which of the dumps in a run folder.
#[derive(Args, Clone, Default)]
pub struct RankArg {
    /// Dumps of these ranks, where a run folder holds those of several processes: 0, 2-3
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    rank: Vec<IdRange>,

    /// The same by process id: 4711
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    pid: Vec<IdRange>,
}

impl RankArg {
    /// Whether a dump of this rank and process is meant; without either, all are.
    pub fn means(&self, rank: Option<u64>, pid: Option<u64>) -> bool {
        let among = |asked: &[IdRange], number: Option<u64>| {
            asked.is_empty() || number.is_some_and(|number| holds(asked, number))
        };
        among(&self.rank, rank) && among(&self.pid, pid)
    }

    /// Whether neither was asked for.
    fn is_empty(&self) -> bool {
        self.rank.is_empty() && self.pid.is_empty()
    }

    fn of(&self, set: DumpSet) -> Result<DumpSet, QueryError> {
        set.of_ranks(&self.rank)?.of_pids(&self.pid)
    }
}

/// Which of the runs that one dump holds.
#[derive(Args, Clone, Default)]
pub struct StepArg {
    /// Tasks of these steps, where a dump holds several runs: 2,5-7
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    pub step: Vec<IdRange>,
}

/// The dump a verb reads.
#[derive(Args)]
pub struct DumpArg {
    /// Dump: its manifest, its folder, or a run folder that holds it [default: the newest under outputs/]
    #[arg(value_name = "DUMP")]
    dump: Option<PathBuf>,
    #[command(flatten)]
    pub rank: RankArg,
}

impl DumpArg {
    /// As if it were given so.
    pub fn named(dump: Option<PathBuf>, rank: &RankArg) -> DumpArg {
        DumpArg { dump, rank: rank.clone() }
    }

    /// The folder of a dump that need not be whole, or of several: the path that was named, or the newest dump's.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        self.named_or_newest()
    }

    /// Whether this names a dump, or what should be one, and no run folder of which dumps are to be chosen.
    pub fn is_one(&self, path: &Path) -> bool {
        self.rank.is_empty() && !is_run_folder(path)
    }

    fn named_or_newest(&self) -> anyhow::Result<PathBuf> {
        existing(self.dump.clone())
    }

    /// Opens the one dump that is meant.
    pub fn open(&self) -> anyhow::Result<Dump> {
        Ok(self.open_set()?.one()?)
    }

    /// Opens all dumps that are meant.
    pub fn open_set(&self) -> anyhow::Result<DumpSet> {
        let path = self.named_or_newest()?;
        let set = DumpSet::open(&path).map_err(|error| nothing_recorded(&path).unwrap_or(error.into()))?;
        Ok(self.rank.of(set)?)
    }
}

/// The path that was named, or the newest dump's. Where nothing is there, the dumps that there are stand in the hint.
pub fn existing(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let Some(path) = named else { return Ok(newest()?) };
    if path.exists() {
        return Ok(path);
    }
    match Dump::open(&path) {
        Err(error) => Err(UsageError { message: error.to_string(), hint: there_are() }.into()),
        Ok(_) => Ok(path),
    }
}

/// What a run folder of `record` is told of that has no dump: no process of the program attached.
fn nothing_recorded(path: &Path) -> Option<anyhow::Error> {
    let run = RunFile::read(path).ok().filter(|run| run.processes.is_empty())?;
    let command =
        run.command.first().map_or_else(String::new, |program| format!(" `{}`", printable(program)));
    let message =
        format!("{} holds no dump: no process of{command} attached to the recorder", printable_path(path));
    let hint = "the program must call tensortap_record.h; `tensortap record` says the likely cause, and docs/recording.md how".into();
    Some(UsageError { message, hint }.into())
}

/// The dump of a run folder that is meant, for verbs that take something else in its place, too: a case, or files.
pub fn one_of(named: Option<PathBuf>, rank: &RankArg) -> anyhow::Result<PathBuf> {
    let path = existing(named)?;
    if rank.is_empty() && !is_run_folder(&path) {
        return Ok(path);
    }
    Ok(DumpArg::named(Some(path), rank).open()?.dir().to_owned())
}

/// What a dump is held against: of a run folder, the dump of the same rank.
pub fn golden_of(path: &Path, rank: Option<u64>) -> anyhow::Result<PathBuf> {
    if !is_run_folder(path) {
        return Ok(path.to_owned());
    }
    let set = DumpSet::open(path)?;
    let ranks: Vec<IdRange> =
        rank.filter(|_| set.members().len() > 1).map(|rank| (rank, rank)).into_iter().collect();
    Ok(set.of_ranks(&ranks)?.one()?.dir().to_owned())
}

/// As many dumps are named in a hint.
const NAMED: usize = 3;

/// The newest dumps, or how to make one.
fn there_are() -> String {
    let entries = fs::read_dir(OUTPUTS).into_iter().flatten().flatten();
    let written = |entry: &DirEntry| entry.metadata().and_then(|data| data.modified()).ok();
    let mut folders: Vec<_> = entries.map(|entry| (written(&entry), entry.path())).collect();
    // Of the same time, `_10` is later than `_9`.
    folders.sort_by_key(|(time, path)| Reverse((*time, path.as_os_str().len(), path.clone())));
    let dumps = folders.into_iter().map(|(_, path)| path).filter(|path| Dump::open(path).is_ok());
    let names: Vec<String> = dumps.take(NAMED).map(|path| quoted(&path)).collect();
    if names.is_empty() {
        format!("`{} run SCENE --dump-tensor` makes a dump", program())
    } else {
        format!("there are, newest first: {}", names.join(", "))
    }
}

/// How a command line names a dump: not at all where it is the newest under `outputs/`, as one just made there is.
pub fn newest_or(dir: &Path) -> String {
    if dir.parent() == Some(Path::new(OUTPUTS)) { String::new() } else { format!(" {}", quoted(dir)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dump_in_outputs_goes_without_saying() {
        assert_eq!(newest_or(Path::new("outputs/tensor_dump_1")), "");
        assert_eq!(
            newest_or(Path::new("elsewhere/outputs/tensor_dump_1")),
            " elsewhere/outputs/tensor_dump_1"
        );
        assert_eq!(newest_or(Path::new("d")), " d");
    }
}
