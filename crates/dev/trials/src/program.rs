//! Generated programs: blocks of memory, kernels, and the actions that a run performs in order.

use std::ops::Range;

/// Type of the elements of an argument. All arguments of a program have elements of one size, so that every
/// element has one writer even if views overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    F32,
    I32,
    F64,
    I64,
    U8,
}

impl Element {
    pub fn bytes(self) -> usize {
        match self {
            Element::F32 | Element::I32 => 4,
            Element::F64 | Element::I64 => 8,
            Element::U8 => 1,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, Element::F32 | Element::F64)
    }

    /// Whether two values differ by more than the default tolerance of the type, which SPEC section 9 lists.
    pub fn is_outside(self, actual: &[u8], golden: &[u8]) -> bool {
        self.error_in_tolerances(actual, golden) > 1.0
    }

    /// The error as a multiple of the tolerance: 1 is just within the rule.
    pub fn error_in_tolerances(self, actual: &[u8], golden: &[u8]) -> f64 {
        if actual == golden {
            return 0.0;
        }
        if !self.is_float() {
            return f64::INFINITY;
        }
        let (actual, golden) = (self.float(actual), self.float(golden));
        if actual == golden || (actual.is_nan() && golden.is_nan()) {
            return 0.0;
        }
        let (rtol, atol) = if self == Element::F32 { (1.3e-6, 1e-5) } else { (1e-7, 1e-7) };
        let error = (actual - golden).abs() / (atol + rtol * golden.abs());
        if error.is_finite() { error } else { f64::INFINITY }
    }

    /// The value of a float.
    pub fn float(self, bytes: &[u8]) -> f64 {
        match self {
            Element::F32 => f32::from_le_bytes(bytes.try_into().expect("4 bytes")).into(),
            Element::F64 => f64::from_le_bytes(bytes.try_into().expect("8 bytes")),
            Element::I32 | Element::I64 | Element::U8 => 0.0,
        }
    }

    /// The value of an integer, zero-extended.
    pub fn integer(self, bytes: &[u8]) -> u64 {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(wide)
    }
}

/// How a kernel uses an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Update,
}

impl Access {
    pub fn reads(self) -> bool {
        self != Access::Write
    }

    pub fn writes(self) -> bool {
        self != Access::Read
    }
}

/// How a kernel computes an element from the elements it reads. But for one, a form never makes the greatest error greater,
/// so noise that is within the tolerance stays there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The mean with random signs, or a sum for integers.
    Mix,
    /// The greatest value. Errors of the other values have no effect.
    Greatest,
    /// The mean between -1 and 1, or the sum without its low bits.
    Clamp,
    /// A wave that makes errors of the mean much greater. Only programs without noise have it.
    Amplify,
}

#[derive(Clone, Debug)]
pub struct Param {
    pub element: Element,
    pub access: Access,
    /// Whether the recording declares how the kernel uses it.
    pub role_known: bool,
}

#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: String,
    pub params: Vec<Param>,
    pub scalars: usize,
    /// Whether the last scalar is garbage: it differs between runs and the kernel does not read it.
    pub garbage_scalar: bool,
    pub salt: u64,
    pub form: Form,
}

/// A strided view of a block, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub block: usize,
    pub start: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

impl View {
    pub fn dense(block: usize, range: Range<usize>) -> View {
        View { block, start: range.start, shape: vec![range.len()], strides: vec![1] }
    }

    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Position in the block of each element, in logical order.
    pub fn elements(&self) -> Vec<usize> {
        let mut all = vec![self.start];
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            all = all.iter().flat_map(|&at| (0..size).map(move |step| at + step * stride)).collect();
        }
        all
    }
}

#[derive(Clone, Debug)]
pub struct Arg {
    /// The elements that the recording shows.
    pub view: View,
    /// The logical elements of the view that the kernel uses.
    pub used: Range<usize>,
    pub marked: bool,
}

/// How the time of a launch overlaps that of the launch before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    None,
    /// It begins earlier, and then waits for the other one.
    Begins,
    /// Both run at the same time, and use different elements of the same argument.
    Shares,
}

