//! Records the arguments and results of every task of an accelerator graph.
//!
//! This crate has a Rust call for everything that the command line does; [`guide`] lists a call for every
//! verb. A program that runs scenes on the default simulated device must call [`become_device_if_asked`] at
//! the top of its `main`. The device is a separate process that is started from the same executable. The crate never writes to the terminal. Results are returned or passed to a function of the
//! caller.
//!
//! ```
//! use tensortap::{DeviceMode, GoldenVerdict, RunConfig};
//!
//! let mut config = RunConfig::new("vector_example");
//! config.platform = "a5sim".into();
//! config.runtime = Some("aicpu_build_graph".into());
//! // A documentation test cannot become a device process; your `main` can.
//! config.device_mode = DeviceMode::Thread;
//! let report = tensortap::run(&config)?;
//! assert_eq!((report.golden, report.tasks), (GoldenVerdict::Pass, 5));
//! # Ok::<(), tensortap::Error>(())
//! ```
#![forbid(unsafe_code)]

mod build_id;
mod config;
#[cfg(doctest)]
mod docs;
mod dump_config;
mod dump_files;
mod dump_plan;
mod dump_session;
mod error;
mod export;
mod folder;
pub mod guide;
mod in_flight;
mod live;
mod measure;
mod memory;
mod parallel;
mod recording;
mod replay;
mod report;
mod rerun;
mod run;
mod scene_golden;
pub mod suite;
mod verify;

pub use config::{RunConfig, Warn};
pub use dump_config::DumpConfig;
pub use dump_files::DiskGate;
pub use error::{Error, UnknownName};
pub use export::{
    ExportConfig, ExportError, ExportFormat, ExportLayout, ExportReport, export, export_records,
};
pub use folder::{FolderOptions, new_scene, open_folder, with_folder, with_scene, with_scene_of};
pub use live::{LiveConfig, LiveReport, WrongTask};
pub use measure::{Flag, RecordSummary, stats, stats_each};
pub use recording::{
    NoDumpReason, ProcessEntry, RUN_FILE, RecorderInfo, Recording, RecordingConfig, RecordingControl,
    RecordingError, RecordingEvent, RecordingLibrary, RecordingReport, RunFile,
};
pub use replay::{extract, replay, replay_observed};
pub use report::{DumpReport, OutputVerdict, RunReport};
pub use rerun::rerun;
pub use run::{
    Request, become_device_if_asked, become_device_if_asked_with, resolve, run, run_observed, runtimes_of,
};
pub use scene_golden::diff_scene_golden;
pub use verify::verify;

pub use tensortap_abi as abi;
pub use tensortap_abi::{
    CoreType, DType, DumpCollect, DumpLevel, DumpPolicy, DumpStage, FailureKind, TaskId,
};
pub use tensortap_analysis as analysis;
pub use tensortap_collector::{MAX_WRITERS, PayloadPath};
pub use tensortap_format as format;
pub use tensortap_format::{GoldenVerdict, TaskChoice};
pub use tensortap_interchange as interchange;
pub use tensortap_judge as judge;
pub use tensortap_platform::{
    Confinement, DEFAULT_PLATFORM, DeviceMode, PLATFORMS, Platform, Sanitizer, SanitizerReport,
    make_file_limits_errors,
};
pub use tensortap_record as record;
pub use tensortap_recorder as recorder;
pub use tensortap_replay::{
    ArgReport, Check, DEFAULT_DEVICE_FAILURES, Difference, ExpectedSource, ExtractConfig, ExtractReport,
    Grade, KernelCode, LaunchDevice, LibraryKernel, Outcome, OutputReport, Placement, ReplayConfig,
    ReplayError, ReplayProgress, ReplayReport, Selection, TaskReport, Timing,
};
pub use tensortap_runtime::{
    BuildMode, DEFAULT_RING_SLOTS, MAX_RING_SLOTS, Overrun, Phase, Progress, RUNTIMES, RunFailure, Runtime,
    exit_on_crash_in_thread_mode,
};
pub use tensortap_scene as scene;
pub use tensortap_scene_folder as folders;
pub use tensortap_scenes::{builtin, checks};
pub use tensortap_sync::SignalFlag;
pub use tensortap_sync::parallel::cpu_count;
pub use tensortap_values as values;
