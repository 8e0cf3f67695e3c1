//! Converts a manifest's record to the one record type of this crate.

use tensortap_abi::{
    DType, DTypeKind, MAX_DIMS, MemorySpace, NO_KERNEL, RECORD_DTYPE_UNKNOWN, RECORD_EXTENT_GUESSED,
    RECORD_HAS_HASH, RECORD_IN_FLIGHT, RECORD_LOCAL_MEMORY, RECORD_MARKED, RECORD_ROLE_UNKNOWN, Role,
    SLOTS_PER_TASK, ScalarRecord, SimplerElements, TensorRecord, TensorStats,
};

use tensortap_values::{Element, from_f64};

use super::{
    fields::{Dims, Id, Spelling},
    raw_record::RawRecord,
};
use crate::{ArgumentKind, IndexRecord, Payload, PayloadState, ScalarValue, record::JSON_LIMIT};

/// A record in the form of an index.
pub(super) struct NormalizedRecord {
    pub(super) record: IndexRecord,
    pub(super) kernels: [u32; SLOTS_PER_TASK],
    pub(super) step: u32,
}

/// Converts a record, or returns why it is invalid. `has_payloads` is false if the manifest names no
/// payload file.
pub(super) fn normalize(raw: &RawRecord, has_payloads: bool) -> Result<NormalizedRecord, String> {
    let record = match raw.kind.unwrap_or(ArgumentKind::Tensor) {
        ArgumentKind::Tensor => tensor(raw, Head::of(raw)?, has_payloads)?,
        ArgumentKind::Scalar => scalar(raw, Head::of(raw)?)?,
    };
    record.check()?;
    check_numel(raw, &record)?;
    Ok(NormalizedRecord { record, kernels: slots(raw), step: step(raw.step, raw.run_epoch)?.unwrap_or(0) })
}

/// The step of a task, if stated: tensortap's step, or a run of `simpler`, several of which one dump may
/// hold.
pub(super) fn step(step: Option<u32>, run_epoch: Option<Option<Id>>) -> Result<Option<u32>, String> {
    let epoch = run_epoch.flatten().map(|epoch| u32::try_from(epoch.0)).transpose();
    let epoch = epoch.map_err(|_| "`run_epoch` does not fit in 32 bits")?;
    match (step, epoch) {
        (Some(step), Some(epoch)) if step != epoch => Err("`step` and `run_epoch` differ".into()),
        (step, epoch) => Ok(step.or(epoch)),
    }
}

/// Fields that every record has.
#[derive(Clone, Copy)]
struct Head {
    task_id: u64,
    stage: u8,
    dtype: DType,
    arg_index: u16,
    flags: u32,
}

impl Head {
    fn of(raw: &RawRecord) -> Result<Head, String> {
        let elements = raw.dtype.ok_or("it has no `dtype`")?;
        let is_unknown = elements == SimplerElements::Bytes || raw.dtype_known == Some(false);
        let flag = |is_so: bool, flag: u32| if is_so { flag } else { 0 };
        Ok(Head {
            task_id: raw.task_id.ok_or("it has no `task_id`")?.0,
            stage: raw.stage.ok_or("it has no `stage`")? as u8,
            dtype: elements.dtype(),
            arg_index: raw.arg_index.ok_or("it has no `arg_index`")?,
            flags: flag(raw.in_flight == Some(true), RECORD_IN_FLIGHT)
                | flag(is_unknown, RECORD_DTYPE_UNKNOWN)
                | flag(raw.role_known == Some(false), RECORD_ROLE_UNKNOWN)
                | flag(raw.extent_known == Some(false), RECORD_EXTENT_GUESSED)
                | flag(raw.marked == Some(true), RECORD_MARKED),
        })
    }
}

/// The kernels in the subtask slots that the record names; in order if it names none.
fn slots(raw: &RawRecord) -> [u32; SLOTS_PER_TASK] {
    let mut slots = [NO_KERNEL; SLOTS_PER_TASK];
    let known = raw.func_id.as_ref().map_or(&[][..], |kernels| kernels.known());
    let slot =
        raw.subtask_id.and_then(|slot| usize::try_from(slot).ok()).filter(|slot| *slot < SLOTS_PER_TASK);
    match (slot, known) {
        (Some(slot), [kernel]) => slots[slot] = *kernel,
        _ => slots[..known.len()].copy_from_slice(known),
    }
    slots
}

