//! Runs a plan on all ranks and keeps what every task read and wrote. This trace is the truth that the oracle
//! judges by.

use super::program::{Exchange, Initial, Job, Phase, Program};
use crate::kernels::{hash, random_value, unit};
use crate::program::{Access, Element};

/// A task of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub job: usize,
    pub rank: usize,
}

/// What a task does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Damage {
    /// One element of an output is wrong by this; integers have one flipped bit.
    Value { element: u64, by: f64 },
    /// Every element of an output is wrong.
    All,
    /// One element is not a number.
    Nan,
    /// Nothing is written.
    Stale,
}

/// A run: a program and what deviates from it.
#[derive(Clone, Debug)]
pub struct Plan {
    pub program: Program,
    /// Content that buffers have on ranks before the run.
    pub seed: u64,
    /// Content of memory that nothing wrote.
    pub garbage: u64,
    /// Noise of kernels within the tolerance.
    pub noise: Option<u64>,
    pub damages: Vec<(Place, Damage)>,
    /// Buffers of ranks that begin with other content.
    pub others: Vec<(usize, usize)>,
}

/// One argument of a task: a whole buffer.
#[derive(Clone, Debug)]
pub struct ArgTrace {
    pub buffer: usize,
    pub access: Access,
    pub element: Element,
    pub before: Vec<u8>,
    pub after: Vec<u8>,
    /// The task that wrote the content before this task; none if it was there when the run began.
    pub source: Option<usize>,
}

impl ArgTrace {
    /// Whether an element is outside its rule, before or after the task.
    pub fn outside<'a>(&'a self, golden: &'a ArgTrace, is_after: bool) -> impl Iterator<Item = usize> + 'a {
        let of = |trace: &'a ArgTrace| if is_after { &trace.after } else { &trace.before };
        let size = self.element.bytes();
        let pairs = of(self).chunks(size).zip(of(golden).chunks(size)).enumerate();
        pairs.filter(|(_, (left, right))| self.element.is_outside(left, right)).map(|(at, _)| at)
    }
}

/// By rank and task: its arguments.
pub type Traces = Vec<Vec<Vec<ArgTrace>>>;

/// The memory of one rank: by buffer, its content and who wrote it.
struct Memory(Vec<(Vec<u8>, Option<usize>)>);

/// Runs a plan.
pub fn execute(plan: &Plan) -> Traces {
    let program = &plan.program;
    let mut memories: Vec<Memory> = (0..program.ranks).map(|rank| Memory::new(plan, rank)).collect();
    let mut traces: Traces = vec![Vec::new(); program.ranks];
    for (number, job) in program.jobs.iter().enumerate() {
        let given: Vec<Vec<Vec<u8>>> = memories.iter().map(|memory| memory.contents(job)).collect();
        for rank in 0..program.ranks {
            let results = results(plan, &given, Place { job: number, rank });
            traces[rank].push(memories[rank].apply(program, number, results));
        }
    }
    traces
}

impl Memory {
    fn new(plan: &Plan, rank: usize) -> Memory {
        let buffers = (0..plan.program.buffers.len()).map(|buffer| (initial(plan, rank, buffer), None));
        Memory(buffers.collect())
    }

    fn contents(&self, job: &Job) -> Vec<Vec<u8>> {
        job.args.iter().map(|(buffer, _)| self.0[*buffer].0.clone()).collect()
    }

    /// Writes the results of a task: by argument, `None` if it writes nothing.
    fn apply(&mut self, program: &Program, number: usize, results: Vec<Option<Vec<u8>>>) -> Vec<ArgTrace> {
        let args = program.jobs[number].args.iter().zip(results);
        let trace = args.map(|(&(buffer, access), result)| {
            let (before, source) = self.0[buffer].clone();
            let after = result.clone().unwrap_or_else(|| before.clone());
            if result.is_some() {
                self.0[buffer] = (after.clone(), Some(number));
            }
            ArgTrace { buffer, access, element: program.element, before, after, source }
        });
        trace.collect()
    }
}

fn initial(plan: &Plan, rank: usize, buffer: usize) -> Vec<u8> {
    let program = &plan.program;
    let made = |seed: u64, elements: usize| -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..elements).flat_map(|_| random_value(program.element, &mut random)).collect()
    };
    let other = u64::from(plan.others.contains(&(rank, buffer)));
    let seed = |of: usize, rank: usize, other: u64| hash([plan.seed, of as u64, rank as u64 * 2 + other]);
    let elements = program.buffers[buffer].elements;
    match program.buffers[buffer].initial {
        Initial::Weights => made(seed(buffer, 0, other), elements),
        Initial::Part { of, layer } => {
            let members = program.members(layer, rank);
            let position = members.iter().position(|member| *member == rank).expect("it is a member");
            let whole = made(seed(of, 0, other), program.buffers[of].elements);
            let bytes = elements * program.element.bytes();
            whole[position * bytes..][..bytes].to_vec()
        }
        Initial::Samples => made(seed(buffer, rank + 1, other), elements),
        Initial::Garbage => made(hash([plan.garbage, buffer as u64, rank as u64]), elements),
    }
}

