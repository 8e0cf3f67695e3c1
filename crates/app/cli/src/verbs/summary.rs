//! `tensortap summary`: summarizes a dump on one screen.

use std::fmt::Write;
use std::time::Duration;

use clap::Args;
use tensortap::DumpLevel;
use tensortap::format::{Dump, FormatError, GoldenVerdict};
use tensortap_query::document::SummaryDocument;
use tensortap_query::number::{bytes, counted, counted_in, grouped, time};
use tensortap_query::observed::observed_lines;
use tensortap_query::summary::{
    KernelSummary, Summary, SummaryOptions, capture_lines, early_end, program_ended,
};
use tensortap_query::words::{printable, record_name, run_title, run_words, step_task, task_words};

use crate::compare_args::check_steps;
use crate::dump_path::{DumpPathArg, StepArg, quoted};
use crate::error::Exit;
use crate::output::Output;
use crate::parse::JobsArg;
use crate::program::program;
use crate::progress::ByteProgress;
use crate::table::{Column, Fit, whole_table};

/// Kernels that are listed. The others are counted.
const KERNELS: usize = 12;
/// Tasks of the critical path that are listed, counted from its end.
const LINKS: usize = 6;

/// Arguments of `tensortap summary`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap summary                      the newest dump under outputs/\n  \
    tensortap summary my_dump --no-values  without reading contents\n  \
    tensortap summary my_dump --json\n\n\
    Times are measured on the device, from the first dispatch of a task to its completion. The critical path is the chain \
    of dependent tasks with the largest total time.")]
pub struct SummaryArgs {
    #[command(flatten)]
    dump: DumpPathArg,

    /// Do not read contents, so NaN and Inf are not counted
    #[arg(long)]
    no_values: bool,

    #[command(flatten)]
    step: StepArg,
    #[command(flatten)]
    jobs: JobsArg,
}

/// Prints the summary.
pub fn run(args: &SummaryArgs, output: Output) -> anyhow::Result<Exit> {
    let dump = args.dump.open()?;
    check_steps(&dump, &args.step.step)?;
    let summary = look(args, &dump, output)?;
    if output.json {
        output.document(&SummaryDocument::of(&dump, &summary))?;
    } else {
        output.text(&text(&dump, &summary, args.no_values))?;
    }
    Ok(Exit::Good)
}

fn look(args: &SummaryArgs, dump: &Dump, output: Output) -> Result<Summary, FormatError> {
    let progress = ByteProgress::new(output, if args.no_values { 0 } else { dump.totals().stored_bytes });
    let options = SummaryOptions {
        steps: &args.step.step,
        measures: !args.no_values,
        jobs: Some(args.jobs.get()),
        advance: &|bytes| progress.advance(bytes),
    };
    Summary::of(dump, &options)
}

fn text(dump: &Dump, summary: &Summary, no_values: bool) -> String {
    let mut text = format!("{}: {}\n", printable(&dump.dir().display().to_string()), run_title(dump));
    let footer = dump.footer();
    let golden = footer.and_then(|footer| footer.golden);
    if !dump.info().is_of_program() && !dump.format().is_foreign() {
        let _ = writeln!(text, "{}", run_words(golden, dump.info().inject_fault.as_deref()));
    }
    if let Some(ended) = program_ended(dump).or_else(|| early_end(dump)) {
        let _ = writeln!(text, "{ended}");
    }
    let span = summary.span.map(|span| format!(" in {}", time(span))).unwrap_or_default();
    let _ = writeln!(
        text,
        "{}{span}, {}, {} stored\n",
        counted(summary.graph.len() as u64, "task"),
        counted(dump.len(), "record"),
        bytes(dump.totals().stored_bytes)
    );
    write_repeated(&mut text, summary);
    for line in observed_lines(&summary.graph, &summary.unattributed) {
        let _ = writeln!(text, "{line}");
    }
    let lines = capture_lines(summary);
    lines.iter().for_each(|line| {
        let _ = writeln!(text, "{line}");
    });
    if summary.graph.observations().is_some() || !lines.is_empty() {
        text.push('\n');
    }
    write_kernels(&mut text, summary, no_values);
    write_tasks(&mut text, summary);
    write_records(&mut text, dump, summary, no_values);
    text
}

/// A warning about tasks that share an id.
fn write_repeated(text: &mut String, summary: &Summary) {
    let repeated: Vec<_> = summary.graph.tasks().iter().filter(|task| task.is_repeated()).collect();
    let Some(first) = repeated.first() else { return };
    let ids = counted_in(repeated.len() as u64, "task id belongs", "task ids belong");
    let id = step_task(first.step, first.task_id);
    let _ = writeln!(
        text,
        "{ids} to several tasks (first: {id}), whose records are listed together; use a unique id for each task of a session, or no id\n"
    );
}

