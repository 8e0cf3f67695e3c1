//! Compares a dump with a golden dump: matches tasks, compares records, and collects the evidence for the
//! labels.

use std::collections::{HashMap, HashSet};

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, ArgumentSnapshot, Dump, FormatError, Task};
use tensortap_judge::{Depth, Outcome, Rule, TensorType, Verdict, compare_hashes};
use tensortap_sync::parallel::both;

use super::likely::{self, RecordedRun};
use super::lost_order;
use super::observed;
use super::producers::{
    derive, has_only_outputs, is_near_equal_output, is_noisy, lacking_of, mark, near_equal_of,
};
use super::right_runs::{GoldenArg, RightRuns};
use super::sources;
use super::unwritten::{self, UnwrittenShare};
use super::values;
use super::wiring::{self, WiringChange, WiringDifference};
use super::{
    BaselineKind, Blame, BlameOptions, ComparedArg, RuleTable, RunOutcome, all_provenances, count_compared,
    outside_inputs, reference, status_of,
};
use crate::compare::{LiveGolden, Side, compare, record_side};
use crate::error::AnalysisError;
use crate::evidence::{Evidence, Gatherer, Recording, holds_output_of};
use crate::graph::{TaskGraph, candidates, load_with_progress, steps_of_golden};
use crate::labels::{
    ArgStatus, InputFacts, PartnerTimes, Races, Status, TaskStatus, counting_outputs, label_tasks,
};
use crate::matching::{MatchOptions, Matching, match_tasks};
use crate::provenance::InputProvenance;

