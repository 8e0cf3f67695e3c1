//! Generates programs at random. A right program never depends on uninitialized memory: its kernels use only
//! elements that something wrote before.

use std::ops::Range;

use crate::program::{
    Access, Action, Arg, Edges, Element, Form, HostData, HostRead, HostWrite, Kernel, Launch, Overlap, Param,
    Program, Style, View,
};
use crate::waits;

/// A block while a program is generated.
struct Block {
    elements: usize,
    is_live: bool,
    /// Whether the body of a step allocated it.
    is_local: bool,
    defined: Vec<bool>,
}

struct Generator<'r> {
    random: &'r mut fastrand::Rng,
    style: Style,
    kernels: Vec<Kernel>,
    blocks: Vec<Block>,
    actions: Vec<Action>,
    next_id: usize,
    /// How blocks of the body are initialized by the host.
    host: HostWrite,
    /// Share of views that show more than the kernel uses.
    slack: f64,
    most_elements: usize,
    most_launches: usize,
    /// Of twelve launches, how many are preceded by a free.
    frees: u8,
    names: bool,
    /// Whether the host reads what launches wrote.
    reads: bool,
    /// Whether launches begin before the ones that they wait for.
    overlaps: bool,
    scope: Option<usize>,
}

pub fn program(random: &mut fastrand::Rng) -> Program {
    let style = style(random);
    let mut kernels = kernels(random, &style);
    if style.shares {
        let kernel = sharing_kernel(random, &kernels[0]);
        kernels.push(kernel);
    }
    let overlaps = style.lanes > 1 && random.u8(..3) == 0;
    let host =
        if style.records_allocations || random.bool() { HostWrite::Recorded } else { HostWrite::Unrecorded };
    let mut generator = Generator {
        kernels,
        blocks: Vec::new(),
        actions: Vec::new(),
        next_id: 0,
        host,
        slack: if random.bool() { 0.0 } else { 0.6 },
        most_elements: 1400,
        most_launches: 20,
        frees: 1,
        names: random.bool(),
        reads: random.u8(..3) == 0,
        overlaps,
        scope: None,
        style,
        random,
    };
    generator.external_blocks();
    let unrecorded_prefix = generator.actions.len();
    generator.body(unrecorded_prefix);
    let Generator { style, kernels, blocks, actions, .. } = generator;
    let blocks = blocks.iter().map(|block| block.elements).collect();
    let mut program = Program { style, blocks, kernels, actions, unrecorded_prefix };
    waits::declare(&mut program, random);
    program
}

/// A program for OpenCL: one queue, no declared roles, and buffers that every launch shows whole.
pub fn opencl_program(random: &mut fastrand::Rng) -> Program {
    let mut style = style(random);
    style.element_bytes = 4;
    (style.lanes, style.steps, style.edges, style.explicit_ids) = (1, 1, Edges::Complete, false);
    (style.shares, style.is_pool) = (false, false);
    let mut kernels = kernels(random, &style);
    kernels.truncate(3);
    for kernel in &mut kernels {
        for param in &mut kernel.params {
            (param.element, param.role_known) = (Element::I32, false);
        }
    }
    device_program(random, style, kernels, 1.0, (65, 10, 1))
}

/// A program for CUDA: streams, and blocks of a caching allocator. Its kernels compute with floats or integers, and the
/// recording shows bytes.
pub fn cuda_program(random: &mut fastrand::Rng) -> Program {
    let mut style = style(random);
    style.element_bytes = *random.choice([4, 4, 8].iter()).expect("not empty");
    (style.queues, style.edges, style.declares_lane_order) = (true, Edges::Complete, true);
    (style.explicit_ids, style.declares_args, style.declares_feeds) = (false, false, false);
    (style.shares, style.is_pool) = (false, false);
    let mut kernels = kernels(random, &style);
    kernels.iter_mut().flat_map(|kernel| &mut kernel.params).for_each(|param| param.role_known = false);
    let slack = if random.bool() { 0.0 } else { 0.5 };
    let limits = (700, 16, random.u8(1..=5));
    let mut program = device_program(random, style, kernels, slack, limits);
    for action in &mut program.actions {
        if let Action::Launch { launch, .. } = action {
            launch.args.iter_mut().for_each(show_first_row);
        }
    }
    program
}

/// A pointer has no rows: the kernel uses only the first one.
fn show_first_row(arg: &mut Arg) {
    if let [_, columns] = arg.view.shape[..] {
        arg.view = View::dense(arg.view.block, arg.view.start..arg.view.start + columns);
        arg.used = 0..columns;
    }
}

