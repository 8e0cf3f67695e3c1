//! `tensortap export`: records as files that other tools read.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::format::{Dump, FormatError};
use tensortap::interchange::{EXPORT_MANIFEST_FILE, SkippedRecord};
use tensortap::{ExportConfig, ExportError, ExportFormat, ExportLayout, ExportReport};
use tensortap_query::Selection;
use tensortap_query::document::{ExportDocument, Exported};
use tensortap_query::number::{bytes, counted, grouped};
use tensortap_query::words::printable_path;

use crate::dump_arg::{DumpArg, quoted};
use crate::error::{Exit, Interrupted, UsageError};
use crate::interrupt::{GRACE, Interrupt};
use crate::output::Output;
use crate::parse::JobsArg;
use crate::progress::ByteProgress;
use crate::select::SelectArgs;
use crate::types_arg::TypesArg;

/// What `tensortap export` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap export --format npy                  every record of the newest dump, a file each\n  \
    tensortap export --format txt --func mul --out mul_text\n  \
    tensortap export --format safetensors --pack --out all --json\n  \
    tensortap export my_dump --format npz --by-task --out tasks\n\n\
    Files are named task_<id>_<before|after>_<in|out|inout><arg>. Types that numpy lacks keep their exact bits: \
    bfloat16 as uint16, 8-bit floats as uint8, 4-bit elements packed in uint8. tensortap_export.json, written \
    last, says what every array is and which records had no content.")]
pub struct ExportArgs {
    #[command(flatten)]
    dump: DumpArg,

    /// npy, npz, safetensors, csv, txt or raw
    #[arg(long, short, value_name = "FORMAT", hide_possible_values = true, value_parser = formats())]
    format: ExportFormat,

    /// Folder for the files; must be new or empty [default: the dump's folder with _FORMAT behind it]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Write into a folder that is not empty; files of the same name are replaced
    #[arg(long)]
    force: bool,

    /// Group by task: a folder for each; npz and safetensors: one file for each
    #[arg(long)]
    by_task: bool,

    /// npz and safetensors: one file for all records
    #[arg(long, conflicts_with = "by_task")]
    pack: bool,

    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    types: TypesArg,
    #[command(flatten)]
    select: SelectArgs,
}

fn formats() -> impl TypedValueParser<Value = ExportFormat> {
    PossibleValuesParser::new(ExportFormat::ALL.map(ExportFormat::name)).try_map(|word| {
        ExportFormat::ALL.into_iter().find(|format| format.name() == word).ok_or("no such format")
    })
}

/// Writes the files and says what came of it.
pub fn run(args: &ExportArgs, output: Output) -> anyhow::Result<Exit> {
    let layout = args.layout()?;
    let mut dump = args.dump.open()?;
    args.types.apply(&mut dump, output)?;
    let selection = args.select.selection(&dump, output)?;
    let out = args.out.clone().unwrap_or_else(|| default_out(&dump, args.format));
    let interrupt = Interrupt::install(GRACE).context("taking over signals")?;
    let progress = ByteProgress::new(output, stored_bytes(&dump, &selection)?);
    let jobs = Some(args.jobs.get());
    let config = ExportConfig { format: args.format, layout, out, force: args.force, jobs };
    let report = tensortap::export_records(&dump, selection.records(&dump), &config, &|bytes| {
        progress.advance(bytes);
        !interrupt.requested()
    });
    let report = report.map_err(explain)?;
    drop(progress);
    let exported = Exported { dump: &dump, config: &config, report: &report };
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

/// Bytes to be read. Reads the index once more rather than keep records in memory.
fn stored_bytes(dump: &Dump, selection: &Selection) -> Result<u64, FormatError> {
    selection.records(dump).try_fold(0_u64, |sum, record| Ok(sum.saturating_add(record?.readable_bytes())))
}

/// The same error in terms of the command line.
fn explain(error: ExportError) -> anyhow::Error {
    match error {
        ExportError::Format(error) => error.into(),
        ExportError::Interchange(error) => error.into(),
        ExportError::NotEmpty { dir } => UsageError {
            message: format!("{} exists and is not empty", printable_path(&dir)),
            hint: "name another folder with --out, or use --force to replace files of the same name".into(),
        }
        .into(),
        ExportError::Stopped => Interrupted.into(),
        other => other.into(),
    }
}

impl ExportArgs {
    fn layout(&self) -> Result<ExportLayout, UsageError> {
        match (self.by_task, self.pack, self.format.holds_several()) {
            (false, true, false) => Err(UsageError {
                message: format!("a {} file holds one record, so --pack has no meaning", self.format.name()),
                hint: "use --pack with --format npz or safetensors".into(),
            }),
            (true, _, true) => Ok(ExportLayout::FilePerTask),
            (true, _, false) => Ok(ExportLayout::FolderPerTask),
            (false, true, true) => Ok(ExportLayout::OneFile),
            (false, false, _) => Ok(ExportLayout::FilePerRecord),
        }
    }
}

/// Beside the dump, never inside it.
fn default_out(dump: &Dump, format: ExportFormat) -> PathBuf {
    let dir = dump.dir();
    let named = dir.file_name().map(std::ffi::OsStr::to_os_string);
    // A folder named `.` or `..` has a name only when it is followed.
    let named = named.or_else(|| Some(dir.canonicalize().ok()?.file_name()?.to_os_string()));
    let mut name = named.unwrap_or_else(|| "dump".into());
    name.push(format!("_{}", format.name()));
    match dir.parent() {
        Some(parent) if dir.file_name().is_some() => parent.join(name),
        _ => PathBuf::from(name),
    }
}

/// Records without content that are named; the manifest has all.
const NAMED: usize = 10;

/// For people.
fn text(exported: &Exported<'_>) -> String {
    let &Exported { dump, config, report } = exported;
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
        text += &format!("{} without whole content left out:\n", counted(skipped.len() as u64, "record"));
        for SkippedRecord { index, name, payload } in skipped.iter().take(NAMED) {
            text += &format!("  record {index}, {name}: payload {payload}\n");
        }
        if skipped.len() > NAMED {
            let more = grouped((skipped.len() - NAMED) as u64);
            text += &format!("  and {more} more, named in {EXPORT_MANIFEST_FILE}\n");
        }
    }
    text
}
