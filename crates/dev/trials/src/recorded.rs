//! Finds the tasks of a recorded program in its dump.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use tensortap_record::DumpFilter;

use crate::device::DeviceCapture;
use crate::machine::TaskTrace;
use crate::recording::Facts;

pub fn read_json(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Finds the task of each launch and host write of the only process: the program submits them in the order of the plan. A
/// filter may leave out some.
pub fn facts(traces: &[TaskTrace], dir: &Path, capture: &DeviceCapture) -> Result<Facts, String> {
    let entries = std::fs::read_dir(dir).map_err(|error| error.to_string())?;
    let process = entries.filter_map(Result::ok).map(|entry| entry.path()).find(|path| path.is_dir());
    let graph = read_json(&process.ok_or("no process was recorded")?.join("graph.json"))?;
    let mut tasks = Vec::new();
    for task in graph["tasks"].as_array().ok_or("a graph without tasks")? {
        let id = task["task_id"].as_str().and_then(|id| u64::from_str_radix(id.strip_prefix("0x")?, 16).ok());
        if task["operation"] != "host_read" {
            tasks.push(id.ok_or("a task without an id")?);
        }
    }
    tasks.sort_unstable();
    let is_filtered = capture.capture.filter != DumpFilter::ALL;
    if tasks.len() != traces.len() && !is_filtered {
        return Err(format!("{} of {} tasks were recorded", tasks.len(), traces.len()));
    }
    // Tasks are numbered from 1 on, also those that a filter leaves out.
    let ids: Vec<(usize, u64)> = traces.iter().map(|trace| trace.id).zip(1..).collect();
    let ids: Vec<_> = ids.into_iter().filter(|(_, task)| tasks.contains(task)).collect();
    if ids.len() != tasks.len() {
        return Err(format!(
            "only {} of {} recorded tasks have a number of the plan",
            ids.len(),
            tasks.len()
        ));
    }
    let mut all = HashMap::new();
    for trace in traces.iter().filter(|trace| ids.iter().any(|(id, _)| *id == trace.id)) {
        for arg in 0..trace.args.len() {
            all.insert((trace.id, arg, true), capture.content());
            if trace.kernel.is_some() {
                all.insert((trace.id, arg, false), capture.content());
            }
        }
    }
    let mut facts = Facts { ids, content: all, scalars: HashMap::new() };
    capture.restrict(&mut facts);
    Ok(facts)
}