fn write_kernels(text: &mut String, summary: &Summary, no_values: bool) {
    let columns = [
        Column::text("KERNEL", 0),
        Column::number("TASKS", 0),
        Column::number("TIME", 0),
        Column::number("SHARE", 0),
        Column::number("LONGEST", 0),
        Column::number("BYTES", 0),
        Column::number("NaN", 0),
        Column::number("Inf", 0),
    ];
    let all = summary.kernels.iter().map(|kernel| kernel.time).sum::<Duration>();
    let timed = |cell: String| if all.is_zero() { "-".into() } else { cell };
    let counted_value = |count: u64| if no_values { "-".into() } else { grouped(count) };
    let row = |kernel: &KernelSummary| {
        let KernelSummary { kernels, tasks, time: took, longest, bytes: size, nan, inf } = kernel;
        [
            kernels.clone(),
            grouped(*tasks),
            timed(time(*took)),
            timed(format!("{:.0} %", took.as_secs_f64() / all.as_secs_f64() * 100.0)),
            timed(time(*longest)),
            bytes(*size),
            counted_value(*nan),
            counted_value(*inf),
        ]
    };
    let rows: Vec<_> = summary.kernels.iter().take(KERNELS).map(row).collect();
    *text += &whole_table(&columns, &rows, Fit::terminal(&["LONGEST", "BYTES", "SHARE"]));
    if summary.kernels.len() > KERNELS {
        let _ = writeln!(text, "and {}", counted((summary.kernels.len() - KERNELS) as u64, "further kernel"));
    }
}

fn write_tasks(text: &mut String, summary: &Summary) {
    let graph = &summary.graph;
    let one = |place: usize| {
        let task = graph.task(place);
        format!(
            "  {:>9}  {}  {}\n",
            time(summary.took(place)),
            step_task(task.step, task.task_id),
            task_words(task)
        )
    };
    let (way, length) = &summary.critical;
    if !way.is_empty() {
        let _ = writeln!(text, "\ncritical path: {}, {}", counted(way.len() as u64, "task"), time(*length));
        let hidden = way.len().saturating_sub(LINKS);
        if hidden > 0 {
            let _ = writeln!(text, "  after {} others", grouped(hidden as u64));
        }
        way[hidden..].iter().for_each(|&place| *text += &one(place));
    }
    if !summary.slowest.is_empty() {
        let _ = writeln!(text, "\nslowest tasks");
        summary.slowest.iter().for_each(|&place| *text += &one(place));
    }
}

fn write_records(text: &mut String, dump: &Dump, summary: &Summary, no_values: bool) {
    let graph = &summary.graph;
    if !summary.largest.is_empty() {
        let _ = writeln!(text, "\nlargest records");
        for record in &summary.largest {
            let of = graph.position(record.task_key()).map(|place| task_words(graph.task(place)));
            let size = bytes(record.content_bytes());
            let _ = writeln!(text, "  {size:>9}  {}  {}", record_name(record), of.unwrap_or_default());
        }
    }
    if no_values {
        return;
    }
    let count = summary.flagged_count;
    let what = match count {
        0 => "no output contains NaN, Inf, only zeros, or values beyond float16".into(),
        1 => "1 unusual output".into(),
        _ => format!("{} unusual outputs, the first of them", grouped(count)),
    };
    let _ = writeln!(text, "\n{what}");
    for one in &summary.flagged {
        let (record, stats) =
            (&one.measured.record, one.measured.summary.map(|s| s.stats).unwrap_or_default());
        let counts = [(stats.nan, "NaN"), (stats.inf, "Inf")];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what} of {}", grouped(*count), grouped(record.numel)))
            .collect();
        let flags: Vec<&str> = one.flags.iter().map(|flag| flag.name()).collect();
        let what = if counts.is_empty() { flags.join(", ") } else { counts.join(", ") };
        let _ = writeln!(text, "  {}  {}  {what}", record_name(record), task_words(graph.task(one.place)));
    }
    let failed = dump.footer().is_some_and(|footer| footer.golden == Some(GoldenVerdict::Fail));
    if failed && dump.info().dump_level == DumpLevel::Full as u32 {
        let _ = writeln!(text, "next: {} blame {} --reference", program(), quoted(dump.dir()));
    } else if let Some(first) = summary.flagged.first() {
        let task = graph.task(first.place);
        let id = step_task(task.step, task.task_id);
        let _ = writeln!(text, "next: {} show {} {id}", program(), quoted(dump.dir()));
    }
    if summary.unmeasured > 0 {
        let _ = writeln!(text, "{} without content to measure", counted(summary.unmeasured, "output"));
    }
}
