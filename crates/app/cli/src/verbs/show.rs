//! `tensortap show`: shows one record, from metadata to values, or one task with all of its arguments.

mod facts;
mod record_arg;
mod task;

use std::io::Write;

use clap::Args;
use tensortap::DumpStage;
use tensortap::abi::TensorStats;
use tensortap::format::{ArgumentKind, Dump, ReadType, Record};
use tensortap::scene::Registry;
use tensortap::values::{F16_OVERFLOW, Summary};

use tensortap_query::document::{
    HexDocument, KernelNames, MeasuredDocument, NothingDocument, ShowDocument, ValuesDocument,
};
use tensortap_query::{
    Content, ContentStats, Delta, Elements, Extent, Histogram, RecordName, RelatedRecords, SearchResult,
    Slice, View, between, find, write_excerpt, write_hex,
};

use crate::dump_path::{DumpPathArg, RankArg, quoted};
use crate::error::{Exit, UsageError};
use crate::labels::LabelArgs;
use crate::output::{Output, terminal_width};
use crate::parse::whole;
use crate::program::program;
use crate::progress::StepProgress;
use crate::select::SelectArgs;
use crate::types_arg::TypesArg;
use tensortap_query::QueryError;
use tensortap_query::number::grouped;
use tensortap_query::types::parse_read_as;
use tensortap_query::words::short_float;

/// Width of a line of values in a pipe or file.
const LINE: usize = 100;

/// Elements that are shown although they are not stored.
const FEW: u64 = 1000;

/// Arguments of `tensortap show`.
#[derive(Args)]
#[command(
    override_usage = "tensortap show [OPTIONS] [DUMP] [RECORD] [ARG]",
    after_help = "Examples:\n  \
    tensortap show 17                              record 17 of the newest dump under outputs/\n  \
    tensortap show my_dump 0x100000002/after/2     argument 2 after task 0x100000002\n  \
    tensortap show softmax                         a whole task: arguments, producers, consumers\n  \
    tensortap show my_dump layer1/k_proj           the same, by scope path\n  \
    tensortap show 0x100000002 --golden right      with its label from comparing with a correct run\n  \
    tensortap show my_dump mul product             the argument `product` of the task that runs `mul`\n  \
    tensortap show 1:2/after/2 --slice 0:4,:,-1    a part of the values, sliced as in numpy\n  \
    tensortap show --func mul --stage after        selectors that match one record\n  \
    tensortap show 3 --delta                       changes of the kernel to an in-out argument\n  \
    tensortap show softmax --memory                allocations of its arguments, and who wrote them since\n  \
    tensortap show 3 --as bfloat16[4,512]          bytes of unknown type, read as bfloat16\n  \
    tensortap show 3 --hex --full > bytes.txt\n\n\
    `tensortap list` lists the records. With --json, the elements are in one list, the last axis varying fastest."
)]
pub struct ShowArgs {
    /// Task or record to show. A task: its id (0x100000002), kernel or name (softmax), or scope path (layer1/k_proj). A
    /// record: its index (17) or TASK/STAGE/ARG (0x100000002/after/2). To choose a dump, name it first [default: the
    /// newest under outputs/]. To choose an argument, add its position or name after dump and task
    #[arg(value_name = "RECORD", num_args = 0..=3, allow_negative_numbers = true)]
    words: Vec<String>,
    /// Show every value (with --hex: every byte) instead of the corners
    #[arg(long)]
    full: bool,
    /// Show this part of the values, in numpy syntax: 0:4,:,3
    #[arg(long, value_name = "SLICE", allow_hyphen_values = true, value_parser = Slice::parse, conflicts_with_all = ["hex", "delta"])]
    slice: Option<Slice>,
    /// Show the stored bytes: offset, hex, characters
    #[arg(long, conflicts_with = "delta")]
    hex: bool,
    /// Show what the kernel changed in an in-out argument
    #[arg(long)]
    delta: bool,
    /// Show which allocation the memory of a task's arguments belongs to, and which tasks wrote it since
    #[arg(long, conflicts_with_all = ["hex", "delta", "slice", "full"])]
    memory: bool,
    /// Read the bytes of a record of unknown type as this type: bfloat16[4,512,1024], or float32 for all bytes
    #[arg(long = "as", value_name = "DTYPE[SHAPE]", value_parser = parse_read_as)]
    read_as: Option<ReadType>,
    /// Number of bins of the histogram; 0 omits it
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole(0..=200_u16))]
    bins: u16,
    #[command(flatten)]
    labels: LabelArgs,
    #[command(flatten)]
    rank: RankArg,
    #[command(flatten)]
    types: TypesArg,
    #[command(flatten)]
    select: SelectArgs,
}

