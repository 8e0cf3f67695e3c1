//! Traces: both formats contain the same events, which are the tasks, dispatches and dependencies in the files of the dump.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::python;
use crate::dumps::Folder;
use crate::json::{document, keys};

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a file")).expect("JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("a list: {value}"))
}

/// Microseconds with three decimals as nanoseconds.
fn ns(micros: &Value) -> u64 {
    let micros = micros.as_f64().unwrap_or_else(|| panic!("a time: {micros}"));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of a short run")]
    let ns = (micros * 1000.0).round() as u64;
    ns
}

/// The events of a JSON trace, in the form of `decode_trace.py`.
fn chrome(path: &Path) -> Value {
    let trace = read(path);
    let (mut processes, mut lines) = (HashMap::new(), HashMap::new());
    let (mut slices, mut samples): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    for event in list(&trace["traceEvents"]) {
        let (pid, name) = (event["pid"].as_u64().expect("a process"), event["name"].clone());
        let line = (pid, event["tid"].as_u64().unwrap_or(0));
        match event["ph"].as_str().expect("a kind") {
            "M" if name == "process_name" => drop(processes.insert(pid, event["args"]["name"].clone())),
            "M" if name == "thread_name" => drop(lines.insert(line, event["args"]["name"].clone())),
            "M" => {}
            "X" => slices.push(json!({
                "process": processes[&pid], "line": lines[&line], "cat": event["cat"], "name": name,
                "start": ns(&event["ts"]), "dur": ns(&event["dur"]), "args": event["args"],
                "leaving": [], "entering": [],
            })),
            end @ ("s" | "f") => {
                let slice = slices.last_mut().expect("flows follow their slice");
                assert_eq!(
                    (ns(&event["ts"]), &lines[&line]),
                    (slice["start"].as_u64().unwrap(), &slice["line"])
                );
                let side = if end == "s" { "leaving" } else { "entering" };
                slice[side].as_array_mut().unwrap().push(event["id"].clone());
            }
            "C" => {
                let value = event["args"].as_object().and_then(|args| args.values().next()).expect("a value");
                samples.push(json!([processes[&pid], name, ns(&event["ts"]), value]));
            }
            other => panic!("an event of kind {other}"),
        }
    }
    json!({"slices": slices, "samples": samples})
}

/// The events of a trace in Perfetto's format, decoded with Perfetto's messages; `None` if Python or the messages are
/// missing.
fn perfetto(path: &Path) -> Option<Value> {
    let module = "import perfetto.protos.perfetto.trace.perfetto_trace_pb2";
    let python = python(module, "Perfetto's own view of a trace")?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/decode_trace.py");
    let said = Command::new(&python).arg(script).arg(path).output().expect("it starts");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    Some(serde_json::from_slice(&said.stdout).expect("JSON"))
}

/// Slices and samples, sorted.
fn sorted(events: &Value) -> (Vec<String>, Vec<String>) {
    let lines = |part: &str| {
        let mut lines: Vec<String> = list(&events[part]).iter().map(Value::to_string).collect();
        lines.sort_unstable();
        lines
    };
    (lines("slices"), lines("samples"))
}

fn slices<'e>(events: &'e Value, category: &str) -> Vec<&'e Value> {
    list(&events["slices"]).iter().filter(|slice| slice["cat"] == category).collect()
}

fn hex(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_else(|| panic!("an id: {value}"))
}

fn decimal(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("a time: {value}"))
}

/// Start and end of a slice.
fn span(slice: &Value) -> (u64, u64) {
    let start = slice["start"].as_u64().expect("a start");
    (start, start + slice["dur"].as_u64().expect("a duration"))
}

fn of_tasks(events: &Value) -> BTreeMap<u64, (u64, u64)> {
    let tasks = slices(events, "task");
    let by_id: BTreeMap<u64, (u64, u64)> =
        tasks.iter().map(|slice| (hex(&slice["args"]["task_id"]), span(slice))).collect();
    assert_eq!(by_id.len(), tasks.len(), "a task is there once");
    by_id
}