/// A program whose host writes are all recorded. The last parameter limits elements, launches and frees.
fn device_program(
    random: &mut fastrand::Rng,
    style: Style,
    kernels: Vec<Kernel>,
    slack: f64,
    (most_elements, most_launches, frees): (usize, usize, u8),
) -> Program {
    let mut generator = Generator {
        kernels,
        blocks: Vec::new(),
        actions: Vec::new(),
        next_id: 0,
        host: HostWrite::Recorded,
        slack,
        most_elements,
        most_launches,
        frees,
        names: false,
        reads: false,
        overlaps: false,
        scope: None,
        style,
        random,
    };
    generator.external_blocks();
    generator.body(generator.actions.len());
    let Generator { style, kernels, blocks, mut actions, .. } = generator;
    for action in &mut actions {
        if let Action::Host { data, .. } = action {
            data.how = HostWrite::Recorded;
        }
    }
    let blocks = blocks.iter().map(|block| block.elements).collect();
    Program { style, blocks, kernels, actions, unrecorded_prefix: 0 }
}

fn style(random: &mut fastrand::Rng) -> Style {
    let lanes = if random.u8(..10) < 6 { 1 } else { random.usize(2..=3) };
    Style {
        element_bytes: *random.choice([4, 4, 4, 8, 1].iter()).expect("not empty"),
        lanes,
        queues: random.bool(),
        edges: match random.u8(..10) {
            0..=5 => Edges::Complete,
            6..=7 => Edges::Partial,
            _ => Edges::None,
        },
        records_allocations: random.bool(),
        declares_feeds: random.u8(..4) == 0,
        declares_lane_order: random.bool(),
        explicit_ids: random.u8(..4) == 0,
        steps: if random.u8(..3) == 0 { random.usize(2..=3) } else { 1 },
        shares: lanes > 1 && random.u8(..4) == 0,
        is_pool: lanes > 1 && random.u8(..4) == 0,
        declares_args: random.bool(),
    }
}

fn kernels(random: &mut fastrand::Rng, style: &Style) -> Vec<Kernel> {
    // 0: every role is known, 1: none, 2: some.
    let roles = random.u8(..4) % 3;
    let floats = random.bool();
    let is_mixed = random.u8(..3) == 0;
    let mut kernels = Vec::new();
    for _ in 0..random.usize(1..=6) {
        let mut params = Vec::new();
        for _ in 0..random.usize(1..=4) {
            let float = floats != (is_mixed && random.u8(..4) == 0);
            let element = match (style.element_bytes, float) {
                (4, true) => Element::F32,
                (4, false) => Element::I32,
                (8, true) => Element::F64,
                (8, false) => Element::I64,
                _ => Element::U8,
            };
            let access = match random.u8(..6) {
                0..=2 => Access::Read,
                3..=4 => Access::Write,
                _ => Access::Update,
            };
            let role_known = roles == 0 || roles == 2 && random.bool();
            params.push(Param { element, access, role_known });
        }
        if !params.iter().any(|param| param.access.writes()) {
            params.last_mut().expect("at least one").access = Access::Write;
        }
        let scalars = random.usize(..3);
        kernels.push(Kernel {
            name: word(random),
            params,
            scalars,
            garbage_scalar: scalars > 0 && random.u8(..6) == 0,
            salt: random.u64(..),
            form: *random
                .choice([Form::Mix, Form::Mix, Form::Greatest, Form::Clamp].iter())
                .expect("not empty"),
        });
    }
    kernels
}

/// A kernel that updates a part of its first argument.
fn sharing_kernel(random: &mut fastrand::Rng, like: &Kernel) -> Kernel {
    let Param { element, role_known, .. } = like.params[0];
    let mut params = vec![Param { element, access: Access::Update, role_known }];
    if random.bool() {
        params.push(Param { element, access: Access::Read, role_known });
    }
    let (name, salt) = (word(random), random.u64(..));
    Kernel { name, params, scalars: 0, garbage_scalar: false, salt, form: Form::Mix }
}

/// A random name, so that no name of a task can tell the fault.
pub fn word(random: &mut fastrand::Rng) -> String {
    let syllables = ["ka", "lo", "mi", "ne", "ru", "sa", "ti", "vo", "xe", "zu", "bra", "gri"];
    (0..random.usize(2..=4)).map(|_| *random.choice(syllables.iter()).expect("not empty")).collect()
}

