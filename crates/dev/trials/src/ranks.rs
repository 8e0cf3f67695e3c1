//! Trials with training programs of many ranks, whose collectives exchange gradients.
//!
//! | module | content |
//! | --- | --- |
//! | [`program`] | generates a program |
//! | [`faults`] | puts a fault into it |
//! | [`machine`] | executes it on all ranks |
//! | [`recording`] | records one dump for each rank |
//! | [`answer`] | asks `tensortap blame` |
//! | [`oracle`] | judges the answer |
//! | [`story`] | describes the trial for a person |

mod answer;
mod faults;
mod machine;
mod oracle;
mod program;
mod recording;
mod story;

use std::path::{Path, PathBuf};

use tensortap_record::{DumpFilter, DumpLevel};

use crate::faults::{chosen, name_of};
use crate::recording::Capture;
use crate::trial::Verdict;
pub use faults::RankFault;
use machine::{Place, Plan, Traces, execute};
use oracle::{Absence, Case, Run};
use recording::Facts;

/// Both runs of a trial, before they are recorded.
struct Runs {
    fault: RankFault,
    guilty: Vec<Place>,
    plans: [Plan; 2],
    traces: [Traces; 2],
    /// By run and rank: what its dump keeps.
    captures: [Vec<Capture>; 2],
    absence: Option<Absence>,
}

/// Plans a trial. A plan whose fault has no place or no effect is planned again.
fn plan(random: &mut fastrand::Rng, fault: RankFault) -> Runs {
    loop {
        let program = program::program(random, fault.needs());
        let (seed, garbage) = (random.u64(..), random.u64(..));
        let golden = Plan { program, seed, garbage, noise: None, damages: Vec::new(), others: Vec::new() };
        let other_garbage = if random.bool() { garbage } else { random.u64(..) };
        let mut actual = Plan { garbage: other_garbage, ..golden.clone() };
        let Some(guilty) = faults::apply(fault, &mut actual, random) else { continue };
        let may_have_noise = golden.program.element.is_float() && fault != RankFault::Slight;
        if may_have_noise && !fault.is_right() && random.u8(..5) == 0 {
            actual.noise = Some(random.u64(..));
        }
        let traces = [execute(&actual), execute(&golden)];
        if !faults::is_clear(&golden.program, &traces[0], &traces[1], fault) {
            continue;
        }
        let captures = captures(random, &golden.program);
        let absence = absence(random, golden.program.ranks);
        return Runs { fault, guilty, plans: [actual, golden], traces, captures, absence };
    }
}

/// What the dumps keep. Half of the trials record both runs in the same way.
fn captures(random: &mut fastrand::Rng, program: &program::Program) -> [Vec<Capture>; 2] {
    let mut of_run = || {
        let level = if random.u8(..3) == 0 { DumpLevel::Hash } else { DumpLevel::Full };
        let mut captures = vec![Capture { level, ..Capture::FULL }; program.ranks];
        if random.u8(..4) == 0 {
            let filter = crate::api::filter(random, program.jobs.len() as u64);
            // All ranks, or only one of them.
            let only = random.bool().then(|| random.usize(..program.ranks));
            let filtered = captures.iter_mut().enumerate();
            filtered
                .filter(|(rank, _)| only.is_none_or(|only| only == *rank))
                .for_each(|(_, capture)| capture.filter = filter);
        }
        captures
    };
    let (first, second) = (of_run(), of_run());
    if random.bool() { [first.clone(), first] } else { [first, second] }
}

/// In one of five trials, a rank is missing.
fn absence(random: &mut fastrand::Rng, ranks: usize) -> Option<Absence> {
    // With one of two ranks, a run is not known to have several.
    if ranks < 3 || random.u8(..5) > 0 {
        return None;
    }
    let (in_run, in_golden) = *random
        .choice([(true, false), (true, false), (false, true), (true, true)].iter())
        .expect("not empty");
    // A real recording lists its ranks. Without that, nothing shows that a rank exists that both runs lack.
    let is_listed = in_run && in_golden || random.bool();
    let is_allowed = random.u8(..4) == 0;
    Some(Absence { rank: random.usize(..ranks), in_run, in_golden, is_listed, is_allowed })
}

/// Records both runs, and removes the dumps of a missing rank.
fn record(runs: &Runs, dirs: &[PathBuf; 2]) -> Result<[Vec<Facts>; 2], String> {
    let mut facts = [Vec::new(), Vec::new()];
    let is_absent = runs.absence.map_or([false; 2], |absence| [absence.in_run, absence.in_golden]);
    for side in 0..2 {
        let program = &runs.plans[side].program;
        for rank in 0..program.ranks {
            let (traces, capture) = (&runs.traces[side][rank], &runs.captures[side][rank]);
            let recorded = recording::record(program, rank, traces, capture, &dirs[side]);
            facts[side].push(recorded.map_err(|error| error.to_string())?);
        }
        if runs.absence.is_some_and(|absence| absence.is_listed) {
            recording::list_processes(program.ranks, &dirs[side])?;
        }
        if let Some(absence) = runs.absence.filter(|_| is_absent[side]) {
            let dir = dirs[side].join(format!("rank-{}", absence.rank));
            std::fs::remove_dir_all(dir).map_err(|error| error.to_string())?;
        }
    }
    Ok(facts)
}

/// Runs one trial in an empty folder.
pub fn trial(seed: u64, only: &[String], tensortap: &Path, dir: &Path) -> Result<Verdict, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let faults = chosen(RankFault::ALL, only);
    let fault = *random.choice(faults.iter()).ok_or("runs of many ranks have none of these faults")?;
    let runs = plan(&mut random, fault);
    let dirs = ["wrong", "right"].map(|name| dir.join(name));
    let facts = record(&runs, &dirs)?;
    let run =
        |side: usize| Run { traces: &runs.traces[side], facts: &facts[side], captures: &runs.captures[side] };
    let case = Case {
        program: &runs.plans[1].program,
        fault,
        guilty: &runs.guilty,
        actual: run(0),
        golden: run(1),
        absence: runs.absence,
    };
    let options = options(&runs);
    let answer = answer::ask(tensortap, &dirs[0], &dirs[1], &options);
    let judgment = answer.as_ref().map(|answer| case.judge(answer)).map_err(Clone::clone);
    let levels = if runs.absence.is_some() { "missing" } else { levels(&runs.captures) };
    let cell = ("ranks", levels, name_of(fault));
    let story = story::tell(&runs, &facts[0], &options, answer.as_ref().ok());
    Ok(Verdict { cell, is_right: fault.is_right(), judgment, story })
}

/// The options of `blame` that a run needs.
fn options(runs: &Runs) -> Vec<String> {
    let mut options = Vec::new();
    let style = &runs.plans[1].program.style;
    // Recorded groups need no names.
    if let Some(patterns) = style.patterns.as_ref().filter(|_| style.recorded != program::Recorded::All) {
        options.extend(["--collective".to_owned(), patterns.clone()]);
    }
    if runs.absence.is_some_and(|absence| absence.is_allowed) {
        options.push("--allow-unmatched".to_owned());
    }
    options
}

/// The cell of the table for the dumps of both runs.
fn levels(captures: &[Vec<Capture>; 2]) -> &'static str {
    if captures.iter().flatten().any(|capture| capture.filter != DumpFilter::ALL) {
        return "filtered";
    }
    match (captures[0][0].level, captures[1][0].level) {
        (DumpLevel::Full, DumpLevel::Full) => "full",
        (DumpLevel::Hash, DumpLevel::Hash) => "hash",
        _ => "full, hash",
    }
}

#[cfg(test)]
mod tests;
