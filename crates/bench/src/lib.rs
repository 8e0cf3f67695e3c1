//! Measures tensortap itself: what a task costs ([`dispatch`]), what the recorder alone costs ([`capture`]) and what it costs a program in C
//! ([`record`]), what recording costs ([`dump`]), what reading a dump costs ([`read`]), how fast tensors are compared ([`diff`]), and what pages wait for ([`serve`]).
//!
//! Each call returns a report; a [`Watch`] is told its parts as soon as they are known, and can end it. Nothing here knows
//! a terminal. A program that measures runs calls `tensortap::become_device_if_asked_with(tensortap_bench::registry())`
//! first, since the device is a process of its own.
#![forbid(unsafe_code)]

mod capture;
mod diff;
mod dispatch;
mod dump;
mod error;
mod machine;
mod made;
mod numpy;
mod read;
mod record;
mod recorded;
mod scene;
mod scratch;
mod serve;
mod watch;

use tensortap::scene::Registry;

pub use capture::{CaptureBenchConfig, CaptureBenchPart, CaptureBenchReport, CaptureCase, capture};
pub use diff::{DiffBenchConfig, DiffBenchPart, DiffBenchReport, DiffCase, diff};
pub use dispatch::{CallLoop, DispatchCase, DispatchConfig, DispatchPart, DispatchReport, Rates, dispatch};
pub use dump::{
    DumpBenchConfig, DumpBenchPart, DumpBenchReport, Overhead, Small, Throughput, ThroughputPair, dump,
};
pub use error::BenchError;
pub use machine::{Machine, Spread};
pub use numpy::Numpy;
pub use read::{ExportRatio, Listed, Pairs, ReadConfig, ReadPart, ReadReport, StatsRatio, read};
pub use record::{OffCase, RecordBenchConfig, RecordBenchPart, RecordBenchReport, RecordCase, record};
pub use serve::{
    ServeBenchConfig, ServeBenchPart, ServeBenchReport, ServeCase, ServeMemory, ServeStart, serve,
};
pub use watch::Watch;

/// The scenes that are measured and that no other crate has.
pub fn scenes() -> Registry {
    Registry::new(&[&scene::BenchDispatch])
}

/// Every scene that is measured; the device must know them, too.
pub fn registry() -> Registry {
    registry_with(&Registry::default())
}

/// The same beside other scenes, whose names go first: what a program with scenes of its own gives its device.
pub fn registry_with(others: &Registry) -> Registry {
    others.clone().and(&tensortap::builtin()).and(&scenes())
}
