//! The summary of a dump: time and bytes per kernel, the critical path, and unusual values.

use std::time::Duration;

use tensortap::abi::UncapturedReason;
use tensortap::analysis::graph::{TaskGraph, load};
use tensortap::analysis::observation::UnattributedChanges;
use tensortap::format::{ArgumentKind, Dump, Footer, FormatError, Record, Status};
use tensortap::{Flag, RecordSummary, RunFile, stats_each};

use crate::Times;
use crate::module_words::{ModuleUse, module_uses, module_words};
use crate::number::{counted, counted_in, grouped};
use crate::words::{ended_words, kernels_text, printable, task_reference};

/// Length of the lists of largest items.
const LISTED: usize = 5;
/// Maximum bytes to compare for finding changes between tasks, if there are no hashes.
const COMPARED: u64 = 1 << 28;

/// Options of a summary.
#[derive(Clone, Copy)]
pub struct SummaryOptions<'a> {
    /// Steps to include; empty for all.
    pub steps: &'a [(u64, u64)],
    /// Whether to read contents, to find values that are not finite.
    pub measures: bool,
    /// Number of reading threads. `None`: one per CPU.
    pub jobs: Option<usize>,
    /// Called with the number of bytes read, on any thread.
    pub advance: &'a (dyn Fn(u64) + Sync),
}

/// The summary of a dump.
pub struct Summary {
    /// The task graph.
    pub graph: TaskGraph,
    /// One entry for each set of kernels, slowest first.
    pub kernels: Vec<KernelSummary>,
    /// Time from the start of the first task to the end of the last.
    pub span: Option<Duration>,
    /// The critical path: the chain of dependent tasks with the largest total time, and that time.
    pub critical: (Vec<usize>, Duration),
    /// Places of the slowest tasks.
    pub slowest: Vec<usize>,
    /// The largest records, one for each kernel and argument.
    pub largest: Vec<Record>,
    /// The first outputs with unusual values, sorted by task in dependency order. Those with NaN or
    /// infinities come first.
    pub flagged: Vec<FlaggedRecord>,
    /// Number of such outputs.
    pub flagged_count: u64,
    /// Records whose content was not measured.
    pub unmeasured: u64,
    /// Unattributed changes, if roles are unknown.
    pub unattributed: UnattributedChanges,
    /// Places of tasks that had not completed when the run ended.
    pub in_flight: Vec<usize>,
    /// Number of uncaptured arguments by reason, most frequent first.
    pub uncaptured: Vec<(UncapturedReason, u64)>,
    /// Modules with the code of kernels, most used first.
    pub modules: Vec<ModuleUse>,
}

/// Totals over the tasks with one set of kernels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelSummary {
    /// The kernels.
    pub kernels: String,
    /// Number of tasks.
    pub tasks: u64,
    /// Total time.
    pub time: Duration,
    /// Time of the longest task.
    pub longest: Duration,
    /// Size of their arguments before and after the tasks.
    pub bytes: u64,
    /// NaN elements in their outputs.
    pub nan: u64,
    /// Infinite elements in their outputs.
    pub inf: u64,
}

/// A record with unusual values.
pub struct FlaggedRecord {
    /// Place of its task in the graph.
    pub place: usize,
    /// The record with its statistics.
    pub measured: RecordSummary,
    /// What is unusual.
    pub flags: Vec<Flag>,
}

