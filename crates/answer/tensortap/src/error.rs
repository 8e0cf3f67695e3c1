use std::fmt;
use std::path::PathBuf;

use tensortap_analysis::AnalysisError;
use tensortap_format::FormatError;
use tensortap_platform::PlatformError;
use tensortap_replay::ReplayError;
use tensortap_runtime::RunError;
use tensortap_scene::{FaultKind, SceneError};
use tensortap_scene_folder::FolderError;

use crate::{DumpReport, RunReport};

/// Why a run, or a query, did not succeed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An unknown name.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The runtime cannot run the scene.
    #[error("scene `{scene}` does not run on runtime `{runtime}`; it runs on: {}", .runtimes.join(", "))]
    SceneRuntime {
        /// The scene.
        scene: &'static str,
        /// The requested runtime.
        runtime: &'static str,
        /// The runtimes that can run it.
        runtimes: Vec<&'static str>,
    },
    /// A sanitizer was requested for kernels that were not compiled with it.
    #[error(
        "scene `{scene}` is written in Rust, but sanitizers only work with the kernels of scene folders; use --guard instead"
    )]
    SanitizedScene {
        /// The scene.
        scene: &'static str,
    },
    /// The scene's arguments do not fit into memory.
    #[error(
        "the arguments of scene `{scene}` do not fit: bytes needed {needed}, available {available} ({what}); use smaller parameters with --param"
    )]
    TooLarge {
        /// The scene.
        scene: &'static str,
        /// Total size of the arguments.
        needed: u64,
        /// Which memory.
        what: &'static str,
        /// Available bytes.
        available: u64,
    },
    /// An invalid parameter of a scene.
    #[error(transparent)]
    Scene(#[from] SceneError),
    /// A fault that has no effect in a kernel.
    #[error("fault `{kind}` has no effect in kernel `{kernel}` of scene `{scene}`; possible faults: {}", names(.shows))]
    Fault {
        /// The scene.
        scene: &'static str,
        /// The kernel.
        kernel: &'static str,
        /// The requested fault.
        kind: FaultKind,
        /// The faults that have an effect.
        shows: &'static [FaultKind],
    },
    /// An invalid dump option.
    #[error("invalid value {value} for {option}: {expected}")]
    DumpOption {
        /// Its name on the command line.
        option: &'static str,
        /// The value.
        value: String,
        /// Valid values.
        expected: String,
    },
    /// The golden cannot be used for a live comparison.
    #[error("{} cannot be used as the golden of this run: {reason}", .golden.display())]
    LiveGolden {
        /// The golden.
        golden: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// The scene's golden cannot be computed for a dump.
    #[error("{} cannot be compared with the golden of its scene: {reason}", .dump.display())]
    SceneGolden {
        /// Folder of the dump.
        dump: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// The folder is not a valid scene.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The folder that a dump names is not accepted.
    #[error("the dump is of the scene in {}: {reason}", .folder.display())]
    DumpFolder {
        /// The folder.
        folder: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// A dump could not be analyzed.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
    /// The dump's files could not be created or read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The device could not be opened.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// Replay or extract failed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The run could not be prepared.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The run started but ended early, or its dump failed. The report contains the results so far;
    /// [`Error::into_report`] returns it.
    #[error("{}", failed(.0))]
    Failed(Box<RunReport>),
}

/// As [`Display`](fmt::Display): a `main` that returns an error prints its debug form, which should contain
/// the advice.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn failed(report: &RunReport) -> String {
    let problem = |dump: &DumpReport| {
        let problem = dump.problem.as_deref()?;
        Some(format!("the dump failed: {problem}; everything captured before is in {}", dump.dir.display()))
    };
    match (&report.failure, report.dump.as_ref().and_then(problem)) {
        (Some(failure), _) => failure.to_string(),
        (None, Some(problem)) => problem,
        (None, None) => format!("the run ended with status {}", report.status()),
    }
}

fn names(faults: &[FaultKind]) -> String {
    if faults.is_empty() {
        return "none".into();
    }
    faults.iter().map(|f| f.name()).collect::<Vec<_>>().join(", ")
}

impl Error {
    /// The report of a run that failed; any other error is returned unchanged. For callers that want the
    /// results however the run ended.
    ///
    /// ```
    /// use tensortap::{Error, RunConfig};
    /// let mut config = RunConfig::new("vector_example");
    /// # config.device_mode = tensortap::DeviceMode::Thread;
    /// let report = tensortap::run(&config).or_else(Error::into_report)?;
    /// assert_eq!(report.status(), "complete");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn into_report(self) -> Result<RunReport, Error> {
        match self {
            Error::Failed(report) => Ok(*report),
            other => Err(other),
        }
    }

    /// Whether the request was wrong, as opposed to a failure during the run.
    pub fn is_usage(&self) -> bool {
        match self {
            Error::SanitizedScene { .. } => true,
            Error::Platform(error) => error.is_usage(),
            Error::Unknown(_) | Error::SceneRuntime { .. } | Error::Scene(_) | Error::Fault { .. } => true,
            Error::DumpOption { .. } | Error::TooLarge { .. } => true,
            Error::Format(error) => error.is_usage(),
            Error::Folder(_) | Error::DumpFolder { .. } => true,
            Error::LiveGolden { .. } | Error::SceneGolden { .. } | Error::Analysis(_) => true,
            Error::Run(RunError::BadOption { .. }) => true,
            Error::Replay(error) => error.is_usage(),
            Error::Run(_) | Error::Failed(_) => false,
        }
    }
}

/// An unknown name, the valid names, and the most similar one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// Kind of the name: "scene", "platform", …
    pub what: &'static str,
    /// The unknown name.
    pub name: String,
    /// The valid names.
    pub valid: Vec<String>,
    /// The most similar valid name.
    pub did_you_mean: Option<String>,
}

