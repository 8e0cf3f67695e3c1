//! Trials with programs that record through the recording API, each run in its own folder.

use std::path::Path;

use tensortap_record::{DumpFilter, DumpLevel, DumpPolicy};

use crate::faults::{self, Fault, Guilt, name_of};
use crate::generate;
use crate::machine::{ArgTrace, Source, TaskTrace, Unobserved, execute};
use crate::oracle::{Case, Judgment, Run};
use crate::program::{Action, Plan};
use crate::recording::{Capture, Facts, Recording};
use crate::{answer, trial::Verdict, waits};

/// Both runs of a trial, before they are recorded.
struct Runs {
    fault: Fault,
    guilt: Guilt,
    actual: Plan,
    golden: Plan,
    captures: [Capture; 2],
}

/// Plans a trial. A plan whose fault has no place or no effect is planned again.
fn plan(random: &mut fastrand::Rng, fault: Fault) -> Runs {
    loop {
        let mut program = generate::program(random);
        if fault == Fault::Amplified && !faults::amplify(&mut program, random) {
            continue;
        }
        let garbage = random.u64(..);
        let padding = 64 * random.usize(..4);
        let golden = Plan { program, deviations: Vec::new(), garbage, padding, noise: None };
        let other_garbage = if random.u8(..3) == 0 { garbage } else { random.u64(..) };
        let other_padding = if random.bool() { padding } else { 64 * random.usize(..4) };
        let mut actual = Plan { garbage: other_garbage, padding: other_padding, ..golden.clone() };
        // Most faulty runs have no noise, so that hashes are equal where values are.
        let may_have_noise = !fault.is_right() && fault != Fault::Amplified;
        if may_have_noise && random.u8(..4) == 0 && faults::has_only_floats(&golden.program) {
            actual.noise = Some(random.u64(..));
        }
        if golden.program.style.is_pool {
            waits::reassign(&mut actual.program, random);
        }
        // Threads number tasks as they come.
        if golden.program.style.lanes > 1 && random.bool() {
            waits::interleave(&mut actual.program, random);
        }
        let Some(guilt) = faults::apply(fault, &mut actual, random) else { continue };
        let [left, right] = [&actual, &golden].map(|plan| execute(plan, &mut Unobserved));
        if !is_clear(&left, &right, fault) {
            continue;
        }
        let captures = captures(random, fault, &golden);
        return Runs { fault, guilt, actual, golden, captures };
    }
}

/// Whether a fault has an effect, and no error is so close to the tolerance that rounding could decide.
pub fn is_clear(actual: &[TaskTrace], golden: &[TaskTrace], fault: Fault) -> bool {
    let mut differs = actual.len() != golden.len();
    for left in actual {
        let Some(right) = golden.iter().find(|trace| trace.id == left.id) else { continue };
        for (left, right) in left.args.iter().zip(&right.args) {
            let errors = errors_of(left, right);
            if errors.iter().any(|error| (0.3..3.0).contains(error)) {
                return false;
            }
            differs |= errors.iter().any(|error| if fault.is_right() { *error > 0.0 } else { *error > 1.0 });
        }
    }
    differs || fault == Fault::None || fault == Fault::Noise
}

/// Errors of all elements that a kernel used, as multiples of the tolerance.
fn errors_of(actual: &ArgTrace, golden: &ArgTrace) -> Vec<f64> {
    let count = actual.places.len().min(golden.places.len());
    let used = |at: &usize| [actual, golden].iter().any(|trace| trace.read[*at] || trace.written[*at]);
    let error = |at: usize| {
        let before = match (actual.sources[at], golden.sources[at]) {
            (Source::Garbage, Source::Garbage) if !actual.read[at] => 0.0,
            _ if !actual.read[at] => 0.0,
            _ => actual.element.error_in_tolerances(actual.before_of(at), golden.before_of(at)),
        };
        before.max(actual.element.error_in_tolerances(actual.after_of(at), golden.after_of(at)))
    };
    (0..count).filter(used).map(error).collect()
}

