//! Runs a plan on flat memory and keeps for every element who wrote it and who read it. This trace is the
//! truth that the oracle judges by.

use std::collections::HashSet;

use crate::kernels::{Reads, compute};
use crate::memory::Memory;
use crate::program::{
    Access, Action, Arg, Deviation, Element, HostData, HostRead, HostWrite, Launch, Overlap, Param, Plan,
};

/// Who wrote an element last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The memory had this content before the block was allocated.
    Garbage,
    /// A host write with this identity.
    Host(usize),
    /// A launch with this identity.
    Launch(usize),
    /// A launch with this identity that wrote outside of its arguments.
    Stray(usize),
}

/// One argument of one launch in one run. All lists have one entry per logical element.
#[derive(Clone, Debug)]
pub struct ArgTrace {
    pub element: Element,
    pub access: Access,
    pub role_known: bool,
    /// Address of each element in flat memory.
    pub places: Vec<usize>,
    pub before: Vec<u8>,
    pub after: Vec<u8>,
    pub sources: Vec<Source>,
    pub read: Vec<bool>,
    pub written: Vec<bool>,
}

impl ArgTrace {
    pub fn before_of(&self, at: usize) -> &[u8] {
        let bytes = self.element.bytes();
        &self.before[at * bytes..(at + 1) * bytes]
    }

    pub fn after_of(&self, at: usize) -> &[u8] {
        let bytes = self.element.bytes();
        &self.after[at * bytes..(at + 1) * bytes]
    }
}

/// One launch or one recorded host read or host write of one run.
#[derive(Clone, Debug)]
pub struct TaskTrace {
    pub id: usize,
    pub kernel: Option<usize>,
    pub args: Vec<ArgTrace>,
    /// What the host read to compute what it writes. The recording of the write does not show it.
    pub hidden: Option<ArgTrace>,
    /// The launch that ran at the same time.
    pub overlaps: Option<usize>,
}

impl TaskTrace {
    /// The arguments, and what the recording does not show.
    pub fn with_hidden(&self) -> impl Iterator<Item = &ArgTrace> {
        self.args.iter().chain(&self.hidden)
    }
}

/// Sees a run as it happens. The recording of a dump is one.
pub trait Observer {
    fn allocated(&mut self, _memory: &Memory, _block: usize, _freed: bool) {}
    fn host_read(&mut self, _memory: &Memory, _read: &HostRead, _lane: usize) {}
    fn host_wrote(&mut self, _id: usize, _memory: &Memory, _data: &HostData) {}
    /// A launch begins. Without this call, it begins right before its arguments are seen.
    fn begin(&mut self, _id: usize, _launch: &Launch) {}
    fn before(&mut self, _id: usize, _launch: &Launch, _scalars: &[u64], _memory: &Memory) {}
    fn after(&mut self, _id: usize, _launch: &Launch, _memory: &Memory) {}
}

/// Sees nothing.
pub struct Unobserved;

impl Observer for Unobserved {}

/// Runs a plan.
pub fn execute(plan: &Plan, observer: &mut dyn Observer) -> Vec<TaskTrace> {
    execute_in(plan, &mut Memory::new(&plan.program, plan.garbage, plan.padding), observer)
}

/// Runs a plan in new memory, which shows the result afterwards.
pub fn execute_in(plan: &Plan, memory: &mut Memory, observer: &mut dyn Observer) -> Vec<TaskTrace> {
    let mut traces = Vec::new();
    let mut is_second = false;
    for (position, action) in plan.program.actions.iter().enumerate() {
        // It ran together with the launch before it.
        if std::mem::take(&mut is_second) {
            continue;
        }
        let is_recorded = position >= plan.program.unrecorded_prefix;
        match action {
            Action::Alloc { block } => {
                memory.allocate(*block);
                if is_recorded {
                    observer.allocated(memory, *block, false);
                }
            }
            Action::Free { block } => {
                if is_recorded {
                    observer.allocated(memory, *block, true);
                }
                memory.free(*block);
            }
            Action::Host { id, data } => {
                if let Some(read) = data.read.as_ref().filter(|read| read.is_recorded) {
                    observer.host_read(memory, read, data.lane);
                    let args = vec![host_read(memory, read)];
                    traces.push(TaskTrace { id: read.id, kernel: None, args, hidden: None, overlaps: None });
                }
                let trace = host_write(memory, *id, data);
                if data.how == HostWrite::Recorded && is_recorded {
                    observer.host_wrote(*id, memory, data);
                    traces.push(trace);
                }
            }
            Action::Launch { id, launch } => match plan.program.actions.get(position + 1) {
                Some(Action::Launch { id: next, launch: other }) if overlap(launch, other) => {
                    let both = [(*id, launch), (*next, other)];
                    traces.extend(run_both(plan, memory, both, observer));
                    is_second = true;
                }
                _ => traces.push(run(plan, memory, *id, launch, observer)),
            },
        }
    }
    traces
}

