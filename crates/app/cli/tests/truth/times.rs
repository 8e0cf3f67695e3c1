//! Checks times and cores of dispatches and tasks, as far as they are known from outside: the order of
//! events, and that a core does one thing at a time.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tensortap::{DumpConfig, DumpLevel};

use crate::args::{dispatches, list, number, read};
use crate::manifest::hex;
use crate::{config, run, venues};

fn ns(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("a time: {value}"))
}

/// When and where a dispatch ran.
struct DispatchTime {
    core: u64,
    handed: u64,
    started: u64,
    returned: u64,
}

/// Checks that every dispatch ran once, on the core it was handed to, after that, and within its task; that
/// no core ran two at a time; and that no task began before its producers ended.
pub fn times_are_true(dir: &Path, label: &str) {
    let mut finished: BTreeMap<u64, Value> = BTreeMap::new();
    for ran in list(&read(dir, "kernel_args_dump.json")["finished"]) {
        let before = finished.insert(hex(&ran["dispatch_id"]), ran.clone());
        assert!(before.is_none(), "{label}: {ran} appears twice");
    }
    let mut by_task: BTreeMap<u64, Vec<DispatchTime>> = BTreeMap::new();
    let mut first_core: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
    for dispatch in dispatches(dir) {
        let ran = finished.remove(&hex(&dispatch["dispatch_id"]));
        let ran = ran.unwrap_or_else(|| panic!("{label}: {dispatch} never finished"));
        assert_eq!(ran["core_id"], dispatch["core_id"], "{label}: {dispatch}");
        let core = number(&ran["core_id"]);
        let (handed, started, returned) =
            (ns(&dispatch["handed_over_ns"]), ns(&ran["started_ns"]), ns(&ran["completed_ns"]));
        assert!(0 < handed && handed <= started && started <= returned, "{label}: {dispatch} {ran}");
        let task = hex(&dispatch["task_id"]);
        by_task.entry(task).or_default().push(DispatchTime { core, handed, started, returned });
        let place = (number(&dispatch["block_idx"]), number(&dispatch["subtask_id"]), core);
        first_core.entry(task).and_modify(|first| *first = (*first).min(place)).or_insert(place);
    }
    assert!(finished.is_empty(), "{label}: finished but never dispatched: {finished:?}");
    let graph = read(dir, "graph.json");
    let mut spans: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for task in list(&graph["tasks"]) {
        let id = hex(&task["task_id"]);
        let (began, ended) = (ns(&task["dispatched_ns"]), ns(&task["completed_ns"]));
        for ran in &by_task[&id] {
            assert!(began <= ran.handed && ran.returned <= ended, "{label}: {task}");
        }
        assert_eq!(number(&task["core_id"]), first_core[&id].2, "{label}: {task}");
        spans.insert(id, (began, ended));
    }
    for edge in list(&graph["edges"]) {
        let (from, to) = (spans[&hex(&edge["from"])], spans[&hex(&edge["to"])]);
        assert!(from.1 <= to.0, "{label}: {edge}");
    }
    let mut by_core: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for ran in by_task.values().flatten() {
        by_core.entry(ran.core).or_default().push((ran.started, ran.returned));
    }
    for (core, mut spans) in by_core {
        spans.sort_unstable();
        let alone = spans.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        assert!(alone, "{label}: core {core} ran two dispatches at a time");
    }
}

/// Without dispatches, a task still has its cores: those that its kernels may use, as far as they are known.
#[test]
fn a_task_has_its_cores_without_dispatches_too() {
    for venue in venues("mixed_example").into_iter().step_by(5) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = config("mixed_example", DumpLevel::Hash, folder.path());
        config.dump = Some(DumpConfig::new(DumpLevel::Hash));
        (config.schedulers, config.blocks) = (2, Some(2));
        venue.set(&mut config);
        let dir = run(&config).dump.expect("dumped").dir;
        let graph = read(&dir, "graph.json");
        assert!(!list(&graph["tasks"]).is_empty(), "{venue}");
        for task in list(&graph["tasks"]) {
            let (core, first) = (number(&task["core_id"]), &task["core_type"][0]);
            assert!(core < 6, "{venue}: {task}");
            assert_eq!(core % 3 == 0, first == "AIC", "{venue}: {task}");
        }
    }
}
