//! Runs a plan on flat memory and keeps for every element who wrote it and who read it. This trace is the
//! truth that the oracle judges by.

use crate::kernels::{Reads, compute};
use crate::memory::Memory;
use crate::program::{Access, Action, Deviation, Element, HostData, HostRead, HostWrite, Launch, Plan};

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
    for (position, action) in plan.program.actions.iter().enumerate() {
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
                    traces.push(TaskTrace { id: read.id, kernel: None, args, hidden: None });
                }
                let trace = host_write(memory, *id, data);
                if data.how == HostWrite::Recorded && is_recorded {
                    observer.host_wrote(*id, memory, data);
                    traces.push(trace);
                }
            }
            Action::Launch { id, launch } => traces.push(run(plan, memory, *id, launch, observer)),
        }
    }
    traces
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
    TaskTrace { id, kernel: None, args: vec![arg], hidden }
}

fn run(
    plan: &Plan,
    memory: &mut Memory,
    id: usize,
    launch: &Launch,
    observer: &mut dyn Observer,
) -> TaskTrace {
    let kernel = &plan.program.kernels[launch.kernel];
    let scalars = scalars_of(plan, id, launch);
    observer.before(id, launch, &scalars, memory);
    let mut args: Vec<ArgTrace> = launch
        .args
        .iter()
        .zip(&kernel.params)
        .map(|(arg, param)| {
            let places = memory.places(&arg.view);
            let before = memory.gather(&places);
            let sources = places.iter().map(|&place| memory.source(place)).collect();
            let used = (0..places.len()).map(|at| arg.used.contains(&at));
            let read = used.map(|is_used| is_used && param.access.reads()).collect();
            let (after, written) = (Vec::new(), vec![false; places.len()]);
            let &crate::program::Param { element, access, role_known } = param;
            ArgTrace { element, access, role_known, places, before, after, sources, read, written }
        })
        .collect();
    let written = write_results(plan, memory, id, launch, &args, &scalars);
    for (arg, written) in args.iter_mut().zip(written) {
        arg.after = memory.gather(&arg.places);
        arg.written = written;
    }
    observer.after(id, launch, memory);
    TaskTrace { id, kernel: Some(launch.kernel), args, hidden: None }
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
