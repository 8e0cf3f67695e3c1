//! Generated training programs: every rank runs the same tasks on its own memory, and collectives exchange
//! gradients.

use crate::generate::word;
use crate::program::{Access, Element};

/// How a collective exchanges content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// Every rank gets the sum, or the mean, of all ranks.
    AllReduce,
    /// Every rank gets its own part of the sum.
    ReduceScatter,
    /// Every rank gets the parts of all ranks, one after the other.
    AllGather,
}

/// The part of a training step that a task belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The host writes the samples of the step.
    Load,
    Forward,
    Loss,
    Backward,
    Collective(Exchange),
    Optimizer,
}

/// What a buffer holds when the run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// The same values on all ranks.
    Weights,
    /// The rank's own part of the weights of a layer in another buffer.
    Part { of: usize, layer: usize },
    /// Other values on each rank.
    Samples,
    /// Nothing that a task of a right program reads.
    Garbage,
}

#[derive(Clone, Debug)]
pub struct Buffer {
    pub elements: usize,
    pub initial: Initial,
}

/// A task that every rank runs. Its arguments are whole buffers.
#[derive(Clone, Debug)]
pub struct Job {
    pub phase: Phase,
    /// Its kernel; none for a host write.
    pub kernel: Option<usize>,
    pub args: Vec<(usize, Access)>,
    pub step: usize,
    pub layer: usize,
    /// Its name, if tasks have names.
    pub name: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: String,
    pub salt: u64,
    /// Factor of everything that the kernel computes.
    pub gain: f64,
}

/// What the recording of a program shows besides its tasks.
#[derive(Clone, Debug)]
pub struct Style {
    /// Whether recordings declare how kernels use arguments.
    pub roles_known: bool,
    /// Whether kernels declare their arguments.
    pub declares_args: bool,
    /// Whether collectives run in their own queue.
    pub queues: bool,
    pub scopes: bool,
    /// Whether the user must name collectives, as nothing else shows which tasks are collectives.
    pub patterns: Option<String>,
    /// Which collectives are recorded with their group. The others are found by name.
    pub recorded: Recorded,
}

/// Which collectives are recorded with their group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    None,
    /// Those of subgroups.
    Subgroups,
    All,
}

#[derive(Clone, Debug)]
pub struct Program {
    pub ranks: usize,
    /// By rank: its subgroup. All subgroups have the same size.
    pub groups: Vec<usize>,
    /// By layer: whether its collectives are of subgroups and not of all ranks.
    pub is_local: Vec<bool>,
    pub steps: usize,
    pub element: Element,
    /// Whether collectives compute the mean instead of the sum.
    pub is_mean: bool,
    pub style: Style,
    pub buffers: Vec<Buffer>,
    pub kernels: Vec<Kernel>,
    pub jobs: Vec<Job>,
}

impl Program {
    /// The ranks that exchange content with a rank in a layer.
    pub fn members(&self, layer: usize, rank: usize) -> Vec<usize> {
        let is_local = self.is_local[layer];
        (0..self.ranks).filter(|&other| !is_local || self.groups[other] == self.groups[rank]).collect()
    }

    /// Whether recordings show the group of the collectives of a layer.
    pub fn records_group(&self, layer: usize) -> bool {
        match self.style.recorded {
            Recorded::None => false,
            Recorded::Subgroups => self.is_local[layer],
            Recorded::All => true,
        }
    }

    /// Whether recordings declare which arguments a kernel has. Layers that share a kernel may use another number of
    /// arguments.
    pub fn declares(&self, kernel: usize) -> bool {
        let jobs = self.jobs.iter().filter(|job| job.kernel == Some(kernel));
        let mut counts = jobs.map(|job| job.args.len());
        let first = counts.next();
        self.style.declares_args && counts.all(|count| Some(count) == first)
    }

