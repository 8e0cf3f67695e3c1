//! Exit statuses and error messages: one line that says what failed, then a hint about what to do.

use std::path::Path;
use std::process::ExitCode;

use tensortap::analysis::AnalysisError;
use tensortap::format::FormatError;
use tensortap::interchange::InterchangeError;
use tensortap::{Error, FailureKind, RecordingError, RunFailure, UnknownName};
use tensortap_query::QueryError;

use crate::interrupt;
use crate::output::{self, Output};
use crate::program::{is_tensortap, program};

/// Builds and starts tensortap with the scenes for tests, in a checkout of its repository.
pub const TEST_SCENES_COMMAND: &str = "cargo run --release --features test-scenes --";

/// The exit status of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Good,
    /// A check found a difference.
    Difference,
    /// Bad usage or unreadable input.
    Usage,
    /// The run or its dump failed.
    Failed,
    /// The status of a recorded program, or of `record` if the program could not be recorded.
    Program {
        /// The status.
        status: u8,
    },
    /// A signal of the user ended the verb.
    Interrupted {
        /// The signal.
        signal: u8,
    },
}

impl Exit {
    /// The status as a number.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Good => 0,
            Exit::Difference => 1,
            Exit::Usage => 2,
            Exit::Failed => 3,
            Exit::Program { status } => status,
            // As shells report the end by a signal.
            Exit::Interrupted { signal } => 128 + signal,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// A request that the command line rejects.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct UsageError {
    /// What is wrong.
    pub message: String,
    /// What to do instead.
    pub hint: String,
}

impl UsageError {
    /// A wrong request, and what to do instead.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> UsageError {
        UsageError { message: message.into(), hint: hint.into() }
    }
}

/// The user ended a verb between two runs.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interruption;

/// An error in the form that is printed, as text and as JSON.
#[derive(Debug)]
pub struct ErrorReport {
    /// What is wrong.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// The exit status of the process.
    pub exit: Exit,
}

/// Prints an error that ended a verb and returns the exit status. `scene` is the scene that the verb was called for.
pub fn report(error: &anyhow::Error, scene: Option<&str>, output: Output) -> Exit {
    let report = describe(error, scene);
    output::error(&report.message, report.hint.as_deref());
    // A verb that has printed its own document has described the failure there.
    if output.json && !output::has_written() {
        output::error_document(&report);
    }
    report.exit
}

fn describe(error: &anyhow::Error, scene: Option<&str>) -> ErrorReport {
    let plain = |message: String, exit| ErrorReport { message, hint: None, exit };
    if let Some(error) = error.downcast_ref::<Error>() {
        return describe_tensortap(error, scene);
    }
    if let Some(failure) = error.downcast_ref::<RunFailure>() {
        let exit = if failure.interrupted { interrupt::exit() } else { Exit::Failed };
        return ErrorReport { message: failure.to_string(), hint: failure_hint(failure), exit };
    }
    if let Some(error) = error.downcast_ref::<RecordingError>() {
        return describe_record(error);
    }
    if let Some(error) = error.downcast_ref::<QueryError>() {
        return describe_query(error, scene);
    }
    if let Some(error) = error.downcast_ref::<AnalysisError>() {
        return describe_analysis(error);
    }
    if let Some(error) = error.downcast_ref::<FormatError>() {
        return plain(error.to_string(), if error.is_usage() { Exit::Usage } else { Exit::Failed });
    }
    if let Some(error) = error.downcast_ref::<InterchangeError>() {
        return describe_interchange(error);
    }
    if let Some(UsageError { message, hint }) = error.downcast_ref() {
        return ErrorReport { message: message.clone(), hint: Some(hint.clone()), exit: Exit::Usage };
    }
    plain(format!("{error:#}"), if error.is::<Interruption>() { interrupt::exit() } else { Exit::Failed })
}

/// The program could not be started.
fn describe_record(error: &RecordingError) -> ErrorReport {
    let exit = Exit::Program { status: error.status() };
    let hint = match error {
        RecordingError::Command { .. } if exit.code() == 127 => {
            Some("tensortap searches PATH for a name without a slash; nothing was recorded")
        }
        RecordingError::Command { .. } => Some("nothing was recorded"),
        RecordingError::NoCommand | RecordingError::Option(_) | RecordingError::NoLibrary(_) => None,
        _ => Some("the program was not started"),
    };
    ErrorReport { message: error.to_string(), hint: hint.map(Into::into), exit }
}

fn describe_tensortap(error: &Error, scene: Option<&str>) -> ErrorReport {
    let (message, hint) = explain(error, scene);
    ErrorReport { message, hint, exit: if error.is_usage() { Exit::Usage } else { Exit::Failed } }
}

