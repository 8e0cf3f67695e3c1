//! `tensortap graph`: draws the tasks of a dump and the data between them.

use std::io::Write;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::{TaskGraph, load};
use tensortap::analysis::labels::Finding;
use tensortap::format::Dump;
use tensortap::scene::Registry;
use tensortap_query::blame::error_paths;
use tensortap_query::drawing::{DrawOptions, Drawing, FEW, fold_for, neighborhood};
use tensortap_query::find_tasks;
use tensortap_query::number::{counted, counted_in};
use tensortap_query::words::run_title;

use crate::compare_args::check_steps;
use crate::dump_path::{DumpPathArg, StepArg};
use crate::error::{Exit, UsageError};
use crate::labels::{LabelArgs, labels};
use crate::output::Output;
use crate::parse::{choice, whole};
use crate::whole_file::write_whole;

/// Arguments of `tensortap graph`.
#[derive(Args)]
#[command(group(ArgGroup::new("against").args(["golden", "reference"])), after_help = "Examples:\n  \
    tensortap graph -o graph.svg                        the newest dump under outputs/\n  \
    tensortap graph my_dump --golden right --way -o way.svg   how the first errors spread\n  \
    tensortap graph my_dump --around softmax --hops 2   the neighborhood of a task\n  \
    tensortap graph my_dump --fold 2 --format mermaid\n  \
    tensortap graph my_dump --format dot | dot -Tpdf > graph.pdf\n\n\
    A line leads from the task that wrote content to each task that reads it. The line is dashed if one task only \
    waits for the other. With --way, the line is dotted if the content passes through tasks that are not drawn.")]
pub struct GraphArgs {
    #[command(flatten)]
    dump: DumpPathArg,

    /// File format: dot, mermaid or svg [default: by the suffix of the file, or dot]
    #[arg(long, value_name = "FORMAT", value_parser = choice(Format::ALL))]
    format: Option<Format>,

    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Draw the neighborhood of this task, given by id, kernel, name or scope path
    #[arg(long, value_name = "TASK")]
    around: Option<String>,

    /// Size of the neighborhood: largest number of edges from the task
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole(0_usize..), requires = "around")]
    hops: usize,

    /// Draw how errors spread, from the first wrong tasks to the last tasks that show them
    #[arg(long, conflicts_with = "around", requires = "against")]
    way: bool,

    /// Draw each scope of this depth as one box; 0 draws every task [default: fold if there are many tasks]
    #[arg(long, value_name = "DEPTH", value_parser = whole(0_usize..))]
    fold: Option<usize>,

    #[command(flatten)]
    labels: LabelArgs,
    #[command(flatten)]
    step: StepArg,
}

/// The file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Dot,
    Mermaid,
    Svg,
}

impl Format {
    const ALL: [(&'static str, Format); 3] =
        [("dot", Format::Dot), ("mermaid", Format::Mermaid), ("svg", Format::Svg)];

    fn named(name: &str) -> Option<Format> {
        let name = match name {
            "mmd" => "mermaid",
            "gv" => "dot",
            name => name,
        };
        Format::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, format)| format)
    }
}

/// Draws the graph.
pub fn run(args: &GraphArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let dump = args.dump.open()?;
    let format = args.format()?;
    check_steps(&dump, &args.step.step)?;
    let blame = labels(&args.labels, registry, &dump, &args.step.step)?;
    let only = args.only(blame.as_ref())?;
    let (graph, findings) = match blame {
        Some(Blame { graph, findings, .. }) => (graph, findings),
        None => (load(&dump, &args.step.step)?, Vec::new()),
    };
    let only = match (&args.around, only) {
        (Some(name), _) => Some(around(&graph, name, args.hops)?),
        (None, only) => only,
    };
    let drawing = args.draw(&dump, &graph, &findings, only.as_deref(), output);
    let text = match format {
        Format::Dot => drawing.dot(),
        Format::Mermaid => drawing.mermaid(),
        Format::Svg => drawing.svg(),
    };
    if let Some(path) = &args.output {
        write_whole(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    match &args.output {
        _ if output.json => output.document(&drawing.layout())?,
        None => output.text(&text)?,
        Some(path) => {
            let boxes = counted_in(drawing.boxes.len() as u64, "box", "boxes");
            let lines = counted(drawing.lines.len() as u64, "line");
            output.text(&format!("{}: {boxes}, {lines}\n", path.display()))?;
        }
    }
    Ok(Exit::Good)
}

/// The neighborhood of the first task that matches the name.
fn around(graph: &TaskGraph, name: &str, hops: usize) -> anyhow::Result<Vec<usize>> {
    let meant = find_tasks(graph.tasks(), name)?;
    Ok(neighborhood(graph, meant[0], hops))
}

impl GraphArgs {
    fn format(&self) -> Result<Format, UsageError> {
        let ending =
            self.output.as_ref().and_then(|path| path.extension()).and_then(|ending| ending.to_str());
        match (self.format, ending) {
            (Some(format), _) => Ok(format),
            (None, None) => Ok(Format::Dot),
            (None, Some(ending)) => Format::named(ending).ok_or_else(|| UsageError {
                message: format!("unknown file format .{ending}"),
                hint: "use the suffix .svg, .dot or .mmd, or choose a format with --format".into(),
            }),
        }
    }

    /// With `--way`, the tasks through which errors spread.
    fn only(&self, blame: Option<&Blame>) -> Result<Option<Vec<usize>>, UsageError> {
        let Some(blame) = blame.filter(|_| self.way) else { return Ok(None) };
        let places = error_paths(blame);
        if places.is_empty() {
            return Err(UsageError {
                message: "no task is wrong, so no error spread".into(),
                hint: "remove --way to draw the whole graph".into(),
            });
        }
        Ok(Some(places))
    }

    fn draw(
        &self,
        dump: &Dump,
        graph: &TaskGraph,
        findings: &[Finding],
        only: Option<&[usize]>,
        output: Output,
    ) -> Drawing {
        let fold = match self.fold {
            Some(0) => None,
            Some(depth) => Some(depth),
            None => fold_for(graph, only),
        };
        let options = DrawOptions { findings, only, fold, open: &[], through: self.way };
        let drawing = Drawing::of(graph, &run_title(dump), &options);
        if let (Some(depth), None) = (fold, self.fold) {
            let tasks = counted(only.map_or(graph.len(), <[usize]>::len) as u64, "task");
            output.note(format_args!(
                "{tasks} are too many to draw (limit {FEW}): scopes of depth {depth} are folded; use --around for a part, --fold 0 for all"
            ));
        }
        drawing
    }
}
