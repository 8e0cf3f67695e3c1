//! `tensortap trace`: when what ran, as a file for trace viewers.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::analysis::graph::{TaskGraph, load};
use tensortap_query::document::{TraceDocument, TraceDumpDocument};
use tensortap_query::number::{counted, grouped};
use tensortap_query::timeline::Timeline;
use tensortap_query::trace::{TraceCounts, TraceFormat, TraceProcess, TraceWriter};
use tensortap_query::words::what_ran;
use tensortap_query::{DumpSet, Member};

use crate::dump_arg::DumpArg;
use crate::error::{Exit, UsageError};
use crate::output::Output;
use crate::program::program;
use crate::progress::StepProgress;
use crate::select::SelectArgs;
use crate::whole_file::write_whole;

/// What `tensortap trace` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap trace -o run.pftrace                      the newest dump under outputs/, for ui.perfetto.dev\n  \
    tensortap trace my_dump -o run.json                 the same events as JSON, for chrome://tracing and others\n  \
    tensortap trace my_dump --scope 'layer 1' -o layer.pftrace\n\n\
    Dispatches stand on their cores and tasks on their schedulers where the dump has dispatches (made with --dump-args); otherwise tasks stand \
    on the core that they were first dispatched to. Tasks of a recorded program stand on their queues and threads. Of several ranks each is \
    a process.")]
pub struct TraceArgs {
    #[command(flatten)]
    dump: DumpArg,

    /// Write to this file
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// perfetto or chrome [default: as the name of the file ends, .pftrace or .json]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Option<TraceFormat>,

    #[command(flatten)]
    select: SelectArgs,
}

fn formats() -> impl TypedValueParser<Value = TraceFormat> {
    let known = [TraceFormat::Perfetto, TraceFormat::Chrome];
    PossibleValuesParser::new(known.map(TraceFormat::name))
        .try_map(move |word| known.into_iter().find(|f| f.name() == word).ok_or("no such format"))
}

/// Writes the trace.
pub fn run(args: &TraceArgs, output: Output) -> anyhow::Result<Exit> {
    let format = args.format()?;
    let set = args.dump.open_set()?;
    let (counts, dumps) = write_whole(&args.output, |out| {
        let mut trace = TraceWriter::new(format, out)?;
        let (mut dumps, mut empty) = (Vec::new(), Vec::new());
        for (member, pid) in set.members().iter().zip(pids(&set)) {
            dumps.push(args.add(&mut trace, member, pid, output, &mut empty)?);
        }
        args.refuse_nothing(empty, &set, output)?;
        Ok((trace.finish()?, dumps))
    })?;
    if output.json {
        output.document(&TraceDocument::new(set.path(), &args.output, format, counts, dumps))?;
    } else {
        output.text(&args.told(counts, &dumps))?;
    }
    Ok(Exit::Good)
}

/// A number for each dump: that of its process where all are different.
fn pids(set: &DumpSet) -> Vec<u32> {
    let own: Vec<u32> = set
        .members()
        .iter()
        .filter_map(|member| member.process().and_then(|pid| u32::try_from(pid).ok()))
        .filter(|&pid| pid > 0 && i32::try_from(pid).is_ok())
        .collect();
    let different: HashSet<u32> = own.iter().copied().collect();
    if different.len() == set.members().len() { own } else { (1..).take(set.members().len()).collect() }
}

impl TraceArgs {
    fn format(&self) -> Result<TraceFormat, UsageError> {
        let ending = self.output.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        self.format.or_else(|| TraceFormat::of_ending(ending)).ok_or_else(|| UsageError {
            message: format!("nothing is known of traces in files like {}", self.output.display()),
            hint: "end it in .pftrace or .json, or give --format".into(),
        })
    }

    fn add(
        &self,
        trace: &mut TraceWriter<impl std::io::Write>,
        member: &Member,
        pid: u32,
        output: Output,
        empty: &mut Vec<String>,
    ) -> anyhow::Result<TraceDumpDocument> {
        let graph = load(&member.dump, self.select.steps())?;
        let shown = self.shown(member, &graph, output, empty)?;
        let timeline = Timeline::of(&member.dump, &graph, |place| shown.as_ref().is_none_or(|s| s[place]));
        if !timeline.is_timed && !timeline.slices.is_empty() {
            output.note(format_args!(
                "{} has no times: its tasks stand in dependency order, a microsecond each",
                member.name()
            ));
        }
        let name = match (member.rank, member.pid) {
            (None, None) => what_ran(&member.dump),
            _ => format!("{}: {}", member.name(), what_ran(&member.dump)),
        };
        let progress = StepProgress::new(output, timeline.slices.len() as u64);
        progress.begin("writing slices".into());
        let (mut done, of) = (0, timeline.slices.len() as u64);
        let process = TraceProcess { name: &name, pid, graph: &graph, timeline: &timeline };
        trace.add(&process, |slices| {
            done += slices;
            progress.at(done, of);
        })?;
        Ok(TraceDumpDocument::new(member, pid, &timeline))
    }

    /// A trace in which nothing of any dump is would replace one that has something.
    fn refuse_nothing(&self, empty: Vec<String>, set: &DumpSet, output: Output) -> Result<(), UsageError> {
        match empty.first() {
            Some(first) if empty.len() == set.members().len() => Err(UsageError {
                message: format!(
                    "nothing is selected, and {} is not written: {first}",
                    self.output.display()
                ),
                hint: format!("`{} list` with the same selectors shows what they mean", program()),
            }),
            _ => {
                empty.into_iter().for_each(|why| output.note(format_args!("{why}")));
                Ok(())
            }
        }
    }

    /// Which tasks are meant, by place; all, without selectors. Why none are is put to what is `empty`.
    fn shown(
        &self,
        member: &Member,
        graph: &TaskGraph,
        output: Output,
        empty: &mut Vec<String>,
    ) -> anyhow::Result<Option<Vec<bool>>> {
        if !self.select.narrows_records() {
            return Ok(None);
        }
        let selection = self.select.selection(&member.dump, output)?;
        let mut shown = vec![false; graph.len()];
        for record in selection.records(&member.dump) {
            if let Some(place) = graph.position(record?.task_key()) {
                shown[place] = true;
            }
        }
        if !shown.contains(&true) {
            empty.push(format!("{}: {}", member.name(), selection.why_empty(&member.dump)?));
        }
        Ok(Some(shown))
    }

    fn told(&self, counts: TraceCounts, dumps: &[TraceDumpDocument]) -> String {
        let TraceCounts { tasks, dispatches, flows, tracks, samples: _ } = counts;
        let processes = if dumps.len() == 1 {
            String::new()
        } else {
            format!("{} processes, ", grouped(dumps.len() as u64))
        };
        let mut text = format!(
            "{}: {processes}{}, {}, {}, {}\n",
            self.output.display(),
            counted(tasks, "task"),
            counted_dispatches(dispatches),
            counted(flows, "flow"),
            counted(tracks, "track")
        );
        let viewer = match self.format() {
            Ok(TraceFormat::Perfetto) => "open it at ui.perfetto.dev; it stays on your machine",
            _ => "open it at ui.perfetto.dev or in chrome://tracing; it stays on your machine",
        };
        text += &format!("{viewer}\n");
        text
    }
}

fn counted_dispatches(count: u64) -> String {
    match count {
        1 => "1 dispatch".into(),
        count => format!("{} dispatches", grouped(count)),
    }
}
