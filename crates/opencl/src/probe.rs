//! Probes: what is read before and behind a command, in its own queue.
//!
//! On a device that runs functions of this process, a probe is such a function: it is given the memory of each buffer when its turn has come, and records
//! what it finds there.

use std::{
    ffi::c_void,
    ptr,
    sync::{Arc, Mutex, PoisonError},
};

use tensortap_queue::Command;
use tensortap_record::{DumpStage, Tensor};

use crate::{
    ffi::{self, Event, Mem, Queue, Status},
    layer::Layer,
    raw,
};

/// Where the memory of a range is found when a probe runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a buffer: the driver says where it is.
    Buffer(Mem),
    /// At an address of this process.
    Address(usize),
}

/// What a probe does when its turn has come.
struct Probe {
    command: Arc<Mutex<Command>>,
    stage: DumpStage,
    /// Of each range that is seen at this stage: an address, or which of the buffers has it.
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
enum Place {
    Word(usize),
    Address(usize),
}

/// Puts a probe into a queue. Its event is for the caller to release.
///
/// # Errors
/// What the driver says.
pub fn enqueue(
    layer: &Layer,
    queue: Queue,
    (command, sources): (&Arc<Mutex<Command>>, &[Source]),
    stage: DumpStage,
    waits: &[Event],
) -> Result<Event, Status> {
    let Some(call) = layer.target.clEnqueueNativeKernel else { return Err(ffi::INVALID_OPERATION) };
    let mut buffers: Vec<Mem> = Vec::new();
    let place = |source: &Source| match *source {
        Source::Address(address) => Place::Address(address),
        Source::Buffer(buffer) => {
            let known = buffers.iter().position(|&known| known == buffer);
            Place::Word(
                1 + known.unwrap_or_else(|| {
                    buffers.push(buffer);
                    buffers.len() - 1
                }),
            )
        }
    };
    let places = sources.iter().map(place).collect();
    let probe = Box::into_raw(Box::new(Probe { command: Arc::clone(command), stage, places }));
    // The driver copies these words, and writes the buffers' addresses into its copy.
    let mut words = vec![0_usize; 1 + buffers.len()];
    words[0] = probe.expose_provenance();
    let slots: Vec<*const c_void> = (1..words.len()).map(|at| (&raw const words[at]).cast()).collect();
    let (wait_count, wait_list) = raw::wait_list(waits);
    let count = u32::try_from(buffers.len()).unwrap_or(u32::MAX);
    let list = |is_empty: bool, start: *const c_void| if is_empty { ptr::null() } else { start };
    let mut event = ptr::null_mut();
    // SAFETY: the words and lists live during the call, the driver keeps none of them; `run` takes the words that it is handed for what they are.
    let status = unsafe {
        call(
            queue,
            Some(run),
            words.as_mut_ptr().cast(),
            size_of_val(&words[..]),
            count,
            list(buffers.is_empty(), buffers.as_ptr().cast()).cast(),
            list(slots.is_empty(), slots.as_ptr().cast()).cast(),
            wait_count,
            wait_list,
            &raw mut event,
        )
    };
    if status != ffi::SUCCESS {
        // SAFETY: made above, and nobody was given it.
        drop(unsafe { Box::from_raw(probe) });
        return Err(status);
    }
    Ok(event)
}

/// A probe's turn, in a thread of the driver.
///
/// # Safety
/// `words` are those of `enqueue`, once, with addresses of buffers that live and can be read as long as this runs.
unsafe extern "C" fn run(words: *mut c_void) {
    let words = words.cast::<usize>();
    // SAFETY: the first word is a probe that nobody else has.
    let probe = unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Probe>(words.read())) };
    let Probe { command, stage, places } = *probe;
    let mut command = command.lock().unwrap_or_else(PoisonError::into_inner);
    // A panic must not reach the driver.
    let observed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Layer::get().record(|recorder| {
            command.observe(recorder, stage, |at, range| {
                let start = match places[at] {
                    Place::Address(address) => address,
                    // SAFETY: there are as many words as buffers were named.
                    Place::Word(word) => unsafe { words.add(word).read() },
                };
                // SAFETY: the range lies in this memory, which lives: the command that uses it has not completed for the program.
                unsafe { Tensor::at(ptr::with_exposed_provenance(start), range.bytes, range.elements()) }
            })
        })
    }));
    drop(observed);
}
