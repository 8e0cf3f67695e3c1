//! Generated programs are sound, and the oracle accepts the best answer to each trial.

use super::*;
use crate::program::Access;
use answer::{Answer, Labeled, Task};
use program::{Initial, Needs, Phase};

#[test]
fn right_programs_read_nothing_that_is_uninitialized() {
    for seed in 0..100 {
        let program = program::program(&mut fastrand::Rng::with_seed(seed), Needs::default());
        let plan = Plan { program, seed, garbage: 1, noise: None, damages: Vec::new(), others: Vec::new() };
        let (traces, program) = (execute(&plan), &plan.program);
        let is_garbage = |buffer: usize| program.buffers[buffer].initial == Initial::Garbage;
        for arg in traces.iter().flatten().flatten().filter(|arg| arg.access.reads()) {
            assert!(arg.source.is_some() || !is_garbage(arg.buffer), "seed {seed}, {arg:?}");
        }
    }
}

#[test]
fn all_ranks_have_the_same_weights_after_every_step() {
    for seed in 0..100 {
        let program = program::program(&mut fastrand::Rng::with_seed(seed), Needs::default());
        let plan = Plan { program, seed, garbage: 1, noise: None, damages: Vec::new(), others: Vec::new() };
        let traces = execute(&plan);
        for (number, job) in plan.program.jobs.iter().enumerate() {
            // Momentum is only for a rank's own part of the weights, if each rank optimizes only a part.
            let is_read = |one: &program::Job, at: usize| {
                one.phase == Phase::Forward && one.args[1].0 == job.args[at].0
            };
            let shares = |at: usize| plan.program.jobs.iter().any(|one| is_read(one, at));
            for at in (0..job.args.len()).filter(|&at| shares(at) && job.args[at].1.writes()) {
                let is_same = |rank: usize| {
                    let first = plan.program.members(job.layer, rank)[0];
                    traces[rank][number][at].after == traces[first][number][at].after
                };
                assert!((0..plan.program.ranks).all(is_same), "seed {seed}, task {number}");
            }
        }
    }
}

/// The answer that knows everything: guilty tasks, and tasks that read other content that no task wrote.
fn best_answer(runs: &Runs, facts: &[Facts]) -> Answer {
    let absent = runs.absence.map(|absence| absence.rank);
    let mut answer = Answer::default();
    let ranks = (0..runs.plans[0].program.ranks).filter(|rank| Some(*rank) != absent);
    for (job, rank) in (0..facts[0].ids.len()).flat_map(|job| ranks.clone().map(move |rank| (job, rank))) {
        let mut args = runs.traces[0][rank][job].iter().zip(&runs.traces[1][rank][job]);
        let is_fed = args.any(|(left, right)| {
            left.access != Access::Write && left.source.is_none() && left.before != right.before
        });
        let label = match runs.guilty.contains(&Place { job, rank }) {
            true => "wrong_here",
            false if is_fed => "fed",
            false => continue,
        };
        let task = Task { rank, id: facts[rank].ids[job] };
        answer.tasks.push(Labeled { task, label: label.to_owned(), from: None });
        answer.first_wrong.push((task, label.to_owned()));
    }
    answer.undecided = absent.into_iter().collect();
    answer.verdict = match (runs.fault.is_right(), runs.absence) {
        (_, Some(absence)) if absence.is_known() && !absence.is_allowed => "undecided",
        (true, _) => "pass",
        (false, _) => "fail",
    }
    .to_owned();
    answer
}

#[test]
fn the_oracle_accepts_the_best_answer() {
    let mut decidable = 0;
    for seed in 0..150 {
        let mut random = fastrand::Rng::with_seed(seed);
        let fault = RankFault::ALL[usize::try_from(seed).unwrap() % RankFault::ALL.len()];
        let runs = plan(&mut random, fault);
        let program = &runs.plans[1].program;
        let mut facts = Facts::default();
        for (number, job) in program.jobs.iter().enumerate() {
            facts.ids.push(number as u64 + 1);
            let stages = (0..job.args.len()).flat_map(|arg| [(arg, false), (arg, true)]);
            stages.for_each(|(arg, is_after)| {
                facts.content.insert((number, arg, is_after), crate::recording::Content::Full);
            });
        }
        let facts = vec![facts; program.ranks];
        let run =
            |side: usize| Run { traces: &runs.traces[side], facts: &facts, captures: &runs.captures[side] };
        let case = Case {
            program,
            fault,
            guilty: &runs.guilty,
            actual: run(0),
            golden: run(1),
            absence: runs.absence,
        };
        let judgment = case.judge(&best_answer(&runs, &facts));
        assert!(!judgment.is_violation() && !judgment.undecided_needlessly(), "seed {seed}: {judgment:?}");
        decidable += u64::from(judgment.is_decidable);
    }
    assert!(decidable > 50, "{decidable}");
}

#[test]
fn every_fault_damages_what_its_name_tells() {
    for &fault in RankFault::ALL {
        let runs = plan(&mut fastrand::Rng::with_seed(7), fault);
        let phases: Vec<Phase> =
            runs.guilty.iter().map(|place| runs.plans[0].program.jobs[place.job].phase).collect();
        let is_expected = |phase: &Phase| match fault {
            RankFault::Forward => *phase == Phase::Forward,
            RankFault::Loss => *phase == Phase::Loss,
            RankFault::Backward | RankFault::Slight => *phase == Phase::Backward,
            RankFault::Collective | RankFault::Whole => matches!(phase, Phase::Collective(_)),
            RankFault::Optimizer => *phase == Phase::Optimizer,
            RankFault::Load => *phase == Phase::Load,
            RankFault::Both => *phase != Phase::Load,
            RankFault::None | RankFault::Noise | RankFault::Weights | RankFault::Samples => false,
        };
        assert!(phases.iter().all(is_expected), "{fault:?}: {phases:?}");
    }
}
