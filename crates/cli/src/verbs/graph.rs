//! `tensortap graph`: the tasks of a dump and what passes between them, as a picture.

use std::io::Write;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args};
use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::{TaskGraph, load};
use tensortap::analysis::labels::Finding;
use tensortap::format::Dump;
use tensortap::scene::Registry;
use tensortap_query::blame::ways;
use tensortap_query::drawing::{DrawOptions, Drawing, FEW, fold_for, neighbourhood};
use tensortap_query::find_tasks;
use tensortap_query::number::{counted, counted_in};
use tensortap_query::words::what_ran;

use crate::dump_arg::{DumpArg, StepArg};
use crate::error::{Exit, UsageError};
use crate::labels::{LabelArgs, labels};
use crate::output::Output;
use crate::parse::whole;
use crate::whole_file::write_whole;

/// What `tensortap graph` takes.
#[derive(Args)]
#[command(group(ArgGroup::new("against").args(["golden", "reference"])), after_help = "Examples:\n  \
    tensortap graph -o graph.svg                        the newest dump under outputs/, folded by scope where it is large\n  \
    tensortap graph my_dump --golden right --way -o way.svg   the way that the first error took\n  \
    tensortap graph my_dump --around softmax --hops 2   what is near a task\n  \
    tensortap graph my_dump --fold 2 --format mermaid\n  \
    tensortap graph my_dump --format dot | dot -Tpdf > graph.pdf\n\n\
    A line is drawn from the task that wrote content to each that was given it, dashed where one only waits for the other, and with --way dotted where content passes through tasks that are not drawn.")]
pub struct GraphArgs {
    #[command(flatten)]
    dump: DumpArg,

    /// dot, mermaid or svg [default: as the name of the file ends, else dot]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Option<Format>,

    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Draw what is near this task: its id, kernel, name, or the way through its scopes
    #[arg(long, value_name = "TASK")]
    around: Option<String>,

    /// How near: lines from the task
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole(0_usize..), requires = "around")]
    hops: usize,

    /// Draw the ways that errors took, from the first wrong tasks to the last that shows each
    #[arg(long, conflicts_with = "around", requires = "against")]
    way: bool,

    /// Draw scopes of this depth as one box each; 0 draws every task [default: as much as a picture can take]
    #[arg(long, value_name = "DEPTH", value_parser = whole(0_usize..))]
    fold: Option<usize>,

    #[command(flatten)]
    labels: LabelArgs,
    #[command(flatten)]
    step: StepArg,
}

/// How the picture is written.
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

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(|(name, _)| name))
        .try_map(|word| Format::named(&word).ok_or("no such format"))
}

/// Draws the graph.
pub fn run(args: &GraphArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let dump = args.dump.open()?;
    let format = args.format()?;
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

/// The tasks near the first that the name means.
fn around(graph: &TaskGraph, name: &str, hops: usize) -> anyhow::Result<Vec<usize>> {
    let meant = find_tasks(graph.tasks(), name)?;
    Ok(neighbourhood(graph, meant[0], hops))
}

impl GraphArgs {
    fn format(&self) -> Result<Format, UsageError> {
        let ending =
            self.output.as_ref().and_then(|path| path.extension()).and_then(|ending| ending.to_str());
        match (self.format, ending) {
            (Some(format), _) => Ok(format),
            (None, None) => Ok(Format::Dot),
            (None, Some(ending)) => Format::named(ending).ok_or_else(|| UsageError {
                message: format!("nothing is known of files that end in .{ending}"),
                hint: "end it in .svg, .dot or .mmd, or give --format".into(),
            }),
        }
    }

    /// The tasks on the ways of errors, where these are asked for.
    fn only(&self, blame: Option<&Blame>) -> Result<Option<Vec<usize>>, UsageError> {
        let Some(blame) = blame.filter(|_| self.way) else { return Ok(None) };
        let places = ways(blame);
        if places.is_empty() {
            return Err(UsageError {
                message: "no task is wrong, so no error went any way".into(),
                hint: "without --way the whole graph is drawn".into(),
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
        let drawing = Drawing::of(graph, &what_ran(dump), &options);
        if let (Some(depth), None) = (fold, self.fold) {
            let tasks = counted(only.map_or(graph.len(), <[usize]>::len) as u64, "task");
            output.note(format_args!(
                "{tasks} are more than the {FEW} boxes of a picture: scopes of depth {depth} are folded; --around shows a part, --fold 0 all"
            ));
        }
        drawing
    }
}