pub(super) fn blame(dump: &Dump, golden: &Dump, options: &BlameOptions<'_>) -> Result<Blame, AnalysisError> {
    let threads = options.work.threads;
    let golden_steps = steps_of_golden(golden, &options.steps, &options.golden_steps);
    let work = options.work;
    let (graph, theirs) = both(
        threads,
        || load_with_progress(dump, &options.steps, &|| work.check_canceled()),
        || load_with_progress(golden, &golden_steps, &|| work.check_canceled()),
    );
    let (graph, theirs) = (graph?, theirs?);
    let matching = match_tasks(&graph, &theirs, match_options(dump, golden, options.other_dtypes, threads));
    let pairs: Vec<(usize, usize)> =
        matching.partner.iter().enumerate().filter_map(|(ours, other)| Some((ours, (*other)?))).collect();
    let lenders = (LiveGolden::of(dump), LiveGolden::of(golden));
    let rules = RuleTable::of(&options.rules, &graph);
    let right_runs = RightRuns::of(golden, &theirs, options)?;
    let results = options.work.map(&pairs, |&(ours, other)| {
        let with = (&rules, &right_runs, options);
        compare_task((dump, golden), &lenders, (&graph, ours), (&theirs, other), with)
    })?;
    let mut compared_args: Vec<Vec<ComparedArg>> = vec![Vec::new(); graph.len()];
    let mut statuses = unmatched_statuses(&graph, &matching);
    for (&(ours, _), (args, compared)) in pairs.iter().zip(results) {
        (statuses[ours], compared_args[ours]) = match matching.uncertain.get(&ours) {
            Some(reason) => unless_outside(args, compared, reason),
            None => (TaskStatus::Compared(args), compared),
        };
    }
    // Only certain pairs are evidence of how tasks are connected.
    let certain = matching.certain();
    let mut wiring = wiring::differences((dump, golden), (&graph, &theirs), &certain);
    let (other_sources, misdirected) = sources::differences((&graph, &theirs), &matching, &statuses, &wiring);
    wiring.retain(|difference| sources::is_evidence(difference, &misdirected));
    wiring.extend(other_sources.values().map(|source| source.difference.clone()));
    wiring.extend(values::differences((dump, golden), (&graph, &theirs), &certain, &statuses)?);
    wiring.sort_by_key(|difference| difference.task);
    let mut near = near_equal_inputs(&graph, &theirs, &pairs, &statuses);
    let bare = pairs.iter().filter(|&&(_, other)| has_only_outputs(theirs.task(other)));
    let lacking = lacking_of(&graph, &statuses, &bare.map(|&(ours, _)| ours).collect());
    let mut questions = outside_inputs(&graph, &statuses);
    questions.extend(&lacking);
    let provenance = all_provenances(dump, &graph, &questions, options.work)?;
    let derived = derive(&graph, &mut statuses, &lacking, &provenance);
    let near_outputs = near_equal_of(&compared_args, DumpStage::AfterCompletion);
    near.extend(lacking.iter().filter(|&&input| is_near_equal_output(&graph, &near_outputs, input)));
    let is_noisy = is_noisy(&graph, &compared_args);
    let recordings = (Recording { dump, graph: &graph }, Recording { dump: golden, graph: &theirs });
    let uninitialized = observed::uninitialized(golden, (&graph, &theirs), &certain, &statuses);
    let mut never_written = uninitialized.clone();
    never_written.retain(|&(place, arg_index)| {
        let task = graph.task(place);
        !task.argument(arg_index).is_some_and(|arg| values::is_value(&graph, task, arg))
    });
    let gatherer = Gatherer::new(recordings, &matching, (&rules, &right_runs), options.other_dtypes);
    let evidence = gatherer.gather(&statuses, &|| work.check_canceled())?;
    drop(rules);
    near.extend(evidence.near_inputs());
    let mut counting = evidence.counting(&graph);
    let of_regions = counting_outputs(&graph, &statuses);
    counting.extend(of_regions.map(|(task, arg)| (task, arg, DumpStage::AfterCompletion)));
    let counting = Some(counting);
    let wrong_outputs = Some(evidence.wrong_outputs());
    let golden_times = PartnerTimes::of(&theirs, &certain.partner);
    let overwriters = overwriters(recordings.0, &evidence, &golden_times)?;
    let lost_order = lost_order::find(recordings, &certain, &statuses, &evidence)?;
    let unordered_writers = lost_order::unordered_writers(recordings.0, &evidence);
    let runs = (RecordedRun { dump, graph: &graph }, RecordedRun { dump: golden, graph: &theirs });
    // Filtered or lost tasks may have ordered others, so a race cannot be claimed.
    let likely_races = match observed::lacks_records(dump) || observed::lacks_records(golden) {
        true => None,
        false => Some(likely::races(runs, &certain, &statuses, &lost_order)?),
    };
    let described = |(key, race)| (key, (race, likely::describe(runs, &certain, key, race)));
    let likely_races = likely_races.map(|races| races.into_iter().map(described).collect());
    let other_values = other_values(&wiring);
    let (wiring_changed, other_buffers) = (wiring_changed(&wiring), other_buffers(&wiring));
    let other_sources = other_sources.into_iter().map(|(arg, source)| (arg, source.description)).collect();
    let inputs = InputFacts {
        near,
        is_noisy,
        wiring_changed,
        other_buffers,
        other_sources,
        misdirected,
        uninitialized,
        lost_order,
        unordered_writers,
        likely_races,
        overwriters,
        golden_times,
        other_values,
        harmless_scalars: values::harmless_scalars((&graph, &theirs), &certain, &statuses),
        evidence: Some(evidence),
    };
    let unknown = InputProvenance::Unknown("the input was not compared".into());
    let mut findings = label_tasks(&graph, &statuses, &inputs, |task, arg| {
        provenance.get(&(task, arg.arg_index)).unwrap_or(&unknown).clone()
    });
    if let Some(scene) = options.scene {
        reference::settle_amplified(dump, &graph, &mut findings, scene, options)?;
    }
    mark(&mut findings, &derived);
    let compared = count_compared(&compared_args);
    let golden = Some(theirs);
    Ok(Blame {
        graph,
        findings,
        compared_args,
        compared,
        of: dump.len(),
        matching,
        golden,
        basis: BaselineKind::Golden,
        first_wrong: Vec::new(),
        agreed_live: Vec::new(),
        unjudged: Vec::new(),
        wiring,
        stopped: Vec::new(),
        run: RunOutcome::default(),
        never_written,
        counting,
        wrong_outputs,
        slots: HashMap::new(),
        arrays: None,
    })
}