impl ShowArgs {
    /// Whether an option needs a single record.
    fn asks_for_record(&self) -> bool {
        self.full
            || self.read_as.is_some()
            || self.slice.is_some()
            || self.hex
            || self.delta
            || self.select.narrows_records()
    }
}

impl ShowArgs {
    /// The record, read with the type of `--as`.
    fn read(&self, record: &Record) -> Result<Record, UsageError> {
        let Some(read_as) = &self.read_as else { return Ok(*record) };
        read_as.apply(record).map_err(|message| UsageError {
            message,
            hint:
                "--as needs a record of bytes (uint8, or `dtype_known` is false) and a shape of the same size"
                    .into(),
        })
    }
}

/// Shows the record, or the task.
pub fn run(args: &ShowArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let (path, name) = record_arg::split(&args.words)?;
    let word = name.as_ref().and_then(RecordName::word).filter(|_| path.is_none());
    let mut dump = match (DumpPathArg::named(path, &args.rank).open(), word) {
        // Without any dump, the word must name one.
        (Err(_), Some(word)) => DumpPathArg::named(Some(word.into()), &args.rank).open()?,
        (opened, _) => opened?,
    };
    args.types.apply(&mut dump, output)?;
    if let Some(task) = name.as_ref().and_then(RecordName::whole_task).filter(|_| !args.asks_for_record()) {
        return task::run(args, registry, &dump, &task, output).map_err(|error| neither(error, word, &dump));
    }
    if args.labels.any() {
        return Err(UsageError {
            message: "--golden and --reference label a task, but a record is selected".into(),
            hint: format!("name only the task; `{} diff` compares records", program()),
        }
        .into());
    }
    if args.memory {
        return Err(UsageError {
            message: "--memory shows the memory of a task's arguments, but a record is selected".into(),
            hint: "name only the task".into(),
        }
        .into());
    }
    let selection = args.select.selection(&dump, output)?;
    let record = match find(&dump, name.as_ref(), &selection)? {
        SearchResult::Record(record) => args.read(&record)?,
        SearchResult::Nothing(why) => return nothing(&dump, &why, output),
    };
    let mut related = RelatedRecords::of(&dump, &record)?;
    if let Some(other) = &mut related.other_stage {
        *other = args.read(other)?;
    }
    let shown = RecordView { args, dump: &dump, record: &record, related: &related, output };
    if output.json {
        let mut kernels = KernelNames::new(dump.info());
        output.document(&shown.document(kernels.of(&record))?)?;
    } else {
        // Checked before anything is printed, so that an error does not follow half a page.
        let view = shown.view()?;
        let delta = shown.delta()?;
        output.stream(|out| shown.write(out, &view, delta.as_ref()))?;
    }
    Ok(Exit::Good)
}

/// Adds to the error about an unknown task that there is no file of this name either.
fn neither(error: anyhow::Error, word: Option<&str>, dump: &Dump) -> anyhow::Error {
    match (error.downcast::<QueryError>(), word) {
        (Ok(QueryError::Record { message, hint }), Some(_)) => {
            let message =
                format!("{message}. These are in {}; there is no file of that name", dump.dir().display());
            QueryError::Record { message, hint }.into()
        }
        (Ok(error), _) => error.into(),
        (Err(error), _) => error,
    }
}

fn nothing(dump: &Dump, why: &str, output: Output) -> anyhow::Result<Exit> {
    if output.json {
        let dump = dump.dir().display().to_string();
        output.document(&NothingDocument { dump, record: None, why })?;
    } else {
        output.text(&format!("Nothing to show. {why}\n"))?;
    }
    Ok(Exit::Good)
}

/// One record and how to show it.
struct RecordView<'a> {
    args: &'a ShowArgs,
    dump: &'a Dump,
    record: &'a Record,
    related: &'a RelatedRecords,
    output: Output,
}

