//! The Rust call for every verb of the command line. This module contains only documentation, and every
//! example is run as a test.
//!
//! | verb | call |
//! | --- | --- |
//! | `scenes` | [`builtin`](crate::builtin), [`runtimes_of`](crate::runtimes_of) |
//! | `run` | [`run`](crate::run()), [`run_observed`](crate::run_observed); `--live`: [`DumpConfig::live`](crate::DumpConfig) |
//! | `test` | [`run_suite`](crate::suite::run_suite()) |
//! | `new-scene` | [`new_scene`](crate::new_scene); a folder is run with [`with_folder`](crate::with_folder) |
//! | `record` | [`Recording`](crate::Recording); what a program calls is in [`record`](crate::record) |
//! | `list` | [`Dump::records`](crate::format::Dump::records) |
//! | `show` | [`Dump::record`](crate::format::Dump::record), [`Dump::payload_part`](crate::format::Dump::payload_part) |
//! | `summary` | [`load`](crate::analysis::graph::load) for tasks, times and the ways between them, [`stats_each`](crate::stats_each) for values |
//! | `graph` | [`load`](crate::analysis::graph::load), [`Blame::of`](crate::analysis::blame::Blame::of) for the labels |
//! | `report` | [`Blame::of`](crate::analysis::blame::Blame::of) and [`Blame::kind`](crate::analysis::blame::Blame::kind) for what went wrong first and how; `tensortap_query` and `tensortap_web` make the page |
//! | `serve` | a crate of its own, `tensortap_web`: [`load`](crate::analysis::graph::load) and the calls of the verbs above and below, over HTTP |
//! | `tui` | a crate of its own, `tensortap_tui`: [`load`](crate::analysis::graph::load) and the calls of the verbs around it, on a terminal |
//! | `trace` | [`load`](crate::analysis::graph::load): [`Task::start_time`](crate::format::TaskFacts::start_time), [`Task::dispatch_times`](crate::format::Task::dispatch_times), [`Tasks::edges`](crate::format::Tasks::edges) |
//! | `stats` | [`stats`](crate::stats), [`stats_each`](crate::stats_each) |
//! | `export` | [`export`](crate::export()), [`export_records`](crate::export_records) |
//! | `diff` | [`diff_dumps`](crate::analysis::diff::diff_dumps), [`diff_arrays`](crate::analysis::diff::diff_arrays) |
//! | `blame` | [`Blame::of`](crate::analysis::blame::Blame::of), with [`rerun`](crate::rerun) for `--rerun` |
//! | `replay` | [`replay`](crate::replay()), [`replay_observed`](crate::replay_observed) |
//! | `extract` | [`extract`](crate::extract) |
//! | `verify` | [`verify`](crate::verify()) with every CPU, [`verify`](crate::format::verify()) with one |
//! | `repair` | [`repair`](crate::format::repair()) |
//! | `bench` | a crate of its own, `tensortap_bench`, which times the calls above |
//! | `completions` | none: it is about the words of a command line; `tensortap_cli::main_with` has it for programs with scenes of their own |
//! | `man` | none, for the same reason |
//!
//! All examples below start with a dump like this:
//!
//! ```
//! use std::path::Path;
//! use tensortap::{DeviceMode, DumpConfig, DumpLevel, RunConfig};
//!
//! fn capture(scene: &str, out: &Path) -> Result<tensortap::RunReport, tensortap::Error> {
//!     let mut config = RunConfig::new(scene);
//!     // A documentation test cannot become a device process; your `main` can.
//!     config.device_mode = DeviceMode::Thread;
//!     config.dump = Some(DumpConfig::new(DumpLevel::Full));
//!     config.out = Some(out.into());
//!     tensortap::run(&config)
//! }
//!
//! let folder = tempfile::tempdir()?;
//! let report = capture("vector_example", &folder.path().join("dump"))?;
//! assert_eq!(report.dump.map(|dump| dump.counters.records), Some(18));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Scenes
//!
//! ```
//! for scene in tensortap::builtin().scenes().iter().filter(|scene| !scene.hidden()) {
//!     println!("{}: {} ({})", scene.name(), scene.about(), tensortap::runtimes_of(*scene).join(", "));
//! }
//! ```
//!
//! # List and show
//!
//! ```
//! # use tensortap::{DeviceMode, DumpConfig, DumpLevel, RunConfig};
//! # let folder = tempfile::tempdir()?;
//! # let mut config = RunConfig::new("vector_example");
//! # config.device_mode = DeviceMode::Thread;
//! # config.dump = Some(DumpConfig::new(DumpLevel::Full));
//! # config.out = Some(folder.path().join("dump"));
//! # tensortap::run(&config)?;
//! use tensortap::{DumpStage, format::Dump, values::decode_block};
//!
//! let dump = Dump::open(&folder.path().join("dump"))?;
//! let records = dump.records().collect::<Result<Vec<_>, _>>()?;
//! let outputs = records.iter().filter(|record| record.stage == DumpStage::AfterCompletion);
//! assert_eq!((dump.len(), outputs.count()), (18, 5));
//!
//! let record = dump.record(0)?;
//! let mut bytes = [0; 16];
//! dump.payload_part(&record, 0, &mut bytes)?;
//! let mut values = [0.0; 4];
//! assert_eq!(decode_block(record.dtype, &bytes, &mut values), 4);
//! println!("task {:#x}, {:?}: {values:?} ..", record.task_id, record.shape());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Diff and blame
//!
//! ```
//! # use tensortap::{DeviceMode, DumpConfig, DumpLevel, RunConfig};
//! # let folder = tempfile::tempdir()?;
//! # let mut config = RunConfig::new("vector_example");
//! # config.device_mode = DeviceMode::Thread;
//! # config.dump = Some(DumpConfig::new(DumpLevel::Full));
//! # config.out = Some(folder.path().join("right"));
//! # tensortap::run(&config)?;
//! # config.out = Some(folder.path().join("wrong"));
//! # config.inject_fault = Some(("mul".into(), tensortap::scene::FaultKind::Last));
//! # tensortap::run(&config)?;
//! use tensortap::analysis::blame::{Baseline, Blame, BlameOptions, VerdictOptions};
//! use tensortap::analysis::diff::{DiffOptions, diff_dumps};
//! use tensortap::format::Dump;
//!
//! // The kernel `mul` of the second dump has one wrong element.
//! let (right, wrong) = (Dump::open(&folder.path().join("right"))?, Dump::open(&folder.path().join("wrong"))?);
//! let records = wrong.records().collect::<Result<Vec<_>, _>>()?;
//! let diff = diff_dumps(&wrong, &right, &records, &DiffOptions::default())?;
//! assert_eq!((diff.compared(), diff.passes(false)), (18, false));
//!
//! let blame = Blame::of(&wrong, &Baseline::Golden(&right), &BlameOptions::default())?;
//! let first: Vec<_> = blame.first_wrong.iter().map(|&task| blame.findings[task].label.name()).collect();
//! assert_eq!(first, ["wrong_here"]);
//! assert!(!blame.verdict(VerdictOptions::default()).passes());
//! // Without a golden: by the references of the scene's kernels.
//! let scene = tensortap::builtin().find("vector_example").ok_or("no such scene")?;
//! let same = Blame::of(&wrong, &Baseline::Reference(scene), &BlameOptions::default())?;
//! assert_eq!(same.first_wrong, blame.first_wrong);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Comparing while the graph runs
//!
//! ```
//! # use tensortap::{DeviceMode, DumpConfig, DumpLevel, RunConfig};
//! # let folder = tempfile::tempdir()?;
//! # let mut config = RunConfig::new("vector_example");
//! # config.device_mode = DeviceMode::Thread;
//! # config.dump = Some(DumpConfig::new(DumpLevel::Full));
//! # config.out = Some(folder.path().join("right"));
//! # tensortap::run(&config)?;
//! use tensortap::LiveConfig;
//!
//! let mut dump = DumpConfig::new(DumpLevel::Full);
//! dump.live = Some(LiveConfig::new(folder.path().join("right")));
//! config.dump = Some(dump);
//! config.out = Some(folder.path().join("live"));
//! let live = tensortap::run(&config)?.dump.and_then(|dump| dump.live).ok_or("nothing was compared")?;
//! assert!(live.agrees() && live.judged == 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Extract
//!
//! ```
//! # use tensortap::{DeviceMode, DumpConfig, DumpLevel, RunConfig};
//! # let folder = tempfile::tempdir()?;
//! # let mut config = RunConfig::new("vector_example");
//! # config.device_mode = DeviceMode::Thread;
//! # config.dump = Some(DumpConfig::new(DumpLevel::Full));
//! # config.out = Some(folder.path().join("dump"));
//! # tensortap::run(&config)?;
//! use tensortap::{ExpectedSource, ExtractConfig, ReplayConfig};
//!
//! let case = tensortap::extract(&ExtractConfig {
//!     source: folder.path().join("dump"),
//!     task: Some(0.into()),
//!     steps: Vec::new(),
//!     out: folder.path().join("case"),
//!     expect: ExpectedSource::Captured,
//!     redact: None,
//!     allow_inexact: false,
//!     scene_folder: None,
//!     open_folder: None,
//!     kernels: Vec::new(),
//!     block_num: None,
//!     load_kernels: None,
//!     registry: tensortap::builtin(),
//!     program: "tensortap".into(),
//! })?;
//! assert_eq!(case.kernels, ["add"]);
//! let mut replay = ReplayConfig::new(case.out, tensortap::builtin());
//! // A thread of this process cannot be confined, as a device process is.
//! (replay.device_mode, replay.trust) = (DeviceMode::Thread, true);
//! assert!(tensortap::replay(&replay)?.passed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Verify and repair
//!
//! ```
//! # use tensortap::{DeviceMode, DumpConfig, DumpLevel, RunConfig};
//! # let folder = tempfile::tempdir()?;
//! # let mut config = RunConfig::new("vector_example");
//! # config.device_mode = DeviceMode::Thread;
//! # config.dump = Some(DumpConfig::new(DumpLevel::Full));
//! # config.out = Some(folder.path().join("dump"));
//! # tensortap::run(&config)?;
//! use tensortap::format::{Dump, repair};
//! use tensortap::verify;
//!
//! let path = folder.path().join("dump");
//! let verdict = verify(&Dump::open(&path)?, None)?;
//! assert!(verdict.is_ok() && verdict.checked == 18);
//! // A dump that was closed needs no repair.
//! assert!(!repair(&path)?.changed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Bench
//!
//! ```
//! use std::time::Instant;
//! use tensortap::{DeviceMode, RunConfig, resolve, run, scene::SequentialGraph};
//!
//! let mut config = RunConfig::new("stream").param("tasks", 1000).param("bytes", 64);
//! config.device_mode = DeviceMode::Thread;
//! let report = run(&config)?;
//! // The yardstick: a loop that calls the same kernels.
//! let request = resolve(&config)?;
//! let inputs = request.scene.host_args(&request.params);
//! let mut calls = SequentialGraph::record(request.scene, &request.params, &inputs)?;
//! let started = Instant::now();
//! calls.run().map_err(|panic| format!("a kernel failed: {panic}"))?;
//! println!("{:.0} tasks/s; the call loop took {:?}", report.tasks_per_s(), started.elapsed());
//! assert_eq!((report.tasks, calls.len()), (1000, 1000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
