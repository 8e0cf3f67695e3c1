//! One file or folder per verb.

mod bench;
mod blame;
mod completions;
mod diff;
mod export;
mod extract;
mod faults;
mod graph;
mod list;
mod man;
mod new_scene;
mod record;
mod repair;
mod replay;
#[cfg(feature = "web")]
mod report;
mod rules;
mod run;
mod scenes;
#[cfg(feature = "web")]
mod serve;
mod show;
mod stats;
mod summary;
mod test;
mod trace;
#[cfg(feature = "tui")]
mod tui;
mod verify;

use anyhow::Context;
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::scene::Registry;
use tensortap::{DeviceMode, DumpStage, PayloadPath};

use self::faults::FaultsArgs;
use crate::error::Exit;
use crate::output::Output;
use crate::select::{self, SelectorsArgs};

/// What tensortap can be asked to do.
#[derive(Subcommand)]
pub enum Verb {
    /// List the built-in scenes, or tell about one
    Scenes(scenes::ScenesArgs),
    /// Run a scene and check its golden
    Run(Box<run::RunArgs>),
    /// Run scenes as tests, on every platform and runtime, and blame what fails
    Test(Box<test::TestArgs>),
    /// Write a scene folder that runs, with kernels in C or C++
    NewScene(new_scene::NewSceneArgs),
    /// Run any program and record the processes of it that attach
    Record(Box<record::RecordArgs>),
    /// List the records of a dump
    List(Box<list::ListArgs>),
    /// Show one record: metadata, statistics, values, histogram
    Show(Box<show::ShowArgs>),
    /// Tell a whole dump on one screen: kernels, times, what stands out
    Summary(summary::SummaryArgs),
    /// Draw the graph of tasks, coloured by their labels
    Graph(graph::GraphArgs),
    /// Write a dump as one page for a browser, to be sent to others
    #[cfg(feature = "web")]
    Report(report::ReportArgs),
    /// Look at dumps in the browser
    #[cfg(feature = "web")]
    Serve(serve::ServeArgs),
    /// Look at a dump in the terminal
    #[cfg(feature = "tui")]
    Tui(tui::TuiArgs),
    /// Write when what ran, as a file for trace viewers
    Trace(Box<trace::TraceArgs>),
    /// Measure records: range, mean, deviation, zeros, NaN, Inf
    Stats(Box<stats::StatsArgs>),
    /// Write records to files that other tools read
    Export(Box<export::ExportArgs>),
    /// Compare records with another dump or with golden files
    Diff(Box<diff::DiffArgs>),
    /// Find the first wrong task, with a label for every task
    Blame(Box<blame::BlameArgs>),
    /// Run captured tasks again, one by one, and check their outputs
    Replay(Box<replay::ReplayArgs>),
    /// Cut one task out of a dump into a case that `replay` runs anywhere
    Extract(extract::ExtractArgs),
    /// Check every hash, offset and counter of a dump
    Verify(verify::VerifyArgs),
    /// Make a torn dump whole
    Repair(repair::RepairArgs),
    /// Measure tensortap itself
    Bench(bench::BenchArgs),
    /// Print what a shell needs to complete words
    Completions(completions::CompletionsArgs),
    /// Print or install man pages
    Man(man::ManArgs),
    #[command(hide = true, about = select::PAGE, help_template = "{about}\n", disable_help_flag = true)]
    Selectors(SelectorsArgs),
    #[command(hide = true, about = faults::page(), help_template = "{about}\n", disable_help_flag = true)]
    Faults(FaultsArgs),
    #[command(hide = true, about = rules::PAGE, help_template = "{about}\n", disable_help_flag = true)]
    Rules(rules::RulesArgs),
}

/// A device in this process takes it along when a kernel crashes; at least it is said which, and the status is right.
fn name_crashes(mode: DeviceMode) -> anyhow::Result<()> {
    if mode == DeviceMode::Thread {
        tensortap::exit_on_crash_in_thread_mode(Exit::Failed.code().into())
            .context("watching for crashes")?;
    }
    Ok(())
}