impl RecordView<'_> {
    fn write(&self, out: &mut dyn Write, view: &View, delta: Option<&Delta>) -> anyhow::Result<()> {
        write!(out, "{}", facts::text(self.dump, self.record, self.related))?;
        if let Some(delta) = delta {
            return Ok(write!(out, "\n{}", delta.text())?);
        }
        if self.record.kind == ArgumentKind::Scalar {
            return Ok(());
        }
        let Some(content) = Content::of(self.dump, self.record) else {
            if let Some(stats) = self.record.stats {
                write!(out, "\n{}", statistics_text(&stats, None))?;
            }
            return Ok(());
        };
        if self.args.hex {
            writeln!(out)?;
            return write_hex(out, self.dump, self.record, self.args.full).map_err(unwrap_io);
        }
        if self.args.slice.is_some() {
            return self.write_values(out, view);
        }
        let ContentStats { summary, damaged } = self.statistics(&content)?;
        if damaged {
            writeln!(
                out,
                "damaged: the payload does not match its recorded hash; `{} verify {}` finds every damaged record",
                program(),
                quoted(self.dump.dir())
            )?;
        }
        write!(out, "\n{}", statistics_text(&summary.stats, Some(&summary)))?;
        if content.stored < self.record.numel {
            writeln!(out, "  of the {} stored elements", grouped(content.stored))?;
        }
        self.write_values(out, view)?;
        if let Some(histogram) = self.histogram(&content, &summary)? {
            write!(out, "\n{}", histogram.text())?;
            let TensorStats { nan, inf, .. } = summary.stats;
            if nan + inf > 0 {
                writeln!(out, "  not counted: {} NaN, {} infinite", grouped(nan), grouped(inf))?;
            }
        }
        Ok(())
    }

    fn write_values(&self, out: &mut dyn Write, view: &View) -> anyhow::Result<()> {
        writeln!(out)?;
        let extent = Extent { full: self.shows_all(view), width: terminal_width().unwrap_or(LINE) };
        let mut elements = Elements::new(self.dump, self.record);
        write_excerpt(out, &mut elements, self.record.dtype, view, extent).map_err(unwrap_io)?;
        if self.args.full && !extent.full {
            writeln!(out, "corners only: most elements are not stored")?;
        }
        Ok(())
    }

    /// Whether to show every element. A record can claim any number of elements, so the stored elements limit the output.
    fn shows_all(&self, view: &View) -> bool {
        let stored = Content::of(self.dump, self.record).map_or(0, |content| content.stored);
        self.args.full && view.numel() <= stored.saturating_add(FEW)
    }

    fn statistics(&self, content: &Content<'_>) -> anyhow::Result<ContentStats> {
        let progress = mebibytes(self.output, content.bytes(), "computing statistics");
        Ok(content.statistics(&|done, of| progress.at(done >> 20, of >> 20))?)
    }

    fn histogram(&self, content: &Content<'_>, summary: &Summary) -> anyhow::Result<Option<Histogram>> {
        if self.args.bins == 0 {
            return Ok(None);
        }
        let progress = mebibytes(self.output, content.bytes(), "counting values");
        let show = |done: u64, of: u64| progress.at(done >> 20, of >> 20);
        Ok(Histogram::of(content, summary, self.args.bins.into(), &show)?)
    }

    /// The part of the values to show: the slice, or everything.
    fn view(&self) -> anyhow::Result<View> {
        let slice = self.args.slice.clone().unwrap_or_default();
        slice.view(self.record.shape()).map_err(|error| {
            let shape = tensortap_query::words::shape_text(self.record);
            let hint = format!("record {} has shape {shape}", self.record.index);
            UsageError { message: format!("--slice does not match the shape: {error}"), hint }.into()
        })
    }

    fn delta(&self) -> anyhow::Result<Option<Delta>> {
        if !self.args.delta {
            return Ok(None);
        }
        let (before, after) = self.stages()?;
        let progress = mebibytes(self.output, before.bin_size.min(after.bin_size), "comparing");
        Ok(Some(between(self.dump, before, after, &|done, of| progress.at(done >> 20, of >> 20))?))
    }

    /// The argument before and after its task, if their contents can be compared.
    fn stages(&self) -> Result<(&Record, &Record), UsageError> {
        let refused = |message: String, hint: &str| Err(UsageError { message, hint: hint.into() });
        let name = tensortap_query::words::record_name(self.record);
        let Some(other) = &self.related.other_stage else {
            let role = self.record.role.name();
            return refused(
                format!("{name} ({role}) was captured at only one stage; --delta needs both"),
                "`tensortap list --role inout` lists arguments that are read and written; the dump must contain both stages",
            );
        };
        if (self.record.dtype, self.record.shape()) != (other.dtype, other.shape()) {
            return refused(
                format!("{name} and record {} have different dtypes or shapes", other.index),
                "show each record separately",
            );
        }
        for record in [self.record, other] {
            if Content::of(self.dump, record).is_none() {
                return refused(
                    format!("record {} has no stored content to compare", record.index),
                    "record again with --dump-tensor=full",
                );
            }
        }
        let is_before = self.record.stage == DumpStage::BeforeDispatch;
        Ok(if is_before { (self.record, other) } else { (other, self.record) })
    }

    fn document<'d>(&'d self, kernels: &'d [String]) -> anyhow::Result<ShowDocument<'d>> {
        let view = self.view()?;
        let mut document = ShowDocument::new(self.dump, self.record, kernels, self.related);
        document.delta = self.delta()?;
        let content = Content::of(self.dump, self.record);
        let Some(content) = content.filter(|_| !self.args.delta) else {
            document.stats = self.record.stats.map(MeasuredDocument::of);
            return Ok(document);
        };
        if self.args.hex {
            document.hex = Some(HexDocument::of(self.dump, self.record, self.args.full)?);
            return Ok(document);
        }
        if self.args.slice.is_none() {
            let ContentStats { summary, damaged } = self.statistics(&content)?;
            document.damaged = Some(damaged).filter(|_| self.record.hash.is_some());
            document.histogram = self.histogram(&content, &summary)?;
            document.stats = Some(MeasuredDocument::of(summary.stats));
        }
        let mut elements = Elements::new(self.dump, self.record);
        document.values = Some(ValuesDocument::of(&mut elements, self.record, &view, self.shows_all(&view))?);
        Ok(document)
    }
}

