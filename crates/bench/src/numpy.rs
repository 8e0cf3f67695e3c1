//! numpy in a process of its own, which is given the same data and measures when it is told to.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};
use tensortap::judge::{Predicate, Quick, Rule};

use crate::diff::Data;
use crate::{BenchError, Spread};

const SCRIPT: &str = include_str!("numpy.py");

fn failed(what: impl std::fmt::Display) -> BenchError {
    BenchError::Program { program: "numpy".into(), said: what.to_string() }
}

/// Said by the script where numpy is not installed.
const NO_NUMPY: i32 = 3;

/// What numpy took.
#[derive(Clone, Debug, Serialize)]
pub struct Numpy {
    /// Its version.
    pub version: String,
    /// Seconds of a round.
    pub seconds: Spread,
    /// Of both tensors together.
    pub bytes_per_s: Spread,
}

/// One answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub seconds: f64,
    close: bool,
    max_abs: f64,
}

impl Answer {
    /// numpy rounds differences of `float32` to `float32`.
    pub(crate) fn agrees_with(&self, ours: &Quick) -> bool {
        self.close == ours.passes() && (self.max_abs - ours.max_abs).abs() <= 1e-6 * ours.max_abs
    }
}

#[derive(Deserialize)]
struct Hello {
    version: String,
}

/// A script that waits to be told.
pub(crate) struct Session {
    child: Child,
    /// Closed first, which ends the script.
    stdin: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
    version: String,
}

impl Session {
    /// `None` where there is no interpreter of that name or it has no numpy.
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
            BufReader::new(child.stdout.take().ok_or_else(|| failed("its output is no pipe"))?).lines();
        let mut session = Session { child, stdin, answers, version: String::new() };
        let Some(hello) = session.answers.next().transpose().map_err(failed)? else {
            return match session.child.wait().map_err(failed)?.code() {
                Some(NO_NUMPY) => Ok(None),
                code => Err(BenchError::Program {
                    program: python.into(),
                    said: format!("it ended with {code:?} before it measured; --python names another"),
                }),
            };
        };
        session.version = serde_json::from_str::<Hello>(&hello).map_err(failed)?.version;
        session.send(&data.dump)?;
        session.send(&data.golden)?;
        Ok(Some(session))
    }

    /// Measures once.
    pub(crate) fn round(&mut self) -> Result<Answer, BenchError> {
        self.send(b"\n")?;
        let answer =
            self.answers.next().ok_or_else(|| failed("it ended while it measured"))?.map_err(failed)?;
        serde_json::from_str(&answer).map_err(failed)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        let stdin = self.stdin.as_mut().ok_or_else(|| failed("it was told to end"))?;
        stdin.write_all(bytes).and_then(|()| stdin.flush()).map_err(failed)
    }

    /// What all rounds took. Of at least one.
    pub(crate) fn finish(self, seconds: Vec<f64>, bytes: f64) -> Numpy {
        let bytes_per_s = Spread::of(seconds.iter().map(|seconds| bytes / seconds).collect());
        Numpy { version: self.version.clone(), seconds: Spread::of(seconds), bytes_per_s }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It has ended or ends now; there is nothing left to do if not.
        let _ = self.child.wait();
    }
}
