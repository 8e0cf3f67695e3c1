//! Every record of a dump beside what it should be.

use std::collections::HashSet;
use std::sync::Arc;

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Dump, FormatError, Record, TaskKey};
use tensortap_interchange::NamedArrays;
use tensortap_judge::{Depth, Detail, Outcome, Rule, RuleBook, Verdict};

use crate::arrays::{Assigned, NO_ARRAY};
use crate::blame::values::is_value;
use crate::blame::{Looked, RuleTable, Share, Unwritten, look_at, match_options, observed};
use crate::compare::{self, Side, compare, is_gone, record_side};
use crate::error::AnalysisError;
use crate::graph::{OutputRef, TaskGraph, load_watched, steps_of_golden};
use crate::matching::{Matching, match_tasks};
use crate::parallel::{Work, both};

/// How records are compared.
#[derive(Clone, Default)]
pub struct DiffOptions<'a> {
    /// The rules.
    pub rules: RuleBook,
    /// The golden may have other float dtypes.
    pub other_dtypes: bool,
    /// Steps of the dump that are meant; none stand for all.
    pub steps: Vec<(u64, u64)>,
    /// Steps of the golden that they are held against; none stand for all.
    pub golden_steps: Vec<(u64, u64)>,
    /// Threads and progress.
    pub work: Work<'a>,
}

/// One record beside what it should be.
#[derive(Clone, Debug)]
pub struct DiffRow {
    /// The record.
    pub record: Record,
    /// Place of its task in dependency order; the greatest number when the graph does not have it.
    pub order: usize,
    /// Names of its task's kernels.
    pub kernels: Vec<String>,
    /// What it was compared with: a record of the golden, or the name of an array; `None` when there is nothing.
    pub partner: Option<Partner>,
    /// The rule.
    pub rule: Rule,
    /// How it compares, by what tasks made of it alone: memory that no task of either run wrote is left out.
    pub outcome: Outcome,
    /// It holds what no task of either run ever wrote, and differs in nothing else: that says nothing.
    pub never_written: bool,
    /// How much of what differs no recorded task wrote.
    pub unwritten: Unwritten,
}

/// What a record was compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Partner {
    /// A record of another dump.
    Record(Box<Record>),
    /// An array of a file, by name.
    Array(String),
}

/// Something on one side that has nothing on the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lonely {
    /// In words.
    pub what: String,
    /// Why.
    pub reason: String,
}

/// How a dump differs from its golden.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// The records that were asked for, in the order of the dump.
    pub rows: Vec<DiffRow>,
    /// Those that have nothing to be compared with, on either side.
    pub unmatched: Vec<Lonely>,
    /// Where the golden is files: which array stands for which record.
    pub arrays: Option<Assigned>,
    /// Where it is a dump: who wrote what in either run.
    runs: Option<Arc<Runs>>,
}

/// Two runs, task by task as they match.
#[derive(Debug)]
struct Runs {
    ours: TaskGraph,
    theirs: TaskGraph,
    matching: Matching,
}

impl Diff {
    /// Records for which there is a verdict.
    #[must_use]
    pub fn compared(&self) -> usize {
        self.rows.iter().filter(|r| r.outcome.verdict != Verdict::Unknown).count()
    }

    /// Records that a run which goes on let go while they were read.
    #[must_use]
    pub fn gone(&self) -> usize {
        self.rows.iter().filter(|row| is_gone(&row.outcome)).count()
    }

    /// Records that hold what no task of either run ever wrote, and differ in nothing else.
    #[must_use]
    pub fn never_written(&self) -> usize {
        self.rows.iter().filter(|row| row.never_written).count() - self.by_value()
    }

    /// Records that differ and were passed by value: they may hold addresses, and are not judged.
    #[must_use]
    pub fn by_value(&self) -> usize {
        self.rows.iter().filter(|row| row.unwritten.is_value).count()
    }

    /// Whether everything is within its rule and something was compared. What is gone does not count, nor what nobody ever wrote.
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