pub(crate) fn match_options(dump: &Dump, golden: &Dump, other_dtypes: bool, threads: usize) -> MatchOptions {
    let foreign = dump.format().is_foreign() || golden.format().is_foreign();
    MatchOptions { ignore_float_dtype: other_dtypes, ignore_blocks: foreign, threads }
}

pub(super) fn sides<'d>(
    blame: &Blame,
    dump: &'d Dump,
    golden: &'d Dump,
    task: usize,
    compared: &ComparedArg,
) -> Result<Option<(Side<'d>, Side<'d>)>, FormatError> {
    let arg = blame.graph.task(task).argument(compared.arg_index);
    let ours = captured(arg, compared.stage);
    let other = blame.matching.partner[task].zip(blame.golden.as_ref());
    let theirs = other.and_then(|(place, graph)| graph.task(place).counterpart(arg?));
    let theirs = captured(theirs, compared.stage);
    let Some((ours, theirs)) = ours.zip(theirs) else { return Ok(None) };
    let (ours, theirs) = (dump.record(ours.record)?, golden.record(theirs.record)?);
    let golden_side = record_side(golden, &theirs);
    let scan = unwritten::scan(blame, (dump, golden), task, compared)?;
    Ok(match scan.masked {
        // Nothing in the record is evidence.
        _ if scan.unwritten.in_both == UnwrittenShare::All => None,
        Some(bytes) => Some((Side::of_bytes(ours.dtype, ours.shape(), bytes), golden_side)),
        None => Some((record_side(dump, &ours), golden_side)),
    })
}

/// Arguments that use another view or buffer than in the golden, or that other tasks produced.
fn wiring_changed(wiring: &[WiringDifference]) -> HashSet<(usize, u16)> {
    let of = |difference: &WiringDifference| match &difference.what {
        WiringChange::View { arg_index, .. }
        | WiringChange::Source { arg_index, .. }
        | WiringChange::Buffer { arg_index, .. } => Some((difference.task, *arg_index)),
        WiringChange::Waits(_)
        | WiringChange::DoesNotWait(_)
        | WiringChange::LostOrder(_)
        | WiringChange::Launch { .. }
        | WiringChange::Scalar { .. }
        | WiringChange::Value { .. } => None,
    };
    wiring.iter().filter_map(of).collect()
}

/// Arguments that are other buffers than in the golden.
fn other_buffers(wiring: &[WiringDifference]) -> HashMap<(usize, u16), Option<u16>> {
    let of = |difference: &WiringDifference| match &difference.what {
        WiringChange::Buffer { arg_index, what } => Some(((difference.task, *arg_index), what.as_arg)),
        _ => None,
    };
    wiring.iter().filter_map(of).collect()
}

/// For inputs that no task in order explains: a task that ran out of order and whose output they hold.
fn overwriters(
    run: Recording<'_>,
    evidence: &Evidence,
    golden_times: &PartnerTimes,
) -> Result<HashMap<(usize, u16), usize>, FormatError> {
    let mut found = HashMap::new();
    // With unknown roles, the order is known from edges and not from times.
    if run.graph.observations().is_some() {
        return Ok(found);
    }
    let races = Races::of(run.graph);
    for ((place, arg_index), holder) in evidence.changed_inputs() {
        let Some(arg) = run.graph.task(place).argument(arg_index) else { continue };
        let stage = DumpStage::BeforeDispatch;
        let differing = evidence.differing(place, arg_index, stage);
        let is_in_order =
            |other: &usize| run.graph.last_holders(arg).iter().any(|holder| holder.task == *other);
        // A task that runs before in the golden, or at the same time, may be one that this task waits for.
        let is_usual = |other: &usize| {
            golden_times.overlap(place, *other)
                || run.graph.others_write && !golden_times.is_after(*other, place)
        };
        let others = races.possible_overwriters(place, arg, holder).into_iter();
        for other in others.filter(|other| !is_in_order(other) && !is_usual(other)) {
            if holds_output_of(run, (arg, stage), &differing, run.graph.task(other))? {
                found.insert((place, arg_index), other);
                break;
            }
        }
    }
    Ok(found)
}