fn tensor(raw: &RawRecord, head: Head, has_payloads: bool) -> Result<IndexRecord, String> {
    let shape = raw.shape.ok_or("it has no `shape`")?;
    let (strides, start_offset) = geometry(raw, &shape)?;
    let Head { task_id, stage, dtype, arg_index, flags } = head;
    let mut fields = TensorRecord {
        task_id,
        stage,
        arg_index,
        flags,
        dtype: dtype.tag(),
        role: raw.role.unwrap_or(Role::Input).tag(),
        ndims: u8::try_from(shape.as_slice().len()).unwrap_or(u8::MAX),
        shape: shape.padded(),
        strides,
        start_offset,
        address: raw.address.unwrap_or_default().0,
        // Earlier versions did not state which of the two spaces it is.
        space: raw.space.unwrap_or(match raw.host_writable {
            Some(true) => MemorySpace::Managed,
            _ => MemorySpace::Device,
        }) as u8,
        ..TensorRecord::default()
    };
    if let Some(Some(hash)) = raw.hash {
        fields.hash = hash.0.to_le_bytes();
        fields.flags |= RECORD_HAS_HASH;
    }
    let content = content_bytes(raw, &shape).ok_or("its size is out of range")?;
    Ok(IndexRecord::tensor(&fields, payload(raw, content, has_payloads)?))
}

fn content_bytes(raw: &RawRecord, shape: &Dims<u64>) -> Option<u64> {
    let numel = if shape.as_slice().contains(&0) {
        0
    } else {
        shape.as_slice().iter().try_fold(1u64, |numel, dim| numel.checked_mul(*dim))?
    };
    raw.dtype?.dtype().packed_bytes(numel).filter(|bytes| *bytes < JSON_LIMIT)
}

/// Strides and start offset. The first generation instead states where the view starts in each dimension of
/// a larger contiguous buffer.
fn geometry(raw: &RawRecord, shape: &Dims<u64>) -> Result<([i64; MAX_DIMS], u64), String> {
    let ndims = shape.as_slice().len();
    if let Some(strides) = raw.strides {
        if strides.as_slice().len() != ndims {
            return Err("`strides` and `shape` have different lengths".into());
        }
        return Ok((strides.padded(), raw.start_offset.unwrap_or(0)));
    }
    let buffer = raw.raw_shape.unwrap_or(*shape);
    if buffer.as_slice().len() != ndims || raw.offsets.is_some_and(|o| o.as_slice().len() != ndims) {
        return Err("`raw_shape`, `offsets` and `shape` have different lengths".into());
    }
    let strides = row_major(buffer.as_slice()).ok_or("`raw_shape` is out of range")?;
    let start_offset = match (raw.start_offset, raw.offsets) {
        (Some(start_offset), _) => start_offset,
        (None, Some(offsets)) => {
            first_element(offsets.as_slice(), &strides).ok_or("`offsets` are out of range")?
        }
        (None, None) => 0,
    };
    Ok((strides, start_offset))
}

fn row_major(shape: &[u64]) -> Option<[i64; MAX_DIMS]> {
    let mut strides = [0; MAX_DIMS];
    let mut stride = 1i64;
    for (place, dim) in strides.iter_mut().zip(shape).take(shape.len()).rev() {
        *place = stride;
        stride = stride.checked_mul(i64::try_from(*dim).ok()?.max(1))?;
    }
    Some(strides)
}

fn first_element(offsets: &[u64], strides: &[i64]) -> Option<u64> {
    offsets.iter().zip(strides).try_fold(0u64, |sum, (offset, stride)| {
        sum.checked_add(offset.checked_mul(u64::try_from(*stride).ok()?)?)
    })
}

/// State of the payload. Only tensortap's manifests state it directly.
fn payload(raw: &RawRecord, content: u64, has_payloads: bool) -> Result<Payload, String> {
    let (offset, bytes) = (raw.bin_offset.unwrap_or(0), raw.bin_size.unwrap_or(0));
    let state = raw.payload.unwrap_or_else(|| guess_state(raw, bytes, content, has_payloads));
    if matches!(state, PayloadState::Stored | PayloadState::Truncated) && bytes > 0 && !has_payloads {
        return Err(format!("it has {bytes} bytes of payload, but the manifest names no payload file"));
    }
    if state == PayloadState::Stored && bytes != content {
        return Err(format!("`bin_size` is {bytes}, but its shape needs {content} bytes"));
    }
    let numel = raw.numel.unwrap_or(0);
    Ok(match (state, raw.stats) {
        (PayloadState::None, Some(Some(stats))) => Payload::Stats(TensorStats { numel, ..stats }),
        (PayloadState::None, _) => Payload::None,
        (PayloadState::Stored, _) => Payload::Stored { offset, bytes },
        (PayloadState::Truncated, _) => Payload::Truncated { offset, bytes },
        (PayloadState::Overwritten, _) => Payload::Overwritten,
        (PayloadState::Dropped | PayloadState::Missing | PayloadState::Gone, _) => Payload::Dropped,
    })
}