impl Summary {
    /// Summarizes a dump.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(dump: &Dump, options: &SummaryOptions<'_>) -> Result<Summary, FormatError> {
        let graph = load(dump, options.steps)?;
        let mut kernels = Kernels::of(&graph);
        let mut largest = Vec::new();
        for record in dump.records() {
            let record = record?;
            let Some(place) = graph.position(record.task_key()) else { continue };
            kernels.entry(place).bytes += record.content_bytes();
            // Keep one record per kernel and argument.
            let is_like =
                |other: &Record| (other.func_id, other.arg_index) == (record.func_id, record.arg_index);
            if record.kind == ArgumentKind::Tensor && !largest.iter().any(is_like) {
                keep_greatest(&mut largest, record, Record::content_bytes);
            }
        }
        let (flagged, flagged_count, unmeasured) = if options.measures {
            look_at_values(dump, &graph, &mut kernels, options)?
        } else {
            (Vec::new(), 0, dump.len())
        };
        let mut slowest = Vec::new();
        for task in graph.tasks().iter().filter(|task| took(&graph, task.place()) > Duration::ZERO) {
            keep_greatest(&mut slowest, task.place(), |&place| took(&graph, place));
        }
        let budget = if options.measures { COMPARED } else { 0 };
        let unattributed = graph.unattributed_changes(dump, budget)?;
        let (span, critical) = (span(&graph), critical(&graph));
        let in_flight = in_flight(&graph);
        let uncaptured = graph.tasks().iter().flat_map(|task| task.uncaptured_args());
        let uncaptured = by_reason(uncaptured.map(|(_, reason)| reason));
        let modules = module_uses(dump, graph.tasks().iter());
        let kernels = kernels.sorted();
        Ok(Summary {
            span,
            critical,
            kernels,
            slowest,
            largest,
            flagged,
            flagged_count,
            unmeasured,
            unattributed,
            in_flight,
            uncaptured,
            modules,
            graph,
        })
    }

    /// Time of a task; zero if the dump has no times.
    #[must_use]
    pub fn took(&self, place: usize) -> Duration {
        took(&self.graph, place)
    }
}

/// Places of tasks that had not completed when the run ended, in dependency order.
#[must_use]
pub fn in_flight(graph: &TaskGraph) -> Vec<usize> {
    graph.tasks().iter().filter(|task| task.is_unfinished()).map(|task| task.place()).collect()
}

/// Lines about the capture: tasks in flight, uncaptured arguments by reason, modules.
#[must_use]
pub fn capture_lines(summary: &Summary) -> Vec<String> {
    let mut lines: Vec<String> = in_flight_words(&summary.graph).into_iter().collect();
    if !summary.uncaptured.is_empty() {
        lines.push(uncaptured_words(&summary.uncaptured));
    }
    let (shown, all) = (summary.modules.iter().take(LISTED), summary.modules.len());
    for ModuleUse { module, tasks } in shown {
        lines.push(format!(
            "{}: {}",
            module_words(module),
            counted_in(*tasks, "task runs it", "tasks run it")
        ));
    }
    if all > LISTED {
        lines.push(format!("and {}", counted((all - LISTED) as u64, "further program")));
    }
    lines
}

/// How the recorded program failed: `the program ended by SIGSEGV (11)`. `None` if it succeeded, or if the
/// dump is not of the command's own process.
#[must_use]
pub fn program_ended(dump: &Dump) -> Option<String> {
    let folder = dump.dir().canonicalize().ok()?;
    let run = RunFile::read(folder.parent()?).ok().filter(|_| dump.info().is_of_program())?;
    let name = folder.file_name()?.to_str()?.to_owned();
    let process = run.processes.iter().find(|process| process.folder == name)?;
    let ended = ended_words(run.exit_code, run.signal).filter(|_| process.pid == run.pid)?;
    Some(format!("the program ended {ended}"))
}

/// Why the records of a run end early, with the message of the failure: `the run ended early, with the status crashed:
/// crash in kernel …`. `None` if the run completed.
#[must_use]
pub fn early_end(dump: &Dump) -> Option<String> {
    let footer = dump.footer();
    let message = footer.and_then(|footer| footer.message.as_deref()).map(printable);
    let is_left = footer.is_some_and(Footer::process_left_early);
    let words = |status: Status| match &message {
        Some(message) if is_left => format!("{message}; its last records may be missing"),
        Some(message) => format!("the run ended early, with the status {status}: {message}"),
        None => format!("the run ended early, with the status {status}"),
    };
    dump.status().filter(|status| is_left || *status != Status::Complete).map(words)
}