/// Arguments passed by value that differ in more than addresses.
fn other_values(wiring: &[WiringDifference]) -> HashSet<(usize, u16)> {
    let of = |difference: &WiringDifference| match difference.what {
        WiringChange::Value { arg_index, .. } => Some((difference.task, arg_index)),
        _ => None,
    };
    wiring.iter().filter_map(of).collect()
}

/// Inputs that are within their rules but not bit-equal to the golden.
fn near_equal_inputs(
    graph: &TaskGraph,
    theirs: &TaskGraph,
    pairs: &[(usize, usize)],
    statuses: &[TaskStatus],
) -> HashSet<(usize, u16)> {
    let mut near = HashSet::new();
    for &(ours, other) in pairs {
        let TaskStatus::Compared(args) = &statuses[ours] else { continue };
        for (arg, _) in graph.task(ours).arguments().zip(args).filter(|(_, s)| s.before == Status::Within) {
            let golden = theirs.task(other).counterpart(arg).and_then(|golden| golden.hash_before());
            if arg.hash_before().zip(golden).is_some_and(|(ours, golden)| ours != golden) {
                near.insert((ours, arg.arg_index));
            }
        }
    }
    near
}

/// The evidence of a pair that is not certain: agreement counts, a difference does not, because the difference may be
/// that of two unrelated tasks.
fn unless_outside(
    args: Vec<ArgStatus>,
    mut compared: Vec<ComparedArg>,
    reason: &str,
) -> (TaskStatus, Vec<ComparedArg>) {
    if args.iter().all(|arg| arg.before != Status::Outside && arg.after != Status::Outside) {
        return (TaskStatus::Compared(args), compared);
    }
    let reason = uncertain_partner(reason);
    for one in compared.iter_mut().filter(|one| one.outcome.verdict == Verdict::Outside) {
        one.outcome = Outcome::unknown(reason.clone());
    }
    (TaskStatus::Unmatched(reason), compared)
}

/// Why a difference to the partner is no evidence.
pub(crate) fn uncertain_partner(reason: &str) -> String {
    format!("its partner in the golden is not certain: {reason}")
}

fn unmatched_statuses(graph: &TaskGraph, matching: &Matching) -> Vec<TaskStatus> {
    let reasons: HashMap<usize, &str> =
        matching.only_first.iter().map(|u| (u.task, u.reason.as_str())).collect();
    let reason = |place| reasons.get(&place).copied().unwrap_or("it has no partner in the golden");
    (0..graph.len()).map(|place| TaskStatus::Unmatched(reason(place).into())).collect()
}

fn captured(arg: Option<Argument<'_>>, stage: DumpStage) -> Option<ArgumentSnapshot> {
    arg?.captured(stage).copied()
}

/// Whether two arguments of unknown extent have unequal sizes.
fn have_other_extents(arg: Argument<'_>, partner: Argument<'_>) -> bool {
    !arg.extent_known && !partner.extent_known && arg.shape() != partner.shape()
}

/// The outcome by hashes if they are equal. Most are, so their records need not be read.
fn by_hash(
    arg: Argument<'_>,
    partner: Option<Argument<'_>>,
    stage: DumpStage,
    rule: &Rule,
) -> Option<Outcome> {
    let partner = partner?;
    let describes = |arg: Argument<'_>| arg.is_consistent && !arg.is_scalar();
    let are_alike = arg.dtype == partner.dtype && arg.shape() == partner.shape();
    let (hash, golden) = (arg.captured(stage)?.hash()?, partner.captured(stage)?.hash()?);
    if !(are_alike && describes(arg) && describes(partner)) {
        return None;
    }
    compare_hashes(&TensorType::new(arg.dtype, arg.shape()), hash, golden, rule)
}

