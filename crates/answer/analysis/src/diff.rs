//! Compares every selected record of a dump with a golden dump or with arrays.
//!
//! Records are paired through the [matching](crate::matching) of their tasks. In dumps with unknown roles,
//! memory that no task of either run wrote is excluded from the comparison.

use std::collections::HashSet;
use std::sync::Arc;

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Dump, FormatError, Record, TaskKey};
use tensortap_interchange::NamedArrays;
use tensortap_judge::{Depth, Detail, Outcome, Rule, RuleBook, Verdict};
use tensortap_sync::parallel::both;

use crate::arrays::{ArrayAssignment, NO_ARRAY};
use crate::blame::values::is_value;
use crate::blame::{
    RuleTable, UnwrittenMemory, UnwrittenScan, UnwrittenShare, match_options, observed, scan_argument,
    uncertain_partner,
};
use crate::compare::{self, Side, compare, is_gone, record_side};
use crate::error::AnalysisError;
use crate::graph::{OutputRef, TaskGraph, load_with_progress, steps_of_golden};
use crate::matching::{Matching, match_tasks};
use crate::parallel::Work;

/// How records are compared.
#[derive(Clone, Default)]
pub struct DiffOptions<'a> {
    /// The comparison rules.
    pub rules: RuleBook,
    /// The golden may have other float dtypes.
    pub other_dtypes: bool,
    /// Steps of the dump to compare; empty means all.
    pub steps: Vec<(u64, u64)>,
    /// Steps of the golden to compare with; empty means all.
    pub golden_steps: Vec<(u64, u64)>,
    /// Threads and progress.
    pub work: Work<'a>,
}

/// The comparison of one record.
#[derive(Clone, Debug)]
pub struct DiffRow {
    /// The record.
    pub record: Record,
    /// Position of the task in dependency order; `usize::MAX` if the graph does not have it.
    pub order: usize,
    /// Names of its task's kernels.
    pub kernels: Vec<String>,
    /// The record or array that it was compared with, if there is one.
    pub partner: Option<Partner>,
    /// The rule.
    pub rule: Rule,
    /// The result. Memory that no task of either run wrote is ignored.
    pub outcome: Outcome,
    /// Every difference is memory that no task of either run wrote: no evidence.
    pub never_written: bool,
    /// How much of the difference no recorded task wrote.
    pub unwritten: UnwrittenMemory,
}

/// The expected side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Partner {
    /// A record of the golden dump.
    Record(Box<Record>),
    /// The name of an array in a file.
    Array(String),
}

/// A task, record or array of one side without a partner on the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmatchedItem {
    /// A description of it.
    pub what: String,
    /// Why it has no partner.
    pub reason: String,
}

/// The differences between a dump and its golden.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// The selected records, in the order of the dump.
    pub rows: Vec<DiffRow>,
    /// Tasks, records and arrays without a partner, on either side.
    pub unmatched: Vec<UnmatchedItem>,
    /// The assignment of arrays to records, if the golden is files.
    pub arrays: Option<ArrayAssignment>,
    /// The task graphs of both runs, if the golden is a dump.
    runs: Option<Arc<RunPair>>,
}

/// The task graphs of two runs and their matching.
#[derive(Debug)]
struct RunPair {
    ours: TaskGraph,
    theirs: TaskGraph,
    matching: Matching,
}

impl Diff {
    /// Number of records with a verdict.
    #[must_use]
    pub fn compared(&self) -> usize {
        self.rows.iter().filter(|r| r.outcome.verdict != Verdict::Unknown).count()
    }

    /// Number of records that left the dump while they were read, because the run goes on (`--dump-last`).
    #[must_use]
    pub fn gone(&self) -> usize {
        self.rows.iter().filter(|row| is_gone(&row.outcome)).count()
    }

    /// Number of records in which only memory differs that no task of either run wrote.
    #[must_use]
    pub fn never_written(&self) -> usize {
        self.rows.iter().filter(|row| row.never_written).count() - self.by_value()
    }

