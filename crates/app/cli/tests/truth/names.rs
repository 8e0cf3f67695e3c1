//! A dump contains the names of scopes, tasks and arguments, for every runtime and however the run ended.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use tensortap::scene::{Params, SequentialGraph};
use tensortap::{DeviceMode, DumpLevel, RunConfig};

use crate::common::{smaller, venues};
use crate::{config, run};

/// Scope and name of a task with its argument names in order, and the number of such tasks.
type Names = BTreeMap<(String, String, Vec<String>), usize>;

/// The names that the sequential executor gets.
fn expected_names(config: &RunConfig) -> Names {
    let scene = config.registry.find(&config.scene).expect("a scene");
    let pairs = config.params.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let params = Params::resolve(scene.name(), scene.params(), pairs).expect("valid parameters");
    let mut graph = SequentialGraph::record(scene, &params, &scene.host_args(&params)).expect("it builds");
    let mut names = Names::new();
    graph
        .run_observed(|step| {
            let count = step.roles.len() + step.before.scalars.len();
            let args =
                (0..count).map(|place| step.kernels[0].arg_name(place).unwrap_or_default().to_string());
            let key = (step.scope.join(" / "), step.task_name.clone(), args.collect());
            *names.entry(key).or_default() += 1;
        })
        .expect("it runs");
    names
}

/// The names in the manifest, task by task.
fn captured(manifest: &Value) -> Names {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let mut tasks: BTreeMap<String, (String, String, BTreeMap<u64, String>)> = BTreeMap::new();
    for record in manifest["tensors"].as_array().expect("records") {
        let task = tasks
            .entry(word(&record["task_id"]))
            .or_insert_with(|| (word(&record["scope"]), word(&record["task_name"]), BTreeMap::new()));
        task.2.insert(record["arg_index"].as_u64().expect("an index"), word(&record["arg_name"]));
    }
    let mut names = Names::new();
    for (scope, task_name, args) in tasks.into_values() {
        *names.entry((scope, task_name, args.into_values().collect())).or_default() += 1;
    }
    names
}

fn json(path: std::path::PathBuf) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("readable")).expect("JSON")
}

#[test]
fn names_are_those_of_the_orchestration_in_every_venue() {
    for scene in ["tiny_llm", "paged_attention", "mixed_example"] {
        let mut expected = None;
        for venue in venues(scene).into_iter().filter(|venue| venue.mode == DeviceMode::Process) {
            let folder = tempfile::tempdir().expect("a folder");
            let mut config = smaller(config(scene, DumpLevel::Meta, folder.path()));
            venue.set(&mut config);
            let expected = expected.get_or_insert_with(|| expected_names(&config));
            let dir = run(&config).dump.expect("dumped").dir;
            let what = format!("{scene} on {venue}");
            assert_eq!(&captured(&json(dir.join("tensor_dump.json"))), expected, "{what}");
            let mut tasks: BTreeMap<(String, String), usize> = BTreeMap::new();
            for task in json(dir.join("graph.json"))["tasks"].as_array().expect("tasks") {
                let word = |key: &str| task[key].as_str().unwrap_or_default().to_string();
                *tasks.entry((word("scope"), word("task_name"))).or_default() += 1;
            }
            let mut of_tasks: BTreeMap<(String, String), usize> = BTreeMap::new();
            for ((scope, name, _), count) in expected.iter() {
                *of_tasks.entry((scope.clone(), name.clone())).or_default() += count;
            }
            assert_eq!(tasks, of_tasks, "{what}, graph.json");
        }
    }
}
