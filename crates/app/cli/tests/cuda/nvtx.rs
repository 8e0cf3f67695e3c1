//! NVTX ranges are regions. The program contains what NVIDIA's header does.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use tensortap::format::{Dump, Task};

use crate::{Bench, built, common, compile, succeeded};

/// The regions around each launch, by the value that it puts.
fn regions_of_launches(dump: &Dump) -> Vec<(u64, Vec<String>)> {
    let tasks = dump.tasks().unwrap();
    let launches = tasks.iter().filter(|task| task.kernel_names() == ["put"]);
    let names =
        |task: Task<'_>| task.regions().map(|region| region.task_name().unwrap().to_owned()).collect();
    let mut found: Vec<_> =
        launches.map(|task| (task.argument(1).unwrap().scalar_bits.unwrap(), names(task))).collect();
    found.sort();
    found
}

#[test]
fn launches_in_ranges_have_them_as_parents() {
    let bench = Bench::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/nvtx.c");
    let rpath = format!("-Wl,-rpath,{}", built().display());
    let program = bench.path("nvtx");
    compile(&[&rpath, "-rdynamic"], &[&source, &built().join("libcuda.so.1")], &program);
    let run = |recorded: Option<&str>, order: &str| {
        let mut command = Command::new(recorded.map_or_else(|| program.clone(), |_| common::executable()));
        if let Some(run) = recorded {
            command.args(["record", "--out", run, "--"]).arg(&program);
        }
        command
            .arg(order)
            .current_dir(bench.folder.path())
            .env("TENSORTAP_CUPTI", built().join("libcupti.so.13"));
        command.env_remove("CUDA_INJECTION64_PATH").env_remove("NVTX_INJECTION64_PATH");
        succeeded(&command.output().unwrap())
    };
    assert_eq!(run(None, "before"), "6\n", "without recording, ranges do nothing");
    for order in ["before", "after"] {
        assert_eq!(run(Some(order), order), "6\n");
        let dump = bench.dump(order);
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected = [
            (1, list(&["outer"])),
            (2, list(&["inöner", "outer"])),
            (3, list(&["registered", "inöner", "outer"])),
            (4, list(&["inöner", "outer"])),
            (5, vec![]),
            (6, vec![]),
        ];
        assert_eq!(regions_of_launches(&dump), expected, "{order}");
        let (tasks, details) = (dump.tasks().unwrap(), dump.details().unwrap());
        let region = |name: &str| tasks.iter().find(|task| task.task_name() == Some(name)).unwrap();
        let attributes = json!(details.attributes(region("registered").key()).collect::<Vec<_>>());
        let expected = json!([
            {"name": "by", "type": "text", "value": "NVTX"}, {"name": "domain", "type": "text", "value": "solver"},
            {"name": "category", "type": "int", "value": "9"}, {"name": "payload", "type": "float", "value": 0.5},
        ]);
        assert_eq!(attributes, expected);
        let started = region("started");
        assert!(started.is_region && !started.contains_tasks() && !started.is_unfinished());
        assert!(region("never popped").is_unfinished());
    }
}