/// Describes tasks in flight: `2 tasks had not completed when the run ended: task 0x3 (spin), task 0x4
/// (add)`, and how many tasks that wait for them had not started. If records of ends may be missing, reports this
/// instead. `None` if all tasks completed.
#[must_use]
pub fn in_flight_words(graph: &TaskGraph) -> Option<String> {
    let running = graph.running();
    let waits =
        |place: &usize| !running.contains(place) && graph.unfinished_before(graph.task(*place)).is_some();
    let waiting = in_flight(graph).into_iter().filter(waits).count();
    let mut named: Vec<String> =
        running.iter().take(LISTED).map(|&place| task_reference(graph.task(place))).collect();
    if running.len() > LISTED {
        named.push(format!("and {} more", grouped((running.len() - LISTED) as u64)));
    }
    let (count, named) = (running.len() as u64, named.join(", "));
    if let Some(reason) =
        graph.lost_ends.as_deref().filter(|_| !running.iter().any(|&at| graph.surely_runs(at)))
    {
        let tasks = counted_in(count, "task has", "tasks have");
        return (count > 0)
            .then(|| format!("{tasks} no recorded end, but may have completed, because {reason}: {named}"));
    }
    let not_started = match waiting as u64 {
        0 => String::new(),
        count => format!(
            "; {} had not started",
            counted_in(count, "task that waits for them", "tasks that wait for them")
        ),
    };
    let tasks = counted(count, "task");
    (count > 0).then(|| format!("{tasks} had not completed when the run ended: {named}{not_started}"))
}

/// Describes uncaptured arguments: `3 arguments could not be captured: the descriptor is damaged (2); …`.
#[must_use]
pub fn uncaptured_words(by_reason: &[(UncapturedReason, u64)]) -> String {
    let all = by_reason.iter().map(|(_, count)| count).sum();
    let reasons: Vec<String> =
        by_reason.iter().map(|(reason, count)| format!("{} ({})", reason.text(), grouped(*count))).collect();
    format!("{} could not be captured: {}", counted(all, "argument"), reasons.join("; "))
}