/// Minimum similarity of two names for a suggestion: by their common letters, which favors equal
/// beginnings, and by the share of letters that need not be retyped.
const ALIKE: f64 = 0.75;
const KEPT: f64 = 0.5;
/// Minimum number of letters for a prefix to count as the start of a name.
const BEGINNING: usize = 3;

fn is_alike(known: &str, name: &str) -> bool {
    let begins = name.chars().count() >= BEGINNING && known.starts_with(name);
    let is_kept = begins || strsim::normalized_damerau_levenshtein(known, name) >= KEPT;
    is_kept && strsim::jaro_winkler(known, name) >= ALIKE
}

impl UnknownName {
    /// Finds the most similar valid name.
    pub fn new<'a>(what: &'static str, name: &str, valid: impl IntoIterator<Item = &'a str>) -> UnknownName {
        let valid: Vec<String> = valid.into_iter().map(str::to_string).collect();
        let likeness = |v: &String| strsim::jaro_winkler(v, name);
        let alike = valid.iter().filter(|known| is_alike(known, name));
        let did_you_mean = alike.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).cloned();
        UnknownName { what, name: name.into(), valid, did_you_mean }
    }
}

impl std::error::Error for UnknownName {}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownName { what, name, valid, did_you_mean } = self;
        write!(f, "there is no {what} `{name}`; ")?;
        if let Some(nearest) = did_you_mean {
            write!(f, "did you mean `{nearest}`? ")?;
        }
        if valid.is_empty() {
            write!(f, "there are none")
        } else {
            write!(f, "there are: {}", valid.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_and_a_far_one_is_not() {
        let near = UnknownName::new("scene", "paged_atention", ["bgemm", "paged_attention"]);
        assert_eq!(near.did_you_mean.as_deref(), Some("paged_attention"));
        assert!(near.to_string().contains("did you mean `paged_attention`?"));
        assert_eq!(UnknownName::new("scene", "xyz", ["bgemm"]).did_you_mean, None);
        assert_eq!(UnknownName::new("parameter", "nope", ["n", "seed"]).did_you_mean, None);
        let begun = UnknownName::new("scene", "paged", ["bgemm", "paged_attention"]);
        assert_eq!(begun.did_you_mean.as_deref(), Some("paged_attention"));
    }
}
