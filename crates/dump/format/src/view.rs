//! One captured argument as the manifest shows it.

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeMap};
use tensortap_abi::{
    DType, DumpStage, MAX_DIMS, MemorySpace, RecordKind, Role, SLOTS_PER_TASK, ScalarRecord, TaskId,
    TensorDesc, TensorRecord, TensorStats,
};

use tensortap_geometry::is_contiguous;

use crate::{
    DispatchFacts, IndexRecord, Names, PayloadState, ScalarValue, TaskKey, dispatch_id,
    json::{Float, Hex64, Hex128},
    payload_files::PayloadLimits,
    survey::active,
};

/// Whether an argument is a tensor or a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgumentKind {
    /// A tensor.
    Tensor,
    /// A scalar.
    Scalar,
}

impl ArgumentKind {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ArgumentKind::Tensor => "tensor",
            ArgumentKind::Scalar => "scalar",
        }
    }
}

/// One captured argument. Serializes to the manifest's object. Its `Display` form identifies it in
/// messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Position in the whole dump.
    pub index: u64,
    /// Device thread that recorded it.
    pub thread: u32,
    /// Step of its task; 0 if the dump has no steps.
    pub step: u32,
    /// Task, unique within its step.
    pub task_id: u64,
    /// Kernel of each subtask slot, [`tensortap_abi::NO_KERNEL`] where inactive or unknown.
    pub func_id: [u32; SLOTS_PER_TASK],
    /// Direction.
    pub role: Role,
    /// When it was captured.
    pub stage: DumpStage,
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// Tensor or scalar.
    pub kind: ArgumentKind,
    /// Element type.
    pub dtype: DType,
    /// Whether the element type is certain. If not, `dtype` is [`DType::UInt8`].
    pub dtype_known: bool,
    /// Whether the role is certain. If not, it is `inout`, and only a change of the content is known.
    pub role_known: bool,
    /// Whether its extent is known.
    pub extent_known: bool,
    /// Whether the host may change its memory at any time.
    pub host_writable: bool,
    ndims: usize,
    shape: [u64; MAX_DIMS],
    strides: [i64; MAX_DIMS],
    /// First element of the view in its buffer.
    pub start_offset: u64,
    /// Number of elements.
    pub numel: u64,
    /// Whether the task had not completed.
    pub in_flight: bool,
    /// State of the payload.
    pub payload: PayloadState,
    /// Hash of a tensor's content. For a truncated payload, of the whole content.
    pub hash: Option<u128>,
    /// Raw bits of a scalar.
    pub scalar_bits: Option<u64>,
    /// Whether it is not a value but memory local to each work group. `scalar_bits` is its size.
    pub is_local: bool,
    /// Memory space of a tensor. A host tensor of a launch is an argument passed by value.
    pub space: MemorySpace,
    /// Position of the payload: its offset in the payload file, or, in a dump with several, as
    /// [`split_position`](crate::split_position) reads it. 0 if nothing is stored.
    pub bin_offset: u64,
    /// Number of bytes in the payload file; 0 if nothing is stored.
    pub bin_size: u64,
    /// Device address of the buffer.
    pub address: u64,
    /// Statistics of the content, at level `hash`.
    pub stats: Option<TensorStats>,
    /// Whether the orchestration marked it.
    pub marked: bool,
    /// The dispatch that it is an argument of, in a dump with only arguments (`--dump-args`). Such a record
    /// has neither content nor hash.
    pub dispatch: Option<DispatchFacts>,
    /// String id of its own name; 0 if only its kernel declares one.
    pub(crate) name: u32,
}

/// The dispatch that owns an argument.
pub(crate) struct DispatchOwner {
    pub(crate) index: u64,
    pub(crate) thread: u32,
    pub(crate) step: u32,
    pub(crate) task_id: u64,
    pub(crate) func_id: [u32; SLOTS_PER_TASK],
    pub(crate) dispatch: DispatchFacts,
}

impl DispatchOwner {
    /// A scalar argument.
    pub(crate) fn scalar(self, arg_index: u16, bits: u64, dtype: DType) -> Record {
        let DispatchOwner { index, thread, step, task_id, func_id, dispatch } = self;
        Record {
            index,
            thread,
            step,
            task_id,
            func_id,
            role: Role::Input,
            stage: DumpStage::BeforeDispatch,
            arg_index,
            kind: ArgumentKind::Scalar,
            dtype,
            dtype_known: true,
            role_known: true,
            extent_known: true,
            host_writable: false,
            ndims: 0,
            shape: [0; MAX_DIMS],
            strides: [0; MAX_DIMS],
            start_offset: 0,
            numel: 1,
            in_flight: false,
            payload: PayloadState::None,
            hash: None,
            scalar_bits: Some(bits),
            is_local: false,
            space: MemorySpace::Device,
            bin_offset: 0,
            bin_size: 0,
            address: 0,
            stats: None,
            marked: false,
            dispatch: Some(dispatch),
            name: 0,
        }
    }

