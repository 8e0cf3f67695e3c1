//! How a verb ends, and how errors are told: what is wrong in one line, then what to do about it.

use std::path::Path;
use std::process::ExitCode;

use tensortap::analysis::AnalysisError;
use tensortap::format::FormatError;
use tensortap::interchange::InterchangeError;
use tensortap::{Error, FailureKind, RecordingError, RunFailure, Unknown};
use tensortap_query::QueryError;

use crate::interrupt;
use crate::output::{self, Output};
use crate::program::program;

/// What the process says with its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Good,
    /// A check found a difference.
    Difference,
    /// The request makes no sense.
    Usage,
    /// The run failed.
    Failed,
    /// As a program that was recorded, or what kept it from being recorded.
    Program {
        /// Its status.
        status: u8,
    },
    /// The user ended it.
    Interrupted {
        /// With this signal.
        signal: u8,
    },
}

impl Exit {
    /// The status.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Good => 0,
            Exit::Difference => 1,
            Exit::Usage => 2,
            Exit::Failed => 3,
            Exit::Program { status } => status,
            // As a shell reports the end by a signal.
            Exit::Interrupted { signal } => 128 + signal,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// A request that only the command line can find wrong.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct UsageError {
    /// What is wrong.
    pub message: String,
    /// What would do.
    pub hint: String,
}

/// The user ended a verb between two runs.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// An error in the parts that people and machines are told.
#[derive(Debug)]
pub struct Told {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// How the process ends.
    pub exit: Exit,
}

/// Prints an error that ended a verb, and says how the process ends. `scene` is the one the verb was about.
pub fn report(error: &anyhow::Error, scene: Option<&str>, output: Output) -> Exit {
    let told = tell(error, scene);
    output::error(&told.message, told.hint.as_deref());
    // A verb that got as far as its own document said in there what went wrong.
    if output.json && !output::has_begun() {
        output::error_document(&told);
    }
    told.exit
}

fn tell(error: &anyhow::Error, scene: Option<&str>) -> Told {
    let plain = |message: String, exit| Told { message, hint: None, exit };
    if let Some(error) = error.downcast_ref::<Error>() {
        return tell_tensortap(error, scene);
    }
    if let Some(failure) = error.downcast_ref::<RunFailure>() {
        let exit = if failure.interrupted { interrupt::exit() } else { Exit::Failed };
        return Told { message: failure.to_string(), hint: failure_hint(failure), exit };
    }
    if let Some(error) = error.downcast_ref::<RecordingError>() {
        return tell_record(error);
    }
    if let Some(error) = error.downcast_ref::<QueryError>() {
        return tell_query(error, scene);
    }
    if let Some(error) = error.downcast_ref::<AnalysisError>() {
        return tell_analysis(error);
    }
    if let Some(error) = error.downcast_ref::<FormatError>() {
        return plain(error.to_string(), if error.is_usage() { Exit::Usage } else { Exit::Failed });
    }
    if let Some(error) = error.downcast_ref::<InterchangeError>() {
        return tell_interchange(error);
    }
    if let Some(UsageError { message, hint }) = error.downcast_ref() {
        return Told { message: message.clone(), hint: Some(hint.clone()), exit: Exit::Usage };
    }
    plain(format!("{error:#}"), if error.is::<Interrupted>() { interrupt::exit() } else { Exit::Failed })
}

/// The program was not started.
fn tell_record(error: &RecordingError) -> Told {
    let exit = Exit::Program { status: error.status() };
    let hint = match error {
        RecordingError::Command { .. } if exit.code() == 127 => {
            Some("it is looked for in PATH, unless its name has a slash; nothing was recorded")
        }
        RecordingError::Command { .. } => Some("nothing was recorded"),
        RecordingError::NoCommand | RecordingError::Option(_) | RecordingError::NoLibrary(_) => None,
        _ => Some("the program was not started"),
    };
    Told { message: error.to_string(), hint: hint.map(Into::into), exit }
}

fn tell_tensortap(error: &Error, scene: Option<&str>) -> Told {
    let (message, hint) = explain(error, scene);
    Told { message, hint, exit: if error.is_usage() { Exit::Usage } else { Exit::Failed } }
}

