//! The dump that a verb reads: as named on the command line, or the newest one.

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

/// Chooses among the dumps of a run folder.
#[derive(Args, Clone, Default)]
pub struct RankArg {
    /// Read the dumps of these ranks of a run folder: 0, 2-3
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    rank: Vec<IdRange>,

    /// Read the dumps of these process ids of a run folder: 4711
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    pid: Vec<IdRange>,
}

impl RankArg {
    /// Whether the options choose a dump of this rank and process. Without options every dump is chosen.
    pub fn matches(&self, rank: Option<u64>, pid: Option<u64>) -> bool {
        let matches = |ranges: &[IdRange], number: Option<u64>| {
            ranges.is_empty() || number.is_some_and(|number| holds(ranges, number))
        };
        matches(&self.rank, rank) && matches(&self.pid, pid)
    }

    /// Whether neither option is given.
    pub fn is_empty(&self) -> bool {
        self.rank.is_empty() && self.pid.is_empty()
    }

    fn of(&self, set: DumpSet) -> Result<DumpSet, QueryError> {
        set.of_ranks(&self.rank)?.of_pids(&self.pid)
    }
}

/// Chooses among the runs that one dump contains.
#[derive(Args, Clone, Default)]
pub struct StepArg {
    /// Read the tasks of these steps of a dump that contains several runs: 2,5-7
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    pub step: Vec<IdRange>,
}

/// The dump a verb reads.
#[derive(Args)]
pub struct DumpPathArg {
    /// Dump: its manifest, its folder, or a run folder that contains it [default: the newest under outputs/]
    #[arg(value_name = "DUMP")]
    dump: Option<PathBuf>,
    #[command(flatten)]
    pub rank: RankArg,
}

impl DumpPathArg {
    /// The argument with these values.
    pub fn named(dump: Option<PathBuf>, rank: &RankArg) -> DumpPathArg {
        DumpPathArg { dump, rank: rank.clone() }
    }

    /// The named path, or the folder of the newest dump. The dump may be damaged, or the path a run folder.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        existing(self.dump.clone())
    }

    /// Whether the path is a single dump, not a run folder with dumps to choose from.
    pub fn is_one(&self, path: &Path) -> bool {
        self.rank.is_empty() && !is_run_folder(path)
    }

    /// Opens the dump. It is an error if the options choose several.
    pub fn open(&self) -> anyhow::Result<Dump> {
        Ok(self.open_set()?.one()?)
    }

    /// Opens all dumps that the options choose.
    pub fn open_set(&self) -> anyhow::Result<DumpSet> {
        let path = self.path()?;
        let set = DumpSet::open(&path).map_err(|error| {
            nothing_recorded(&path).or_else(|| no_file_of_a_dump(&path)).unwrap_or(error.into())
        })?;
        Ok(self.rank.of(set)?)
    }
}

/// The named path, or the folder of the newest dump. If the path does not exist, the hint lists existing dumps.
pub fn existing(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let Some(path) = named else {
        if !Path::new(OUTPUTS).is_dir() {
            let message = format!("there is no folder {OUTPUTS}/ here");
            return Err(UsageError::new(message, format!("name a dump; {}", how_to_record())).into());
        }
        return Ok(newest()?);
    };
    if path.exists() {
        return Ok(path);
    }
    match Dump::open(&path) {
        Err(error) => Err(UsageError { message: error.to_string(), hint: available_dumps() }.into()),
        Ok(_) => Ok(path),
    }
}

/// The error for a run folder of `record` without a dump: no process of the program attached.
fn nothing_recorded(path: &Path) -> Option<anyhow::Error> {
    let run = RunFile::read(path).ok().filter(|run| run.processes.is_empty())?;
    let command =
        run.command.first().map_or_else(String::new, |program| format!(" `{}`", printable(program)));
    let message =
        format!("{} contains no dump: no process of{command} attached to the recorder", printable_path(path));
    let hint = "the program must use OpenCL, CUDA or tensortap_record.h; `tensortap record` reports the likely cause, \
                see docs/reference/c-api.md";
    Some(UsageError::new(message, hint).into())
}

/// The error for a file that belongs to no dump, such as a text.
fn no_file_of_a_dump(path: &Path) -> Option<anyhow::Error> {
    let is_of_a_dump = ["json", "idx", "bin", "safetensors"]
        .iter()
        .any(|known| path.extension().is_some_and(|e| e == *known));
    (path.is_file() && !is_of_a_dump).then(|| {
        let message = format!("{} is a file, not a dump", printable_path(path));
        UsageError::new(message, "name the folder of a dump, or its tensor_dump.json").into()
    })
}

/// The dump that a run folder and the options choose, or the path itself. For verbs that also accept a case or files.
pub fn source_path(named: Option<PathBuf>, rank: &RankArg) -> anyhow::Result<PathBuf> {
    let path = existing(named)?;
    if rank.is_empty() && !is_run_folder(&path) {
        return Ok(path);
    }
    Ok(DumpPathArg::named(Some(path), rank).open()?.dir().to_owned())
}

/// The golden for a dump of this rank. A run folder contains one golden for each rank.
pub fn golden_for_rank(path: &Path, rank: Option<u64>) -> anyhow::Result<PathBuf> {
    if !is_run_folder(path) {
        return Ok(path.to_owned());
    }
    let set = DumpSet::open(path)?;
    let ranks: Vec<IdRange> =
        rank.filter(|_| set.members().len() > 1).map(|rank| (rank, rank)).into_iter().collect();
    Ok(set.of_ranks(&ranks)?.one()?.dir().to_owned())
}

fn how_to_record() -> String {
    format!("`{0} record` and `{0} run SCENE --dump-tensor` write dumps", program())
}

/// Dumps that a hint names.
const NAMED: usize = 3;

/// A hint that names the newest dumps, or says how to record one.
fn available_dumps() -> String {
    let entries = fs::read_dir(OUTPUTS).into_iter().flatten().flatten();
    let written = |entry: &DirEntry| entry.metadata().and_then(|data| data.modified()).ok();
    let mut folders: Vec<_> = entries.map(|entry| (written(&entry), entry.path())).collect();
    // For equal times: `_10` is newer than `_9`.
    folders.sort_by_key(|(time, path)| Reverse((*time, path.as_os_str().len(), path.clone())));
    let dumps = folders.into_iter().map(|(_, path)| path).filter(|path| Dump::open(path).is_ok());
    let names: Vec<String> = dumps.take(NAMED).map(|path| quoted(&path)).collect();
    if names.is_empty() {
        format!("check the path; {}", how_to_record())
    } else {
        format!("existing dumps, newest first: {}", names.join(", "))
    }
}

/// How a suggested command names a dump that was just recorded. Under `outputs/` it is the newest, so it needs no name.
pub fn dump_operand(dir: &Path) -> String {
    if dir.parent() == Some(Path::new(OUTPUTS)) { String::new() } else { format!(" {}", quoted(dir)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dump_in_outputs_needs_no_name() {
        assert_eq!(dump_operand(Path::new("outputs/tensor_dump_1")), "");
        assert_eq!(
            dump_operand(Path::new("elsewhere/outputs/tensor_dump_1")),
            " elsewhere/outputs/tensor_dump_1"
        );
        assert_eq!(dump_operand(Path::new("d")), " d");
    }
}