    /// Number of differing records that were passed by value. They may hold addresses and are not judged.
    #[must_use]
    pub fn by_value(&self) -> usize {
        self.rows.iter().filter(|row| row.unwritten.is_value).count()
    }

    /// Whether something was compared and everything is within its rule. Records that left the dump, and
    /// memory that no task wrote, do not count.
    #[must_use]
    pub fn passes(&self, allow_unmatched: bool) -> bool {
        let good = |row: &DiffRow| match row.outcome.verdict {
            Verdict::Within => true,
            Verdict::Outside => false,
            Verdict::Unknown => {
                allow_unmatched && row.partner.is_none() || is_gone(&row.outcome) || row.never_written
            }
        };
        self.compared() > 0 && self.rows.iter().all(good) && (allow_unmatched || self.unmatched.is_empty())
    }

    /// The distribution of the errors of a row that was compared with a record of another dump. `None`
    /// without bytes to compare, or if only uninitialized memory differs.
    ///
    /// # Errors
    /// A payload cannot be read.
    pub fn detail(
        &self,
        dump: &Dump,
        golden: &Dump,
        row: &DiffRow,
        options: &DiffOptions<'_>,
    ) -> Result<Option<Detail>, FormatError> {
        let Some(Partner::Record(theirs)) = &row.partner else { return Ok(None) };
        let theirs = record_side(golden, theirs);
        let is_before = row.record.stage == DumpStage::BeforeDispatch;
        let masked = match (row.unwritten, &self.runs) {
            (UnwrittenMemory { here, in_golden, .. }, _) if is_before && (here || in_golden) => {
                return Ok(None);
            }
            (UnwrittenMemory { in_both: UnwrittenShare::Some(_), .. }, Some(runs)) => {
                runs.scan(dump, golden, row.order, &row.record)?.masked
            }
            _ => None,
        };
        match masked {
            Some(bytes) => {
                let ours = Side::of_bytes(row.record.dtype, row.record.shape(), bytes);
                compare::detail(&ours, &theirs, &row.rule, options.other_dtypes)
            }
            None => row_detail(dump, row, &theirs, options),
        }
    }
}

/// Compares records of a dump with the records of their partner tasks in another dump.
///
/// # Errors
/// A file cannot be read.
pub fn diff_dumps(
    dump: &Dump,
    golden: &Dump,
    records: &[Record],
    options: &DiffOptions<'_>,
) -> Result<Diff, AnalysisError> {
    let threads = options.work.threads;
    let golden_steps = steps_of_golden(golden, &options.steps, &options.golden_steps);
    let work = options.work;
    let (ours, theirs) = both(
        threads,
        || load_with_progress(dump, &options.steps, &|| work.check_canceled()),
        || load_with_progress(golden, &golden_steps, &|| work.check_canceled()),
    );
    let (ours, theirs) = (ours?, theirs?);
    let matching = match_tasks(&ours, &theirs, match_options(dump, golden, options.other_dtypes, threads));
    let runs = RunPair { ours, theirs, matching };
    let RunPair { ours, theirs, matching } = &runs;
    let rules = RuleTable::of(&options.rules, ours);
    let rows = options.work.map(records, |record| {
        let place = ours.position(record.task_key());
        let other = place.and_then(|p| matching.partner[p]).map(|p| theirs.task(p));
        let own = place.and_then(|place| ours.task(place).argument(record.arg_index));
        let partner = other.zip(own).and_then(|(other, own)| other.counterpart(own));
        let partner = partner.and_then(|a| a.captured(record.stage).copied());
        let rule = rule_of_record(&rules, ours, place, record);
        let kernels = kernels(ours, place);
        let Some(captured) = partner else {
            let outcome = Outcome::unknown(match other {
                None => "its task has no partner in the golden",
                Some(_) => "the golden did not capture this argument",
            });
            return Ok::<DiffRow, FormatError>(DiffRow {
                record: *record,
                order: place.unwrap_or(usize::MAX),
                kernels,
                partner: None,
                rule,
                outcome,
                never_written: false,
                unwritten: UnwrittenMemory::default(),
            });
        };
        let there = golden.record(captured.record)?;
        let outcome = match (record.scalar_bits, there.scalar_bits) {
            (Some(bits), Some(expected)) => Outcome::of_scalars(record.dtype, bits, expected),
            _ => {
                let sides = (record_side(dump, record), record_side(golden, &there));
                compare(&sides.0, &sides.1, &rule, options.other_dtypes, Depth::Full)?
            }
        };
        let (outcome, unwritten) = match place.filter(|_| outcome.verdict == Verdict::Outside) {
            Some(place) => {
                let written = runs.as_written((dump, golden), place, (record, &there), &rule, options)?;
                (written.0.unwrap_or(outcome), written.1)
            }
            None => (outcome, UnwrittenMemory::default()),
        };
        let never_written = unwritten.in_both == UnwrittenShare::All;
        let doubt = place.and_then(|place| matching.uncertain.get(&place));
        let outcome = match doubt.filter(|_| outcome.verdict == Verdict::Outside) {
            Some(reason) => Outcome::unknown(uncertain_partner(reason)),
            None => outcome,
        };
        let (partner, order) = (Some(Partner::Record(Box::new(there))), place.unwrap_or(usize::MAX));
        Ok(DiffRow { record: *record, order, kernels, partner, rule, outcome, never_written, unwritten })
    })?;
    let unmatched = unmatched_items(ours, theirs, matching, &rows);
    Ok(Diff { rows, unmatched, arrays: None, runs: Some(Arc::new(runs)) })
}

