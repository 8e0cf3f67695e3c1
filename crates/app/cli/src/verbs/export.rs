//! `tensortap export`: writes records to files for other tools.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use tensortap::format::{Dump, FormatError};
use tensortap::interchange::{EXPORT_MANIFEST_FILE, SkippedRecord};
use tensortap::{ExportConfig, ExportError, ExportFormat, ExportLayout, ExportReport};
use tensortap_query::Selection;
use tensortap_query::document::{ExportDocument, ExportResult};
use tensortap_query::number::{bytes, counted, grouped};
use tensortap_query::words::printable_path;

use crate::dump_path::{DumpPathArg, quoted};
use crate::error::{Exit, Interruption, UsageError};
use crate::interrupt::{GRACE, Interrupt};
use crate::output::Output;
use crate::parse::{JobsArg, choice};
use crate::progress::ByteProgress;
use crate::select::SelectArgs;
use crate::types_arg::TypesArg;

/// Arguments of `tensortap export`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap export --format npy                  one file for each record of the newest dump\n  \
    tensortap export --format txt --func mul --out mul_text\n  \
    tensortap export --format safetensors --pack --out all --json\n  \
    tensortap export my_dump --format npz --by-task --out tasks\n\n\
    Files are named task_<id>_<before|after>_<in|out|inout><arg>. Types that numpy does not have are stored bit by bit: \
    bfloat16 as uint16, 8-bit floats as uint8, 4-bit elements packed in uint8. tensortap_export.json is written \
    last; it describes every array and lists the records without content.")]
pub struct ExportArgs {
    #[command(flatten)]
    dump: DumpPathArg,

    /// File format: npy, npz, safetensors, csv, txt or raw
    #[arg(long, short, value_name = "FORMAT", hide_possible_values = true, value_parser = choice(ExportFormat::ALL.map(|format| (format.name(), format))))]
    format: ExportFormat,

    /// Folder for the files; must be new or empty [default: the dump's folder with the suffix _FORMAT]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Write into a folder that is not empty, and replace files of the same name
    #[arg(long)]
    force: bool,

    /// Write one folder for each task; npz and safetensors: one file for each task
    #[arg(long)]
    by_task: bool,

    /// Write one file for all records (npz and safetensors)
    #[arg(long, conflicts_with = "by_task")]
    pack: bool,

    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    types: TypesArg,
    #[command(flatten)]
    select: SelectArgs,
}

/// Writes the files and prints a summary.
pub fn run(args: &ExportArgs, output: Output) -> anyhow::Result<Exit> {
    let layout = args.layout()?;
    let mut dump = args.dump.open()?;
    args.types.apply(&mut dump, output)?;
    let selection = args.select.selection(&dump, output)?;
    let out = args.out.clone().unwrap_or_else(|| default_out(&dump, args.format));
    let interrupt = Interrupt::install(GRACE).context("cannot handle signals")?;
    let progress = ByteProgress::new(output, stored_bytes(&dump, &selection)?);
    let jobs = Some(args.jobs.get());
    let config = ExportConfig { format: args.format, layout, out, force: args.force, jobs };
    let report = tensortap::export_records(&dump, selection.records(&dump), &config, &|bytes| {
        progress.advance(bytes);
        !interrupt.requested()
    });
    let report = report.map_err(explain)?;
    drop(progress);
    let exported = ExportResult { dump: &dump, config: &config, report: &report };
    if output.json {
        output.document(&ExportDocument::of(&exported))?;
    } else {
        output.text(&text(&exported))?;
        if report.selected == 0 && !dump.is_empty() {
            output.text(&format!("{}\n", selection.why_empty(&dump)?))?;
        }
    }
    Ok(Exit::Good)
}

/// Bytes to read. Reads the index a second time instead of keeping all records in memory.
fn stored_bytes(dump: &Dump, selection: &Selection) -> Result<u64, FormatError> {
    selection.records(dump).try_fold(0_u64, |sum, record| Ok(sum.saturating_add(record?.readable_bytes())))
}

/// Adds the options of this command line to an error.
fn explain(error: ExportError) -> anyhow::Error {
    match error {
        ExportError::Format(error) => error.into(),
        ExportError::Interchange(error) => error.into(),
        ExportError::NotEmpty { dir } => UsageError {
            message: format!("{} exists and is not empty", printable_path(&dir)),
            hint: "choose another folder with --out, or replace files of the same name with --force".into(),
        }
        .into(),
        ExportError::Stopped => Interruption.into(),
        other => other.into(),
    }
}

impl ExportArgs {
    fn layout(&self) -> Result<ExportLayout, UsageError> {
        match (self.by_task, self.pack, self.format.holds_several()) {
            (false, true, false) => Err(UsageError {
                message: format!(
                    "--pack has no effect with {}: a file contains one record",
                    self.format.name()
                ),
                hint: "use --pack with --format npz or safetensors".into(),
            }),
            (true, _, true) => Ok(ExportLayout::FilePerTask),
            (true, _, false) => Ok(ExportLayout::FolderPerTask),
            (false, true, true) => Ok(ExportLayout::OneFile),
            (false, false, _) => Ok(ExportLayout::FilePerRecord),
        }
    }
}

/// The default folder: next to the dump, never inside it.
fn default_out(dump: &Dump, format: ExportFormat) -> PathBuf {
    let dir = dump.dir();
    let named = dir.file_name().map(std::ffi::OsStr::to_os_string);
    // `.` and `..` must be resolved to a name.
    let named = named.or_else(|| Some(dir.canonicalize().ok()?.file_name()?.to_os_string()));
    let mut name = named.unwrap_or_else(|| "dump".into());
    name.push(format!("_{}", format.name()));
    match dir.parent() {
        Some(parent) if dir.file_name().is_some() => parent.join(name),
        _ => PathBuf::from(name),
    }
}

/// Records without content that are listed; the manifest lists all.
const NAMED: usize = 10;

/// The summary as text.
fn text(exported: &ExportResult<'_>) -> String {
    let &ExportResult { dump, config, report } = exported;
    let ExportReport { selected, tensors, scalars, bytes: content, files, skipped, .. } = report;
    let of = if *selected == dump.len() {
        String::new()
    } else {
        format!(" of {} selected from {}", grouped(*selected), grouped(dump.len()))
    };
    let (tensors, scalars) = (counted(*tensors, "tensor"), counted(*scalars, "scalar"));
    let (files, out) = (counted(*files, &format!("{} file", config.format.name())), quoted(&config.out));
    let mut text = format!("{tensors} and {scalars}{of}, {}: {files} in {out}\n", bytes(*content));
    if !skipped.is_empty() {
        text += &format!(
            "{} left out because their content is missing or incomplete:\n",
            counted(skipped.len() as u64, "record")
        );
        for SkippedRecord { index, name, payload } in skipped.iter().take(NAMED) {
            text += &format!("  record {index}, {name}: payload {payload}\n");
        }
        if skipped.len() > NAMED {
            let more = grouped((skipped.len() - NAMED) as u64);
            text += &format!("  and {more} more, listed in {EXPORT_MANIFEST_FILE}\n");
        }
    }
    text
}
