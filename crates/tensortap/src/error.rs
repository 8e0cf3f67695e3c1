use std::fmt;
use std::path::PathBuf;

use tensortap_analysis::AnalysisError;
use tensortap_folder::FolderError;
use tensortap_format::FormatError;
use tensortap_platform::PlatformError;
use tensortap_replay::ReplayError;
use tensortap_runtime::RunError;
use tensortap_scene::{FaultKind, SceneError};

use crate::{DumpReport, RunReport};

/// Why there is no good answer: a run that could not begin, or one that failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name nobody knows.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// A scene that the runtime makes no sense for.
    #[error("scene `{scene}` does not run on `{runtime}`; it runs on: {}", .runtimes.join(", "))]
    SceneRuntime {
        /// The scene.
        scene: &'static str,
        /// What was asked for.
        runtime: &'static str,
        /// What it runs on.
        runtimes: Vec<&'static str>,
    },
    /// A sanitizer for kernels that it was not compiled into.
    #[error(
        "scene `{scene}` is written in Rust, and sanitizers are compiled into kernels of scene folders; use --guard for it"
    )]
    SanitizedScene {
        /// The scene.
        scene: &'static str,
    },
    /// Arguments that do not fit in memory.
    #[error(
        "the arguments of scene `{scene}` take {needed} bytes, and there are {available} of {what}; use smaller parameters"
    )]
    TooLarge {
        /// The scene.
        scene: &'static str,
        /// Bytes of all arguments.
        needed: u64,
        /// Which memory.
        what: &'static str,
        /// Bytes there are.
        available: u64,
    },
    /// A parameter the scene does not take.
    #[error(transparent)]
    Scene(#[from] SceneError),
    /// A fault that cannot show in a kernel.
    #[error("fault `{kind}` cannot show in kernel `{kernel}` of scene `{scene}`; it shows: {}", names(.shows))]
    Fault {
        /// The scene.
        scene: &'static str,
        /// The kernel.
        kernel: &'static str,
        /// What was asked for.
        kind: FaultKind,
        /// What can show.
        shows: &'static [FaultKind],
    },
    /// A dump option that cannot be.
    #[error("{option} cannot be {value}: {expected}")]
    DumpOption {
        /// As on the command line.
        option: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        expected: String,
    },
    /// A golden that a run cannot be compared with while it lasts.
    #[error("{} cannot be the golden of this run: {reason}", .golden.display())]
    LiveGolden {
        /// The golden.
        golden: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// A dump that the golden of its scene cannot be computed for.
    #[error("{} cannot be compared with the golden of its scene: {reason}", .dump.display())]
    SceneGolden {
        /// Folder of the dump.
        dump: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// A folder that is no scene that can be run.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The folder that a dump names is not taken.
    #[error("the dump is of the scene in {}: {reason}", .folder.display())]
    DumpFolder {
        /// The folder.
        folder: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// A dump could not be analysed.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
    /// The dump's files could not be created, or read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The device could not be opened.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// Nothing could be replayed or extracted.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The run could not be prepared.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The run began and ended early, or its dump failed. The report has what there is; [`Error::into_report`] takes it.
    #[error("{}", failed(.0))]
    Failed(Box<RunReport>),
}

/// As [`Display`](fmt::Display): a `main` that returns an error prints its debug form, and the advice should be in it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn failed(report: &RunReport) -> String {
    let problem = |dump: &DumpReport| {
        let problem = dump.problem.as_deref()?;
        Some(format!("the dump failed: {problem}; what was captured before is in {}", dump.dir.display()))
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
    /// The report of a run that failed; any other error stays one. For those who want to know what a run came to,
    /// however it ended.
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

    /// Whether the request itself was wrong, as opposed to what came of it.
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

/// A name nobody knows, what there is instead, and the nearest of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// What was named: "scene", "platform", …
    pub what: &'static str,
    /// The name given.
    pub name: String,
    /// What there is.
    pub valid: Vec<String>,
    /// The one most likely meant.
    pub did_you_mean: Option<String>,
}

/// How alike two names must be to be taken for one another: by their letters in common, which favours equal beginnings, and by
/// the share that need not be typed anew.
const ALIKE: f64 = 0.75;
const KEPT: f64 = 0.5;
/// As many letters stand for a name that begins with them.
const BEGINNING: usize = 3;

fn is_alike(known: &str, name: &str) -> bool {
    let begins = name.chars().count() >= BEGINNING && known.starts_with(name);
    let is_kept = begins || strsim::normalized_damerau_levenshtein(known, name) >= KEPT;
    is_kept && strsim::jaro_winkler(known, name) >= ALIKE
}

impl Unknown {
    /// Finds the nearest of the valid names.
    pub fn new<'a>(what: &'static str, name: &str, valid: impl IntoIterator<Item = &'a str>) -> Unknown {
        let valid: Vec<String> = valid.into_iter().map(str::to_string).collect();
        let likeness = |v: &String| strsim::jaro_winkler(v, name);
        let alike = valid.iter().filter(|known| is_alike(known, name));
        let did_you_mean = alike.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).cloned();
        Unknown { what, name: name.into(), valid, did_you_mean }
    }
}

impl std::error::Error for Unknown {}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unknown { what, name, valid, did_you_mean } = self;
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
        let near = Unknown::new("scene", "paged_atention", ["bgemm", "paged_attention"]);
        assert_eq!(near.did_you_mean.as_deref(), Some("paged_attention"));
        assert!(near.to_string().contains("did you mean `paged_attention`?"));
        assert_eq!(Unknown::new("scene", "xyz", ["bgemm"]).did_you_mean, None);
        assert_eq!(Unknown::new("parameter", "nope", ["n", "seed"]).did_you_mean, None);
        let begun = Unknown::new("scene", "paged", ["bgemm", "paged_attention"]);
        assert_eq!(begun.did_you_mean.as_deref(), Some("paged_attention"));
    }
}
