//! `tensortap trace`: writes the timeline as a file for trace viewers.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Args;
use tensortap::analysis::graph::{TaskGraph, load};
use tensortap_query::document::{TraceDocument, TraceDumpDocument};
use tensortap_query::number::{counted, counted_in, grouped};
use tensortap_query::timeline::Timeline;
use tensortap_query::trace::{TraceCounts, TraceFormat, TraceProcess, TraceWriter};
use tensortap_query::words::run_title;
use tensortap_query::{DumpSet, Member};

use crate::dump_path::DumpPathArg;
use crate::error::{Exit, UsageError};
use crate::output::Output;
use crate::parse::choice;
use crate::program::program;
use crate::progress::StepProgress;
use crate::select::SelectArgs;
use crate::whole_file::write_whole;

/// Arguments of `tensortap trace`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap trace -o run.pftrace                      the newest dump, for ui.perfetto.dev\n  \
    tensortap trace my_dump -o run.json                 as JSON, for chrome://tracing and others\n  \
    tensortap trace my_dump --scope 'layer 1' -o layer.pftrace\n\n\
    If the dump has dispatches (recorded with --dump-args), dispatches are on the track of their core, and tasks on the \
    track of their scheduler. Otherwise tasks are on the track of the core of their first dispatch. Tasks of a \
    recorded program are on the tracks of their queues and threads. Each rank is a process.")]
pub struct TraceArgs {
    #[command(flatten)]
    dump: DumpPathArg,

    /// Write to this file
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// File format: perfetto or chrome [default: by the suffix of the file, .pftrace or .json]
    #[arg(long, value_name = "FORMAT", value_parser = choice([TraceFormat::Perfetto, TraceFormat::Chrome].map(|format| (format.name(), format))))]
    format: Option<TraceFormat>,

    #[command(flatten)]
    select: SelectArgs,
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
        output.text(&args.text(counts, &dumps))?;
    }
    Ok(Exit::Good)
}

/// A number for each dump: its process id, if all are different.
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
            message: format!("unknown trace format of {}", self.output.display()),
            hint: "use the suffix .pftrace or .json, or choose a format with --format".into(),
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
                "{} has no times: its tasks are shown in dependency order, one microsecond each",
                member.name()
            ));
        }
        let name = match (member.rank, member.pid) {
            (None, None) => run_title(&member.dump),
            _ => format!("{}: {}", member.name(), run_title(&member.dump)),
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

    /// Rejects a selection that matches nothing, so that an empty trace does not replace an older file.
    fn refuse_nothing(&self, empty: Vec<String>, set: &DumpSet, output: Output) -> Result<(), UsageError> {
        match empty.first() {
            Some(first) if empty.len() == set.members().len() => Err(UsageError {
                message: format!("no task is selected, so {} is not written: {first}", self.output.display()),
                hint: format!("check the selectors with `{} list`", program()),
            }),
            _ => {
                empty.into_iter().for_each(|why| output.note(format_args!("{why}")));
                Ok(())
            }
        }
    }

    /// Which tasks are selected, by position; `None` for all. If none is, the reason is added to `empty`.
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

    fn text(&self, counts: TraceCounts, dumps: &[TraceDumpDocument]) -> String {
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
            counted_in(dispatches, "dispatch", "dispatches"),
            counted(flows, "flow"),
            counted(tracks, "track")
        );
        let viewer = match self.format() {
            Ok(TraceFormat::Perfetto) => "open it at ui.perfetto.dev; the file is not uploaded",
            _ => "open it at ui.perfetto.dev or in chrome://tracing; the file is not uploaded",
        };
        text += &format!("{viewer}\n");
        text
    }
}