    /// Where the errors of a row sit, beside the record of another dump that it was compared with; `None` when there are no bytes to look
    /// at, or nothing but what lay in memory before anybody wrote it.
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
            (Unwritten { here, in_golden, .. }, _) if is_before && (here || in_golden) => return Ok(None),
            (Unwritten { in_both: Share::Some(_), .. }, Some(runs)) => {
                runs.look(dump, golden, row.order, &row.record)?.masked
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

/// Compares records of a dump with those of another, task by task as they match.
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
        || load_watched(dump, &options.steps, &|| work.look_up()),
        || load_watched(golden, &golden_steps, &|| work.look_up()),
    );
    let (ours, theirs) = (ours?, theirs?);
    let matching = match_tasks(&ours, &theirs, match_options(dump, golden, options.other_dtypes, threads));
    let runs = Runs { ours, theirs, matching };
    let Runs { ours, theirs, matching } = &runs;
    let rules = RuleTable::of(&options.rules, ours);
    let rows = options.work.map(records, |record| {
        let place = ours.position(record.task_key());
        let other = place.and_then(|p| matching.partner[p]).map(|p| theirs.task(p));
        let partner = other.and_then(|t| t.argument(record.arg_index));
        let partner = partner.and_then(|a| a.captured(record.stage).copied());
        let rule = rule_of_record(&rules, ours, place, record);
        let kernels = kernels(ours, place);
        let Some(captured) = partner else {
            let outcome = Outcome::unknown(match other {
                None => "its task has no partner",
                Some(_) => "the golden did not capture it",
            });
            return Ok::<DiffRow, FormatError>(DiffRow {
                record: *record,
                order: place.unwrap_or(usize::MAX),
                kernels,
                partner: None,
                rule,
                outcome,
                never_written: false,
                unwritten: Unwritten::default(),
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
            None => (outcome, Unwritten::default()),
        };
        let never_written = unwritten.in_both == Share::All;
        let (partner, order) = (Some(Partner::Record(Box::new(there))), place.unwrap_or(usize::MAX));
        Ok(DiffRow { record: *record, order, kernels, partner, rule, outcome, never_written, unwritten })
    })?;
    let unmatched = lonely(ours, theirs, matching, &rows);
    Ok(Diff { rows, unmatched, arrays: None, runs: Some(Arc::new(runs)) })
}

impl Runs {
    /// How a record that differs compares by what tasks made of it alone, where that is otherwise, and how much of what differs no task
    /// wrote.
    fn as_written(
        &self,
        (dump, golden): (&Dump, &Dump),
        place: usize,
        (record, there): (&Record, &Record),
        rule: &Rule,
        options: &DiffOptions<'_>,
    ) -> Result<(Option<Outcome>, Unwritten), FormatError> {
        let Runs { ours, theirs, matching } = self;
        let nothing = Unwritten { in_both: Share::All, ..Unwritten::default() };
        let not_judged = || (Some(Outcome::unknown(NEVER_WRITTEN)), nothing);
        let argument = ours.task(place).argument(record.arg_index);
        if argument.is_some_and(|arg| is_value(ours, ours.task(place), arg)) {
            return Ok((Some(Outcome::unknown(BY_VALUE)), Unwritten { is_value: true, ..nothing }));
        }
        if is_never_written((dump, golden), (ours, theirs), matching, place, record)? {
            return Ok(not_judged());
        }
        let Looked { unwritten, masked } = self.look(dump, golden, place, record)?;
        if unwritten.in_both == Share::All {
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

    fn look(&self, dump: &Dump, golden: &Dump, place: usize, record: &Record) -> Result<Looked, FormatError> {
        let Some(partner) = self.matching.partner[place] else { return Ok(Looked::default()) };
        let what = (record.arg_index, record.stage);
        look_at((dump, golden), (&self.ours, &self.theirs), (place, partner), what)
    }
}

/// Why a record is not judged that differs.
const BY_VALUE: &str = "it was passed by value, and may hold addresses of its run";
const NEVER_WRITTEN: &str = "no task of either run ever wrote what differs";

/// Tasks that are followed back to where memory comes from that nobody wrote.
const MOST_BACK: usize = 256;

/// Whether a record that differs holds memory that no task of either run ever wrote: before its task, left alone by it, or handed on by
/// those before it in both runs alike.
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
    // Where roles are known, what no task wrote is what the run was given.
    if ours.observations().is_none() || theirs.observations().is_none() {
        return Ok(false);
    }
    // What filters left out may have written it.
    if observed::lacks_tasks(dumps.0) || observed::lacks_tasks(dumps.1) {
        return Ok(false);
    }
    let (mut place, mut arg_index, mut stage) = (place, record.arg_index, record.stage);
    for _ in 0..MOST_BACK {
        let (task, partner) = (ours.task(place), matching.partner[place].map(|partner| theirs.task(partner)));
        let there = partner.and_then(|partner| Some((partner, partner.argument(arg_index)?)));
        let Some((here, (partner, there))) = task.argument(arg_index).zip(there) else { return Ok(false) };
        if stage == DumpStage::AfterCompletion {
            let is_left_alone = here.is_unchanged() && there.is_unchanged();
            if !is_left_alone
                && !observed::traces(dumps, here, there)?.is_some_and(|traces| traces.rest_alone)
            {
                return Ok(false);
            }
            stage = DumpStage::BeforeDispatch;
            continue;
        }
        // The host's own memory has been written by the host.
        if here.host_writable || there.host_writable {
            return Ok(false);
        }
        if observed::is_never_written((ours, task, here), (theirs, partner, there)) {
            return Ok(true);
        }
        let ([left], [their_left]) = (ours.left_behind(here), theirs.left_behind(there)) else {
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

/// Where the errors of a row sit, beside what it was compared with; `None` when there are no bytes to look at.
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

/// Compares the records of a dump with the arrays that stand for them.
///
/// # Errors
/// A file cannot be read, or no array is named after anything in the dump.
pub fn diff_arrays(
    dump: &Dump,
    arrays: &NamedArrays,
    records: &[Record],
    options: &DiffOptions<'_>,
) -> Result<Diff, AnalysisError> {
    let work = options.work;
    let graph = load_watched(dump, &options.steps, &|| work.look_up())?;
    let assigned = Assigned::of(dump, &graph, arrays)?;
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
            unwritten: Unwritten::default(),
        })
    })?;
    let missing = rows.iter().filter(|r| r.partner.is_none());
    let missing = missing.map(|r| Lonely { what: r.record.to_string(), reason: NO_ARRAY.into() });
    let unused = assigned.unused.iter().map(|array| Lonely {
        what: format!("the golden's array {}", array.name),
        reason: array.reason.clone(),
    });
    let unmatched = missing.chain(unused).collect();
    Ok(Diff { rows, unmatched, arrays: Some(assigned), runs: None })
}

/// A record of either kind; a scalar is a tensor without dimensions.
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

fn lonely(ours: &TaskGraph, theirs: &TaskGraph, matching: &Matching, rows: &[DiffRow]) -> Vec<Lonely> {
    let task = |graph: &TaskGraph, place: usize, whose: &str| {
        let task = graph.task(place);
        let kernels = task.kernel_names().join("+");
        let name = task.task_name().filter(|_| kernels.is_empty()).unwrap_or(&kernels);
        let called = if name.is_empty() { String::new() } else { format!(" ({name})") };
        format!("{whose} task {:#x}{called}", task.task_id)
    };
    let lone = |graph, whose: &'static str| {
        move |u: &crate::matching::Unmatched| Lonely {
            what: task(graph, u.task, whose),
            reason: u.reason.clone(),
        }
    };
    let asked_for: HashSet<TaskKey> = rows.iter().map(|r| r.record.task_key()).collect();
    let selected = |u: &&crate::matching::Unmatched| asked_for.contains(&ours.task(u.task).key());
    let mut all: Vec<Lonely> =
        matching.only_first.iter().filter(selected).map(lone(ours, "the dump's")).collect();
    all.extend(matching.only_second.iter().map(lone(theirs, "the golden's")));
    let is_matched = |row: &&DiffRow| {
        let place = ours.position(row.record.task_key());
        row.partner.is_none() && place.is_some_and(|p| matching.partner[p].is_some())
    };
    all.extend(rows.iter().filter(is_matched).map(|row| Lonely {
        what: row.record.to_string(),
        reason: row.outcome.reason().unwrap_or_default().into(),
    }));
    all
}