impl RunPair {
    /// Compares a differing record again without memory that no task wrote. Returns the new outcome, if it
    /// changed, and how much of the difference no task wrote.
    fn as_written(
        &self,
        (dump, golden): (&Dump, &Dump),
        place: usize,
        (record, there): (&Record, &Record),
        rule: &Rule,
        options: &DiffOptions<'_>,
    ) -> Result<(Option<Outcome>, UnwrittenMemory), FormatError> {
        let RunPair { ours, theirs, matching } = self;
        let nothing = UnwrittenMemory { in_both: UnwrittenShare::All, ..UnwrittenMemory::default() };
        let not_judged = || (Some(Outcome::unknown(NEVER_WRITTEN)), nothing);
        let argument = ours.task(place).argument(record.arg_index);
        if argument.is_some_and(|arg| is_value(ours, ours.task(place), arg)) {
            return Ok((Some(Outcome::unknown(BY_VALUE)), UnwrittenMemory { is_value: true, ..nothing }));
        }
        if is_never_written((dump, golden), (ours, theirs), matching, place, record)? {
            return Ok(not_judged());
        }
        let UnwrittenScan { unwritten, masked } = self.scan(dump, golden, place, record)?;
        if unwritten.in_both == UnwrittenShare::All {
            return Ok(not_judged());
        }
        let Some(bytes) = masked else { return Ok((None, unwritten)) };
        let sides = (Side::of_bytes(record.dtype, record.shape(), bytes), record_side(golden, there));
        let outcome = compare(&sides.0, &sides.1, rule, options.other_dtypes, Depth::Full)?;
        Ok(match outcome.verdict {
            Verdict::Within => not_judged(),
            Verdict::Outside | Verdict::Unknown => (Some(outcome), unwritten),
        })
    }

    fn scan(
        &self,
        dump: &Dump,
        golden: &Dump,
        place: usize,
        record: &Record,
    ) -> Result<UnwrittenScan, FormatError> {
        let Some(partner) = self.matching.partner[place] else { return Ok(UnwrittenScan::default()) };
        let what = (record.arg_index, record.stage);
        scan_argument((dump, golden), (&self.ours, &self.theirs), (place, partner), what)
    }
}

/// Why a differing record is not judged.
const BY_VALUE: &str = "it was passed by value and may hold addresses, which differ from run to run";
const NEVER_WRITTEN: &str = "the difference is memory that no task of either run wrote";

