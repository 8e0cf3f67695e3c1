//! Checks recordings of the program in `regions.hpp`: launches inside of regions have them as parents, in one dump,
//! whichever library attached first, and regions change no verdict.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tensortap::format::{Dump, Task, Tasks};

use super::executable;

/// Compiles the program of a suite: its source, and what it links.
pub fn compile(source: &Path, more: &[&Path], out: &Path) -> PathBuf {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../include");
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let mut command = Command::new(compiler);
    command.args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-rdynamic", "-I"]).arg(include);
    command.arg(source).args(more).args(["-lpthread", "-ldl", "-o"]).arg(out);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out.to_owned()
}

/// The expected output of the program.
pub fn printed(is_wrong: bool) -> String {
    let added = if is_wrong { 102 } else { 2 };
    format!("3 {}\n", 9 + 3 * added)
}

/// The launches in the order of their submission, each with the names of the regions around it.
fn launches(tasks: &Tasks) -> Vec<(u64, String, Vec<String>)> {
    let regions =
        |task: Task<'_>| task.regions().map(|region| region.task_name().unwrap().to_owned()).collect();
    let of_kernels = tasks.iter().filter(|task| task.func_ids().next().is_some());
    let mut launches: Vec<_> =
        of_kernels.map(|task| (task.task_id, task.kernel_names().join("+"), regions(task))).collect();
    launches.sort();
    launches
}

/// Checks the dump of a right run.
pub fn check_parents(dump: &Dump) {
    let tasks = dump.tasks().unwrap();
    let found: Vec<_> = launches(&tasks).into_iter().map(|(_, kernel, regions)| (kernel, regions)).collect();
    let inside = |kernel: &str, regions: &[&str]| {
        (kernel.to_owned(), regions.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    };
    let expected = [
        inside("scale", &[]),
        inside("scale", &["layer", "step"]),
        inside("add", &["layer", "step"]),
        inside("scale", &[]),
        inside("on the host", &["step"]),
        inside("add", &["step"]),
        inside("add", &[]),
    ];
    assert_eq!(found, expected);
    let details = dump.details().unwrap();
    let step = tasks.iter().find(|task| task.task_name() == Some("step")).unwrap();
    let attributes = json!(details.attributes(step.key()).collect::<Vec<_>>());
    assert_eq!(attributes, json!([{"name": "number", "type": "int", "value": "7"}]));
    assert!(tasks.iter().filter(|task| task.is_region).all(|region| !region.is_unfinished()));
}

/// Checks that `blame` passes a right run, names the wrong launch of a wrong one, and reports no race.
pub fn check_verdicts(folder: &Path, [golden, right, wrong]: [&str; 3], wrong_dump: &Dump) {
    let blame = |run: &str| -> Value {
        let mut command = Command::new(executable());
        command.args(["blame", run, "--golden", golden, "--json"]).current_dir(folder);
        let output = command.output().unwrap();
        assert!(output.status.code() < Some(2), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let labels = |blame: &Value| -> Vec<String> {
        let tasks = blame["tasks"].as_array().unwrap().iter();
        tasks.map(|task| task["label"].as_str().unwrap().to_owned()).collect()
    };
    let passed = blame(right);
    assert_eq!(passed["verdict"], "pass", "{passed}");
    assert!(labels(&passed).iter().all(|label| label == "ok"), "{passed}");
    let failed = blame(wrong);
    let tasks = wrong_dump.tasks().unwrap();
    let first = launches(&tasks).into_iter().find(|(_, kernel, _)| kernel == "add").unwrap().0;
    assert_eq!(
        (&failed["verdict"], &failed["first_wrong"]),
        (&json!("fail"), &json!([format!("{first:#018x}")]))
    );
    assert!(!labels(&failed).contains(&"raced".to_owned()), "{failed}");
}
