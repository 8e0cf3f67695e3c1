//! The answer of `tensortap blame --json` for a run of many ranks, read without any code of tensortap.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::mentions::{self, Mention};

/// A task of a rank in the dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    pub rank: usize,
    pub id: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labeled {
    pub task: Task,
    pub label: String,
    /// The task of another rank that the error came from.
    pub from: Option<Task>,
}

/// What `blame` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub verdict: String,
    pub tasks: Vec<Labeled>,
    /// The first wrong tasks of the run with their labels.
    pub first_wrong: Vec<(Task, String)>,
    /// Ranks of the collective that the headline names as a whole.
    pub collective: Vec<usize>,
    /// Missing ranks that could decide.
    pub undecided: Vec<usize>,
    /// Tasks that are named without a label, by rank.
    pub mentions: Vec<(usize, Mention)>,
}

impl Answer {
    /// Reads the document of a run.
    pub fn parse(text: &str) -> Result<Answer, String> {
        let document: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
        let list = |key: &str| document[key].as_array().ok_or(format!("no list {key}"));
        let (mut tasks, mut mentions) = (Vec::new(), Vec::new());
        for dump in list("dumps")? {
            // A missing rank has no tasks.
            for task in dump["tasks"].as_array().into_iter().flatten() {
                tasks.push(labeled(number(&dump["rank"])?, task)?);
            }
            for mention in mentions::all(dump) {
                mentions.push((number(&dump["rank"])?, mention));
            }
        }
        let first_wrong = list("first_wrong")?.iter().map(|task| Ok((task_of(task)?, label_of(task)?)));
        let first_wrong = first_wrong.collect::<Result<Vec<_>, String>>()?;
        check_headline(&document, first_wrong.first().map(|(task, _)| *task))?;
        let ranks = document["collective"]["ranks"].as_array();
        Ok(Answer {
            verdict: document["verdict"].as_str().ok_or("no verdict")?.to_owned(),
            tasks,
            mentions,
            first_wrong,
            collective: ranks.into_iter().flatten().map(number).collect::<Result<_, _>>()?,
            undecided: list("undecided_because")?
                .iter()
                .map(|rank| number(&rank["rank"]))
                .collect::<Result<_, _>>()?,
        })
    }

    pub fn label(&self, task: Task) -> &str {
        self.tasks.iter().find(|labeled| labeled.task == task).map_or("", |labeled| labeled.label.as_str())
    }
}

/// The headline names the first of the first wrong tasks.
fn check_headline(document: &Value, first: Option<Task>) -> Result<(), String> {
    let named = if document["task_id"].is_null() { None } else { Some(task_of(document)?) };
    match named == first {
        true => Ok(()),
        false => Err(format!("the headline names {named:?}, the first wrong task is {first:?}")),
    }
}

fn labeled(rank: usize, task: &Value) -> Result<Labeled, String> {
    let from = &task["from_rank"];
    let from = if from.is_null() { None } else { Some(task_of(from)?) };
    Ok(Labeled { task: Task { rank, id: id_of(task)? }, label: label_of(task)?, from })
}

fn task_of(task: &Value) -> Result<Task, String> {
    Ok(Task { rank: number(&task["rank"])?, id: id_of(task)? })
}

fn id_of(task: &Value) -> Result<u64, String> {
    let id = task["task_id"].as_str().and_then(|id| u64::from_str_radix(id.strip_prefix("0x")?, 16).ok());
    id.ok_or_else(|| "a task without an id".to_owned())
}

fn label_of(task: &Value) -> Result<String, String> {
    Ok(task["label"].as_str().ok_or("a task without a label")?.to_owned())
}

fn number(rank: &Value) -> Result<usize, String> {
    let rank = rank.as_u64().and_then(|rank| usize::try_from(rank).ok());
    rank.ok_or_else(|| "a dump without a rank".to_owned())
}

/// Asks which task of which rank went wrong first. An error is an exit status or a document that `blame` must not
/// give.
pub fn ask(tensortap: &Path, run: &Path, golden: &Path, options: &[String]) -> Result<Answer, String> {
    let mut command = Command::new(tensortap);
    command.args(["blame", "--json", "--quiet", "--jobs", "1"]).arg(run).arg("--golden").arg(golden);
    let output = command.args(options).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run: {error}"))?;
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let Some(code @ (0 | 1)) = output.status.code() else {
        return Err(format!("{}: {}", output.status, errors.trim_end()));
    };
    let answer = Answer::parse(&text)?;
    match (code == 0) == (answer.verdict == "pass") {
        true => Ok(answer),
        false => Err(format!("verdict {} with exit status {code}", answer.verdict)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mentions::Claim;

    const DOCUMENT: &str = r#"{"verdict": "fail", "rank": 2, "step": 1, "task_id": "0x7",
        "collective": {"ranks": [0, 1]}, "first_wrong": [{"rank": 2, "task_id": "0x7", "label": "wrong_here"}],
        "undecided_because": [{"rank": 3}],
        "dumps": [{"rank": 1, "suspect": "0x9", "tasks": [{"task_id": "0x9", "label": "inherited",
                                         "from_rank": {"rank": 2, "task_id": "0x7"}}]},
                  {"rank": 3, "verdict": "fail", "reason": "missing"}]}"#;

    #[test]
    fn reads_everything_that_names_a_rank() {
        let answer = Answer::parse(DOCUMENT).unwrap();
        let culprit = Task { rank: 2, id: 7 };
        let inherited =
            Labeled { task: Task { rank: 1, id: 9 }, label: "inherited".to_owned(), from: Some(culprit) };
        assert_eq!(answer.first_wrong, [(culprit, "wrong_here".to_owned())]);
        assert_eq!(
            (answer.tasks, answer.collective, answer.undecided),
            (vec![inherited], vec![0, 1], vec![3])
        );
        let suspect =
            Mention { task: 9, claim: Claim::WrongOutput, of_golden: false, words: "suspect".to_owned() };
        assert_eq!(answer.mentions, [(1, suspect)]);
    }

    #[test]
    fn refuses_a_headline_that_names_another_task() {
        let other = DOCUMENT.replacen("\"rank\": 2", "\"rank\": 1", 1);
        assert!(Answer::parse(&other).unwrap_err().contains("the headline names"));
    }
}