/// Limit on the number of tasks that are followed back to uninitialized memory.
const MAX_TASKS_BACK: usize = 256;

/// Whether a differing record holds memory that no task of either run wrote. The memory is followed back
/// through tasks that left it unchanged or passed it on equally in both runs.
fn is_never_written(
    dumps: (&Dump, &Dump),
    (ours, theirs): (&TaskGraph, &TaskGraph),
    matching: &Matching,
    place: usize,
    record: &Record,
) -> Result<bool, FormatError> {
    if record.scalar_bits.is_some() {
        return Ok(false);
    }
    // With known roles, memory without a producer is an external input of the run.
    if ours.observations().is_none() || theirs.observations().is_none() {
        return Ok(false);
    }
    // A task that filters removed may have written it.
    if observed::lacks_records(dumps.0) || observed::lacks_records(dumps.1) {
        return Ok(false);
    }
    let (mut place, mut arg_index, mut stage) = (place, record.arg_index, record.stage);
    for _ in 0..MAX_TASKS_BACK {
        let (task, partner) = (ours.task(place), matching.partner[place].map(|partner| theirs.task(partner)));
        let Some(here) = task.argument(arg_index) else { return Ok(false) };
        let Some((partner, there)) = partner.and_then(|partner| Some((partner, partner.counterpart(here)?)))
        else {
            return Ok(false);
        };
        if stage == DumpStage::AfterCompletion {
            let is_left_alone = here.is_unchanged() && there.is_unchanged();
            if !is_left_alone
                && !observed::overwrite_evidence(dumps, here, there)?
                    .is_some_and(|evidence| evidence.differs_only_where_unchanged)
            {
                return Ok(false);
            }
            stage = DumpStage::BeforeDispatch;
            continue;
        }
        // The host may have written its own memory.
        if here.host_writable || there.host_writable {
            return Ok(false);
        }
        if observed::is_never_written((ours, task, here), (theirs, partner, there)) {
            return Ok(true);
        }
        let ([left], [their_left]) = (ours.last_holders(here), theirs.last_holders(there)) else {
            return Ok(false);
        };
        let are_partners =
            matching.partner[left.task] == Some(their_left.task) && left.arg_index == their_left.arg_index;
        let is_handed_on = |graph: &TaskGraph, arg: Argument<'_>, left: OutputRef| {
            let left = graph.output(left).and_then(|output| output.hash_after());
            arg.hash_before().is_some_and(|hash| left == Some(hash))
        };
        if !are_partners || !is_handed_on(ours, here, *left) || !is_handed_on(theirs, there, *their_left) {
            return Ok(false);
        }
        (place, arg_index, stage) = (left.task, left.arg_index, DumpStage::AfterCompletion);
    }
    Ok(false)
}

/// The distribution of the errors of a row compared with `golden`; `None` without bytes to compare.
///
/// # Errors
/// A payload cannot be read.
pub fn row_detail(
    dump: &Dump,
    row: &DiffRow,
    golden: &Side<'_>,
    options: &DiffOptions<'_>,
) -> Result<Option<Detail>, FormatError> {
    compare::detail(&side_of(dump, &row.record), golden, &row.rule, options.other_dtypes)
}