/// Progress over the bytes of a payload, in steps of 1 MiB.
fn mebibytes(output: Output, bytes: u64, what: &str) -> StepProgress {
    let progress = StepProgress::over_bytes(output, bytes >> 20, bytes);
    progress.begin(what.into());
    progress
}

/// Unwraps I/O errors, so that a closed pipe is recognized.
fn unwrap_io(error: QueryError) -> anyhow::Error {
    match error {
        QueryError::Io(error) => error.into(),
        other => other.into(),
    }
}

/// One line of numbers, one of counts, and one with unusual facts.
fn statistics_text(stats: &TensorStats, summary: Option<&Summary>) -> String {
    let TensorStats { min, max, mean, std, zeros, nan, inf, numel } = *stats;
    let finite = numel.saturating_sub(nan).saturating_sub(inf);
    let mut text = if finite == 0 {
        "no finite values".to_string()
    } else {
        let [min, max, mean, std] = [min, max, mean, std].map(short_float);
        let (min, max) = summary
            .and_then(|summary| summary.exact_range)
            .map_or((min, max), |(min, max)| (min.to_string(), max.to_string()));
        format!("min {min}  max {max}  mean {mean}  std {std}")
    };
    let [zeros, nan, inf] = [zeros, nan, inf].map(grouped);
    text += &format!("\nzeros {zeros}  NaN {nan}  Inf {inf}  of {}\n", grouped(numel));
    let Some(summary) = summary else { return text };
    let overflow = format!("{} beyond the range of float16 ({F16_OVERFLOW})", grouped(summary.f16_overflow));
    let notes: Vec<&str> = [
        (summary.all_zero(), "all zero"),
        (summary.constant && !summary.all_zero(), "constant"),
        (summary.f16_overflow > 0, &overflow),
    ]
    .into_iter()
    .filter_map(|(holds, note)| holds.then_some(note))
    .collect();
    if !notes.is_empty() {
        text += &format!("note: {}\n", notes.join(", "));
    }
    text
}
