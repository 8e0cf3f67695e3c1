//! Exports records to files for other tools.

mod content;
mod manifest;
mod plan;
mod write;

use std::io;
use std::path::{Path, PathBuf};

use tensortap_format::{ArgumentKind, Dump, FormatError, Record};
use tensortap_interchange::{InterchangeError, SkippedRecord};

use crate::parallel;
use plan::Plan;

pub use plan::ExportLayout;

/// File format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A numpy array.
    Npy,
    /// A numpy archive.
    Npz,
    /// safetensors.
    Safetensors,
    /// Comma-separated values.
    Csv,
    /// Text for line-by-line comparison.
    Txt,
    /// Raw bytes.
    Raw,
}

impl ExportFormat {
    /// Every format.
    pub const ALL: [ExportFormat; 6] = [
        ExportFormat::Npy,
        ExportFormat::Npz,
        ExportFormat::Safetensors,
        ExportFormat::Csv,
        ExportFormat::Txt,
        ExportFormat::Raw,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            ExportFormat::Npy => "npy",
            ExportFormat::Npz => "npz",
            ExportFormat::Safetensors => "safetensors",
            ExportFormat::Csv => "csv",
            ExportFormat::Txt => "txt",
            ExportFormat::Raw => "raw",
        }
    }

    const fn extension(self) -> &'static str {
        match self {
            ExportFormat::Raw => "bin",
            other => other.name(),
        }
    }

    /// Whether a file can hold several arrays.
    pub const fn holds_several(self) -> bool {
        matches!(self, ExportFormat::Npz | ExportFormat::Safetensors)
    }
}

/// Options of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportConfig {
    /// File format.
    pub format: ExportFormat,
    /// How records are distributed over files.
    pub layout: ExportLayout,
    /// Folder for the files, which must be new or empty.
    pub out: PathBuf,
    /// Accept a folder that is not empty. Files with the same names are replaced.
    pub force: bool,
    /// Number of threads; `None` means one per CPU.
    pub jobs: Option<usize>,
}

impl ExportConfig {
    /// One file per record, in one folder.
    pub fn new(format: ExportFormat, out: impl Into<PathBuf>) -> ExportConfig {
        let layout = ExportLayout::FilePerRecord;
        ExportConfig { format, layout, out: out.into(), force: false, jobs: None }
    }
}

/// The result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Number of selected records.
    pub selected: u64,
    /// Number of tensors written.
    pub tensors: u64,
    /// Number of scalars written.
    pub scalars: u64,
    /// Size of the content.
    pub bytes: u64,
    /// Number of files written, without the manifest.
    pub files: u64,
    /// Total size of the files.
    pub file_bytes: u64,
    /// Records without content.
    pub skipped: Vec<SkippedRecord>,
}

impl ExportReport {
    /// Counts a written record.
    fn count(&mut self, record: &Record) {
        match record.kind {
            ArgumentKind::Tensor => self.tensors += 1,
            ArgumentKind::Scalar => self.scalars += 1,
        }
        self.bytes = self.bytes.saturating_add(record.content_bytes());
    }
}

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The dump cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A file cannot be written.
    #[error(transparent)]
    Interchange(#[from] InterchangeError),
    /// The folder is not empty.
    #[error("{} exists and is not empty; name another folder, or use --force to replace files with the same name", dir.display())]
    NotEmpty {
        /// The folder.
        dir: PathBuf,
    },
    /// The layout puts several records into a file, but the format allows one array per file.
    #[error("a {} file holds one record; use npz or safetensors, or another layout", format.name())]
    OneArray {
        /// The format.
        format: ExportFormat,
    },
    /// The observer stopped the export.
    #[error("the export was canceled")]
    Stopped,
}

fn cannot(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ExportError + use<> {
    let path = path.to_path_buf();
    move |source| InterchangeError::Io { action, path, source }.into()
}

/// Writes every record of a dump to files for other tools, with a manifest next to them.
///
/// ```
/// use tensortap::{DeviceMode, DumpConfig, DumpLevel, ExportConfig, ExportFormat, RunConfig, format::Dump};
///
/// let folder = tempfile::tempdir()?;
/// let mut config = RunConfig::new("vector_example");
/// // A documentation test cannot become a device process; your `main` can.
/// config.device_mode = DeviceMode::Thread;
/// config.dump = Some(DumpConfig::new(DumpLevel::Full));
/// config.out = Some(folder.path().join("dump"));
/// tensortap::run(&config)?;
///
/// let dump = Dump::open(&folder.path().join("dump"))?;
/// let out = folder.path().join("npy");
/// let report = tensortap::export(&dump, &ExportConfig::new(ExportFormat::Npy, &out))?;
/// assert_eq!((report.tensors, report.scalars, report.files), (13, 5, 18));
/// let files = tensortap::interchange::NamedArrays::open(&out)?;
/// assert!(files.get("task_0x0000000000000000_after_out2").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn export(dump: &Dump, config: &ExportConfig) -> Result<ExportReport, ExportError> {
    export_records(dump, dump.records(), config, &|_| true)
}

/// As [`export`], for some records of a dump. `observe` is called with the number of processed bytes, on
/// any thread, and stops the export by returning false.
pub fn export_records(
    dump: &Dump,
    records: impl Iterator<Item = Result<Record, FormatError>>,
    config: &ExportConfig,
    observe: &(dyn Fn(u64) -> bool + Sync),
) -> Result<ExportReport, ExportError> {
    let ExportConfig { format, layout, out, force, jobs } = config;
    if matches!(layout, ExportLayout::FilePerTask | ExportLayout::OneFile) && !format.holds_several() {
        return Err(ExportError::OneArray { format: *format });
    }
    plan::prepare_folder(out, *force)?;
    let plan = Plan { dump, format: *format, layout: *layout, out };
    let mut report = ExportReport::default();
    write::run(&plan, records, parallel::threads(*jobs), observe, &mut report)?;
    Ok(report)
}
