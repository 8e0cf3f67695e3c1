//! numpy in a separate process, which receives the same data and measures on request.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};
use tensortap::judge::{Predicate, QuickResult, Rule};

use crate::diff::Data;
use crate::{BenchError, Spread};

const SCRIPT: &str = include_str!("numpy.py");

fn failed(what: impl std::fmt::Display) -> BenchError {
    BenchError::Program { program: "numpy".into(), said: what.to_string() }
}

/// Exit status of the script if numpy is not installed.
const NO_NUMPY: i32 = 3;

/// The times of numpy.
#[derive(Clone, Debug, Serialize)]
pub struct Numpy {
    /// Version of numpy.
    pub version: String,
    /// Seconds per round.
    pub seconds: Spread,
    /// Both tensors together.
    pub bytes_per_s: Spread,
}

/// The result of one round.
#[derive(Debug, Deserialize)]
pub(crate) struct RoundResult {
    pub seconds: f64,
    close: bool,
    max_abs: f64,
}

impl RoundResult {
    /// Whether the results agree. numpy rounds differences of `float32` to `float32`.
    pub(crate) fn agrees_with(&self, ours: &QuickResult) -> bool {
        self.close == ours.passes() && (self.max_abs - ours.max_abs).abs() <= 1e-6 * ours.max_abs
    }
}

#[derive(Deserialize)]
struct Greeting {
    version: String,
}

/// A running script.
pub(crate) struct Session {
    child: Child,
    /// Closing it ends the script.
    stdin: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
    version: String,
}

impl Session {
    /// `None` if the interpreter does not exist or has no numpy.
    pub(crate) fn start(python: &str, data: &Data) -> Result<Option<Session>, BenchError> {
        let Predicate::Close { rtol, atol } = Rule::for_dtype(tensortap::abi::DType::Float32).predicate
        else {
            return Err(BenchError::Wrong("the default rule of float32 has no tolerances".into()));
        };
        let arguments = [(data.bytes_per_side() / 4).to_string(), rtol.to_string(), atol.to_string()];
        let started = Command::new(python)
            .arg("-c")
            .arg(SCRIPT)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = started else { return Ok(None) };
        let stdin = child.stdin.take();
        let answers =
            BufReader::new(child.stdout.take().ok_or_else(|| failed("its output is not a pipe"))?).lines();
        let mut session = Session { child, stdin, answers, version: String::new() };
        let Some(hello) = session.answers.next().transpose().map_err(failed)? else {
            return match session.child.wait().map_err(failed)?.code() {
                Some(NO_NUMPY) => Ok(None),
                code => Err(BenchError::Program {
                    program: python.into(),
                    said: format!(
                        "it exited with {code:?} before it measured; choose another interpreter with --python"
                    ),
                }),
            };
        };
        session.version = serde_json::from_str::<Greeting>(&hello).map_err(failed)?.version;
        session.send(&data.dump)?;
        session.send(&data.golden)?;
        Ok(Some(session))
    }

    /// Measures one round.
    pub(crate) fn round(&mut self) -> Result<RoundResult, BenchError> {
        self.send(b"\n")?;
        let answer =
            self.answers.next().ok_or_else(|| failed("it exited during a measurement"))?.map_err(failed)?;
        serde_json::from_str(&answer).map_err(failed)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        let stdin = self.stdin.as_mut().ok_or_else(|| failed("it is already closed"))?;
        stdin.write_all(bytes).and_then(|()| stdin.flush()).map_err(failed)
    }

    /// The times of all rounds, of which there must be at least one.
    pub(crate) fn finish(self, seconds: Vec<f64>, bytes: f64) -> Numpy {
        let bytes_per_s = Spread::of(seconds.iter().map(|seconds| bytes / seconds).collect());
        Numpy { version: self.version.clone(), seconds: Spread::of(seconds), bytes_per_s }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // The script ends because its input is closed.
        let _ = self.child.wait();
    }
}
