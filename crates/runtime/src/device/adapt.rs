//! The arguments of a dispatch as kernels with another ABI take them.

use tensortap_abi::{
    ARG_SLOTS, BLOCK_CONTEXT_SLOT, BlockContext, KernelAbi, MAX_PASSED_TENSORS, SUBTASK_CONTEXT_SLOT,
    SimplerContext, SimplerTensor, SubtaskContext, TensorDesc, first_element,
};

/// `args[]` of another ABI and all that it points to.
pub struct Adapted {
    args: [u64; ARG_SLOTS],
    tensors: [SimplerTensor; MAX_PASSED_TENSORS],
    contexts: [SimplerContext; 2],
    /// Tensors in use; `None` where slots hold no addresses of descriptors.
    described: Option<usize>,
}

impl Adapted {
    /// From the `args[]` of this project, of which the first `tensor_count` slots are tensors. The error says which of them
    /// the other ABI cannot tell.
    ///
    /// # Safety
    /// `args` are those of a dispatch: tensor slots hold addresses of mapped descriptors, and slots 48 and 49 those of its contexts.
    pub unsafe fn new(abi: KernelAbi, args: *const u64, tensor_count: usize) -> Result<Adapted, String> {
        // SAFETY: the array has as many words, and nobody writes it while its kernel runs.
        let args = unsafe { args.cast::<[u64; ARG_SLOTS]>().read() };
        let tensor_count = tensor_count.min(MAX_PASSED_TENSORS);
        let mut adapted = Adapted {
            args,
            tensors: [SimplerTensor::default(); MAX_PASSED_TENSORS],
            contexts: [SimplerContext::default(); 2],
            described: (abi == KernelAbi::Simpler).then_some(tensor_count),
        };
        for (slot, &address) in args.iter().enumerate().take(tensor_count) {
            // SAFETY: it is a tensor slot.
            let desc = unsafe { std::ptr::with_exposed_provenance::<TensorDesc>(place(address)).read() };
            let bad = |why: &str| format!("argument {slot}: {why}");
            if abi == KernelAbi::Simpler {
                adapted.tensors[slot] = SimplerTensor::of(&desc).map_err(bad)?;
            } else {
                adapted.args[slot] = first_element(&desc).map_err(bad)?;
            }
        }
        // SAFETY: the context slots hold addresses of these.
        let (block, subtask) = unsafe {
            let block = std::ptr::with_exposed_provenance::<BlockContext>(place(args[BLOCK_CONTEXT_SLOT]));
            let subtask =
                std::ptr::with_exposed_provenance::<SubtaskContext>(place(args[SUBTASK_CONTEXT_SLOT]));
            (block.read(), subtask.read())
        };
        adapted.contexts = [SimplerContext::of_block(block), SimplerContext::of_subtask(subtask)];
        Ok(adapted)
    }

    /// The array, which points into `self`: `self` must not be moved while it is used.
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

/// An address as this process counts them.
#[expect(clippy::cast_possible_truncation, reason = "devices have 64-bit addresses")]
const fn place(address: u64) -> usize {
    address as usize
}
