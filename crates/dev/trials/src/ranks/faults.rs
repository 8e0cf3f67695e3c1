//! Faults of one rank: what goes wrong in the faulty run, and which tasks did it.

use clap::ValueEnum;

use super::machine::{ArgTrace, Damage, Place, Plan, Traces};
use super::program::{Exchange, Initial, Needs, Phase, Program};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum RankFault {
    /// Both runs are right.
    None,
    /// Kernels compute with noise far within the tolerance.
    Noise,
    /// A task of the forward pass is wrong.
    Forward,
    /// The loss is wrong.
    Loss,
    /// A task of the backward pass is wrong.
    Backward,
    /// A gradient is slightly wrong: the result of the collective is within its rule, and optimizers amplify the error.
    Slight,
    /// The collective leaves something else on one rank.
    Collective,
    /// The collective leaves something else on all ranks of its group.
    Whole,
    /// An optimizer is wrong.
    Optimizer,
    /// A rank begins with other weights.
    Weights,
    /// A rank begins with other samples or labels.
    Samples,
    /// The host writes other samples on a rank.
    Load,
    /// Tasks of two ranks are wrong.
    Both,
}

impl RankFault {
    pub const ALL: &[RankFault] = RankFault::VARIANTS;
    const VARIANTS: &'static [RankFault] = &[
        RankFault::None,
        RankFault::Noise,
        RankFault::Forward,
        RankFault::Loss,
        RankFault::Backward,
        RankFault::Slight,
        RankFault::Collective,
        RankFault::Whole,
        RankFault::Optimizer,
        RankFault::Weights,
        RankFault::Samples,
        RankFault::Load,
        RankFault::Both,
    ];

    /// Whether the faulty run counts as right.
    pub fn is_right(self) -> bool {
        matches!(self, RankFault::None | RankFault::Noise)
    }

    /// What a program needs to have this fault.
    pub fn needs(self) -> Needs {
        Needs {
            floats: matches!(self, RankFault::Noise | RankFault::Slight),
            amplifies: self == RankFault::Slight,
        }
    }
}

/// Applies a fault to a plan. Returns the guilty tasks; none if the program has no place for the fault.
pub fn apply(fault: RankFault, plan: &mut Plan, random: &mut fastrand::Rng) -> Option<Vec<Place>> {
    let damage = damage(random);
    let is_collective = |phase| matches!(phase, Phase::Collective(_));
    match fault {
        RankFault::None => Some(Vec::new()),
        RankFault::Noise => {
            plan.noise = Some(random.u64(..));
            Some(Vec::new())
        }
        RankFault::Forward => one(plan, random, damage, |phase| phase == Phase::Forward),
        RankFault::Loss => one(plan, random, damage, |phase| phase == Phase::Loss),
        RankFault::Backward => one(plan, random, damage, |phase| phase == Phase::Backward),
        RankFault::Slight => slight(plan, random),
        RankFault::Collective => one(plan, random, damage, is_collective),
        RankFault::Whole => {
            // Something that was not written differs from rank to rank.
            let damage = if damage == Damage::Stale { Damage::All } else { damage };
            let job = *random.choice(plan.program.jobs_of(is_collective).iter())?;
            let rank = random.usize(..plan.program.ranks);
            let members = plan.program.members(plan.program.jobs[job].layer, rank);
            let guilty: Vec<Place> = members.into_iter().map(|rank| Place { job, rank }).collect();
            plan.damages.extend(guilty.iter().map(|place| (*place, damage)));
            Some(guilty)
        }
        RankFault::Optimizer => one(plan, random, damage, |phase| phase == Phase::Optimizer),
        RankFault::Weights => others(plan, random, Initial::Weights),
        RankFault::Samples => others(plan, random, Initial::Samples),
        RankFault::Load => one(plan, random, damage, |phase| phase == Phase::Load),
        RankFault::Both => {
            let first = one(plan, random, damage, |phase| phase != Phase::Load)?;
            let second = one(plan, random, Damage::All, |phase| phase != Phase::Load)?;
            (first[0].rank != second[0].rank).then(|| vec![first[0], second[0]])
        }
    }
}

