use std::path::{Path, PathBuf};
use std::sync::Arc;

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Dump, DumpFormat, KernelInfo, PendingTask, RunInfo, Task, TaskKey, Tasks};

use crate::Error;

/// The tasks that the run is compared with.
pub(super) struct GoldenTasks {
    pub(super) dump: Dump,
    tasks: Tasks,
    /// Number of argument records of each task.
    records: Vec<usize>,
    kernels: Arc<[KernelInfo]>,
}

impl GoldenTasks {
    /// Opens a golden. Rejects one whose tasks do not match those of the run.
    pub(super) fn open(path: &Path, run: &RunInfo) -> Result<GoldenTasks, Error> {
        let dump = Dump::open(path)?;
        let refuse = |reason: String| Error::LiveGolden { golden: path.to_owned(), reason };
        if !matches!(dump.format(), DumpFormat::Indexed | DumpFormat::Manifest) {
            return Err(refuse("it has no content hashes; use a dump that tensortap recorded".into()));
        }
        let golden = dump.info();
        for (what, theirs, ours) in
            [("scene", &golden.scene, &run.scene), ("runtime", &golden.runtime, &run.runtime)]
        {
            if theirs != ours {
                let reason = format!(
                    "its {what} is `{theirs}`, but the run's is `{ours}`, so their task ids do not match"
                );
                return Err(refuse(
                    reason + "; use the same one, or compare after the run with `tensortap blame`",
                ));
            }
        }
        if golden.params != run.params {
            return Err(refuse(
                "it was recorded with different parameters; use the same parameters for the run".into(),
            ));
        }
        let kernels = golden.kernels.as_slice().into();
        let tasks = dump.tasks()?;
        check_hashes(&dump, &tasks, path)?;
        let records: Vec<usize> =
            tasks.iter().map(|task| task.arguments().flat_map(captures).count()).collect();
        if records.iter().all(|&count| count == 0) {
            return Err(refuse("it contains no records".into()));
        }
        Ok(GoldenTasks { dump, tasks, records, kernels })
    }

    /// Number of tasks with captured data.
    pub(super) fn count(&self) -> u64 {
        self.records.iter().filter(|&&count| count > 0).count() as u64
    }

    /// The golden's task, if it has captured data.
    pub(super) fn find(&self, key: TaskKey) -> Option<Task<'_>> {
        self.tasks.find(key).filter(|task| self.records_of(*task) > 0)
    }

    /// Number of argument records of a task.
    pub(super) fn records_of(&self, task: Task<'_>) -> usize {
        self.records[task.place()]
    }

    /// The kernels, for their names.
    pub(super) fn kernels(&self) -> &Arc<[KernelInfo]> {
        &self.kernels
    }

    /// Whether everything that the golden has for a task has arrived.
    pub(super) fn is_whole(&self, task: Task<'_>, pending: PendingTask<'_>) -> bool {
        if pending.argument_count() < self.records_of(task) {
            return false;
        }
        let stage = |is_scalar: bool, stage: DumpStage| !is_scalar && stage == DumpStage::AfterCompletion;
        let mut come: Vec<(u16, bool, bool)> = pending
            .arguments()
            .map(|(at, facts)| (facts.arg_index, facts.is_scalar(), stage(facts.is_scalar(), at)))
            .collect();
        come.sort_unstable();
        let mut wanted = task.arguments().flat_map(captures);
        wanted.all(|(arg, at)| {
            let is_scalar = arg.is_scalar();
            come.binary_search(&(arg.arg_index, is_scalar, stage(is_scalar, at))).is_ok()
        })
    }
}

/// An argument with each stage at which it was captured.
pub(super) fn captures(arg: Argument<'_>) -> impl Iterator<Item = (Argument<'_>, DumpStage)> {
    DumpStage::ALL
        .into_iter()
        .filter(move |stage| arg.captured(*stage).is_some())
        .map(move |stage| (arg, stage))
}

/// Rejects a golden with a tensor without hash.
fn check_hashes(dump: &Dump, tasks: &Tasks, path: &Path) -> Result<(), Error> {
    let tensors = tasks.iter().flat_map(|task| task.arguments()).filter(|arg| !arg.is_scalar());
    let captured = tensors.flat_map(|arg| [arg.before, arg.after]).flatten();
    let Some(first) = captured.filter(|c| c.hash().is_none()).map(|c| c.record).min() else { return Ok(()) };
    let record = dump.record(first)?;
    let reason = format!("{record} has no hash; record the golden at level full or hash, without losses");
    Err(Error::LiveGolden { golden: PathBuf::from(path), reason })
}