/// The tasks of `graph.json` with their times.
fn tasks_of(dump: &Path) -> BTreeMap<u64, (u64, u64)> {
    let graph = read(&dump.join("graph.json"));
    let times = |task: &Value| (decimal(&task["dispatched_ns"]), decimal(&task["completed_ns"]));
    list(&graph["tasks"]).iter().map(|task| (hex(&task["task_id"]), times(task))).collect()
}

/// The pairs of tasks that flows connect.
fn joined(events: &Value) -> Vec<(u64, u64)> {
    let ends = |side: &str| -> BTreeMap<u64, u64> {
        let tasks = slices(events, "task").into_iter();
        let flows = tasks.flat_map(|slice| {
            list(&slice[side]).iter().map(|id| (id.as_u64().expect("an id"), hex(&slice["args"]["task_id"])))
        });
        let flows: Vec<_> = flows.collect();
        let by_id: BTreeMap<u64, u64> = flows.iter().copied().collect();
        assert_eq!(by_id.len(), flows.len(), "a flow has one end of each kind");
        by_id
    };
    let (leaving, entering) = (ends("leaving"), ends("entering"));
    assert!(leaving.keys().eq(entering.keys()), "every flow has both ends");
    let mut pairs: Vec<_> = leaving.iter().map(|(id, from)| (*from, entering[id])).collect();
    pairs.sort_unstable();
    pairs
}

#[test]
fn both_formats_contain_the_tasks_dispatches_and_edges() {
    let folder = Folder::new();
    folder.record(
        "tiny_llm --param tokens=2 --param prompt=1 --dump-tensor --dump-args --schedulers 2 --blocks 2",
        "d",
    );
    let output = document(&folder.good("trace d -o t.json --json"));
    folder.good("trace d -o t.pftrace");
    let events = chrome(&folder.path("t.json"));
    if let Some(decoded) = perfetto(&folder.path("t.pftrace")) {
        assert_eq!(sorted(&decoded), sorted(&events));
    }

    let dump = folder.path("d");
    let expected = tasks_of(&dump);
    assert!(expected.len() > 100);
    assert_eq!(of_tasks(&events), expected);
    let listed = document(&folder.good("list d --json"));
    let mut listed: Vec<u64> =
        list(&listed["records"]).iter().map(|record| hex(&record["task_id"])).collect();
    listed.sort_unstable();
    listed.dedup();
    assert!(expected.keys().copied().eq(listed), "list has the same tasks");

    let kernel_args = read(&dump.join("kernel_args_dump.json"));
    let finished: BTreeMap<u64, &Value> =
        list(&kernel_args["finished"]).iter().map(|ran| (hex(&ran["dispatch_id"]), ran)).collect();
    let mut expected: Vec<_> = list(&kernel_args["dispatches"])
        .iter()
        .map(|dispatch| {
            let ran = finished[&hex(&dispatch["dispatch_id"])];
            let line = format!("core {} ({})", dispatch["core_id"], dispatch["core_type"].as_str().unwrap());
            let times = (decimal(&ran["started_ns"]), decimal(&ran["completed_ns"]));
            (hex(&dispatch["dispatch_id"]), line, dispatch["kernel"].clone().to_string(), times)
        })
        .collect();
    let mut drawn: Vec<_> = slices(&events, "dispatch")
        .into_iter()
        .map(|slice| {
            let line = slice["line"].as_str().unwrap().to_owned();
            (hex(&slice["args"]["dispatch_id"]), line, slice["name"].to_string(), span(slice))
        })
        .collect();
    expected.sort();
    drawn.sort();
    assert_eq!(drawn, expected);

    let graph = read(&dump.join("graph.json"));
    let mut expected: Vec<_> =
        list(&graph["edges"]).iter().map(|edge| (hex(&edge["from"]), hex(&edge["to"]))).collect();
    expected.sort_unstable();
    assert!(expected.len() > 100);
    assert_eq!(joined(&events), expected);

    let counts = ["tasks", "dispatches", "flows"].map(|key| output[key].as_u64().unwrap());
    assert_eq!(counts, [of_tasks(&events).len(), drawn.len(), expected.len()].map(|n| n as u64));
    for scheduler in ["scheduler 0", "scheduler 1"] {
        assert!(slices(&events, "task").iter().any(|slice| slice["line"] == scheduler), "{scheduler}");
    }
    check_counters(&events, &folder.manifest("d"));
}