/// What a task writes, by argument.
fn results(plan: &Plan, given: &[Vec<Vec<u8>>], at: Place) -> Vec<Option<Vec<u8>>> {
    let program = &plan.program;
    let job = &program.jobs[at.job];
    let mut results: Vec<Option<Vec<u8>>> = Vec::new();
    for (arg, &(buffer, access)) in job.args.iter().enumerate() {
        let elements = program.buffers[buffer].elements;
        let values = |one: &dyn Fn(usize) -> Vec<u8>| (0..elements).flat_map(one).collect::<Vec<u8>>();
        let result = match job.phase {
            _ if !access.writes() => None,
            Phase::Load => {
                let seed = hash([plan.seed, job.step as u64 + 100, at.rank as u64]);
                let mut random = fastrand::Rng::with_seed(seed);
                Some((0..elements).flat_map(|_| random_value(program.element, &mut random)).collect())
            }
            Phase::Collective(exchange) => {
                Some(values(&|element| exchanged(plan, given, at, exchange, element)))
            }
            _ => Some(values(&|element| computed(plan, &given[at.rank], at, (arg, element)))),
        };
        results.push(result);
    }
    for (_, damage) in plan.damages.iter().filter(|(place, _)| *place == at) {
        apply_damage(program.element, *damage, &mut results);
    }
    results
}

fn noise(plan: &Plan, at: Place, element: usize) -> f64 {
    let size = if plan.program.element == Element::F32 { 1e-7 } else { 1e-9 };
    plan.noise.map_or(0.0, |seed| size * unit([seed ^ at.rank as u64, at.job as u64, element as u64]))
}

fn encode(element: Element, value: f64) -> Vec<u8> {
    match element {
        #[expect(clippy::cast_possible_truncation, reason = "rounds")]
        Element::F32 => (value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

/// An integer as the elements of the program hold it.
fn wrapped(element: Element, value: u64) -> Vec<u8> {
    value.to_le_bytes()[..element.bytes()].to_vec()
}

/// One element of a kernel's result: a mean of its inputs, so that noise stays small.
fn computed(plan: &Plan, given: &[Vec<u8>], at: Place, (arg, index): (usize, usize)) -> Vec<u8> {
    let program = &plan.program;
    let job = &program.jobs[at.job];
    let kernel = &program.kernels[job.kernel.expect("only the host has none")];
    let size = program.element.bytes();
    let (mut sum, mut whole, mut count) = (0.0, hash([kernel.salt, arg as u64, index as u64]), 0);
    for (from, (_, access)) in job.args.iter().enumerate().filter(|(_, (_, access))| access.reads()) {
        let values: Vec<&[u8]> = given[from].chunks(size).collect();
        let offset = hash([kernel.salt, from as u64, 7]);
        let reads = if *access == Access::Update && from == arg { 0..1 } else { 0..3_u64 };
        for number in reads {
            let shift = number * (offset % values.len() as u64);
            let value = values[(index + usize::try_from(shift).expect("small")) % values.len()];
            let is_minus = hash([kernel.salt, from as u64, number]) & 1 == 0;
            count += 1;
            if program.element.is_float() {
                sum += if is_minus { -program.element.float(value) } else { program.element.float(value) };
            } else {
                let factor = 2 * (from as u64 * 3 + number) + 1;
                whole = whole.wrapping_add(program.element.integer(value).wrapping_mul(factor));
            }
        }
    }
    match program.element.is_float() {
        true => {
            let constant = 0.5 * unit([kernel.salt, arg as u64, index as u64]);
            let value = kernel.gain * (sum / f64::from(count) + constant);
            encode(program.element, value + noise(plan, at, index))
        }
        false => wrapped(program.element, whole),
    }
}

/// One element of what a collective leaves on a rank.
fn exchanged(plan: &Plan, given: &[Vec<Vec<u8>>], at: Place, exchange: Exchange, index: usize) -> Vec<u8> {
    let program = &plan.program;
    let size = program.element.bytes();
    let (output, _) = program.jobs[at.job].args[program.jobs[at.job].args.len() - 1];
    let part = program.buffers[output].elements;
    let value = |rank: usize, index: usize| &given[rank][0][index * size..(index + 1) * size];
    let members = program.members(program.jobs[at.job].layer, at.rank);
    let position = members.iter().position(|member| *member == at.rank).expect("it is a member");
    let index = match exchange {
        Exchange::AllGather => {
            let part = given[0][0].len() / size;
            return value(members[index / part], index % part).to_vec();
        }
        Exchange::AllReduce => index,
        Exchange::ReduceScatter => position * part + index,
    };
    let values = members.iter().map(|&rank| value(rank, index));
    if !program.element.is_float() {
        let sum = values.fold(0, |sum: u64, value| sum.wrapping_add(program.element.integer(value)));
        return wrapped(program.element, sum);
    }
    let sum: f64 = values.map(|value| program.element.float(value)).sum();
    let value = if program.is_mean { sum / members.len() as f64 } else { sum };
    // Every rank gets the same bits.
    encode(program.element, value + noise(plan, Place { rank: members[0], ..at }, index))
}

fn apply_damage(element: Element, damage: Damage, results: &mut [Option<Vec<u8>>]) {
    let size = element.bytes();
    if damage == Damage::Stale {
        return results.fill(None);
    }
    let mut written = results.iter_mut().flatten();
    let Some(bytes) = written.next() else { return };
    let count = bytes.len() / size;
    let wrong: Vec<usize> = match damage {
        Damage::Value { element, .. } => vec![usize::try_from(element % count as u64).expect("small")],
        Damage::Nan => vec![count - 1],
        Damage::All | Damage::Stale => (0..count).collect(),
    };
    for at in wrong {
        let place = &mut bytes[at * size..(at + 1) * size];
        let value = match (element.is_float(), damage) {
            (false, _) => wrapped(element, element.integer(place) ^ 0x10),
            (true, Damage::Nan) => encode(element, f64::NAN),
            (true, Damage::Value { by, .. }) => encode(element, element.float(place) + by),
            (true, _) => encode(element, element.float(place) + 0.75 + at as f64),
        };
        place.copy_from_slice(&value);
    }
}