fn damage(random: &mut fastrand::Rng) -> Damage {
    match random.u8(..8) {
        0..=3 => Damage::Value { element: random.u64(..1000), by: if random.bool() { 0.5 } else { -8.0 } },
        4..=5 => Damage::All,
        6 => Damage::Nan,
        _ => Damage::Stale,
    }
}

/// Damages one task on one rank.
fn one(
    plan: &mut Plan,
    random: &mut fastrand::Rng,
    damage: Damage,
    is_wanted: impl Fn(Phase) -> bool,
) -> Option<Vec<Place>> {
    let job = *random.choice(plan.program.jobs_of(is_wanted).iter())?;
    let place = Place { job, rank: random.usize(..plan.program.ranks) };
    plan.damages.push((place, damage));
    Some(vec![place])
}

/// An error of a few tolerances, which a mean of many ranks hides.
fn slight(plan: &mut Plan, random: &mut fastrand::Rng) -> Option<Vec<Place>> {
    let by = if plan.program.element == crate::program::Element::F32 { 3.2e-5 } else { 3.4e-7 };
    let damage = Damage::Value { element: random.u64(..1000), by };
    one(plan, random, damage, |phase| phase == Phase::Backward)
}

/// A rank begins with other content. No task is guilty.
fn others(plan: &mut Plan, random: &mut fastrand::Rng, initial: Initial) -> Option<Vec<Place>> {
    let buffers = 0..plan.program.buffers.len();
    let buffers: Vec<usize> =
        buffers.filter(|&buffer| plan.program.buffers[buffer].initial == initial).collect();
    let buffer = *random.choice(buffers.iter())?;
    let rank = random.usize(..plan.program.ranks);
    plan.others.push((rank, buffer));
    let parts = (0..plan.program.buffers.len()).filter(
        |&part| matches!(plan.program.buffers[part].initial, Initial::Part { of, .. } if of == buffer),
    );
    plan.others.extend(parts.map(|part| (rank, part)));
    Some(Vec::new())
}

/// Whether a fault has an effect, and no error is so close to its tolerance that rounding could decide.
pub fn is_clear(program: &Program, actual: &Traces, golden: &Traces, fault: RankFault) -> bool {
    let mut is_wrong = false;
    for (left, right) in actual.iter().flatten().zip(golden.iter().flatten()) {
        for (left, right) in left.iter().zip(right).filter(|(left, _)| left.access.writes()) {
            let errors = errors_of(left, right);
            if errors.iter().any(|error| (0.5..2.0).contains(error)) {
                return false;
            }
            is_wrong |= errors.iter().any(|error| *error > 1.0);
        }
    }
    match fault {
        RankFault::Slight => is_wrong && is_hidden(program, actual, golden),
        _ => is_wrong != fault.is_right(),
    }
}

/// Errors of all elements after a task, as multiples of the tolerance.
fn errors_of(actual: &ArgTrace, golden: &ArgTrace) -> Vec<f64> {
    let size = actual.element.bytes();
    let pairs = actual.after.chunks(size).zip(golden.after.chunks(size));
    pairs.map(|(left, right)| actual.element.error_in_tolerances(left, right)).collect()
}

/// Whether the collectives of the first step are right although another task of that step is wrong.
fn is_hidden(program: &Program, actual: &Traces, golden: &Traces) -> bool {
    let is_wrong = |job: usize| {
        let mut ranks = actual.iter().zip(golden).map(|(left, right)| (&left[job], &right[job]));
        ranks.any(|(left, right)| {
            left.iter()
                .zip(right)
                .any(|(left, right)| errors_of(left, right).iter().any(|error| *error > 1.0))
        })
    };
    let is_reduction =
        |phase| matches!(phase, Phase::Collective(Exchange::AllReduce | Exchange::ReduceScatter));
    let wrong: Vec<usize> =
        (0..program.jobs.len()).filter(|&job| program.jobs[job].step == 0 && is_wrong(job)).collect();
    !wrong.is_empty() && wrong.iter().all(|&job| !is_reduction(program.jobs[job].phase))
}