/// Compares records of a dump with the arrays assigned to them.
///
/// # Errors
/// A file cannot be read, or no array has a name that means anything in the dump.
pub fn diff_arrays(
    dump: &Dump,
    arrays: &NamedArrays,
    records: &[Record],
    options: &DiffOptions<'_>,
) -> Result<Diff, AnalysisError> {
    let work = options.work;
    let graph = load_with_progress(dump, &options.steps, &|| work.check_canceled())?;
    let assigned = ArrayAssignment::of(dump, &graph, arrays)?;
    assigned.check(arrays)?;
    let rules = RuleTable::of(&options.rules, &graph);
    let rows = options.work.map(records, |record| {
        let place = graph.position(record.task_key());
        let (rule, kernels) = (rule_of_record(&rules, &graph, place, record), kernels(&graph, place));
        let (partner, outcome) = match assigned.side(arrays, record)? {
            None => (None, Outcome::unknown(NO_ARRAY)),
            Some((name, golden)) => {
                let ours = side_of(dump, record);
                let outcome = compare(&ours, &golden, &rule, options.other_dtypes, Depth::Full)?;
                (Some(Partner::Array(name.into())), outcome)
            }
        };
        let order = place.unwrap_or(usize::MAX);
        let record = *record;
        Ok::<DiffRow, AnalysisError>(DiffRow {
            record,
            order,
            kernels,
            partner,
            rule,
            outcome,
            never_written: false,
            unwritten: UnwrittenMemory::default(),
        })
    })?;
    let missing = rows.iter().filter(|r| r.partner.is_none());
    let missing = missing.map(|r| UnmatchedItem { what: r.record.to_string(), reason: NO_ARRAY.into() });
    let unused = assigned.unused.iter().map(|array| UnmatchedItem {
        what: format!("the golden's array {}", array.name),
        reason: array.reason.clone(),
    });
    let unmatched = missing.chain(unused).collect();
    Ok(Diff { rows, unmatched, arrays: Some(assigned), runs: None })
}

/// The side of a comparison for any record; a scalar is a tensor without dimensions.
pub(crate) fn side_of<'a>(dump: &'a Dump, record: &Record) -> Side<'a> {
    match record.scalar_bits {
        Some(bits) => {
            let width = usize::try_from(record.dtype.bits().div_ceil(8)).unwrap_or(8);
            Side::of_bytes(record.dtype, &[], bits.to_le_bytes()[..width].to_vec())
        }
        None => record_side(dump, record),
    }
}

fn kernels(graph: &TaskGraph, place: Option<usize>) -> Vec<String> {
    place.map(|p| graph.task(p).kernel_names()).unwrap_or_default()
}

fn rule_of_record(rules: &RuleTable<'_>, graph: &TaskGraph, place: Option<usize>, record: &Record) -> Rule {
    let arg = place.and_then(|p| Some((p, graph.task(p).argument(record.arg_index)?)));
    arg.map_or_else(|| Rule::for_dtype(record.dtype), |(p, arg)| rules.rule(p, arg, record.stage))
}

fn unmatched_items(
    ours: &TaskGraph,
    theirs: &TaskGraph,
    matching: &Matching,
    rows: &[DiffRow],
) -> Vec<UnmatchedItem> {
    let task = |graph: &TaskGraph, place: usize, whose: &str| {
        let task = graph.task(place);
        let kernels = task.short_kernel_names();
        let name = task.task_name().filter(|_| kernels.is_empty()).unwrap_or(&kernels);
        let called = if name.is_empty() { String::new() } else { format!(" ({name})") };
        format!("{whose} task {:#x}{called}", task.task_id)
    };
    let lone = |graph, whose: &'static str| {
        move |u: &crate::matching::UnmatchedTask| UnmatchedItem {
            what: task(graph, u.task, whose),
            reason: u.reason.clone(),
        }
    };
    let asked_for: HashSet<TaskKey> = rows.iter().map(|r| r.record.task_key()).collect();
    let selected = |u: &&crate::matching::UnmatchedTask| asked_for.contains(&ours.task(u.task).key());
    let mut all: Vec<UnmatchedItem> =
        matching.only_first.iter().filter(selected).map(lone(ours, "the dump's")).collect();
    all.extend(matching.only_second.iter().map(lone(theirs, "the golden's")));
    let is_matched = |row: &&DiffRow| {
        let place = ours.position(row.record.task_key());
        row.partner.is_none() && place.is_some_and(|p| matching.partner[p].is_some())
    };
    all.extend(rows.iter().filter(is_matched).map(|row| UnmatchedItem {
        what: row.record.to_string(),
        reason: row.outcome.reason().unwrap_or_default().into(),
    }));
    all
}
