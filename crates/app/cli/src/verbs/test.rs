//! `tensortap test`: runs scenes as tests.

mod text;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::Context;
use clap::Args;
use tensortap::folders::is_folder;
use tensortap::format::{choose_dir, timestamp};
use tensortap::scene::{Registry, Scene};
use tensortap::suite::{SuiteConfig, TrialReference, TrialReport, run_suite, trials};
use tensortap::{DumpLevel, FolderOptions, RunConfig};
use tensortap_query::OUTPUTS;
use tensortap_query::document::SuiteDocument;
use tensortap_query::junit::write_junit;
use tensortap_query::words::short_task;

use crate::device_args::{DeviceArgs, FailingArgs, MemoryArgs};
use crate::dump_path::quoted;
use crate::error::{Exit, Interruption, UsageError};
use crate::interrupt::{CLOSING_GRACE, Interrupt};
use crate::output::{self, Output};
use crate::parse::whole;
use crate::program::program;
use crate::progress::StepProgress;
use crate::recording_args::LevelArgs;
use crate::verbs::report_thread_crashes;
use crate::verbs::run::{parse_param, run_command};

/// Arguments of `tensortap test`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap test                                   every scene, on every platform and runtime\n  \
    tensortap test bgemm softmax --platform a2a3sim\n  \
    tensortap test --junit results.xml --out failed  for continuous integration\n  \
    tensortap test my_scenes --sanitize address,undefined\n\n\
    A failing trial runs again with a dump, and `blame` finds the first wrong task, which the summary names. With \
    --dump-tensor or --dump-args, every trial is recorded.\n\n\
    Exit status: 0 every trial passed, 1 some trial failed, 2 bad usage, 130, 143, 129 interrupted")]
pub struct TestArgs {
    /// Scenes, scene folders, or folders that contain scene folders [default: every scene that `tensortap scenes` lists]
    #[arg(value_name = "SCENE or FOLDER")]
    scenes: Vec<String>,

    /// Test only cases with this name; repeatable
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,

    /// Test only on this platform; repeatable
    #[arg(long = "platform", value_name = "NAME")]
    platforms: Vec<String>,

    /// Test only with this runtime; repeatable
    #[arg(long = "runtime", value_name = "NAME")]
    runtimes: Vec<String>,

    /// Parameter for every trial, which overrides that of the case; repeatable
    #[arg(long = "param", short, value_name = "KEY=VALUE", value_parser = parse_param)]
    params: Vec<(String, String)>,

    /// Number of concurrent trials [default: one per CPU]
    #[arg(long, short, value_name = "N", value_parser = whole(1..=1024_usize))]
    jobs: Option<usize>,

    /// Write the results to this file as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    #[command(flatten)]
    recorded: LevelArgs,

    /// Folder for the dumps, new or empty; each dump gets a subfolder [default: outputs/test_DATE_TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    failing: FailingArgs,
    #[command(flatten)]
    memory: MemoryArgs,
}

/// Runs every trial and prints the results.
pub fn run(args: &TestArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let config = args.config(registry)?;
    let trials = trials(&config)?;
    // Created before the trials run, so that an error is reported at once.
    let junit = args.junit.as_deref().map(create).transpose()?;
    report_thread_crashes(config.run.device_mode)?;
    let interrupt = Interrupt::install(CLOSING_GRACE).context("cannot handle signals")?;
    let progress = StepProgress::new(output, trials.len() as u64);
    let started = Instant::now();
    let ended = |report: &TrialReport| {
        progress.begin(report.trial.name());
        progress.advance();
    };
    let reports = run_suite(&config, &trials, &ended, &|| !interrupt.requested());
    drop(progress);
    let wall = started.elapsed();
    if output.json {
        output.document(&SuiteDocument::of(&reports, wall.as_secs_f64()))?;
    } else {
        output.text(&text::of(&reports, wall, &|report| args.next_commands(report)))?;
    }
    if let Some((path, file)) = junit {
        let mut file = BufWriter::new(file);
        write_junit(&mut file, &reports, wall.as_secs_f64(), |report| args.next_commands(report))
            .and_then(|()| file.flush())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if interrupt.requested() {
        return Err(Interruption.into());
    }
    Ok(if reports.iter().all(TrialReport::passed) { Exit::Good } else { Exit::Difference })
}

fn create(path: &Path) -> anyhow::Result<(&Path, File)> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok((path, file))
}