impl Generator<'_> {
    fn id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id - 1
    }

    /// An element type for data of the host. Kernels that read it as the other type see other numbers.
    fn element(&mut self) -> Element {
        let kernel = self.random.usize(..self.kernels.len());
        self.kernels[kernel].params[0].element
    }

    /// The blocks that have content before recording begins.
    fn external_blocks(&mut self) {
        for _ in 0..self.random.usize(1..=3) {
            let block = self.new_block(false);
            let (id, element, seed) = (self.id(), self.element(), self.random.u64(..));
            let view = View::dense(block, 0..self.blocks[block].elements);
            let how = HostWrite::Unrecorded;
            let data = HostData { view, element, seed, how, lane: 0, read: None };
            self.actions.push(Action::Host { id, data });
            self.blocks[block].defined.fill(true);
        }
    }

    fn new_block(&mut self, is_local: bool) -> usize {
        let elements = if self.random.u8(..12) == 0 && self.most_elements > 600 {
            self.random.usize(600..self.most_elements)
        } else {
            self.random.usize(4..=64)
        };
        self.blocks.push(Block { elements, is_live: true, is_local, defined: vec![false; elements] });
        self.actions.push(Action::Alloc { block: self.blocks.len() - 1 });
        self.blocks.len() - 1
    }

    /// The launches of a step, and their repetition in further steps.
    fn body(&mut self, begins_at: usize) {
        let steps = self.style.steps;
        let launches = self.random.usize(2..=if steps > 1 { 9 } else { self.most_launches });
        for _ in 0..launches {
            if self.random.u8(..6) == 0 {
                self.scope = if self.random.bool() { Some(self.random.usize(..3)) } else { None };
            }
            match self.random.u8(..12) {
                0 => self.host_write(),
                2..=3 if self.reads => self.host_write(),
                share if share <= self.frees && self.style.lanes == 1 => self.free_one(),
                _ => {}
            }
            if self.style.shares && self.random.u8(..3) == 0 {
                self.shared_launches();
            }
            self.launch();
        }
        if self.style.lanes == 1 {
            for block in 0..self.blocks.len() {
                self.free(block);
            }
        }
        let body = self.actions[begins_at..].to_vec();
        for step in 1..steps {
            for mut action in body.clone() {
                match &mut action {
                    Action::Alloc { .. } if self.style.lanes > 1 => continue,
                    Action::Alloc { .. } | Action::Free { .. } => {}
                    Action::Host { id, data } => {
                        data.read.iter_mut().for_each(|read| read.id = self.id());
                        *id = self.id();
                    }
                    Action::Launch { id, launch } => (*id, launch.step) = (self.id(), step),
                }
                self.actions.push(action);
            }
        }
    }

    fn host_write(&mut self) {
        let read = if self.reads { self.host_read() } else { None };
        let block = self.new_block(true);
        let (id, element, seed) = (self.id(), self.element(), self.random.u64(..));
        let view = View::dense(block, 0..self.blocks[block].elements);
        let lane = self.random.usize(..self.style.lanes);
        let data = HostData { view, element, seed, how: self.host, lane, read };
        self.actions.push(Action::Host { id, data });
        self.blocks[block].defined.fill(true);
    }

    /// What the host reads before it writes. All elements must have one type, so that it reads numbers.
    fn host_read(&mut self) -> Option<HostRead> {
        let element = self.kernels[0].params[0].element;
        let mut params = self.kernels.iter().flat_map(|kernel| &kernel.params);
        if !params.all(|param| param.element == element) {
            return None;
        }
        let (block, range) = self.defined_range(&[]);
        let (id, view) = (self.id(), View::dense(block, range));
        Some(HostRead { id, view, element, is_recorded: self.random.bool() })
    }

    fn free_one(&mut self) {
        let block = self.random.usize(..self.blocks.len());
        self.free(block);
    }

    fn free(&mut self, block: usize) {
        let known = &mut self.blocks[block];
        if known.is_local && known.is_live {
            known.is_live = false;
            self.actions.push(Action::Free { block });
        }
    }

    fn launch(&mut self) {
        let kernel = self.random.usize(..self.kernels.len() - usize::from(self.style.shares));
        let Kernel { params, scalars, .. } = self.kernels[kernel].clone();
        let mut taken = Vec::new();
        let mut args = Vec::new();
        for param in &params {
            let arg = match param.access {
                Access::Write => self.output(param, &taken),
                Access::Read | Access::Update => self.input(param, &taken),
            };
            // Most launches have no two arguments in the same block.
            if self.random.u8(..10) > 0 {
                taken.push(arg.view.block);
            }
            args.push(arg);
        }
        for (param, arg) in params.iter().zip(&args) {
            if param.access.writes() {
                let elements = arg.view.elements();
                arg.used.clone().for_each(|at| self.blocks[arg.view.block].defined[elements[at]] = true);
            }
        }
        let id = self.id();
        let launch = Launch {
            kernel,
            args,
            scalars: (0..scalars).map(|_| self.random.u64(..100)).collect(),
            lane: self.random.usize(..self.style.lanes),
            step: 0,
            scope: self.scope,
            name: self.names.then(|| format!("{}{id}", self.kernels[kernel].name)),
            waits: Vec::new(),
            feeds: Vec::new(),
            overlap: if self.overlaps && self.random.bool() { Overlap::Begins } else { Overlap::None },
        };
        self.actions.push(Action::Launch { id, launch });
    }

    /// Two launches of lanes 0 and 1 that run at the same time. Each updates its own part of a block that both show whole.
    fn shared_launches(&mut self) {
        let (block, range) = self.defined_range(&[]);
        if range.start > 0 || range.len() < 4 {
            return;
        }
        let middle = self.random.usize(1..range.len());
        let (kernel, scope) = (self.kernels.len() - 1, self.scope);
        let params = self.kernels[kernel].params.clone();
        let parts = [(0..middle, Overlap::None), (middle..range.len(), Overlap::Shares)];
        for (lane, (used, overlap)) in parts.into_iter().enumerate() {
            let view = View::dense(block, range.clone());
            let mut args = vec![Arg { view, used, marked: false }];
            args.extend(params[1..].iter().map(|param| self.input(param, &[block])));
            if args[1..].iter().any(|arg| arg.view.block == block) {
                return;
            }
            let id = self.id();
            let name = self.names.then(|| format!("{}{id}", self.kernels[kernel].name));
            let (scalars, waits, feeds) = (Vec::new(), Vec::new(), Vec::new());
            let launch = Launch { kernel, args, scalars, lane, step: 0, scope, name, waits, feeds, overlap };
            self.actions.push(Action::Launch { id, launch });
        }
    }

    /// A block whose content an input can use, and the elements.
    fn defined_range(&mut self, taken: &[usize]) -> (usize, Range<usize>) {
        for _ in 0..8 {
            let block = self.random.usize(..self.blocks.len());
            let known = &self.blocks[block];
            if !known.is_live || taken.contains(&block) {
                continue;
            }
            let start = self.random.usize(..known.elements);
            let run = known.defined[start..].iter().take_while(|is_defined| **is_defined).count();
            let start =
                if self.random.bool() && known.defined[..start].iter().all(|d| *d) { 0 } else { start };
            if run > 0 {
                let end = start + self.random.usize(1..=run.max(2)).min(known.elements - start);
                let end = (start..end).take_while(|&at| self.blocks[block].defined[at]).last();
                return (block, start..end.map_or(start, |last| last + 1));
            }
        }
        // Block 0 has content from the beginning.
        let end = self.blocks[0].elements;
        (0, self.random.usize(..end / 2)..end)
    }

    fn input(&mut self, param: &Param, taken: &[usize]) -> Arg {
        let (block, range) = self.defined_range(taken);
        let marked = self.random.bool();
        let share = if param.role_known { self.slack * 0.2 } else { self.slack };
        if self.random.f64() < share {
            let view = View::dense(block, 0..self.blocks[block].elements);
            return Arg { view, used: range, marked };
        }
        if self.random.u8(..8) == 0 && range.len() >= 6 {
            let (rows, stride) = (2, range.len() / 2);
            let columns = self.random.usize(1..=stride);
            let view =
                View { block, start: range.start, shape: vec![rows, columns], strides: vec![stride, 1] };
            return Arg { used: 0..view.len(), view, marked };
        }
        Arg { used: 0..range.len(), view: View::dense(block, range), marked }
    }

    fn output(&mut self, param: &Param, taken: &[usize]) -> Arg {
        let known = self.random.usize(..self.blocks.len());
        let is_free = self.blocks[known].is_live && !taken.contains(&known) && self.random.u8(..3) > 0;
        let block = if is_free { known } else { self.new_block(true) };
        let elements = self.blocks[block].elements;
        let start = if self.random.bool() { 0 } else { self.random.usize(..elements) };
        let end = if self.random.bool() { elements } else { self.random.usize(start + 1..=elements) };
        let marked = self.random.bool();
        if !param.role_known && self.random.f64() < self.slack {
            return Arg { view: View::dense(block, 0..elements), used: start..end, marked };
        }
        Arg { view: View::dense(block, start..end), used: 0..end - start, marked }
    }
}