fn describe_query(error: &QueryError, scene: Option<&str>) -> ErrorReport {
    match error {
        QueryError::Unknown(unknown) => {
            let hint = unknown_hint(unknown, None);
            ErrorReport { message: unknown_message(unknown), hint, exit: Exit::Usage }
        }
        QueryError::Record { message, hint } => {
            ErrorReport { message: message.clone(), hint: Some(hint.clone()), exit: Exit::Usage }
        }
        QueryError::SeveralDumps { .. } => {
            let hint = "choose one: --rank N, --pid N, or the folder of one dump";
            ErrorReport { message: error.to_string(), hint: Some(hint.into()), exit: Exit::Usage }
        }
        QueryError::Interchange(error) => describe_interchange(error),
        QueryError::Analysis(error) => describe_analysis(error),
        QueryError::Tensortap(error) => describe_tensortap(error, scene),
        QueryError::Io(_) => ErrorReport { message: error.to_string(), hint: None, exit: Exit::Failed },
        QueryError::Format(_) | QueryError::NoRank { .. } | QueryError::Types { .. } => {
            ErrorReport { message: error.to_string(), hint: None, exit: Exit::Usage }
        }
    }
}

fn describe_analysis(error: &AnalysisError) -> ErrorReport {
    let names = "valid names: task_0x0000000000000003_after_out1, as `tensortap export` writes them; softmax.scores; or the \
                 names of the run's outputs";
    match error {
        AnalysisError::Interchange(error) => describe_interchange(error),
        AnalysisError::UnnamedArrays => {
            ErrorReport { message: error.to_string(), hint: Some(names.into()), exit: Exit::Usage }
        }
        _ => ErrorReport { message: error.to_string(), hint: None, exit: Exit::Usage },
    }
}

/// Unreadable content is bad input; a file that cannot be written is a failure.
fn describe_interchange(error: &InterchangeError) -> ErrorReport {
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
    ErrorReport { message: cause.map_or_else(|| error.to_string(), ToString::to_string), hint: None, exit }
}

fn explain(error: &Error, scene: Option<&str>) -> (String, Option<String>) {
    match error {
        Error::Unknown(unknown) => (unknown_message(unknown), unknown_hint(unknown, scene)),
        Error::Scene(_) | Error::Fault { .. } => {
            let hint =
                scene.map(|scene| format!("`{} scenes {scene}` lists its parameters and kernels", program()));
            (error.to_string(), hint)
        }
        _ => (error.to_string(), None),
    }
}

fn unknown_message(unknown: &UnknownName) -> String {
    let UnknownName { what, name, valid, .. } = unknown;
    let known =
        if valid.is_empty() { "there are none".into() } else { format!("there are: {}", valid.join(", ")) };
    format!("there is no {what} `{name}`; {known}")
}

fn unknown_hint(unknown: &UnknownName, scene: Option<&str>) -> Option<String> {
    let UnknownName { what, did_you_mean, .. } = unknown;
    if let Some(nearest) = did_you_mean {
        return Some(format!("did you mean `{nearest}`?"));
    }
    match *what {
        "scene" => Some(scene_hint(&unknown.name, Path::new(&unknown.name))),
        "parameter" | "kernel" => scene.map(|scene| format!("`{} scenes {scene}` describes them", program())),
        _ => None,
    }
}

/// A hint about an unknown scene, which may have been meant as a folder.
fn scene_hint(name: &str, path: &Path) -> String {
    let program = program();
    if let Some(hint) = missing_test_scene(name) {
        return hint;
    }
    if path.exists() {
        return format!(
            "a scene folder needs a file scene.toml, which `{name}` does not have; `{program} new-scene DIR` creates one"
        );
    }
    if name.contains('/') {
        let folder = name.trim_end_matches("scene.toml").trim_end_matches('/');
        return format!(
            "there is no scene folder of this name either; `{program} new-scene {folder}` creates one"
        );
    }
    format!("`{program} scenes` describes them; `{program} new-scene {name}` creates a scene folder")
}

/// How to get a scene that this build leaves out.
fn missing_test_scene(name: &str) -> Option<String> {
    let leaves_out = is_tensortap() && !cfg!(feature = "test-scenes");
    (leaves_out && tensortap_test_scenes::TEST_ONLY.contains(&name)).then(|| {
        format!(
            "`{name}` is a scene for tests, which this build leaves out: `{TEST_SCENES_COMMAND} run {name}`"
        )
    })
}

fn failure_hint(failure: &RunFailure) -> Option<String> {
    let hangs = failure.kind == Some(FailureKind::Stall) && !failure.interrupted;
    hangs.then(|| "if the kernel is only slow, set a longer --stall-timeout, or 0 for no limit".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_parameter_of_a_scene_without_parameters() {
        let unknown = UnknownName::new("parameter", "n", []);
        assert_eq!(unknown_message(&unknown), "there is no parameter `n`; there are none");
    }
}
