//! What is known of a captured task, wherever it was read from: a dump or a case.

use serde_json::{Map, Value};
use tensortap_abi::{DType, NO_KERNEL, Role, SLOTS_PER_TASK};
use tensortap_format::KernelInfo;
use tensortap_geometry::{GeometryError, Layout};

use crate::ReplayError;

/// The run that a task was captured in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CapturedRun {
    /// Scene, whose kernels are needed.
    pub scene: String,
    /// Platform it ran on.
    pub platform: String,
    /// Runtime it ran with.
    pub runtime: String,
    /// The scene's parameters.
    pub params: Map<String, Value>,
    /// Where device memory was mapped.
    pub device_base: u64,
    /// The kernels by `func_id`.
    pub kernels: Vec<KernelInfo>,
}

impl CapturedRun {
    /// The kernel of a captured `func_id`.
    pub fn kernel(&self, func_id: u32) -> Option<&KernelInfo> {
        self.kernels.iter().find(|k| k.func_id == func_id)
    }
}

/// A task as it was captured.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedTask {
    /// Identity.
    pub task_id: u64,
    /// Kernel of each subtask slot as the capture numbers them, [`NO_KERNEL`] where inactive.
    pub func_id: [u32; SLOTS_PER_TASK],
    /// Times each kernel is dispatched.
    pub block_num: u32,
    /// Tensor arguments; their position is their `arg_index`. One without a descriptor cannot be made up.
    pub tensors: Vec<Result<CapturedTensor, String>>,
    /// Scalar arguments, behind the tensors.
    pub scalars: Vec<CapturedScalar>,
    /// How far its outputs may be from the captured ones on another platform, where the capture says it: relative and
    /// absolute part.
    pub tolerance: Option<(f64, f64)>,
    /// Why the records of the task make no sense together, if they do not.
    pub damage: Option<String>,
}

impl CapturedTask {
    /// The captured `func_id`s in use.
    pub fn func_ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.func_id.iter().copied().filter(|&id| id != NO_KERNEL)
    }

    /// Names of its kernels, slot by slot.
    pub fn kernel_names(&self, run: &CapturedRun) -> Vec<String> {
        let name = |id| run.kernel(id).map_or_else(|| format!("func_{id}"), |k| k.name.clone());
        self.func_ids().map(name).collect()
    }
}

/// A scalar argument.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedScalar {
    /// Position in the payload.
    pub arg_index: u16,
    /// What the bits mean.
    pub dtype: DType,
    /// Raw bits, or why they are not known.
    pub bits: Result<u64, String>,
}

/// A tensor argument: the view, and what it held.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedTensor {
    /// Position in the payload.
    pub arg_index: u16,
    /// Direction.
    pub role: Role,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<u64>,
    /// Strides in elements.
    pub strides: Vec<i64>,
    /// First element of the view.
    pub start_offset: u64,
    /// Device address of the buffer.
    pub address: u64,
    /// Content before the task ran; of no meaning for an output.
    pub before: Content,
    /// Content after it ran; of no meaning for an input.
    pub after: Content,
}

impl CapturedTensor {
    /// The view.
    pub fn layout(&self) -> Result<Layout, GeometryError> {
        Layout::new(&self.shape, &self.strides, self.start_offset, self.dtype.bits())
    }

    /// Bytes of the content when packed; `None` when that exceeds 64 bits.
    pub fn content_bytes(&self) -> Option<u64> {
        let numel = if self.shape.contains(&0) {
            0
        } else {
            self.shape.iter().try_fold(1_u64, |numel, &size| numel.checked_mul(size))?
        };
        self.dtype.packed_bytes(numel)
    }
}

/// What is known of a tensor's content at one moment.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// All of it.
    Whole(Blob),
    /// The first bytes of it.
    Part(Blob),
    /// Noise in its place, by intent.
    Noise(Blob),
    /// Nothing, and why.
    Missing(String),
}

/// Bytes that a [`Source`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Number by which the source knows them.
    pub id: u64,
    /// How many.
    pub bytes: u64,
    /// Their content hash, when they are whole and it is known.
    pub hash: Option<u128>,
}

/// Where captured tasks come from.
pub trait Source: Sync {
    /// The run they were captured in.
    fn run(&self) -> &CapturedRun;

    /// The tasks, in the order of the capture.
    fn tasks(&self) -> &[CapturedTask];

    /// Replaces `into` by the bytes of a blob.
    fn read(&self, blob: &Blob, into: &mut Vec<u8>) -> Result<(), ReplayError>;

    /// Where it is, for messages.
    fn name(&self) -> String;

    /// Whether expected outputs are those of references, so that a rule judges them on every platform.
    fn expects_reference(&self) -> bool {
        false
    }

    /// Whether content was replaced by noise, so that outputs mean nothing.
    fn redacted(&self) -> bool {
        false
    }
}