    /// A tensor argument with a valid descriptor.
    pub(crate) fn tensor(self, arg_index: u16, desc: &TensorDesc, role: Role) -> Record {
        let dtype = desc.dtype().unwrap_or(DType::UInt8);
        Record {
            role,
            kind: ArgumentKind::Tensor,
            ndims: desc.dims().len(),
            shape: desc.shape,
            strides: desc.strides,
            start_offset: desc.start_offset,
            numel: desc.dims().iter().fold(1, |numel: u64, dim| numel.saturating_mul(*dim)),
            scalar_bits: None,
            address: desc.buffer_addr,
            ..self.scalar(arg_index, 0, dtype)
        }
    }
}

impl Record {
    /// The same record, limited by the lengths of the payload files.
    pub(crate) fn within(mut self, limits: &PayloadLimits) -> Record {
        self.limit(limits);
        self
    }

    /// Applies the lengths of the payload files.
    pub(crate) fn limit(&mut self, limits: &PayloadLimits) {
        let is_stored = matches!(self.payload, PayloadState::Stored | PayloadState::Truncated);
        if is_stored && limits.cut(self.bin_offset, self.bin_size) {
            self.payload = PayloadState::Missing;
        }
    }

    /// Number of payload bytes that can be read.
    #[must_use]
    pub fn readable_bytes(&self) -> u64 {
        if self.payload == PayloadState::Missing { 0 } else { self.bin_size }
    }

    /// Returns `None` if the record is not an argument.
    pub(crate) fn new(
        index: u64,
        thread: u32,
        step: u32,
        func_id: [u32; SLOTS_PER_TASK],
        record: &IndexRecord,
    ) -> Option<Record> {
        let kind = match record.kind() {
            RecordKind::Tensor => ArgumentKind::Tensor,
            RecordKind::Scalar => ArgumentKind::Scalar,
            _ => return None,
        };
        let (bin_offset, bin_size) = record.stored_range().unwrap_or((0, 0));
        let tensor: Option<&TensorRecord> = record.get();
        let scalar: Option<&ScalarRecord> = record.get();
        Some(Record {
            index,
            thread,
            step,
            task_id: record.task_id(),
            func_id,
            role: record.role()?,
            stage: record.stage()?,
            arg_index: record.arg_index(),
            kind,
            dtype: record.dtype()?,
            dtype_known: record.is_dtype_known(),
            role_known: record.is_role_known(),
            extent_known: record.is_extent_known(),
            host_writable: record.is_host_writable(),
            ndims: tensor.map_or(0, |tensor| usize::from(tensor.ndims).min(MAX_DIMS)),
            shape: tensor.map_or([0; MAX_DIMS], |tensor| tensor.shape),
            strides: tensor.map_or([0; MAX_DIMS], |tensor| tensor.strides),
            start_offset: tensor.map_or(0, |tensor| tensor.start_offset),
            numel: record.numel()?,
            in_flight: record.is_in_flight(),
            payload: record.payload_state(),
            hash: record.hash(),
            scalar_bits: scalar.map(|scalar| scalar.bits),
            is_local: record.is_local(),
            space: tensor.and_then(|tensor| MemorySpace::from_tag(tensor.space)).unwrap_or_default(),
            bin_offset,
            bin_size,
            address: tensor.map_or(0, |tensor| tensor.address),
            stats: record.stats().copied(),
            marked: record.is_marked(),
            dispatch: None,
            name: tensor.map(|tensor| tensor.name).or(scalar.map(|scalar| scalar.name)).unwrap_or(0),
        })
    }

    /// The same record with its bytes as a dense view of a different type.
    pub(crate) fn with_shape(mut self, dtype: DType, shape: &[u64], numel: u64) -> Record {
        (self.shape, self.strides) = ([0; MAX_DIMS], [0; MAX_DIMS]);
        let mut next = 1_i64;
        for (at, &size) in shape.iter().enumerate().rev() {
            (self.shape[at], self.strides[at]) = (size, next);
            next = next.saturating_mul(i64::try_from(size).unwrap_or(i64::MAX));
        }
        (self.dtype, self.dtype_known, self.ndims, self.start_offset) = (dtype, true, shape.len(), 0);
        // Recorded statistics are those of the bytes.
        (self.numel, self.stats) = (numel, None);
        self
    }

    /// The key of its task.
    #[must_use]
    pub fn task_key(&self) -> TaskKey {
        TaskKey { step: self.step, task_id: self.task_id }
    }