/// What the two dumps keep.
fn captures(random: &mut fastrand::Rng, fault: Fault, plan: &Plan) -> [Capture; 2] {
    let mut one = || {
        let level = match random.u8(..10) {
            0..=5 => DumpLevel::Full,
            6..=8 => DumpLevel::Hash,
            _ if fault.needs_all_inputs() => DumpLevel::Full,
            _ => DumpLevel::Meta,
        };
        let mut capture = Capture { level, ..Capture::FULL };
        if fault == Fault::External && random.u8(..3) > 0 {
            capture.filter.stages = AFTER;
        } else if !fault.needs_all_inputs() && random.u8(..3) == 0 {
            let is_launch = |action: &&Action| matches!(action, Action::Launch { .. });
            let tasks = plan.program.actions.iter().filter(is_launch).count() as u64;
            capture.filter = filter(random, tasks);
        }
        if !fault.needs_all_inputs() && random.u8(..16) == 0 {
            (capture.policy, capture.arena_bytes) = (DumpPolicy::Drop, 4096);
        }
        capture
    };
    let first = one();
    let second = one();
    // Half of the trials record both runs in the same way.
    if random.bool() { [first, first] } else { [first, second] }
}

/// A filter that leaves out something of a run with this many tasks. Some filters combine several conditions.
pub fn filter(random: &mut fastrand::Rng, tasks: u64) -> DumpFilter {
    let mut filter = DumpFilter::ALL;
    let conditions = match random.u8(..10) {
        0..=5 => 1,
        6..=8 => 2,
        _ => 3,
    };
    for condition in random.choose_multiple(0..5_u8, conditions) {
        match condition {
            0 => {
                let first = random.u64(1..=tasks);
                filter.tasks[0] = [first, random.u64(first..=tasks)];
                filter.task_ranges = 1;
            }
            1 => filter.funcs = [random.u64(..), 0, 0, 0],
            2 => filter.args = random.u64(..),
            3 => filter.stages = if random.bool() { BEFORE } else { AFTER },
            _ => filter.first_tasks = random.u64(1..=tasks),
        }
    }
    filter
}

/// Filters of content before and after tasks.
const BEFORE: u64 = 1 << 1;
const AFTER: u64 = 1 << 2;

fn record(plan: &Plan, capture: &Capture, dir: &Path) -> Result<(Vec<TaskTrace>, Facts), String> {
    let mut recording = Recording::open(&plan.program, dir, capture).map_err(|error| error.to_string())?;
    let traces = execute(plan, &mut recording);
    Ok((traces, recording.close().map_err(|error| error.to_string())?))
}

/// Runs one trial in an empty folder.
pub fn trial(seed: u64, only: &[String], tensortap: &Path, dir: &Path) -> Result<Verdict, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let faults = faults::chosen(Fault::ALL, only);
    let fault = *random.choice(faults.iter()).ok_or("generated programs have none of these faults")?;
    let runs = plan(&mut random, fault);
    let [wrong, right] = ["wrong", "right"].map(|name| dir.join(name));
    let (actual, actual_facts) = record(&runs.actual, &runs.captures[0], &wrong)?;
    let (golden, golden_facts) = record(&runs.golden, &runs.captures[1], &right)?;
    let has_names = runs.golden.program.actions.iter().all(|action| match action {
        Action::Launch { launch, .. } => launch.name.is_some(),
        _ => true,
    });
    let case = Case {
        fault: runs.fault,
        guilt: &runs.guilt,
        style: &runs.golden.program.style,
        has_names,
        actual: Run { traces: &actual, facts: &actual_facts, capture: runs.captures[0] },
        golden: Run { traces: &golden, facts: &golden_facts, capture: runs.captures[1] },
    };
    let answer = answer::ask(tensortap, &wrong, &right, seed);
    let judgment: Result<Judgment, String> =
        answer.as_ref().map(|answer| case.judge(answer)).map_err(Clone::clone);
    let levels = levels(&runs.captures);
    let story = crate::story::tell(&case, &runs.actual, answer.as_ref().ok());
    Ok(Verdict {
        cell: ("api", levels, name_of(runs.fault)),
        is_right: runs.fault.is_right(),
        judgment,
        story,
    })
}

/// The cell of the table for two dumps. Filters, losses and marks leave out more than levels do.
fn levels(captures: &[Capture; 2]) -> &'static str {
    let any = |is: &dyn Fn(&Capture) -> bool| captures.iter().any(is);
    if any(&|capture| capture.filter != DumpFilter::ALL || capture.policy != DumpPolicy::Block) {
        "filtered"
    } else if any(&|capture| capture.level == DumpLevel::Meta) {
        "marks"
    } else if captures[0].level != captures[1].level {
        "full, hash"
    } else if captures[0].level == DumpLevel::Hash {
        "hash"
    } else {
        "full"
    }
}

#[cfg(test)]
pub mod tests;