    /// The tasks of some phase.
    pub fn jobs_of(&self, is_wanted: impl Fn(Phase) -> bool) -> Vec<usize> {
        (0..self.jobs.len()).filter(|&job| is_wanted(self.jobs[job].phase)).collect()
    }
}

/// Properties that a fault needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    pub floats: bool,
    /// A mean of many ranks, and an optimizer that amplifies small errors.
    pub amplifies: bool,
}

/// The buffers of one layer.
struct Layer {
    weights: usize,
    activation: usize,
    /// The error that comes back from this layer to the one before it.
    delta: usize,
    gradient: usize,
    /// What the collective leaves: the gradient itself if it runs in place.
    sum: usize,
    /// The rank's own part of the weights, if each rank optimizes only a part.
    part: Option<usize>,
    momentum: Option<usize>,
}

struct Generator<'r> {
    random: &'r mut fastrand::Rng,
    program: Program,
    samples: usize,
    labels: usize,
    layers: Vec<Layer>,
    has_names: bool,
    loads: bool,
    /// Whether layers share kernels, as the same kernel runs for many layers.
    shares_kernels: bool,
    /// Whether collectives run only after the whole backward pass.
    is_late: bool,
}

pub fn program(random: &mut fastrand::Rng, needs: Needs) -> Program {
    let ranks = if needs.amplifies { random.usize(7..=8) } else { random.usize(2..=8) };
    let elements = [Element::F32, Element::F32, Element::F64, Element::I32];
    let floats = if needs.floats { &elements[..3] } else { &elements[..] };
    let (is_known, patterns) = (random.u8(..3) > 0, random.bool());
    let groups = subgroups(ranks, needs, random);
    let recorded = match random.u8(..6) {
        0..=2 => Recorded::None,
        3 => Recorded::Subgroups,
        _ => Recorded::All,
    };
    let program = Program {
        ranks,
        groups,
        is_local: Vec::new(),
        steps: random.usize(1..=3),
        element: *random.choice(floats.iter()).expect("not empty"),
        is_mean: needs.amplifies || random.bool(),
        style: Style {
            roles_known: random.u8(..4) > 0,
            declares_args: random.bool(),
            queues: random.u8(..3) == 0,
            scopes: random.bool(),
            patterns: (!is_known || patterns && random.u8(..4) == 0).then(String::new),
            recorded,
        },
        buffers: Vec::new(),
        kernels: Vec::new(),
        jobs: Vec::new(),
    };
    let (has_names, loads) = (random.u8(..3) == 0, random.u8(..3) == 0);
    let (shares_kernels, is_late) = (random.bool(), random.bool());
    let mut generator = Generator {
        program,
        samples: 0,
        labels: 0,
        layers: Vec::new(),
        has_names,
        loads,
        shares_kernels,
        is_late,
        random,
    };
    generator.buffers();
    let kernels = generator.kernels(if needs.amplifies { 2000.0 } else { 1.0 });
    for step in 0..generator.program.steps {
        generator.step(step, &kernels);
    }
    generator.program
}

/// The subgroup of each rank. Most programs have only one.
fn subgroups(ranks: usize, needs: Needs, random: &mut fastrand::Rng) -> Vec<usize> {
    let sizes: Vec<usize> = (2..=ranks / 2).filter(|size| ranks.is_multiple_of(*size)).collect();
    match random.choice(sizes.iter()) {
        Some(size) if !needs.amplifies && random.u8(..5) < 2 => {
            // Neighbors, or every other rank.
            let is_near = random.bool();
            (0..ranks).map(|rank| if is_near { rank / size } else { rank % (ranks / size) }).collect()
        }
        _ => vec![0; ranks],
    }
}

/// The kernels of each layer, and that of the loss.
struct Kernels {
    loss: usize,
    forward: Vec<usize>,
    backward: Vec<usize>,
    optimizer: Vec<usize>,
    reduce: usize,
    gather: usize,
}

