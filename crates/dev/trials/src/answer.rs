//! The answer of `tensortap blame --json`, read without any code of tensortap.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::mentions::{self, Mention};

/// One task of the answer.
#[derive(Clone, Debug)]
pub struct Labeled {
    pub task: u64,
    pub label: String,
    pub raced_with: Option<u64>,
}

/// What `blame` says.
#[derive(Clone, Debug)]
pub struct Answer {
    pub verdict: String,
    pub tasks: Vec<Labeled>,
    pub first_wrong: Vec<u64>,
    /// Why the run fails.
    pub failure: String,
    /// Tasks that are named without a label.
    pub mentions: Vec<Mention>,
}

impl Answer {
    pub fn label(&self, task: u64) -> &str {
        self.tasks.iter().find(|labeled| labeled.task == task).map_or("", |labeled| labeled.label.as_str())
    }

    /// Reads the document.
    pub fn parse(text: &str) -> Result<Answer, String> {
        let document: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
        let list = |key: &str| document[key].as_array().cloned().ok_or(format!("no list {key}"));
        let task = |value: &Value| {
            let id = value["task_id"].as_str().and_then(hex).ok_or("a task without an id")?;
            let label = value["label"].as_str().ok_or("a task without a label")?.to_owned();
            let raced_with = value["raced_with"]["task_id"].as_str().and_then(hex);
            Ok::<_, String>(Labeled { task: id, label, raced_with })
        };
        Ok(Answer {
            verdict: document["verdict"].as_str().ok_or("no verdict")?.to_owned(),
            tasks: list("tasks")?.iter().map(task).collect::<Result<_, _>>()?,
            first_wrong: list("first_wrong")?.iter().filter_map(Value::as_str).filter_map(hex).collect(),
            failure: document["failure"].as_str().unwrap_or_default().to_owned(),
            mentions: mentions::all(&document),
        })
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Asks which task went wrong first. An error is an exit status or a document that `blame` must not give. For some
/// seeds, the answer for people must have the same headline as the document.
pub fn ask(tensortap: &Path, actual: &Path, golden: &Path, seed: u64) -> Result<Answer, String> {
    let text = output(tensortap, &["--json"], actual, golden)?;
    let answer = Answer::parse(&text)?;
    if seed.is_multiple_of(8) && answer.verdict != "pass" {
        let document = serde_json::from_str(&text).map_err(|error| format!("no JSON: {error}"))?;
        mentions::compare_text(&output(tensortap, &[], actual, golden)?, &document)?;
    }
    Ok(answer)
}

fn output(tensortap: &Path, options: &[&str], actual: &Path, golden: &Path) -> Result<String, String> {
    let mut command = Command::new(tensortap);
    command.arg("blame").args(options).args(["--quiet", "--jobs", "1"]);
    command.arg(actual).arg("--golden").arg(golden);
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run: {error}"))?;
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0 | 1) => Ok(text.into_owned()),
        _ => Err(format!("{}: {}", output.status, errors.trim_end())),
    }
}