/// Whether the second of two launches overlaps the first one.
fn overlap(first: &Launch, second: &Launch) -> bool {
    let used = |launch: &Launch| -> HashSet<(usize, usize)> {
        let of_arg = |arg: &Arg| {
            let elements = arg.view.elements();
            arg.used.clone().map(|at| (arg.view.block, elements[at])).collect::<Vec<_>>()
        };
        launch.args.iter().flat_map(of_arg).collect()
    };
    let is_pair = || {
        let views = first.args.first().zip(second.args.first());
        first.kernel == second.kernel && views.is_some_and(|(one, other)| one.view == other.view)
    };
    first.lane != second.lane
        && match second.overlap {
            Overlap::None => false,
            Overlap::Begins => true,
            // After a fault, another launch may be next to it, which it has to wait for.
            Overlap::Shares => is_pair() && used(first).is_disjoint(&used(second)),
        }
}

/// Runs two launches whose times overlap.
fn run_both(
    plan: &Plan,
    memory: &mut Memory,
    [(first, one), (second, other)]: [(usize, &Launch); 2],
    observer: &mut dyn Observer,
) -> [TaskTrace; 2] {
    let mut both = if other.overlap == Overlap::Begins {
        observer.begin(second, other);
        [run(plan, memory, first, one, observer), run(plan, memory, second, other, observer)]
    } else {
        // Timing differs between runs, like the content of fresh memory.
        let timing = crate::kernels::hash([plan.garbage, first as u64, 9]) % 4;
        let mut one = Running::prepare(plan, memory, first, one, observer);
        let mut other = match timing {
            0 => {
                one.compute(memory);
                Running::prepare(plan, memory, second, other, observer)
            }
            _ => {
                let other = Running::prepare(plan, memory, second, other, observer);
                one.compute(memory);
                other
            }
        };
        if timing == 1 {
            let one = one.finish(memory, observer);
            other.compute(memory);
            [one, other.finish(memory, observer)]
        } else {
            other.compute(memory);
            if timing == 2 {
                let other = other.finish(memory, observer);
                [one.finish(memory, observer), other]
            } else {
                [one.finish(memory, observer), other.finish(memory, observer)]
            }
        }
    };
    (both[0].overlaps, both[1].overlaps) = (Some(second), Some(first));
    both
}

fn host_read(memory: &Memory, read: &HostRead) -> ArgTrace {
    let places = memory.places(&read.view);
    let content = memory.gather(&places);
    let (read_all, written) = (vec![true; places.len()], vec![false; places.len()]);
    ArgTrace {
        element: read.element,
        access: Access::Read,
        role_known: true,
        before: content.clone(),
        after: content,
        sources: places.iter().map(|&place| memory.source(place)).collect(),
        places,
        read: read_all,
        written,
    }
}

fn host_write(memory: &mut Memory, id: usize, data: &HostData) -> TaskTrace {
    let places = memory.places(&data.view);
    let before = memory.gather(&places);
    let sources = places.iter().map(|&place| memory.source(place)).collect();
    let mut values = crate::kernels::host_data(data.element, data.seed, places.len());
    let hidden = data.read.as_ref().map(|read| host_read(memory, read));
    if let Some(read) = &hidden {
        crate::kernels::depend(&mut values, data.element, &read.before);
    }
    for (&place, value) in places.iter().zip(values) {
        memory.write(place, &value, Source::Host(id));
    }
    let count = places.len();
    let arg = ArgTrace {
        element: data.element,
        access: Access::Write,
        role_known: true,
        before,
        after: memory.gather(&places),
        places,
        sources,
        read: vec![false; count],
        written: vec![true; count],
    };
    TaskTrace { id, kernel: None, args: vec![arg], hidden, overlaps: None }
}

