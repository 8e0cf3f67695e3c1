//! Builds the examples in `examples/record` with the host's compilers and uses them as their pages
//! describe.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tensortap::format::Dump;
use tensortap::{DType, DumpStage};

use crate::common;

/// The root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The output of a command, which must succeed.
pub fn good(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A `tensortap` command line in a folder.
pub fn tensortap(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(common::executable());
    command.current_dir(folder).args(line.split_whitespace());
    for variable in ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"] {
        command.env_remove(variable);
    }
    command
}

/// The only dump of a run folder.
fn dump(run: &Path) -> Dump {
    let folders = std::fs::read_dir(run).unwrap().flatten().map(|entry| entry.path());
    let folders: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    let [only] = folders.as_slice() else { panic!("{folders:?}") };
    Dump::open(only).unwrap()
}

#[test]
fn a_race_in_a_pool_of_threads_is_found_by_comparing_two_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("examples/record/pool/pool.cpp");
    let program = folder.path().join("pool");
    let flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-I"];
    good(Command::new("c++").args(flags).arg(root().join("include")).arg(&source).arg("-o").arg(&program));
    let alone = good(Command::new(&program).arg("1"));
    let right = good(&mut tensortap(folder.path(), "record --out right -- ./pool 1"));
    assert_eq!(right, alone, "recording does not change the output");
    good(&mut tensortap(folder.path(), "record --out wrong -- ./pool 4"));
    let blame = tensortap(folder.path(), "blame wrong --golden right --json").output().unwrap();
    assert_eq!(blame.status.code(), Some(1), "{}", String::from_utf8_lossy(&blame.stderr));
    let blame: Value = serde_json::from_slice(&blame.stdout).unwrap();
    let tasks = blame["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 16);
    let raced: Vec<&Value> = tasks.iter().filter(|task| task["label"] == "raced").collect();
    assert!(!raced.is_empty(), "{blame}");
    for task in &raced {
        assert_eq!(task["kernels"], serde_json::json!(["blend"]), "{task}");
        assert_eq!(task["raced_with"]["how"], "read_too_early", "{task}");
        // The tile to its right, which is computed slowly because its number is odd.
        let number: u64 = task["task_name"].as_str().unwrap().strip_prefix("tile ").unwrap().parse().unwrap();
        assert!(number.is_multiple_of(2), "{task}");
        let other = tasks.iter().find(|other| other["task_id"] == task["raced_with"]["task_id"]).unwrap();
        assert_eq!(other["task_name"], format!("tile {}", number + 1), "{other}");
    }
    assert!(tasks.iter().all(|task| task["label"] == "raced" || task["label"] == "ok"), "{blame}");
}

#[test]
fn a_python_caller_only_needs_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let script = root().join("examples/record/python/record.py");
    let plain = match Command::new("python3").arg(&script).env_remove("TENSORTAP_LIBRARY").output() {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).unwrap(),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => return eprintln!("SKIPPED: the example in Python, as there is no python3 here"),
    };
    let line = format!("record --out run -- python3 {}", script.display());
    assert_eq!(good(&mut tensortap(folder.path(), &line)), plain);
    let dump = dump(&folder.path().join("run"));
    let expected: [(&str, DumpStage, [f64; 5]); 4] = [
        ("square", DumpStage::BeforeDispatch, [1.0, 2.0, 3.0, 4.0, 5.0]),
        ("square", DumpStage::AfterCompletion, [1.0, 4.0, 9.0, 16.0, 25.0]),
        ("running_sum", DumpStage::BeforeDispatch, [1.0, 4.0, 9.0, 16.0, 25.0]),
        ("running_sum", DumpStage::AfterCompletion, [1.0, 5.0, 14.0, 30.0, 55.0]),
    ];
    assert_eq!(dump.len(), 4);
    for (record, (kernel, stage, values)) in dump.records().zip(expected) {
        let record = record.unwrap();
        assert_eq!((record.stage, record.dtype), (stage, DType::Float64));
        assert!(record.func_ids().any(|id| dump.info().kernel_name(id) == kernel));
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(dump.payload(&record).unwrap(), bytes, "{kernel}");
    }
}

#[test]
fn a_cmake_project_finds_the_library_and_records_into_its_own_folder() {
    let folder = tempfile::tempdir().unwrap();
    if Command::new("cmake").arg("--version").output().is_err() {
        return eprintln!("SKIPPED: the CMake project, as there is no cmake here");
    }
    let (prefix, build) = (folder.path().join("prefix"), folder.path().join("build"));
    let built = common::executable();
    let mut install = Command::new(root().join("scripts/install"));
    good(install.arg("--from").arg(Path::new(&built).parent().unwrap()).arg(&prefix).env_remove("DESTDIR"));
    let source = root().join("examples/record/cmake");
    let prefix_path = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    good(Command::new("cmake").arg("-S").arg(&source).arg("-B").arg(&build).arg(prefix_path));
    good(Command::new("cmake").arg("--build").arg(&build));
    // The initial rod and the input and output of each step, computed here.
    let mut rod = [0.0_f64; 64];
    rod[0] = 100.0;
    let mut expected = vec![rod];
    for _ in 0..5 {
        let from = rod;
        for at in 1..63 {
            rod[at] = from[at] + 0.25 * (from[at - 1] - 2.0 * from[at] + from[at + 1]);
        }
        expected.extend([from, rod]);
    }
    let recorded = folder.path().join("heat");
    let said = good(Command::new(build.join("heat")).arg(&recorded));
    assert_eq!(said, format!("{:.6} 0\n", rod[1]));
    let dump = Dump::open(&recorded).unwrap();
    assert_eq!(dump.len(), 11);
    for (record, rod) in dump.records().zip(expected) {
        let bytes: Vec<u8> = rod.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(dump.payload(&record.unwrap()).unwrap(), bytes);
    }
    let steps: Vec<u32> = dump.records().skip(1).map(|record| record.unwrap().step).collect();
    assert_eq!(steps, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
    let again = Command::new(build.join("heat")).arg(&recorded).output().unwrap();
    assert!(
        again.status.code() == Some(1) && !again.stderr.is_empty(),
        "an existing folder is not overwritten"
    );
}
