//! Benchmarks of tensortap itself:
//!
//! - [`dispatch`]: the cost of a task;
//! - [`capture`]: the cost of the device-side recorder;
//! - [`record`]: the cost of recording for a C program;
//! - [`dump`]: the cost of recording a run;
//! - [`read`]: the cost of reading a dump;
//! - [`diff`]: the speed of comparing tensors;
//! - [`serve`]: the response times of the web viewer.
//!
//! Each call returns a report. A [`Watch`] receives its parts as soon as they are measured, and can stop the benchmark.
//! This crate prints nothing. A program that runs benchmarks first calls
//! `tensortap::become_device_if_asked_with(tensortap_bench::registry())`, because the device is a separate process.
#![forbid(unsafe_code)]

mod capture;
mod diff;
mod dispatch;
mod dump;
mod error;
mod machine;
mod numpy;
mod plain_write;
mod read;
mod record;
mod recorded_run;
mod sample_dump;
mod scene;
mod scratch;
mod serve;
mod watch;

use tensortap::scene::Registry;

pub use capture::{CaptureBenchConfig, CaptureBenchPart, CaptureBenchReport, CaptureCase, capture};
pub use diff::{DiffBenchConfig, DiffBenchPart, DiffBenchReport, DiffCase, diff};
pub use dispatch::{CallLoop, DispatchCase, DispatchConfig, DispatchPart, DispatchReport, Rates, dispatch};
pub use dump::{
    DumpBenchConfig, DumpBenchPart, DumpBenchReport, Overhead, SmallTensors, Throughput, ThroughputPair, dump,
};
pub use error::BenchError;
pub use machine::{Machine, Spread};
pub use numpy::Numpy;
pub use read::{ExportRatio, ListCost, PairedTimes, ReadConfig, ReadPart, ReadReport, StatsRatio, read};
pub use record::{DisabledCase, RecordBenchConfig, RecordBenchPart, RecordBenchReport, RecordCase, record};
pub use serve::{
    ServeBenchConfig, ServeBenchPart, ServeBenchReport, ServeCase, ServeMemory, ServeStart, serve,
};
pub use watch::Watch;

/// The scenes that only benchmarks use.
pub fn scenes() -> Registry {
    Registry::new(&[&scene::BenchDispatch])
}

/// Every scene that benchmarks run. The device needs them as well.
pub fn registry() -> Registry {
    registry_with(&Registry::default())
}

/// Other scenes together with these. If names are equal, the other scene wins. For programs with their own scenes.
pub fn registry_with(others: &Registry) -> Registry {
    others.clone().and(&tensortap::builtin()).and(&scenes())
}