fn run(
    plan: &Plan,
    memory: &mut Memory,
    id: usize,
    launch: &Launch,
    observer: &mut dyn Observer,
) -> TaskTrace {
    let mut running = Running::prepare(plan, memory, id, launch, observer);
    running.compute(memory);
    running.finish(memory, observer)
}

/// A launch that has begun.
struct Running<'p> {
    plan: &'p Plan,
    id: usize,
    launch: &'p Launch,
    scalars: Vec<u64>,
    args: Vec<ArgTrace>,
}

impl<'p> Running<'p> {
    fn prepare(
        plan: &'p Plan,
        memory: &Memory,
        id: usize,
        launch: &'p Launch,
        observer: &mut dyn Observer,
    ) -> Running<'p> {
        let kernel = &plan.program.kernels[launch.kernel];
        let scalars = scalars_of(plan, id, launch);
        observer.before(id, launch, &scalars, memory);
        let arg = |(arg, param): (&Arg, &Param)| {
            let places = memory.places(&arg.view);
            let before = memory.gather(&places);
            let sources = places.iter().map(|&place| memory.source(place)).collect();
            let used = (0..places.len()).map(|at| arg.used.contains(&at));
            let read = used.map(|is_used| is_used && param.access.reads()).collect();
            let (after, written) = (Vec::new(), vec![false; places.len()]);
            let &Param { element, access, role_known } = param;
            ArgTrace { element, access, role_known, places, before, after, sources, read, written }
        };
        let args = launch.args.iter().zip(&kernel.params).map(arg).collect();
        Running { plan, id, launch, scalars, args }
    }

    fn compute(&mut self, memory: &mut Memory) {
        let written = write_results(self.plan, memory, self.id, self.launch, &self.args, &self.scalars);
        self.args.iter_mut().zip(written).for_each(|(arg, written)| arg.written = written);
    }

    fn finish(mut self, memory: &Memory, observer: &mut dyn Observer) -> TaskTrace {
        for arg in &mut self.args {
            arg.after = memory.gather(&arg.places);
        }
        observer.after(self.id, self.launch, memory);
        let kernel = Some(self.launch.kernel);
        TaskTrace { id: self.id, kernel, args: self.args, hidden: None, overlaps: None }
    }
}

/// The scalars that a launch gets in this run.
pub fn scalars_of(plan: &Plan, id: usize, launch: &Launch) -> Vec<u64> {
    let mut scalars = launch.scalars.clone();
    if plan.program.kernels[launch.kernel].garbage_scalar
        && let Some(last) = scalars.last_mut()
    {
        *last = fastrand::Rng::with_seed(plan.garbage ^ id as u64).u64(..);
    }
    scalars
}

/// Writes what the kernel computes. Returns which elements of each argument it wrote.
fn write_results(
    plan: &Plan,
    memory: &mut Memory,
    id: usize,
    launch: &Launch,
    args: &[ArgTrace],
    scalars: &[u64],
) -> Vec<Vec<bool>> {
    let kernel = &plan.program.kernels[launch.kernel];
    let deviations: Vec<Deviation> = plan.deviations_of(id).collect();
    let mut written: Vec<Vec<bool>> = args.iter().map(|arg| vec![false; arg.places.len()]).collect();
    if deviations.contains(&Deviation::Stale) {
        return written;
    }
    let noise = plan.noise.map(|seed| seed ^ id as u64);
    let reads = Reads::of(kernel, launch, args, scalars);
    let mut results = compute(kernel, launch, args, &reads, &deviations, noise);
    crate::kernels::deviate(&mut results, args, &deviations);
    for (param, at, value) in &results {
        memory.write(args[*param].places[*at], value, Source::Launch(id));
        written[*param][*at] = true;
    }
    for deviation in &deviations {
        if let Deviation::OutOfBounds { elements } = *deviation
            && let Some(output) = args.iter().rev().find(|arg| arg.access.writes())
        {
            write_after_the_end(memory, output, elements, id);
        }
    }
    written
}

fn write_after_the_end(memory: &mut Memory, output: &ArgTrace, elements: usize, id: usize) {
    let bytes = output.element.bytes();
    let end = output.places.iter().max().map_or(0, |last| last + bytes);
    let mut random = fastrand::Rng::with_seed(!(id as u64));
    let fits = memory.len().saturating_sub(end) / bytes;
    for place in (0..elements.min(fits)).map(|at| end + at * bytes) {
        let value = crate::kernels::random_value(output.element, &mut random);
        memory.write(place, &value, Source::Stray(id));
    }
}
