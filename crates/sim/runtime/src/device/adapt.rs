//! Converts the arguments of a dispatch for kernels with a foreign ABI. The core thread does this right before
//! the call.

use tensortap_abi::{
    ARG_SLOTS, BLOCK_CONTEXT_SLOT, BlockContext, KernelAbi, MAX_PASSED_TENSORS, SUBTASK_CONTEXT_SLOT,
    SimplerContext, SimplerTensor, SubtaskContext, TensorDesc, first_element,
};

/// The `args[]` of a foreign ABI, with all structs that it points to.
pub struct ForeignArgs {
    args: [u64; ARG_SLOTS],
    tensors: [SimplerTensor; MAX_PASSED_TENSORS],
    contexts: [SimplerContext; 2],
    /// Number of tensors, or `None` if the slots hold addresses of elements and not of descriptors.
    described: Option<usize>,
}

impl ForeignArgs {
    /// Converts tensortap's `args[]`, whose first `tensor_count` slots are tensors. Fails with the argument
    /// that the other ABI cannot express.
    ///
    /// # Safety
    ///
    /// `args` must belong to a dispatch: tensor slots hold addresses of mapped descriptors, and slots 48 and
    /// 49 hold the addresses of its contexts.
    pub unsafe fn new(abi: KernelAbi, args: *const u64, tensor_count: usize) -> Result<ForeignArgs, String> {
        // SAFETY: the array has this many words, and no thread writes it while its kernel runs.
        let args = unsafe { args.cast::<[u64; ARG_SLOTS]>().read() };
        let tensor_count = tensor_count.min(MAX_PASSED_TENSORS);
        let mut foreign = ForeignArgs {
            args,
            tensors: [SimplerTensor::default(); MAX_PASSED_TENSORS],
            contexts: [SimplerContext::default(); 2],
            described: (abi == KernelAbi::Simpler).then_some(tensor_count),
        };
        for (slot, &address) in args.iter().enumerate().take(tensor_count) {
            // SAFETY: the slot is a tensor slot.
            let desc = unsafe { std::ptr::with_exposed_provenance::<TensorDesc>(to_usize(address)).read() };
            let bad = |why: &str| format!("argument {slot}: {why}");
            if abi == KernelAbi::Simpler {
                foreign.tensors[slot] = SimplerTensor::of(&desc).map_err(bad)?;
            } else {
                foreign.args[slot] = first_element(&desc).map_err(bad)?;
            }
        }
        // SAFETY: the context slots hold the addresses of these structs.
        let (block, subtask) = unsafe {
            let block = std::ptr::with_exposed_provenance::<BlockContext>(to_usize(args[BLOCK_CONTEXT_SLOT]));
            let subtask =
                std::ptr::with_exposed_provenance::<SubtaskContext>(to_usize(args[SUBTASK_CONTEXT_SLOT]));
            (block.read(), subtask.read())
        };
        foreign.contexts = [SimplerContext::of_block(block), SimplerContext::of_subtask(subtask)];
        Ok(foreign)
    }

    /// The converted array. It points into `self`, so `self` must not move while the array is in use.
    pub fn args(&mut self) -> *mut u64 {
        if let Some(tensors) = self.described {
            let address = |at: *const SimplerTensor| at.expose_provenance() as u64;
            for (slot, tensor) in self.args.iter_mut().zip(&mut self.tensors).take(tensors) {
                *slot = address(std::ptr::from_mut(tensor));
            }
            let [block, subtask] = &mut self.contexts;
            self.args[BLOCK_CONTEXT_SLOT] = std::ptr::from_mut(block).expose_provenance() as u64;
            self.args[SUBTASK_CONTEXT_SLOT] = std::ptr::from_mut(subtask).expose_provenance() as u64;
        }
        self.args.as_mut_ptr()
    }
}

/// An address as a pointer-sized integer.
#[expect(clippy::cast_possible_truncation, reason = "devices have 64-bit addresses")]
const fn to_usize(address: u64) -> usize {
    address as usize
}
