//! Writing the slot and the payload of a submitted task, for all runtimes.

use tensortap_abi::{MAX_TENSORS, NO_SLOT, PayloadLayout, TaskId, TaskSlot, TaskState};
use tensortap_platform::DeviceMemory;
use tensortap_scene::{Buffer, BufferTable, GraphError, TaskSpec, TensorUse};
use tensortap_sync::fanout;
use zerocopy::FromZeros;

use super::names::NameIds;
use crate::device::memory::{PayloadWriter, poison};

/// Alignment of everything that is allocated in device memory.
pub const ALIGN: u64 = 64;

/// The payload layout of a task.
pub fn payload_layout(task: &TaskSpec) -> PayloadLayout {
    PayloadLayout { tensor_count: task.tensors.len(), scalar_count: task.scalars.len() }
}

/// The slot of a checked task. It cannot run before it is published.
pub fn new_slot(task: &TaskSpec, id: TaskId, payload_addr: u64, name_ids: NameIds) -> TaskSlot {
    let mut slot = TaskSlot::new_zeroed();
    slot.task_id = id.0;
    slot.pending = 1;
    slot.fanout = fanout::OPEN_EMPTY;
    slot.remaining = task.dispatches();
    slot.state = TaskState::Building as u32;
    slot.payload_addr = payload_addr;
    slot.dump_marks = task.dump_marks;
    slot.block_num = task.block_num;
    slot.func_id = task.func_ids();
    (slot.task_name, slot.scope) = (name_ids.task_name, name_ids.scope);
    slot.tensor_count = u8::try_from(task.tensors.len()).expect("checked against MAX_TENSORS");
    slot.scalar_count = u8::try_from(task.scalars.len()).expect("checked against MAX_SCALARS");
    slot.active = task.active();
    for (role, tensor) in slot.roles.iter_mut().zip(&task.tensors) {
        *role = tensor.role.tag();
    }
    slot.owners = [NO_SLOT; MAX_TENSORS];
    slot
}

/// Writes the payload of a task into device memory. All of its buffers must be placed.
pub fn write_payload(
    memory: &DeviceMemory,
    addr: u64,
    task: &TaskSpec,
    buffers: &BufferTable,
) -> Result<(), GraphError> {
    let mut writer = PayloadWriter::new(memory, addr, payload_layout(task))
        .map_err(|e| GraphError::Memory(e.to_string()))?;
    for (index, TensorUse { tensor, .. }) in task.tensors.iter().enumerate() {
        let buffer = buffer_of(buffers, tensor);
        let location = buffer.location.expect("placed before the payload is written");
        writer.tensor(index, &tensor.descriptor(&location, buffer.bytes));
    }
    for (index, scalar) in task.scalars.iter().enumerate() {
        writer.scalar(index, scalar.bits, scalar.dtype.tag());
    }
    Ok(())
}

/// The buffer of a checked tensor.
pub fn buffer_of<'b>(buffers: &'b BufferTable, tensor: &tensortap_scene::Tensor) -> &'b Buffer {
    buffers.get(tensor.buffer()).expect("checked at submission")
}

/// Fills new memory with the poison byte of the launch, if it has one.
pub fn poison_new(memory: &DeviceMemory, setting: u32, addr: u64, bytes: u64) -> Result<(), GraphError> {
    match poison_byte(setting) {
        Some(pattern) => poison(memory, addr, bytes, pattern).map_err(|e| GraphError::Memory(e.to_string())),
        None => Ok(()),
    }
}

/// The poison byte in the launch arguments, if it is set.
pub fn poison_byte(setting: u32) -> Option<u8> {
    (setting & 0x100 != 0).then_some(setting.to_le_bytes()[0])
}