impl Generator<'_> {
    fn buffer(&mut self, elements: usize, initial: Initial) -> usize {
        self.program.buffers.push(Buffer { elements, initial });
        self.program.buffers.len() - 1
    }

    fn buffers(&mut self) {
        let ranks = self.program.ranks;
        let size = |random: &mut fastrand::Rng| ranks * random.usize(1..=6);
        let (samples, labels) = (size(self.random), size(self.random));
        let initial = if self.loads { Initial::Garbage } else { Initial::Samples };
        self.samples = self.buffer(samples, initial);
        self.labels = self.buffer(labels, Initial::Samples);
        let is_sharded = self.random.u8(..3) == 0;
        let in_place = !is_sharded && self.random.u8(..3) == 0;
        let has_momentum = self.random.u8(..3) == 0;
        for layer in 0..self.random.usize(1..=3) {
            let is_local = self.program.groups.iter().any(|group| *group > 0) && self.random.u8(..4) > 0;
            self.program.is_local.push(is_local);
            let members = self.program.members(layer, 0).len();
            let elements = size(self.random);
            let weights = self.buffer(elements, Initial::Weights);
            let activation = self.buffer(elements, Initial::Garbage);
            let delta = self.buffer(elements, Initial::Garbage);
            let gradient = self.buffer(elements, Initial::Garbage);
            let reduced = if is_sharded { elements / members } else { elements };
            let sum = if in_place { gradient } else { self.buffer(reduced, Initial::Garbage) };
            let part = is_sharded.then(|| self.buffer(reduced, Initial::Part { of: weights, layer }));
            let momentum = has_momentum.then(|| self.buffer(reduced, Initial::Weights));
            self.layers.push(Layer { weights, activation, delta, gradient, sum, part, momentum });
        }
    }

    fn kernel(&mut self, name: String, gain: f64) -> usize {
        let salt = self.random.u64(..);
        self.program.kernels.push(Kernel { name, salt, gain });
        self.program.kernels.len() - 1
    }

    /// One kernel for each layer, or the same one for all.
    fn per_layer(&mut self, gain: f64) -> Vec<usize> {
        let mut kernels = Vec::new();
        for layer in 0..self.layers.len() {
            let kernel = match (layer, self.shares_kernels) {
                (1.., true) => kernels[0],
                _ => {
                    let name = self.word();
                    self.kernel(name, gain)
                }
            };
            kernels.push(kernel);
        }
        kernels
    }

    /// A name that no other kernel has.
    fn word(&mut self) -> String {
        loop {
            let word = word(self.random);
            if self.program.kernels.iter().all(|kernel| kernel.name != word) {
                return word;
            }
        }
    }

    fn kernels(&mut self, gain: f64) -> Kernels {
        let loss = self.word();
        let loss = self.kernel(loss, 1.0);
        let (forward, backward) = (self.per_layer(1.0), self.per_layer(1.0));
        let optimizer = self.per_layer(gain);
        let is_sharded = self.layers[0].part.is_some();
        let reduce = if is_sharded { Exchange::ReduceScatter } else { Exchange::AllReduce };
        let (reduce, gather) = (self.collective_name(reduce), self.collective_name(Exchange::AllGather));
        if let Some(patterns) = &mut self.program.style.patterns {
            let pattern = |name: &str, random: &mut fastrand::Rng| match random.bool() {
                true => name.to_owned(),
                // Random names have no digits.
                false => format!("{}*", &name[..name.len() - 1]),
            };
            *patterns = format!("{}|{}", pattern(&reduce, self.random), pattern(&gather, self.random));
        }
        let reduce = self.kernel(reduce, 1.0);
        let gather = self.kernel(gather, 1.0);
        Kernels { loss, forward, backward, optimizer, reduce, gather }
    }

    /// A well-known name, or a random one if the user names collectives.
    fn collective_name(&mut self, exchange: Exchange) -> String {
        let known: [&str; 3] = match exchange {
            Exchange::AllReduce => ["all_reduce", "AllReduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"],
            Exchange::ReduceScatter => {
                ["reduce_scatter", "Reduce_Scatter", "ncclDevKernel_ReduceScatter_Sum"]
            }
            Exchange::AllGather => ["all_gather", "ALL_GATHER", "ncclDevKernel_AllGather_RING_LL"],
        };
        let known = (*self.random.choice(known.iter()).expect("not empty")).to_owned();
        if self.program.style.patterns.is_none() {
            return known;
        }
        // The end tells collectives from other kernels whose names begin alike.
        let own = self.word();
        if self.random.u8(..4) == 0 {
            format!("{own}_{known}")
        } else {
            format!("{own}_{}", self.random.u8(10..))
        }
    }

    fn job(&mut self, phase: Phase, kernel: Option<usize>, args: Vec<(usize, Access)>, at: (usize, usize)) {
        let number = self.program.jobs.len();
        let name = self.has_names.then(|| format!("{}{number}", word(self.random)));
        self.program.jobs.push(Job { phase, kernel, args, step: at.0, layer: at.1, name });
    }

    fn step(&mut self, step: usize, kernels: &Kernels) {
        use Access::{Read, Write};
        if self.loads {
            self.job(Phase::Load, None, vec![(self.samples, Write)], (step, 0));
        }
        let mut input = self.samples;
        for layer in 0..self.layers.len() {
            let Layer { weights, activation, .. } = self.layers[layer];
            let args = vec![(input, Read), (weights, Read), (activation, Write)];
            self.job(Phase::Forward, Some(kernels.forward[layer]), args, (step, layer));
            input = activation;
        }
        let last = self.layers.len() - 1;
        let args = vec![(input, Read), (self.labels, Read), (self.layers[last].delta, Write)];
        self.job(Phase::Loss, Some(kernels.loss), args, (step, last));
        for layer in (0..self.layers.len()).rev() {
            self.backward(step, layer, kernels);
            if !self.is_late {
                self.reduce(step, layer, kernels);
            }
        }
        if self.is_late {
            (0..self.layers.len()).rev().for_each(|layer| self.reduce(step, layer, kernels));
        }
        (0..self.layers.len()).for_each(|layer| self.optimize(step, layer, kernels));
    }

    fn backward(&mut self, step: usize, layer: usize, kernels: &Kernels) {
        use Access::{Read, Write};
        let Layer { weights, activation, delta, gradient, .. } = self.layers[layer];
        let mut args = vec![(delta, Read), (activation, Read), (weights, Read), (gradient, Write)];
        if layer > 0 {
            args.push((self.layers[layer - 1].delta, Write));
        }
        self.job(Phase::Backward, Some(kernels.backward[layer]), args, (step, layer));
    }

    fn reduce(&mut self, step: usize, layer: usize, kernels: &Kernels) {
        let Layer { gradient, sum, part, .. } = self.layers[layer];
        let args = match sum == gradient {
            true => vec![(gradient, Access::Update)],
            false => vec![(gradient, Access::Read), (sum, Access::Write)],
        };
        let exchange = if part.is_some() { Exchange::ReduceScatter } else { Exchange::AllReduce };
        self.job(Phase::Collective(exchange), Some(kernels.reduce), args, (step, layer));
    }

    fn optimize(&mut self, step: usize, layer: usize, kernels: &Kernels) {
        let Layer { weights, sum, part, momentum, .. } = self.layers[layer];
        let mut args = vec![(sum, Access::Read), (part.unwrap_or(weights), Access::Update)];
        args.extend(momentum.map(|momentum| (momentum, Access::Update)));
        self.job(Phase::Optimizer, Some(kernels.optimizer[layer]), args, (step, layer));
        if let Some(part) = part {
            let args = vec![(part, Access::Read), (weights, Access::Write)];
            let exchange = Phase::Collective(Exchange::AllGather);
            self.job(exchange, Some(kernels.gather), args, (step, layer));
        }
    }
}
