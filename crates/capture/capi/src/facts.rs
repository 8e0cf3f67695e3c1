//! Functions that record facts about tasks and memory.

use std::{borrow::Cow, ffi::c_int};

use tensortap_record::{
    AllocationInfo, AttributeValue, CollectiveKind, QueueId, RecordError, StringId, Task,
};

use crate::{
    calls::{bad, dtype_of, given, recorder_of, slice, space_of, text, with},
    handles::RecorderHandle,
    status::{give, of_outcome},
    types::{MemoryEvent, RecordedTask, Value},
};

type R = *mut RecorderHandle;

/// The task at a pointer, for a call that does not change it.
///
/// # Safety
/// It is null, or points to memory that does not change during the call.
unsafe fn task_of<'t>(at: *const RecordedTask) -> Result<&'t Task, RecordError> {
    // SAFETY: the caller's promise; both types have the same size and alignment, and a task is plain data.
    unsafe { at.cast::<Task>().as_ref() }.ok_or_else(|| bad("task", 0, "it must not be NULL"))
}

pub(crate) unsafe extern "C" fn attribute(
    r: R,
    task: *const RecordedTask,
    name: u32,
    values: *const Value,
    count: u32,
    is_list: u32,
) -> c_int {
    // SAFETY: the header's contract.
    unsafe {
        with(r, |recorder| {
            let (task, name) = (task_of(task)?, StringId(name));
            let texts = slice(values, count)?.iter().map(|value| Ok((value, value_text(value)?)));
            let texts = texts.collect::<Result<Vec<_>, RecordError>>()?;
            let values = texts.iter().map(|(value, text)| attribute_value(value, text));
            let values = values.collect::<Result<Vec<_>, RecordError>>()?;
            match (is_list != 0, &values[..]) {
                (true, values) => recorder.attribute_list(task, name, values),
                (false, [value]) => recorder.attribute(task, name, *value),
                (false, values) => {
                    let remedy = "pass one value, or set is_list";
                    Err(bad("values of an attribute that is no list", values.len() as u64, remedy))
                }
            }
            .map(of_outcome)
        })
    }
}

pub(crate) unsafe extern "C" fn current_region(r: R) -> u64 {
    // SAFETY: the header's contract.
    match unsafe { r.as_ref() } {
        // SAFETY: the header's contract.
        Some(handle) => give(0, || Ok(unsafe { recorder_of(handle) }?.current_region().unwrap_or(0))),
        None => 0,
    }
}

pub(crate) unsafe extern "C" fn collective(
    r: R,
    task: *const RecordedTask,
    group: u32,
    sequence: u64,
    kind: u32,
) -> c_int {
    // SAFETY: the header's contract.
    unsafe {
        with(r, |recorder| {
            let found = u8::try_from(kind).ok().and_then(CollectiveKind::from_tag);
            let kind = found
                .ok_or_else(|| bad("collective", kind.into(), "use a value of enum tt_collective_kind"))?;
            recorder.collective(task_of(task)?, StringId(group), sequence, kind).map(of_outcome)
        })
    }
}

pub(crate) unsafe extern "C" fn memory(r: R, event: *const MemoryEvent) -> c_int {
    // SAFETY: the header's contract.
    unsafe {
        with(r, |recorder| {
            let &MemoryEvent { address, bytes, storage, after_task, space, freed, pool, queue, .. } =
                given(event, "allocation info")?;
            let info = AllocationInfo {
                address,
                bytes,
                space: space_of(space)?,
                freed: freed != 0,
                storage,
                pool: StringId(pool),
                queue: QueueId(queue),
                after_task,
            };
            recorder.memory(&info).map(of_outcome)
        })
    }
}

/// Types of values in the header.
const NONE: u32 = 1;
const BOOL: u32 = 2;
const INT: u32 = 3;
const FLOAT: u32 = 4;
const TEXT: u32 = 5;
const DTYPE: u32 = 6;
const UNCAPTURED: u32 = 7;

/// The text of a value; empty if its type has none.
///
/// # Safety
/// The text of a value with a text is null or ends with a zero, and does not change during the call.
unsafe fn value_text<'t>(value: &Value) -> Result<Cow<'t, str>, RecordError> {
    match value.ty {
        // SAFETY: the type says which member of the union is set; the caller's promise.
        TEXT | UNCAPTURED => Ok(unsafe { text(value.value.text) }),
        NONE..=DTYPE => Ok(Cow::Borrowed("")),
        other => Err(bad("type of a value", other.into(), "use a value of enum tt_value_type")),
    }
}

/// The value, with its text.
///
/// # Safety
/// The member of the union that its type names is set.
unsafe fn attribute_value<'t>(value: &Value, text: &'t str) -> Result<AttributeValue<'t>, RecordError> {
    // SAFETY: the caller's promise. All members are plain data of the same size.
    let (integer, number) = unsafe { (value.value.integer, value.value.number) };
    Ok(match value.ty {
        BOOL => AttributeValue::Bool(integer != 0),
        INT => AttributeValue::Integer(integer),
        FLOAT => AttributeValue::Float(number),
        TEXT => AttributeValue::Text(text),
        DTYPE => AttributeValue::DType(dtype_of(u32::try_from(integer).unwrap_or(u32::MAX))?),
        UNCAPTURED => AttributeValue::Uncaptured(text),
        _ => AttributeValue::None,
    })
}
