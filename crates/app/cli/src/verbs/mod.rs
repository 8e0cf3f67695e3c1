//! The verbs of the command line: one file or folder for each.

#[cfg(feature = "bench")]
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
use clap::builder::TypedValueParser;
use tensortap::format::DumpCounters;
use tensortap::scene::Registry;
use tensortap::{DeviceMode, PayloadPath};
use tensortap_query::number::counted;

use self::faults::FaultsArgs;
use crate::error::Exit;
use crate::output::Output;
use crate::parse::choice;
use crate::select::{self, SelectorsArgs};

/// The verbs.
#[derive(Subcommand)]
pub enum Verb {
    /// List the scenes, or describe one
    Scenes(scenes::ScenesArgs),
    /// Run a scene and check its result
    Run(Box<run::RunArgs>),
    /// Run scenes as tests on every platform and runtime, and find wrong tasks
    Test(Box<test::TestArgs>),
    /// Create a scene folder with kernels in C or C++
    NewScene(new_scene::NewSceneArgs),
    /// Run any program and record its processes
    Record(Box<record::RecordArgs>),
    /// List the records of a dump
    List(Box<list::ListArgs>),
    /// Show one record (metadata, statistics, values, histogram) or one task
    Show(Box<show::ShowArgs>),
    /// Summarize a dump on one screen: kernels, times, unusual values
    Summary(summary::SummaryArgs),
    /// Draw the task graph, colored by labels
    Graph(graph::GraphArgs),
    /// Write a dump as one self-contained HTML file
    #[cfg(feature = "web")]
    Report(report::ReportArgs),
    /// View dumps in the browser
    #[cfg(feature = "web")]
    Serve(serve::ServeArgs),
    /// View a dump in the terminal
    #[cfg(feature = "tui")]
    Tui(tui::TuiArgs),
    /// Write the timeline as a file for trace viewers
    Trace(Box<trace::TraceArgs>),
    /// Compute statistics of records: range, mean, deviation, zeros, NaN, Inf
    Stats(Box<stats::StatsArgs>),
    /// Export records to files for other tools
    Export(Box<export::ExportArgs>),
    /// Compare records with another dump or with array files
    Diff(Box<diff::DiffArgs>),
    /// Find the first wrong tasks and label every task
    Blame(Box<blame::BlameArgs>),
    /// Run captured tasks again, one at a time, and check their outputs
    Replay(Box<replay::ReplayArgs>),
    /// Extract one task into a case that `replay` can run anywhere
    Extract(extract::ExtractArgs),
    /// Check every hash, offset and counter of a dump
    Verify(verify::VerifyArgs),
    /// Repair a torn dump
    Repair(repair::RepairArgs),
    /// Measure tensortap itself
    #[cfg(feature = "bench")]
    Bench(bench::BenchArgs),
    /// Print a completion script for a shell
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

/// In thread mode a crashing kernel ends this process. Lets it report the kernel and exit with the right status.
fn report_thread_crashes(mode: DeviceMode) -> anyhow::Result<()> {
    if mode == DeviceMode::Thread {
        tensortap::exit_on_crash_in_thread_mode(Exit::Failed.code().into())
            .context("cannot handle crashes")?;
    }
    Ok(())
}

impl Verb {
    /// Runs the verb with these scenes.
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
            #[cfg(feature = "bench")]
            Verb::Bench(args) => bench::run(args, crate::device_scenes(registry), output),
            Verb::Selectors(_) => select::print_page(output),
            Verb::Faults(_) => faults::run(output),
            Verb::Rules(_) => rules::run(output),
            Verb::Completions(args) => completions::run(args, output),
            Verb::Man(args) => man::run(args, output),
        }
    }

    /// The scene that the verb was called for.
    pub fn scene(&self) -> Option<&str> {
        match self {
            Verb::Scenes(args) => args.scene.as_deref(),
            Verb::Run(args) => Some(&args.scene),
            // Listed one by one, so that the compiler asks about a new verb.
            Verb::Test(_)
            | Verb::NewScene(_)
            | Verb::Record(_)
            | Verb::List(_)
            | Verb::Show(_)
            | Verb::Summary(_)
            | Verb::Graph(_)
            | Verb::Trace(_)
            | Verb::Stats(_)
            | Verb::Export(_)
            | Verb::Diff(_)
            | Verb::Blame(_)
            | Verb::Replay(_)
            | Verb::Extract(_)
            | Verb::Verify(_)
            | Verb::Repair(_)
            | Verb::Completions(_)
            | Verb::Man(_)
            | Verb::Selectors(_)
            | Verb::Faults(_)
            | Verb::Rules(_) => None,
            #[cfg(feature = "web")]
            Verb::Report(_) | Verb::Serve(_) => None,
            #[cfg(feature = "tui")]
            Verb::Tui(_) => None,
            #[cfg(feature = "bench")]
            Verb::Bench(_) => None,
        }
    }
}

/// Whether a runtime stores its tasks in rings. The others use one array.
fn has_rings(runtime: &str) -> bool {
    runtime == "tensormap_and_ringbuffer"
}

/// Payloads and arguments that were lost, in words; dropped records are counted elsewhere.
fn loss_words(counters: &DumpCounters) -> Vec<String> {
    [
        (counters.dropped_overwrite, "payload", "overwritten"),
        (counters.truncated_tensors, "tensor", "truncated"),
        (counters.corrupt_records, "record", "damaged"),
        (counters.uncaptured, "argument", "not captured"),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, what, fate)| format!("{} {fate}", counted(count, what)))
    .collect()
}

/// Joins names for a help text: `a2a3sim or a5sim`.
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

/// Accepts the values of `--dump-write`.
pub fn payload_paths() -> impl TypedValueParser<Value = PayloadPath> {
    choice(PayloadPath::ALL.map(|path| (path.name(), path)))
}
