//! Calls a C function with tensors in this process's memory. Only workers do this, because no code of a scene
//! folder runs in the host.

use tensortap_abi::{
    ARG_SLOTS, BLOCK_CONTEXT_SLOT, BlockContext, DType, KernelEntry, SUBTASK_CONTEXT_SLOT, SubtaskContext,
    TensorDesc,
};
use tensortap_scene::run_kernel;

/// A contiguous tensor whose bytes a function may read and write.
pub struct Memory {
    desc: TensorDesc,
    // Whole cache lines, so that every element type is aligned as on a device.
    lines: Vec<[u64; 8]>,
    bytes: usize,
}

impl Memory {
    /// A tensor with this content.
    pub fn new(dtype: DType, shape: &[u64], content: &[u8]) -> Result<Memory, String> {
        if shape.len() > tensortap_abi::MAX_DIMS {
            return Err(format!("a tensor has {} dimensions, more than are possible", shape.len()));
        }
        let mut lines = vec![[0_u64; 8]; content.len().div_ceil(64).max(1)];
        for (word, piece) in lines.as_flattened_mut().iter_mut().zip(content.chunks(8)) {
            let mut full = [0; 8];
            full[..piece.len()].copy_from_slice(piece);
            *word = u64::from_le_bytes(full);
        }
        let mut desc = TensorDesc {
            buffer_bytes: content.len() as u64,
            owner_task: TensorDesc::NO_OWNER,
            dtype: dtype.tag(),
            ndims: u8::try_from(shape.len()).expect("at most 8"),
            ..TensorDesc::default()
        };
        desc.shape[..shape.len()].copy_from_slice(shape);
        let mut stride = 1_i64;
        for (dim, &size) in shape.iter().enumerate().rev() {
            desc.strides[dim] = stride;
            stride = stride.saturating_mul(i64::try_from(size).map_err(|error| error.to_string())?);
        }
        Ok(Memory { desc, lines, bytes: content.len() })
    }

    /// The bytes of the tensor.
    pub fn content(&self) -> Vec<u8> {
        self.lines.as_flattened().iter().flat_map(|word| word.to_le_bytes()).take(self.bytes).collect()
    }
}

/// Calls a function with tensors, followed by scalar words.
pub fn call(entry: KernelEntry, tensors: &mut [Memory], words: &[u64], block_num: u32) -> Result<(), String> {
    if tensors.len() + words.len() > BLOCK_CONTEXT_SLOT {
        return Err(format!(
            "the function has {} arguments; the limit is {BLOCK_CONTEXT_SLOT}",
            tensors.len() + words.len()
        ));
    }
    let block = BlockContext { block_idx: 0, block_num };
    let subtask = SubtaskContext { subtask_id: 0, subtask_count: 1 };
    let mut args = [0_u64; ARG_SLOTS];
    for (slot, tensor) in args.iter_mut().zip(tensors.iter_mut()) {
        tensor.desc.buffer_addr = tensor.lines.as_mut_ptr().expose_provenance() as u64;
        *slot = std::ptr::from_ref(&tensor.desc).expose_provenance() as u64;
    }
    args[tensors.len()..][..words.len()].copy_from_slice(words);
    args[BLOCK_CONTEXT_SLOT] = std::ptr::from_ref(&block).expose_provenance() as u64;
    args[SUBTASK_CONTEXT_SLOT] = std::ptr::from_ref(&subtask).expose_provenance() as u64;
    // SAFETY: descriptors, contexts and the bytes that they describe are in this frame and in `tensors`,
    // which nothing else uses.
    unsafe { run_kernel(entry, args.as_mut_ptr(), None) }
}
