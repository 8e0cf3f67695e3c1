//! `tensortap serve`: lists agree with the command line.

use std::process::Command;

use serde_json::Value;

use crate::common::executable;
use crate::served::{ServeProcess, hostile, run_tiny};

#[test]
fn lists_agree_with_the_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = run_tiny(folder.path(), "dump", None);
    let text = dump.to_str().expect("text");
    let served = ServeProcess::start(&[text]);
    let list = |args: &[&str]| -> Vec<Value> {
        let out = Command::new(executable())
            .arg("list")
            .arg(text)
            .args(args)
            .arg("--json")
            .output()
            .expect("it runs");
        let document: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        document["records"].as_array().expect("records").clone()
    };
    let listed = |args: &[&str]| -> Vec<u64> {
        list(args).iter().map(|record| record["index"].as_u64().expect("an index")).collect()
    };
    let complete = |path: &str| loop {
        let answer = served.document(path);
        if answer["complete"] == true {
            break answer;
        }
    };
    for (search, sort, args) in [
        ("", "", &[][..]),
        ("func:softmax+stage:after", "", &["--func", "softmax", "--stage", "after"]),
        ("--role+input", "-bytes", &["--role", "input", "--sort", "-bytes"]),
        ("softmax", "shape", &["--task", "softmax", "--sort", "shape"]),
        ("nan", "", &["--nan"]),
    ] {
        let expected = listed(args);
        let answer = complete(&format!("/api/records?q={search}&sort={sort}&from=3&count=20"));
        assert_eq!(answer["total"].as_u64(), Some(expected.len() as u64), "{search}");
        let rows = answer["rows"].as_array().expect("rows");
        let shown: Vec<u64> = rows.iter().map(|row| row["record"].as_u64().expect("a record")).collect();
        assert_eq!(shown, expected.iter().copied().skip(3).take(20).collect::<Vec<_>>(), "{search} {sort}");
    }
    let tasks = complete("/api/tasks?q=func:softmax&sort=task&count=500");
    let rows = tasks["rows"].as_array().expect("rows").iter();
    let ids: Vec<String> = rows.map(|row| row["task"].as_str().expect("a task").to_owned()).collect();
    let of_records = list(&["--func", "softmax"]).into_iter().map(|record| {
        let id = record["task_id"].as_str().expect("an id").trim_start_matches("0x").to_owned();
        format!("0x{}", id.trim_start_matches('0'))
    });
    let expected: std::collections::BTreeSet<String> = of_records.collect();
    assert_eq!(ids, expected.into_iter().collect::<Vec<_>>());
    let by_time = complete("/api/tasks?q=func:softmax&sort=-took&count=500");
    assert_eq!(by_time["total"], tasks["total"]);
    let wrong = served.document("/api/tasks?q=func:sofmax");
    assert_eq!(wrong["hint"], "did you mean `softmax`?");
}

#[test]
fn names_process_dumps_with_their_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let all = ["monday/pid-7", "tuesday/pid-8", "a/same", "b/same", "own"];
    all.iter().for_each(|name| hostile(&folder.path().join(name)));
    let served = ServeProcess::start(&all.map(path).each_ref().map(String::as_str));
    let dumps = served.document("/api/dumps");
    let names: Vec<&str> =
        dumps["dumps"].as_array().expect("dumps").iter().filter_map(|dump| dump["name"].as_str()).collect();
    assert_eq!(names, all);
    let alone = ServeProcess::start(&[folder.path().join("a/same").to_str().expect("text")]);
    assert_eq!(alone.document("/api/dumps")["dumps"][0]["name"], "same");
}