/// Counts reasons, most frequent first.
#[must_use]
pub fn by_reason(reasons: impl Iterator<Item = UncapturedReason>) -> Vec<(UncapturedReason, u64)> {
    let mut counts: Vec<(UncapturedReason, u64)> = Vec::new();
    for reason in reasons {
        match counts.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => counts.push((reason, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// Measures the outputs of tasks.
fn look_at_values(
    dump: &Dump,
    graph: &TaskGraph,
    kernels: &mut Kernels,
    options: &SummaryOptions<'_>,
) -> Result<(Vec<FlaggedRecord>, u64, u64), FormatError> {
    let (mut flagged, mut count, mut unmeasured): (Vec<FlaggedRecord>, u64, u64) = (Vec::new(), 0, 0);
    let is_output = |record: &Result<Record, FormatError>| {
        record.as_ref().is_ok_and(|r| r.role.writes() && r.stage == tensortap::DumpStage::AfterCompletion)
    };
    let outputs = dump.records().filter(|record| record.is_err() || is_output(record));
    stats_each(dump, outputs, options.jobs, options.advance, |measured| {
        let Some(place) = graph.position(measured.record.task_key()) else { return Ok(()) };
        let Some(summary) = measured.summary else {
            unmeasured += 1;
            return Ok::<(), FormatError>(());
        };
        let entry = kernels.entry(place);
        entry.nan += summary.stats.nan;
        entry.inf += summary.stats.inf;
        let flags: Vec<Flag> = measured.flags().into_iter().filter(|flag| is_unusual(*flag)).collect();
        if !flags.is_empty() {
            count += 1;
            keep_greatest(&mut flagged, FlaggedRecord { place, measured, flags }, FlaggedRecord::urgency);
        }
        Ok(())
    })?;
    Ok((flagged, count, unmeasured))
}

impl FlaggedRecord {
    /// Sort key, largest first: NaN and infinities first, then earlier tasks.
    fn urgency(&self) -> (bool, std::cmp::Reverse<(usize, u16)>) {
        let is_not_finite = self.flags.iter().any(|flag| matches!(flag, Flag::Nan | Flag::Inf));
        (is_not_finite, std::cmp::Reverse((self.place, self.measured.record.arg_index)))
    }
}

/// Whether a flag marks unusual values. Constants are common in correct outputs.
fn is_unusual(flag: Flag) -> bool {
    matches!(flag, Flag::Nan | Flag::Inf | Flag::Zero | Flag::F16Overflow)
}

fn took(graph: &TaskGraph, place: usize) -> Duration {
    Times::since(None, graph.task(place)).took.unwrap_or_default()
}

fn span(graph: &TaskGraph) -> Option<Duration> {
    let first = graph.tasks().iter().filter_map(|task| task.start_time()).min()?;
    let last = graph.tasks().iter().filter_map(|task| task.end_time()).max()?;
    last.checked_sub(first).map(Duration::from_nanos)
}

/// Computes the critical path. Tasks are in dependency order, so one walk is enough.
fn critical(graph: &TaskGraph) -> (Vec<usize>, Duration) {
    let mut done: Vec<(Duration, Option<usize>)> = Vec::with_capacity(graph.len());
    for task in graph.tasks().iter() {
        let given = task.arguments().flat_map(|arg| graph.producers_of(arg)).map(|output| output.task);
        let waited = task.producers().filter_map(|edge| graph.position(edge.producer()));
        let before =
            given.chain(waited).filter(|&before| before < task.place()).max_by_key(|&b| (done[b].0, b));
        let start = before.map_or(Duration::ZERO, |before| done[before].0);
        done.push((start + took(graph, task.place()), before));
    }
    let last = (0..done.len()).max_by_key(|&place| done[place].0).filter(|&place| !done[place].0.is_zero());
    let length = last.map_or(Duration::ZERO, |place| done[place].0);
    let mut chain: Vec<usize> = std::iter::successors(last, |&place| done[place].1).collect();
    chain.reverse();
    (chain, length)
}

/// Inserts an item into a short list sorted in descending order. Ties keep the earlier item first.
fn keep_greatest<T, K: Ord>(greatest: &mut Vec<T>, one: T, key: impl Fn(&T) -> K) {
    let at = greatest.partition_point(|other| key(other) >= key(&one));
    if at < LISTED {
        greatest.insert(at, one);
        greatest.truncate(LISTED);
    }
}

/// Sums per set of kernels, indexed by task.
struct Kernels {
    of_task: Vec<usize>,
    sums: Vec<KernelSummary>,
}

impl Kernels {
    fn of(graph: &TaskGraph) -> Kernels {
        let mut kernels = Kernels { of_task: Vec::with_capacity(graph.len()), sums: Vec::new() };
        let mut known = std::collections::HashMap::new();
        for task in graph.tasks().iter() {
            let number = *known.entry(task.func_id).or_insert_with(|| {
                let kernels_of = kernels_text(&task.kernel_names());
                kernels.sums.push(KernelSummary { kernels: kernels_of, ..KernelSummary::default() });
                kernels.sums.len() - 1
            });
            kernels.of_task.push(number);
            let (took, sum) = (took(graph, task.place()), &mut kernels.sums[number]);
            sum.tasks += 1;
            sum.time += took;
            sum.longest = sum.longest.max(took);
        }
        kernels
    }

    fn entry(&mut self, place: usize) -> &mut KernelSummary {
        &mut self.sums[self.of_task[place]]
    }

    fn sorted(mut self) -> Vec<KernelSummary> {
        self.sums.sort_by(|a, b| (b.time, b.tasks).cmp(&(a.time, a.tasks)).then(a.kernels.cmp(&b.kernels)));
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_largest_items_in_descending_order() {
        let mut greatest = Vec::new();
        for one in [(3, 'a'), (9, 'b'), (1, 'c'), (9, 'd'), (4, 'e'), (4, 'f'), (2, 'g')] {
            keep_greatest(&mut greatest, one, |one| one.0);
        }
        assert_eq!(greatest, [(9, 'b'), (9, 'd'), (4, 'e'), (4, 'f'), (3, 'a')]);
    }
}