    /// Size of each dimension.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape[..self.ndims]
    }

    /// Strides of the view in its buffer, in elements.
    #[must_use]
    pub fn strides(&self) -> &[i64] {
        &self.strides[..self.ndims]
    }

    /// The task's kernels.
    pub fn func_ids(&self) -> impl Iterator<Item = u32> + '_ {
        active(&self.func_id)
    }

    /// Whether the view is row-major without gaps. Dimensions of size one do not matter.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(self.shape(), self.strides())
    }

    /// Whether only a part of the payload was stored.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.payload == PayloadState::Truncated
    }

    /// Whether the payload was overwritten before the host read it.
    #[must_use]
    pub fn is_overwritten(&self) -> bool {
        self.payload == PayloadState::Overwritten
    }

    /// Size of the whole content.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        self.dtype.packed_bytes(self.numel).unwrap_or(u64::MAX)
    }

    /// Id of the dispatch that it is an argument of; see [`dispatch_id`].
    #[must_use]
    pub fn dispatch_id(&self) -> Option<u64> {
        self.dispatch.map(|of| dispatch_id(self.task_id, of.subtask_id, of.block_idx))
    }

    /// The value of a scalar.
    #[must_use]
    pub fn value(&self) -> Option<ScalarValue> {
        self.scalar_bits.map(|bits| ScalarValue::decode(self.dtype, bits))
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (task, stage) = (TaskId(self.task_id), self.stage.name());
        let step = if self.step == 0 { String::new() } else { format!("step {}, ", self.step) };
        write!(f, "record {} ({step}task {task}, {stage}, argument {})", self.index, self.arg_index)
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.serialize_fields(&mut map)?;
        map.end()
    }
}

/// A record with its names, in the form of the manifest.
#[derive(Clone, Copy, Debug)]
pub struct NamedRecord<'d> {
    /// The record.
    pub record: Record,
    /// Its names from [`Dump::names`](crate::Dump::names).
    pub names: Names<'d>,
}

impl Serialize for NamedRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.record.serialize_fields(&mut map)?;
        let Names { arg_name, task_name, scope } = self.names;
        map.serialize_entry("arg_name", &arg_name)?;
        map.serialize_entry("task_name", &task_name)?;
        map.serialize_entry("scope", &scope)?;
        map.serialize_entry("step", &self.record.step)?;
        map.end()
    }
}

impl Record {
    fn serialize_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("task_id", &Hex64(self.task_id))?;
        map.serialize_entry("func_id", &FuncIds(&self.func_id))?;
        map.serialize_entry("role", self.role.name())?;
        map.serialize_entry("stage", self.stage.name())?;
        map.serialize_entry("arg_index", &self.arg_index)?;
        map.serialize_entry("kind", self.kind.name())?;
        map.serialize_entry("dtype", self.dtype.name())?;
        if !self.dtype_known {
            map.serialize_entry("dtype_known", &false)?;
        }
        // Keys with the usual value are omitted, so that such files stay unchanged.
        if !self.role_known {
            map.serialize_entry("role_known", &false)?;
        }
        if !self.extent_known {
            map.serialize_entry("extent_known", &false)?;
        }
        if self.host_writable {
            map.serialize_entry("host_writable", &true)?;
        }
        if self.space != MemorySpace::Device {
            map.serialize_entry("space", self.space.name())?;
        }
        if self.marked {
            map.serialize_entry("marked", &true)?;
        }
        map.serialize_entry("ndims", &self.ndims)?;
        map.serialize_entry("shape", self.shape())?;
        map.serialize_entry("strides", self.strides())?;
        map.serialize_entry("start_offset", &self.start_offset)?;
        map.serialize_entry("numel", &self.numel)?;
        map.serialize_entry("is_contiguous", &self.is_contiguous())?;
        map.serialize_entry("truncated", &self.is_truncated())?;
        map.serialize_entry("overwritten", &self.is_overwritten())?;
        map.serialize_entry("in_flight", &self.in_flight)?;
        map.serialize_entry("payload", self.payload.name())?;
        if let (Some(bits), Some(value)) = (self.scalar_bits, self.value()) {
            map.serialize_entry("scalar_value", &Hex64(bits))?;
            map.serialize_entry("value", &value)?;
            if self.is_local {
                map.serialize_entry("local_memory", &true)?;
            }
        } else {
            map.serialize_entry("hash", &self.hash.map(Hex128))?;
        }
        map.serialize_entry("bin_offset", &self.bin_offset)?;
        map.serialize_entry("bin_size", &self.bin_size)?;
        if self.kind == ArgumentKind::Tensor {
            map.serialize_entry("address", &Hex64(self.address))?;
            map.serialize_entry("stats", &self.stats.map(StatsDocument))?;
        }
        Ok(())
    }
}

/// The active kernels as a list.
struct FuncIds<'a>(&'a [u32; SLOTS_PER_TASK]);

impl Serialize for FuncIds<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(active(self.0))
    }
}

/// Statistics in the form of the manifest, with floats that JSON can represent.
#[derive(Clone, Copy, Debug)]
pub struct StatsDocument(pub TensorStats);

impl Serialize for StatsDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TensorStats { min, max, mean, std, zeros, nan, inf, numel: _ } = self.0.over_values();
        let mut map = serializer.serialize_map(Some(7))?;
        for (name, value) in [("min", min), ("max", max), ("mean", mean), ("std", std)] {
            map.serialize_entry(name, &Float(value))?;
        }
        for (name, count) in [("zeros", zeros), ("nan", nan), ("inf", inf)] {
            map.serialize_entry(name, &count)?;
        }
        map.end()
    }
}
