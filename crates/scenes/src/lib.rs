//! The built-in scenes.
//!
//! Every scene brings its kernels, one orchestration for all runtimes it makes sense for, seeded inputs, and a
//! golden computed in f64 from the inputs alone. Beside each kernel stands a reference written from the
//! definition of the operation; it shares no code with the kernel, and neither does the golden. Scenes know neither
//! runtimes, but for the names of those they make sense for, nor platforms.
//!
//! ```
//! use tensortap_scene::{Params, SequentialGraph};
//!
//! let scene = tensortap_scenes::builtin().find("vector_example").expect("a built-in scene");
//! let params = Params::resolve(scene.name(), scene.params(), [("n", "64")])?;
//! let inputs = scene.host_args(&params);
//! let mut graph = SequentialGraph::record(scene, &params, &inputs)?;
//! graph.run().expect("kernels do not panic");
//! assert_eq!(graph.len(), 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `unsafe` is denied, with one exception: a kernel of a hidden scene writes to an unmapped address on purpose.
#![deny(unsafe_code)]

use tensortap_scene::Registry;

mod bench_dispatch;
mod bgemm;
mod dump_tensor_example;
mod faulty;
mod garbage;
mod inputs;
mod large_tensor;
mod limits;
mod mixed_example;
mod odd_views;
mod paged_attention;
mod rendezvous;
mod ring_scopes;
mod scalar_data;
mod shuffled;
mod stream;
mod tiny_llm;
mod trace_args;
mod vector_example;

#[cfg(test)]
mod tests;

/// Every built-in scene, the hidden ones for tests and measurements last.
pub fn builtin() -> Registry {
    Registry::new(&[
        &vector_example::VectorExample,
        &dump_tensor_example::DumpTensorExample,
        &scalar_data::ScalarData,
        &bgemm::Bgemm,
        &mixed_example::MixedExample,
        &paged_attention::PagedAttention,
        &tiny_llm::TinyLlm,
        &stream::Stream,
        &faulty::CRASH_SEGV,
        &faulty::CRASH_ABORT,
        &faulty::CRASH_STACK,
        &faulty::HANG,
        &bench_dispatch::BenchDispatch,
        &ring_scopes::RingScopes,
        &rendezvous::Rendezvous,
        &odd_views::OddViews,
        &large_tensor::LargeTensor,
        &garbage::Garbage,
        &shuffled::Shuffled,
        &trace_args::TraceArgs,
    ])
}