fn tell_query(error: &QueryError, scene: Option<&str>) -> Told {
    match error {
        QueryError::Unknown(unknown) => {
            let hint = unknown_hint(unknown, None);
            Told { message: unknown_message(unknown), hint, exit: Exit::Usage }
        }
        QueryError::Record { message, hint } => {
            Told { message: message.clone(), hint: Some(hint.clone()), exit: Exit::Usage }
        }
        QueryError::SeveralDumps { .. } => {
            let hint = "say which: --rank N, --pid N, or the folder of one of them";
            Told { message: error.to_string(), hint: Some(hint.into()), exit: Exit::Usage }
        }
        QueryError::Interchange(error) => tell_interchange(error),
        QueryError::Analysis(error) => tell_analysis(error),
        QueryError::Tensortap(error) => tell_tensortap(error, scene),
        QueryError::Io(_) => Told { message: error.to_string(), hint: None, exit: Exit::Failed },
        QueryError::Format(_) | QueryError::NoRank { .. } | QueryError::Types { .. } => {
            Told { message: error.to_string(), hint: None, exit: Exit::Usage }
        }
    }
}

fn tell_analysis(error: &AnalysisError) -> Told {
    let names = "names are like task_0x0000000000000003_after_out1, as `tensortap export` writes them, like softmax.scores, or \
                 those of the run's outputs";
    match error {
        AnalysisError::Interchange(error) => tell_interchange(error),
        AnalysisError::UnnamedArrays => {
            Told { message: error.to_string(), hint: Some(names.into()), exit: Exit::Usage }
        }
        _ => Told { message: error.to_string(), hint: None, exit: Exit::Usage },
    }
}

/// Content that cannot be read is bad input; a file that cannot be written is a failure.
fn tell_interchange(error: &InterchangeError) -> Told {
    let cause = match error {
        InterchangeError::Content { source, .. } => {
            source.get_ref().and_then(|cause| cause.downcast_ref::<FormatError>())
        }
        _ => None,
    };
    let exit = match error {
        InterchangeError::Io { action: "write" | "create", .. } => Exit::Failed,
        _ => Exit::Usage,
    };
    Told { message: cause.map_or_else(|| error.to_string(), ToString::to_string), hint: None, exit }
}

fn explain(error: &Error, scene: Option<&str>) -> (String, Option<String>) {
    match error {
        Error::Unknown(unknown) => (unknown_message(unknown), unknown_hint(unknown, scene)),
        Error::Scene(_) | Error::Fault { .. } => {
            let hint =
                scene.map(|scene| format!("`{} scenes {scene}` shows its parameters and kernels", program()));
            (error.to_string(), hint)
        }
        _ => (error.to_string(), None),
    }
}

fn unknown_message(unknown: &Unknown) -> String {
    let Unknown { what, name, valid, .. } = unknown;
    let there_are =
        if valid.is_empty() { "there are none".into() } else { format!("there are: {}", valid.join(", ")) };
    format!("there is no {what} `{name}`; {there_are}")
}

fn unknown_hint(unknown: &Unknown, scene: Option<&str>) -> Option<String> {
    let Unknown { what, did_you_mean, .. } = unknown;
    if let Some(nearest) = did_you_mean {
        return Some(format!("did you mean `{nearest}`?"));
    }
    match *what {
        "scene" => Some(scene_hint(&unknown.name, Path::new(&unknown.name))),
        "parameter" | "kernel" => {
            scene.map(|scene| format!("`{} scenes {scene}` tells more about them", program()))
        }
        _ => None,
    }
}

/// What is no name of a scene may have been meant as a folder.
fn scene_hint(name: &str, path: &Path) -> String {
    let program = program();
    if path.exists() {
        return format!(
            "a scene folder has a file scene.toml, and `{name}` has none; `{program} new-scene DIR` writes one that runs"
        );
    }
    if name.contains('/') {
        let folder = name.trim_end_matches("scene.toml").trim_end_matches('/');
        return format!(
            "there is no such scene folder, either; `{program} new-scene {folder}` writes one that runs"
        );
    }
    format!(
        "`{program} scenes` tells more about them; `{program} new-scene {name}` writes a scene folder that runs"
    )
}

fn failure_hint(failure: &RunFailure) -> Option<String> {
    let hangs = failure.kind == Some(FailureKind::Stall) && !failure.interrupted;
    hangs.then(|| "a kernel that is only slow needs a longer --stall-timeout, or 0 for none".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_without_parameters_is_not_said_to_have_some() {
        let unknown = Unknown::new("parameter", "n", []);
        assert_eq!(unknown_message(&unknown), "there is no parameter `n`; there are none");
    }
}
