//! What is known of a command when it is submitted: values that it is given, and what is not captured of it at all.

use tensortap_record::{
    DType, DumpStage, RecordError, Role, StringId, Task, Tensor, ThreadRecorder, UncapturedReason,
};

use crate::enqueue::Work;

/// A value that a command is given.
pub struct Value {
    /// Position among the arguments.
    pub arg: u16,
    /// What it is called.
    pub name: StringId,
    /// Its elements.
    pub dtype: Option<DType>,
    /// How many of them it has, as its type says.
    pub lanes: u64,
    /// Whether it may be a number. What a program declares itself, a struct, is bytes.
    pub is_number: bool,
    /// It.
    pub bytes: Box<[u8]>,
}

/// Records what is known when a command is submitted: values, and what is not captured at all.
pub fn record_values(
    recorder: &mut ThreadRecorder,
    task: &mut Task,
    work: &Work,
    is_seen: bool,
) -> Result<(), RecordError> {
    for value in &work.values {
        record_value(recorder, task, value)?;
    }
    for &(arg, bytes) in &work.local {
        recorder.local_memory(task, arg, bytes, StringId::NONE)?;
    }
    let stage = DumpStage::BeforeDispatch;
    for &(arg, name) in &work.opaque {
        recorder.not_captured(task, stage, (arg, Role::InOut, name), UncapturedReason::Opaque)?;
    }
    if let Some(arg) = work.variables {
        let name = recorder.string("variables of the program")?;
        recorder.not_captured(task, stage, (arg, Role::InOut, name), UncapturedReason::Variables)?;
    }
    if !is_seen {
        for (range, _) in &work.ranges {
            let (arg, name) = (range.arg, range.name);
            recorder.not_captured(task, stage, (arg, Role::InOut, name), UncapturedReason::NoProbe)?;
        }
    }
    Ok(())
}

fn record_value(recorder: &mut ThreadRecorder, task: &mut Task, value: &Value) -> Result<(), RecordError> {
    let Value { arg, name, dtype, lanes, is_number, bytes } = value;
    let unsigned = match bytes.len() {
        1 => Some(DType::UInt8),
        2 => Some(DType::UInt16),
        4 => Some(DType::UInt32),
        8 => Some(DType::UInt64),
        _ => None,
    };
    let fits = |dtype: &DType| dtype.bits() as usize == bytes.len() * 8;
    let is_vector = dtype.is_some() && *lanes > 1;
    match dtype.filter(fits).or(unsigned).filter(|_| *is_number && !is_vector) {
        Some(dtype) if dtype.bits() as usize == bytes.len() * 8 => {
            let mut bits = [0; 8];
            bits[..bytes.len()].copy_from_slice(bytes);
            recorder.scalar(task, *arg, dtype, u64::from_le_bytes(bits), *name)?;
        }
        _ => {
            let whole =
                |dtype: &DType| dtype.bits() >= 8 && bytes.len().is_multiple_of(dtype.bits() as usize / 8);
            let known = dtype.filter(whole);
            let tensor = Tensor::of(&bytes[..], known.unwrap_or(DType::UInt8))?;
            let tensor =
                tensor.arg(*arg).role(Role::Input).name(*name).guessed(known.is_none(), false, false);
            recorder.tensor(task, DumpStage::BeforeDispatch, &tensor)?;
        }
    }
    Ok(())
}
