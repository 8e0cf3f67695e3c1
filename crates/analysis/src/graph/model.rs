//! Tasks, their arguments and where each input came from.

use tensortap_abi::{DType, Role};
use tensortap_geometry::{Footprint, Layout};

use super::pieces::{Ranges, pieces};

/// The tasks of one dump with their dataflow.
#[derive(Clone, Debug, Default)]
pub struct TaskGraph {
    /// In dependency order: every task stands behind those whose content it was given.
    pub tasks: Vec<GraphTask>,
    /// Why writes may be missing from the dump; `None` when every one was captured.
    pub gap: Option<String>,
}

/// One task of a dump.
#[derive(Clone, Debug, Default)]
pub struct GraphTask {
    /// Task.
    pub task_id: u64,
    /// Its kernels, by subtask slot.
    pub kernels: Vec<KernelName>,
    /// Times each kernel is dispatched, where the dump says.
    pub block_num: Option<u32>,
    /// Device time of the first dispatch, where the dump says.
    pub dispatched_ns: Option<u64>,
    /// Device time of completion, where the dump says.
    pub completed_ns: Option<u64>,
    /// It had not completed when the run ended.
    pub in_flight: bool,
    /// Arguments of which anything was captured, by `arg_index`.
    pub args: Vec<Argument>,
    /// Arguments that it has, where the dump says.
    pub arg_count: Option<u32>,
    /// Length of the longest chain of tasks that leads to it.
    pub depth: u32,
}

/// How a dump names a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelName {
    /// Number, where the dump says.
    pub func_id: Option<u32>,
    /// Name, where the dump says.
    pub name: Option<String>,
}

impl KernelName {
    /// The name, or what can be said in its place.
    #[must_use]
    pub fn label(&self) -> String {
        match (&self.name, self.func_id) {
            (Some(name), _) => name.clone(),
            (None, Some(id)) => format!("func_{id}"),
            (None, None) => "unknown".into(),
        }
    }
}

/// One argument of a task, over both stages.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Position in the task's payload.
    pub arg_index: u16,
    /// Direction.
    pub role: Role,
    /// Element type.
    pub dtype: DType,
    /// Sizes; none of a scalar.
    pub shape: Vec<u64>,
    /// Raw bits of a scalar.
    pub scalar_bits: Option<u64>,
    /// The bytes it stands for, where the dump says where they lie.
    pub place: Option<Place>,
    /// What was captured before dispatch.
    pub before: Option<Captured>,
    /// What was captured after completion.
    pub after: Option<Captured>,
    /// Where the content it was given came from.
    pub origin: Origin,
}

/// Where a tensor lies in device memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// The view.
    pub layout: Layout,
    /// Device address of the buffer.
    pub address: u64,
    /// The bytes that it touches.
    pub footprint: Footprint,
}

impl Place {
    /// A view of a buffer at an address.
    #[must_use]
    pub fn new(layout: Layout, address: u64) -> Place {
        Place { layout, address, footprint: Footprint::new(&layout, address) }
    }

    /// Whether both hold a part of the same element: a byte, or half a byte where both have such elements.
    #[must_use]
    pub fn shares(&self, other: &Place) -> bool {
        let has_halves = |place: &Place| place.layout.elem_bits() < 8;
        let apart = || {
            let (own, theirs) = pieces(self).zip(pieces(other))?;
            Some(!Ranges::of(&own).meets(&theirs))
        };
        self.footprint.overlaps(&other.footprint)
            && !(has_halves(self) && has_halves(other) && apart().unwrap_or(false))
    }

    /// Whether it is known to hold both halves of every byte that it touches.
    #[must_use]
    pub(super) fn fills_bytes(&self) -> bool {
        let Place { layout, .. } = self;
        layout.elem_bits() >= 8
            || layout.is_contiguous() && layout.start_offset() % 2 == 0 && layout.numel() % 2 == 0
    }

    /// Whether both are the same elements in the same order.
    #[must_use]
    pub fn is_same_view(&self, other: &Place) -> bool {
        let start = |p: &Place| {
            let bits = u128::from(p.layout.start_offset()) * u128::from(p.layout.elem_bits());
            u128::from(p.address) * 8 + bits
        };
        let Place { layout, .. } = self;
        start(self) == start(other)
            && layout.elem_bits() == other.layout.elem_bits()
            && layout.shape() == other.layout.shape()
            && layout.strides() == other.layout.strides()
            || self.footprint == other.footprint
                && layout.is_contiguous()
                && other.layout.is_contiguous()
                && layout.elem_bits() >= 8
                && other.layout.elem_bits() >= 8
    }
}

/// A record that holds an argument's content at one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Position of the record in its dump.
    pub record: u64,
    /// Hash of the content.
    pub hash: Option<u128>,
    /// Whether all of the content is stored.
    pub stored: bool,
}

/// Where the content of an input came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The outputs that hold it, the one written last first. None for what no captured task wrote; what several wrote may
    /// have gaps between that nobody did.
    pub sources: Vec<Source>,
    /// How that is known.
    pub basis: Basis,
}

/// An output that an input was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// Position of the task in [`TaskGraph::tasks`].
    pub task: usize,
    /// Argument of that task.
    pub arg_index: u16,
}

/// How an origin is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// By the bytes that tasks wrote before.
    #[default]
    Bytes,
    /// By the dump's own dependencies, which do not say which bytes.
    Edges,
    /// By equal content of an earlier output.
    Content,
    /// Not at all: no address, no dependency, no equal content.
    Nothing,
}

impl Origin {
    /// Whether it is known that no captured task wrote it.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.sources.is_empty() && self.basis != Basis::Nothing
    }
}

impl GraphTask {
    /// The argument of an index.
    #[must_use]
    pub fn arg(&self, arg_index: u16) -> Option<&Argument> {
        self.args.iter().find(|a| a.arg_index == arg_index)
    }

    /// Arguments whose content matters before the task runs.
    pub fn inputs(&self) -> impl Iterator<Item = &Argument> {
        self.args.iter().filter(|a| a.role.reads())
    }

    /// Arguments that the task writes.
    pub fn outputs(&self) -> impl Iterator<Item = &Argument> {
        self.args.iter().filter(|a| a.role.writes())
    }

    /// Names of its kernels.
    #[must_use]
    pub fn kernel_labels(&self) -> Vec<String> {
        self.kernels.iter().map(KernelName::label).collect()
    }
}

impl Argument {
    /// Whether it is a scalar.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        self.scalar_bits.is_some()
    }

    /// Whether it left its task with the bytes it came with.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        let hash = |captured: Option<Captured>| captured.and_then(|c| c.hash);
        hash(self.before).is_some() && hash(self.before) == hash(self.after)
    }
}

impl TaskGraph {
    /// For every task, the tasks that were given some of what it wrote, each once, in order.
    #[must_use]
    pub fn consumers(&self) -> Vec<Vec<usize>> {
        let mut consumers = vec![Vec::new(); self.tasks.len()];
        for (place, task) in self.tasks.iter().enumerate() {
            for source in task.args.iter().flat_map(|a| &a.origin.sources) {
                let list: &mut Vec<usize> = &mut consumers[source.task];
                if list.last() != Some(&place) {
                    list.push(place);
                }
            }
        }
        consumers
    }

    /// Where a task stands.
    #[must_use]
    pub fn position(&self, task_id: u64) -> Option<usize> {
        self.tasks.iter().position(|t| t.task_id == task_id)
    }
}