#[derive(Clone, Debug)]
pub struct Launch {
    pub kernel: usize,
    pub args: Vec<Arg>,
    pub scalars: Vec<u64>,
    pub lane: usize,
    pub step: usize,
    pub scope: Option<usize>,
    pub name: Option<String>,
    /// Identities of the launches that it waits for, as the program declares them.
    pub waits: Vec<usize>,
    /// Identities of the launches and host writes that wrote what it reads, as the program declares them.
    pub feeds: Vec<usize>,
    /// How it overlaps the launch before it, if that runs in another lane.
    pub overlap: Overlap,
}

/// Who writes data that no kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostWrite {
    /// The program records it as a host write.
    Recorded,
    /// Nothing in the recording shows it.
    Unrecorded,
}

/// The host reads a view before it writes, and what it writes depends on what it read.
#[derive(Clone, Debug)]
pub struct HostRead {
    pub id: usize,
    pub view: View,
    pub element: Element,
    /// Whether the recording shows the read.
    pub is_recorded: bool,
}

/// A write by the host.
#[derive(Clone, Debug)]
pub struct HostData {
    pub view: View,
    pub element: Element,
    pub seed: u64,
    pub how: HostWrite,
    pub lane: usize,
    pub read: Option<HostRead>,
}

/// One step of a run. An identity is the same in the right and in the faulty run.
#[derive(Clone, Debug)]
pub enum Action {
    Alloc { block: usize },
    Free { block: usize },
    Host { id: usize, data: HostData },
    Launch { id: usize, launch: Launch },
}

impl Action {
    pub fn id(&self) -> Option<usize> {
        match self {
            Action::Host { id, .. } | Action::Launch { id, .. } => Some(*id),
            Action::Alloc { .. } | Action::Free { .. } => None,
        }
    }
}

/// How a kernel deviates from its definition in a faulty run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deviation {
    /// One of the elements that it writes is wrong: which, by how much (0 for not a number).
    Value { element: usize, by: f64 },
    /// Its last written element is wrong.
    Last,
    /// It writes nothing.
    Stale,
    /// It computes something else.
    Code { salt: u64 },
    /// It also writes this many elements after the end of its last written view.
    OutOfBounds { elements: usize },
}

/// Which order the recording declares between tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    Complete,
    /// Some of them.
    Partial,
    None,
}

/// Properties that hold for the whole program.
#[derive(Clone, Debug)]
pub struct Style {
    pub element_bytes: usize,
    pub lanes: usize,
    /// Whether lanes are queues by name.
    pub queues: bool,
    pub edges: Edges,
    /// Whether the program declares which tasks wrote what a launch reads. It may forget some.
    pub declares_feeds: bool,
    /// Whether edges also declare the order within each lane.
    pub declares_lane_order: bool,
    pub records_allocations: bool,
    /// Whether the program numbers its tasks itself.
    pub explicit_ids: bool,
    pub steps: usize,
    /// Whether launches run at the same time and write parts of the same argument.
    pub shares: bool,
    /// Whether threads take launches as they come, so that each run has other lanes.
    pub is_pool: bool,
    /// Whether a kernel's declaration tells the names and roles of arguments.
    pub declares_args: bool,
}

#[derive(Clone, Debug)]
pub struct Program {
    pub style: Style,
    /// Elements of each block.
    pub blocks: Vec<usize>,
    pub kernels: Vec<Kernel>,
    pub actions: Vec<Action>,
    /// The first actions happen before recording begins.
    pub unrecorded_prefix: usize,
}

/// What one run does: the program, or the program with a fault.
#[derive(Clone, Debug)]
pub struct Plan {
    pub program: Program,
    pub deviations: Vec<(usize, Deviation)>,
    /// Seed of what uninitialized memory and garbage scalars contain.
    pub garbage: u64,
    /// Bytes that the allocator leaves unused at its start, so that addresses differ.
    pub padding: usize,
    /// Seed of the noise that float kernels add, far within the tolerance.
    pub noise: Option<u64>,
}

impl Plan {
    pub fn deviations_of(&self, id: usize) -> impl Iterator<Item = Deviation> + '_ {
        self.deviations.iter().filter(move |(of, _)| *of == id).map(|&(_, deviation)| deviation)
    }
}