impl TestArgs {
    fn config(&self, registry: &Registry) -> anyhow::Result<SuiteConfig> {
        let mut run = RunConfig::new("");
        run.sanitizer = self.memory.sanitizer()?;
        let options = FolderOptions { executable: None, sanitizer: run.sanitizer.clone() };
        let (registry, scenes) = with_folders(registry, &self.scenes, &options)?;
        run.registry = registry;
        run.params.clone_from(&self.params);
        run.blocks = self.device.blocks;
        run.device_mode = self.device.device_mode;
        run.device_memory = self.device.device_memory;
        run.stall_timeout = self.failing.stall_timeout.0;
        run.inject_fault.clone_from(&self.failing.inject_fault);
        run.guard = self.memory.guard;
        run.warn = Some(Arc::new(output::warning));
        let mut config = SuiteConfig::new(run, &self.folder()?);
        config.scenes = scenes;
        config.cases.clone_from(&self.cases);
        config.platforms.clone_from(&self.platforms);
        config.runtimes.clone_from(&self.runtimes);
        config.jobs = self.jobs;
        let dump = self.recorded.config(DumpLevel::Off);
        config.dump = dump.records_anything().then_some(dump);
        Ok(config)
    }

    /// The folder for the dumps. The default one is created with the first dump, so it is never empty.
    fn folder(&self) -> anyhow::Result<PathBuf> {
        let now = SystemTime::now();
        if let Some(out) = &self.out {
            return Ok(choose_dir(Some(out), Path::new(OUTPUTS), now)?);
        }
        let digits: String = timestamp(now).chars().filter(char::is_ascii_digit).take(14).collect();
        let stem = format!("test_{}_{}", &digits[..8], &digits[8..]);
        let names = std::iter::once(stem.clone()).chain((2..).map(|number| format!("{stem}_{number}")));
        let mut free = names.map(|name| Path::new(OUTPUTS).join(name)).filter(|folder| !exists(folder));
        Ok(free.next().unwrap_or_else(|| Path::new(OUTPUTS).join(stem)))
    }

    /// Commands for a failed trial: inspect its dump, run it again.
    fn next_commands(&self, report: &TrialReport) -> Vec<String> {
        let program = program();
        let found = report.explanation.as_ref();
        let dump = found.and_then(|found| found.dump.as_deref()).map(quoted);
        let look = dump.map(|dump| match (found.map(|found| &found.against), task_that_ended(report)) {
            (Some(TrialReference::Dump(golden)), _) => {
                format!("{program} blame {dump} --golden {}", quoted(golden))
            }
            (_, Some(task)) => format!("{program} replay {dump} --task {task} --allow-inexact"),
            _ if report.outcome.is_err() => format!("{program} list {dump}"),
            _ => format!("{program} blame {dump} --reference"),
        });
        look.into_iter().chain([self.again(report)]).collect()
    }

    /// The command that runs only this trial.
    fn again(&self, report: &TrialReport) -> String {
        let trial = &report.trial;
        let scene = trial.scene.folder().unwrap_or(Path::new(trial.scene.name()));
        let params = trial.case.params.iter().chain(&self.params);
        let fault = self.failing.inject_fault.as_ref();
        run_command(&quoted(scene), params, trial.platform, Some(trial.runtime), fault)
    }
}

/// The named scenes. A name that is not in the registry is a scene folder, or a folder that contains scene folders.
fn with_folders(
    registry: &Registry,
    named: &[String],
    options: &FolderOptions,
) -> anyhow::Result<(Registry, Vec<String>)> {
    let (mut registry, mut names) = (registry.clone(), Vec::new());
    for name in named {
        let path = Path::new(name);
        let folders = match registry.find(name) {
            None if is_folder(path) => vec![path.to_owned()],
            None => folders_in(path),
            Some(_) => Vec::new(),
        };
        if folders.is_empty() {
            names.push(name.clone());
        }
        for folder in folders {
            let (with, scene) = tensortap::with_folder(&registry, &folder, options)?;
            if names.iter().any(|known| known == scene.name()) {
                let message =
                    format!("{} is the second scene with the name `{}`", folder.display(), scene.name());
                return Err(UsageError {
                    message,
                    hint: "rename one of them, or test them separately".into(),
                }
                .into());
            }
            registry = with;
            names.push(scene.name().to_owned());
        }
    }
    Ok((registry, names))
}

/// Scene folders directly in a folder, sorted by name.
fn folders_in(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_folder(path)).collect();
    folders.sort();
    folders
}

/// The task whose failure ended the run.
fn task_that_ended(report: &TrialReport) -> Option<String> {
    let task = report.run()?.failure.as_ref()?.task?;
    Some(short_task(task.0))
}

fn exists(folder: &Path) -> bool {
    folder.symlink_metadata().is_ok()
}