fn guess_state(raw: &RawRecord, bytes: u64, content: u64, has_payloads: bool) -> PayloadState {
    match () {
        () if raw.overwritten == Some(true) => PayloadState::Overwritten,
        () if raw.truncated == Some(true) => PayloadState::Truncated,
        () if bytes == 0 && (content > 0 || !has_payloads) => PayloadState::None,
        () => PayloadState::Stored,
    }
}

fn scalar(raw: &RawRecord, head: Head) -> Result<IndexRecord, String> {
    let Head { task_id, stage, dtype, arg_index, flags } = head;
    if raw.shape.is_some_and(|shape| !shape.as_slice().is_empty()) {
        return Err("a scalar has no dimensions".into());
    }
    let bits = match (raw.scalar_value, &raw.value) {
        (Some(bits), Some(value)) if !means(dtype, bits.0, scalar_bits(dtype, value)?) => {
            return Err("`scalar_value` and `value` contradict each other".into());
        }
        (Some(bits), _) => bits.0,
        (None, Some(value)) => scalar_bits(dtype, value)?,
        (None, None) => return Err("a scalar without `value`".into()),
    };
    let dtype = dtype.tag();
    let flags = flags | if raw.local_memory == Some(true) { RECORD_LOCAL_MEMORY } else { 0 };
    Ok(IndexRecord::plain(&ScalarRecord {
        task_id,
        stage,
        arg_index,
        flags,
        dtype,
        bits,
        ..ScalarRecord::default()
    }))
}

/// Whether two bit patterns have the same value. Bits above the dtype's width are ignored, and NaN has many
/// patterns.
fn means(dtype: DType, bits: u64, other: u64) -> bool {
    let (value, other) = (ScalarValue::decode(dtype, bits), ScalarValue::decode(dtype, other));
    let is_nan = |value| matches!(value, ScalarValue::Float(float) if float.is_nan());
    value == other || is_nan(value) && is_nan(other)
}

/// The raw bits of a JSON value.
fn scalar_bits(dtype: DType, value: &Spelling) -> Result<u64, String> {
    let out_of_range = || format!("its value does not fit in {dtype}");
    if dtype.is_complex() {
        return complex_bits(dtype, value).ok_or_else(out_of_range);
    }
    if dtype.is_float() {
        return Ok(from_f64(dtype, float_of(value).ok_or_else(out_of_range)?));
    }
    let integer = match value {
        Spelling::Integer(value) => *value,
        Spelling::Bool(value) => (*value).into(),
        Spelling::Text(text) => text.parse().map_err(|_| out_of_range())?,
        Spelling::Float(_) => return Err(out_of_range()),
    };
    let width = dtype.bits();
    let (least, most) = match dtype.kind() {
        DTypeKind::Bool => (0, 1),
        DTypeKind::Signed => (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1),
        DTypeKind::Unsigned | DTypeKind::Float(_) | DTypeKind::Complex(_) => (0, (1i128 << width) - 1),
    };
    if !(least..=most).contains(&integer) {
        return Err(out_of_range());
    }
    u64::try_from(integer & ((1i128 << width) - 1)).map_err(|_| out_of_range())
}

/// The bits of a complex number that is written as text, such as `1+2j`, or of a real number.
fn complex_bits(dtype: DType, value: &Spelling) -> Option<u64> {
    match value {
        Spelling::Text(text) => u64::try_from(Element::parse(dtype, text).ok()?.bits).ok(),
        other => Some(from_f64(dtype, float_of(other)?)),
    }
}

/// The float of a JSON number, or of a word for a value that JSON numbers cannot represent.
pub(super) fn float_of(value: &Spelling) -> Option<f64> {
    match value {
        Spelling::Float(value) => Some(*value),
        #[expect(clippy::cast_precision_loss, reason = "the nearest float is what a float field means")]
        Spelling::Integer(value) => Some(*value as f64),
        Spelling::Bool(_) => None,
        Spelling::Text(text) => match text.to_ascii_lowercase().as_str() {
            "nan" | "-nan" => Some(f64::NAN),
            "infinity" | "inf" => Some(f64::INFINITY),
            "-infinity" | "-inf" => Some(f64::NEG_INFINITY),
            _ => None,
        },
    }
}

/// Redundant fields of a record must agree.
fn check_numel(raw: &RawRecord, record: &IndexRecord) -> Result<(), String> {
    let (numel, ndims) = (record.numel().unwrap_or(0), record.view().map_or(0, |view| view.ndims.into()));
    if let Some(stated) = raw.numel.filter(|stated| *stated != numel) {
        return Err(format!("`numel` is {stated}, but its shape has {numel} elements"));
    }
    if let Some(stated) = raw.ndims.filter(|stated| *stated != ndims) {
        return Err(format!("`ndims` is {stated}, but its shape has {ndims} dimensions"));
    }
    Ok(())
}