/// The last sample of the captured bytes is the sum over all records, and the blocked time does not exceed that of the run.
fn check_counters(events: &Value, manifest: &Value) {
    let last = |name: &str| {
        let samples = list(&events["samples"]).iter().filter(|sample| sample[1] == name);
        let values: Vec<(u64, u64)> =
            samples.map(|sample| (sample[2].as_u64().unwrap(), sample[3].as_u64().unwrap())).collect();
        assert!(values.is_sorted() && values.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{name}");
        values.last().expect("samples").1
    };
    let bytes: u64 =
        list(&manifest["tensors"]).iter().map(|record| record["bin_size"].as_u64().unwrap()).sum();
    assert_eq!(last("bytes captured"), bytes);
    let held_up = last("time held up");
    assert!(held_up > 0 && held_up <= manifest["held_up_ns"].as_u64().unwrap(), "{held_up}");
}

#[test]
fn places_tasks_on_cores_without_dispatches() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor=meta", "d");
    folder.good("trace d -o t.json");
    let events = chrome(&folder.path("t.json"));
    assert_eq!(of_tasks(&events), tasks_of(&folder.path("d")));
    assert!(slices(&events, "dispatch").is_empty());
    let on_core = |slice: &&Value| slice["line"] == format!("core {} (AIV)", slice["args"]["core"]);
    assert!(slices(&events, "task").iter().all(on_core), "{events}");

    // t1 and t2 wait for t0, t3 for t1 and t2, t4 for t3 and t0.
    let output = document(&folder.good("trace d --task t0,t3,t4 -o part.json --json"));
    assert_eq!(
        keys(&output),
        ["dispatches", "dump", "dumps", "flows", "format", "output", "samples", "tasks", "tracks"]
    );
    let part = chrome(&folder.path("part.json"));
    assert_eq!((slices(&part, "task").len(), joined(&part).len(), &output["tasks"]), (3, 2, &json!(3)));
    assert_eq!(fs::read_dir(folder.path(".")).unwrap().count(), 3, "nothing else is left");
}

#[test]
fn errors_leave_an_existing_file_unchanged() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor=meta", "d");
    let refused = folder.tensortap("trace d -o t.svg");
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("use the suffix .pftrace or .json"), "{refused:?}");
    let nowhere = folder.tensortap("trace d -o no/such/folder/t.json");
    assert_eq!(nowhere.code, Some(3), "{nowhere:?}");
    assert!(
        nowhere.stderr.contains("the folder no/such/folder does not exist; create it first"),
        "{nowhere:?}"
    );
    fs::write(folder.path("t.json"), "before").unwrap();
    assert_eq!(folder.tensortap("trace d --func nothing_like_it -o t.json").code, Some(2));
    let nothing = folder.tensortap("trace d --func zz* -o t.json");
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
    assert!(nothing.stderr.contains("t.json is not written: d: There is no kernel zz*;"), "{nothing:?}");
    assert_eq!(fs::read_to_string(folder.path("t.json")).unwrap(), "before");
    folder.good("trace d -o t.trace --format perfetto");
    assert!(fs::read(folder.path("t.trace")).unwrap().starts_with(&[0x0a]));
}