impl Verb {
    /// Does it, with these scenes.
    pub fn run(&self, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
        match self {
            Verb::Scenes(args) => scenes::run(args, registry, output),
            Verb::Run(args) => run::run(args, registry, output),
            Verb::Test(args) => test::run(args, registry, output),
            Verb::NewScene(args) => new_scene::run(args, output),
            Verb::Record(args) => record::run(args, output),
            Verb::List(args) => list::run(args, output),
            Verb::Show(args) => show::run(args, registry, output),
            Verb::Stats(args) => stats::run(args, output),
            Verb::Summary(args) => summary::run(args, output),
            #[cfg(feature = "web")]
            Verb::Report(args) => report::run(args, registry, output),
            Verb::Graph(args) => graph::run(args, registry, output),
            #[cfg(feature = "web")]
            Verb::Serve(args) => serve::run(args, registry, output),
            Verb::Trace(args) => trace::run(args, output),
            #[cfg(feature = "tui")]
            Verb::Tui(args) => tui::run(args, registry, output),
            Verb::Export(args) => export::run(args, output),
            Verb::Diff(args) => diff::run(args, registry, output),
            Verb::Blame(args) => blame::run(args, registry, output),
            Verb::Replay(args) => replay::run(args, registry, output),
            Verb::Extract(args) => extract::run(args, registry, output),
            Verb::Verify(args) => verify::run(args, output),
            Verb::Repair(args) => repair::run(args, output),
            Verb::Bench(args) => bench::run(args, tensortap_bench::registry_with(registry), output),
            Verb::Selectors(_) => select::print_page(output),
            Verb::Faults(_) => faults::run(output),
            Verb::Rules(_) => rules::run(output),
            Verb::Completions(args) => completions::run(args, output),
            Verb::Man(args) => man::run(args, output),
        }
    }

    /// The scene it is about.
    pub fn scene(&self) -> Option<&str> {
        match self {
            Verb::Scenes(args) => args.scene.as_deref(),
            Verb::Run(args) => Some(&args.scene),
            // Named one by one, so that of a new verb it is asked.
            Verb::Test(_)
            | Verb::NewScene(_)
            | Verb::Record(_)
            | Verb::List(_)
            | Verb::Show(_)
            | Verb::Summary(_)
            | Verb::Graph(_)
            | Verb::Report(_)
            | Verb::Serve(_)
            | Verb::Tui(_)
            | Verb::Trace(_)
            | Verb::Stats(_)
            | Verb::Export(_)
            | Verb::Diff(_)
            | Verb::Blame(_)
            | Verb::Replay(_)
            | Verb::Extract(_)
            | Verb::Verify(_)
            | Verb::Repair(_)
            | Verb::Bench(_)
            | Verb::Completions(_)
            | Verb::Man(_)
            | Verb::Selectors(_)
            | Verb::Faults(_)
            | Verb::Rules(_) => None,
        }
    }
}

/// Whether a runtime stores its tasks in rings; the others have one array.
fn has_rings(runtime: &str) -> bool {
    runtime == "tensormap_and_ringbuffer"
}

/// A stage as the command line says it.
pub fn parse_stage(word: &str) -> Result<DumpStage, &'static str> {
    match word {
        "before" => Ok(DumpStage::BeforeDispatch),
        "after" => Ok(DumpStage::AfterCompletion),
        _ => Err("a stage is before or after"),
    }
}

/// Names for a help text: `a2a3sim or a5sim`.
fn any_of(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).into(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn platform_names() -> Vec<&'static str> {
    tensortap::PLATFORMS.iter().map(|p| p.name()).collect()
}

fn runtime_names() -> Vec<&'static str> {
    tensortap::RUNTIMES.iter().map(|r| r.name()).collect()
}

/// Values of `--dump-write`.
pub fn ways() -> impl TypedValueParser<Value = PayloadPath> {
    PossibleValuesParser::new(PayloadPath::ALL.map(PayloadPath::name))
        .try_map(|word| PayloadPath::ALL.into_iter().find(|path| path.name() == word).ok_or("no such way"))
}