/// A candidate that only one of the runs has is no input for certain, and an output only if the task changed it.
fn candidate_of_one_run(task: Task<'_>, arg: Argument<'_>, partner: Task<'_>) -> ArgStatus {
    let reason = "a word inside a value points to memory that the task changed, and not in the golden";
    let is_shown = arg.is_unchanged() || candidates::covering(task, arg, partner).is_some();
    let after = if is_shown { Status::NotApplicable } else { Status::Unknown(reason.into()) };
    ArgStatus { before: Status::NotApplicable, after }
}

fn compare_task(
    (dump, golden): (&Dump, &Dump),
    lenders: &(Option<LiveGolden>, Option<LiveGolden>),
    (graph, ours): (&TaskGraph, usize),
    (theirs, other): (&TaskGraph, usize),
    (rules, right_runs, options): (&RuleTable<'_>, &RightRuns<'_>, &BlameOptions<'_>),
) -> Result<(Vec<ArgStatus>, Vec<ComparedArg>), FormatError> {
    let mut compared = Vec::new();
    let mut statuses = Vec::new();
    for arg in graph.task(ours).arguments() {
        let partner = theirs.task(other).counterpart(arg);
        if partner.is_none() && arg.is_candidate() {
            statuses.push(candidate_of_one_run(graph.task(ours), arg, theirs.task(other)));
            continue;
        }
        let mut at = |stage: DumpStage, applies: bool| -> Result<Status, FormatError> {
            if !applies {
                return Ok(Status::NotApplicable);
            }
            let rule = rules.rule(ours, arg, stage);
            let outcome = match (captured(Some(arg), stage), captured(partner, stage)) {
                (None, _) => return Ok(Status::Unknown("the content was not captured".into())),
                (Some(_), None) => Outcome::unknown("the golden did not capture this argument"),
                (Some(_), Some(_)) if partner.is_some_and(|there| have_other_extents(arg, there)) => {
                    Outcome::unknown("where it ends is a guess, and the golden's ends elsewhere")
                }
                (Some(here), Some(there)) => 'compared: {
                    if let Some(outcome) = by_hash(arg, partner, stage, &rule) {
                        break 'compared outcome;
                    }
                    let (here_hash, there_hash) = (here.hash(), there.hash());
                    let (here, there) = (dump.record(here.record)?, golden.record(there.record)?);
                    match (here.scalar_bits, there.scalar_bits) {
                        (Some(bits), Some(expected)) => Outcome::of_scalars(here.dtype, bits, expected),
                        _ => {
                            let mut sides = (record_side(dump, &here), record_side(golden, &there));
                            // If a dump has no hashes, loading the graph computed them.
                            sides.0.hash = here_hash;
                            sides.1.hash = there_hash;
                            let here = LiveGolden::complete(lenders.0.as_ref(), sides.0);
                            let there = LiveGolden::complete(lenders.1.as_ref(), sides.1);
                            compare(&here, &there, &rule, options.other_dtypes, Depth::Quick)?
                        }
                    }
                }
            };
            let outcome = match partner {
                Some(there) => {
                    let golden = GoldenArg { dump: golden, task: other, arg: there, stage };
                    right_runs.settle((dump, arg), golden, (rule, outcome))?
                }
                None => outcome,
            };
            let status = status_of(&outcome);
            compared.push(ComparedArg { arg_index: arg.arg_index, stage, rule, outcome });
            Ok(status)
        };
        let before = at(DumpStage::BeforeDispatch, arg.role.reads())?;
        let after = at(DumpStage::AfterCompletion, arg.role.writes())?;
        statuses.push(ArgStatus { before, after });
    }
    Ok((statuses, compared))
}
