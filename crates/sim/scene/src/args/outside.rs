//! Fault injection for kernels that are not written with [`Args`]: their inputs or outputs are damaged from
//! outside.

use std::sync::{Mutex, PoisonError};

use tensortap_abi::{ARG_SLOTS, DType, KernelEntry, TensorDesc};

use super::{Args, TensorArg, damage_element, run_kernel};
use crate::{FaultKind, KernelArg};

/// Serializes the blocks of a damaged kernel, so that a change during a call was made by that call.
static TURN: Mutex<()> = Mutex::new(());

/// Calls a kernel that was not written with [`Args`], with a fault.
///
/// # Safety
///
/// As for [`run_kernel`]. `signature` must be the kernel's.
pub unsafe fn run_damaged(
    entry: KernelEntry,
    args: *mut u64,
    signature: &[KernelArg],
    fault: FaultKind,
) -> Result<(), String> {
    // SAFETY: the caller promises ARG_SLOTS valid words.
    let words = unsafe { args.cast::<[u64; ARG_SLOTS]>().read() };
    let view = Args { words, fault: None };
    match fault {
        // SAFETY: passed on from the caller.
        FaultKind::Race => unsafe { run_kernel(entry, args, None) },
        // SAFETY: as above.
        FaultKind::Shift => unsafe { run_shifted(entry, &view, signature) },
        // SAFETY: as above.
        _ => unsafe { run_and_damage(entry, args, &view, signature, fault) },
    }
}

/// # Safety
/// As for [`run_kernel`].
unsafe fn run_and_damage(
    entry: KernelEntry,
    args: *mut u64,
    view: &Args,
    signature: &[KernelArg],
    fault: FaultKind,
) -> Result<(), String> {
    let outputs: Vec<TensorArg> =
        places(signature, |arg| matches!(arg, KernelArg::Out(_) | KernelArg::InOut(_)))
            .map(|place| view.tensor(place))
            .collect();
    let shared = view.block().block_num > 1;
    let _turn = shared.then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    let before: Vec<Vec<u128>> = outputs.iter().map(TensorArg::load_bits).collect();
    // SAFETY: passed on from the caller.
    unsafe { run_kernel(entry, args, None) }?;
    for (output, before) in outputs.iter().zip(before) {
        // A fault damages the byte of a boolean, as for kernels that are written with `Args`.
        let dtype = if output.dtype == DType::Bool { DType::UInt8 } else { output.dtype };
        for (place, (bits, old)) in output.load_bits().into_iter().zip(before).enumerate() {
            let is_last = place + 1 == output.numel();
            match fault {
                _ if shared && bits == old => {}
                FaultKind::Stale => output.write_bits(place, old),
                fault => output.write_bits(place, damage_element(fault, dtype, bits, is_last)),
            }
        }
    }
    Ok(())
}

/// Calls the kernel with shifted copies of its inputs: each element has the value of the next one, and the
/// last is repeated.
///
/// # Safety
///
/// As for [`run_kernel`].
unsafe fn run_shifted(entry: KernelEntry, view: &Args, signature: &[KernelArg]) -> Result<(), String> {
    let mut words = view.words;
    let mut copies: Vec<(Box<TensorDesc>, Vec<u64>)> = Vec::new();
    for place in places(signature, |arg| matches!(arg, KernelArg::In(_))) {
        let tensor = view.tensor(place);
        // SAFETY: `Args::tensor` has read this descriptor.
        let mut desc = Box::new(unsafe { (view.words[place] as *const TensorDesc).read() });
        let range = tensor.layout.byte_range();
        let bytes = usize::try_from(range.end - range.start).map_err(|error| error.to_string())?;
        let first = usize::try_from(range.start).map_err(|error| error.to_string())?;
        let mut memory = vec![0_u64; bytes.div_ceil(8) + 1];
        // Keep the alignment of the elements: the copy starts at the same offset within a word as the
        // original.
        let skew = (tensor.buffer.addr() + first) % 8;
        let start = memory.as_mut_ptr().cast::<u8>().wrapping_add(skew);
        let moved = TensorArg { buffer: start.wrapping_sub(first), ..tensor };
        for element in 0..tensor.numel() {
            moved.write_bits(element, tensor.read_bits((element + 1).min(tensor.numel() - 1)));
        }
        desc.buffer_addr = moved.buffer.expose_provenance() as u64;
        words[place] = std::ptr::from_ref(&*desc).expose_provenance() as u64;
        copies.push((desc, memory));
    }
    // SAFETY: the words are the caller's, except for descriptors in `copies`. The memory of their views is in
    // `copies` too.
    let ran = unsafe { run_kernel(entry, words.as_mut_ptr(), None) };
    drop(copies);
    ran
}

fn places(signature: &[KernelArg], which: impl Fn(&KernelArg) -> bool) -> impl Iterator<Item = usize> {
    signature.iter().enumerate().filter(move |(_, arg)| which(arg)).map(|(place, _)| place)
}
