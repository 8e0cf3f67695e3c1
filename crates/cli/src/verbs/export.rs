//! `tensortap export`: records as files that other tools read.

mod content;
mod manifest;
mod plan;
mod summary;
mod write;

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::format::Dump;

use crate::dump_arg::DumpArg;
use crate::error::UsageError;
use crate::exit::Exit;
use crate::interrupt::{GRACE, Interrupt};
use crate::output::Output;
use crate::parallel::JobsArg;
use crate::progress::ByteProgress;
use crate::select::SelectArgs;

use self::plan::{Extent, Layout, Plan};
use self::summary::Exported;

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
    format: Format,

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
    select: SelectArgs,
}

/// What files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// numpy, one array.
    Npy,
    /// numpy, an archive.
    Npz,
    /// safetensors.
    Safetensors,
    /// Comma-separated values.
    Csv,
    /// Text to compare line by line.
    Txt,
    /// Bytes.
    Raw,
}

impl Format {
    const ALL: [Format; 6] =
        [Format::Npy, Format::Npz, Format::Safetensors, Format::Csv, Format::Txt, Format::Raw];

    /// As the command line names it.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Npy => "npy",
            Format::Npz => "npz",
            Format::Safetensors => "safetensors",
            Format::Csv => "csv",
            Format::Txt => "txt",
            Format::Raw => "raw",
        }
    }

    const fn extension(self) -> &'static str {
        match self {
            Format::Raw => "bin",
            other => other.name(),
        }
    }

    /// Whether a file can hold several arrays.
    const fn holds_several(self) -> bool {
        matches!(self, Format::Npz | Format::Safetensors)
    }
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name))
        .try_map(|word| Format::ALL.into_iter().find(|format| format.name() == word).ok_or("no such format"))
}

/// Writes the files and says what came of it.
pub fn run(args: &ExportArgs, output: Output) -> anyhow::Result<Exit> {
    let layout = args.layout()?;
    let dump = args.dump.open()?;
    let selection = args.select.selection(&dump, output)?;
    let out = args.out.clone().unwrap_or_else(|| default_out(&dump, args.format));
    plan::prepare_folder(&out, args.force)?;
    let interrupt = Interrupt::install(GRACE).context("taking over Ctrl-C")?;
    let extent = Extent::of(&dump, &selection)?;
    let progress = ByteProgress::new(output, extent.bytes);
    let plan = Plan { dump: &dump, format: args.format, layout, out: &out };
    let mut exported = Exported { selected: extent.records, ..Exported::default() };
    write::run(&plan, &selection, args.jobs.get(), &progress, &interrupt, &mut exported)?;
    drop(progress);
    if output.json {
        output.document(&summary::document(&plan, &exported))?;
    } else {
        output.text(&summary::text(&plan, &exported))?;
        if extent.records == 0 && !dump.is_empty() {
            output.text(&format!("{}\n", selection.why_empty(&dump)?))?;
        }
    }
    Ok(Exit::Good)
}

impl ExportArgs {
    fn layout(&self) -> Result<Layout, UsageError> {
        match (self.by_task, self.pack, self.format.holds_several()) {
            (false, true, false) => Err(UsageError {
                message: format!("a {} file holds one record, so --pack has no meaning", self.format.name()),
                hint: "use --pack with --format npz or safetensors".into(),
            }),
            (true, _, true) => Ok(Layout::FilePerTask),
            (true, _, false) => Ok(Layout::FolderPerTask),
            (false, true, true) => Ok(Layout::OneFile),
            (false, false, _) => Ok(Layout::FilePerRecord),
        }
    }
}

/// Beside the dump, never inside it.
fn default_out(dump: &Dump, format: Format) -> PathBuf {
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
