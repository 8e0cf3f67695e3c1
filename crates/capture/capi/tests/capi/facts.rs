//! Tests facts that a C program records about its tasks.

use serde_json::{Value, json};

use crate::{
    compile::program,
    host::{RecordedProcess, record},
};

/// Runs `facts.c` under a recorder.
fn run() -> Option<(tempfile::TempDir, Vec<RecordedProcess>)> {
    let built = tempfile::tempdir().unwrap();
    let program = program("facts.c", built.path(), &[])?;
    let (dir, output, recorded) = record(&program, &[], false);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{:?}: {said}", output.status);
    Some((dir, recorded))
}

fn graph_of(recorded: &RecordedProcess) -> Value {
    let file = recorded.dump().dir().join("graph.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// The entries of a list of `graph.json` for one task.
fn entries(graph: &Value, list: &str, task: &str) -> Vec<Value> {
    let all = graph[list].as_array().expect("the list exists").iter();
    all.filter(|entry| entry["task_id"] == task).cloned().collect()
}

#[test]
fn attributes_of_every_type_reach_the_graph() {
    let Some((_dir, recorded)) = run() else { return };
    let graph = graph_of(&recorded[0]);
    let task = &graph["tasks"].as_array().unwrap().iter().find(|task| task["kernels"] == json!(["attend"]));
    let id = task.expect("the task")["task_id"].as_str().unwrap();
    let mut found = entries(&graph, "attributes", id);
    let many = found.pop().unwrap();
    for entry in &mut found {
        entry.as_object_mut().unwrap().remove("task_id");
    }
    let all = json!([
        {"type": "none", "value": null}, {"type": "bool", "value": true},
        {"type": "int", "value": i64::MIN.to_string()}, {"type": "float", "value": -0.25},
        {"type": "text", "value": "causal"}, {"type": "dtype", "value": "bfloat16"},
        {"type": "uncaptured", "value": "Generator"},
    ]);
    let expected = json!([
        {"name": "mask", "type": "none", "value": null},
        {"name": "is_causal", "type": "bool", "value": true},
        {"name": "heads", "type": "int", "value": "-12"},
        {"name": "scale", "type": "float", "value": 0.125},
        {"name": "backend", "type": "text", "value": "flash \"2\""},
        {"name": "accumulate", "type": "dtype", "value": "float32"},
        {"name": "generator", "type": "uncaptured", "value": "torch.Generator"},
        {"name": "all", "type": "list", "value": all},
        {"name": "nothing", "type": "list", "value": []},
    ]);
    assert_eq!(Value::from(found), expected);
    assert_eq!((&many["name"], &many["total"]), (&json!("many"), &json!(1500)));
    let integers: Vec<Value> = (0..1024).map(|n| json!({"type": "int", "value": n.to_string()})).collect();
    assert_eq!(many["value"], Value::from(integers));
}
