//! Launches of recorded programs, replayed from their dumps.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tensortap::record::DumpStage;

use crate::{Bench, common, succeeded};

/// Prints the path of the OpenCL loader of `pyopencl`, which has drivers next to it. Prints nothing if that
/// is the system's loader.
const LOADER: &str = "import glob, os, pyopencl as cl; \
    print(next(iter(glob.glob(os.path.dirname(cl.__file__) + '/.libs/libOpenCL*')), ''))";

impl Bench {
    /// Runs `tensortap` with an OpenCL loader to replay with.
    pub fn call(&self, args: &[&str]) -> (Option<i32>, Value, String) {
        let mut command = Command::new(common::executable());
        command
            .current_dir(self.folder.path())
            .args(args)
            .arg("--json")
            .env("XDG_CACHE_HOME", self.path("cache"));
        if std::env::var_os("TENSORTAP_OPENCL").is_none() {
            let said = Command::new(&self.python).args(["-c", LOADER]).output().unwrap();
            let loader = PathBuf::from(String::from_utf8(said.stdout).unwrap().trim());
            if loader.is_file() {
                command.env("TENSORTAP_OPENCL", loader);
            }
        }
        let said = command.output().unwrap();
        let document = serde_json::from_slice(&said.stdout).unwrap_or(Value::Null);
        (said.status.code(), document, String::from_utf8_lossy(&said.stderr).into_owned())
    }

    /// Checks that every launch of a run is replayed bit for bit. Returns the number of launches.
    #[track_caller]
    pub fn replay_all(&self, run: &str) -> u64 {
        let (code, said, stderr) = self.call(&["replay", run, "--all", "--stall-timeout", "5min"]);
        let tasks = said["tasks"].as_u64().unwrap_or(0);
        assert_eq!((code, &said["bitexact"]), (Some(0), &tasks.into()), "{said} {stderr}");
        tasks
    }
}

#[test]
fn structs_vectors_local_memory_offsets_and_sub_buffers_are_replayed() {
    let Some(bench) = Bench::new() else { return };
    succeeded(&bench.program(Some(("run", "")), "replayed.py").output().unwrap());
    let dump = bench.dump("run");
    let [module] = &dump.modules()[..] else { panic!("one program: {:?}", dump.modules()) };
    assert!(module.image(dump.dir()).unwrap().starts_with(b"\ntypedef struct"));
    assert_eq!(bench.replay_all("run"), 6);
    let (code, said, stderr) = bench.call(&["extract", "run", "--task", "several", "--out", "case"]);
    assert_eq!(code, Some(0), "{said} {stderr}");
    let readme = std::fs::read_to_string(bench.path("case/README.md")).unwrap();
    assert!(readme.contains("# One launch of `several`") && readme.contains("- options: `-DX=1"), "{readme}");
    assert!(readme.contains("- work items: 1000 x 1 x 1, in groups chosen by the driver"), "{readme}");
    assert!(readme.contains("| 3 | u | 200 (uint8) |"), "{readme}");
    std::fs::remove_dir_all(bench.path("run")).unwrap();
    assert_eq!(bench.replay_all("case"), 1);
}

#[test]
fn structs_of_any_size_are_recorded_as_bytes() {
    let Some(bench) = Bench::new() else { return };
    succeeded(&bench.program(Some(("run", "")), "replayed.py").output().unwrap());
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let bytes = |kernel: &str| {
        let task = tasks.iter().find(|task| task.kernel_names() == [kernel]).unwrap();
        let captured = task.argument(1).expect("it was recorded").before.unwrap();
        let record = dump.record(captured.record).unwrap();
        let mut bytes = Vec::new();
        dump.payload_into(&record, &mut bytes).unwrap();
        assert_eq!((record.dtype.name(), record.dtype_known), ("uint8", false), "{kernel}");
        bytes
    };
    let (half, three) = (0.5_f32.to_le_bytes(), 3_i32.to_le_bytes());
    assert_eq!(bytes("paired"), [half, three].concat());
    assert_eq!(bytes("several"), [1_i32.to_le_bytes(), 2.5_f32.to_le_bytes(), three].concat());
}

#[test]
fn a_damaged_payload_is_reported_and_no_kernel_is_blamed() {
    let Some(bench) = Bench::new() else { return };
    succeeded(&bench.program(Some(("run", "")), "replayed.py").output().unwrap());
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let turned = tasks.iter().find(|task| task.kernel_names() == ["turned"]).unwrap();
    // Its input, then its output.
    for stage in [DumpStage::BeforeDispatch, DumpStage::AfterCompletion] {
        let argument = turned.argument(0).unwrap();
        let captured = argument.captured(stage).unwrap();
        let at = dump.record(captured.record).unwrap().bin_offset;
        let payloads = dump.dir().join("tensor_dump.bin");
        let whole = std::fs::read(&payloads).unwrap();
        let mut changed = whole.clone();
        changed[usize::try_from(at).unwrap() + 17] ^= 0x40;
        std::fs::write(&payloads, changed).unwrap();
        let (code, said, stderr) = bench.call(&["replay", "run", "--task", "turned"]);
        assert_eq!(code, Some(1), "{said} {stderr}");
        let reason = said["refused"][0]["reason"].as_str().unwrap_or_default();
        assert!(reason.starts_with("argument 0: its payload is corrupt"), "{said} {stderr}");
        // The task cannot be judged, which is no evidence against it.
        let (code, said, stderr) = bench.call(&["blame", "run", "--rerun", "--strict"]);
        assert_eq!((code, &said["failure"]), (Some(1), &"unjudged".into()), "{said} {stderr}");
        let (code, said, stderr) = bench.call(&["blame", "run", "--rerun"]);
        assert!(
            code == Some(0) && said["tasks"].to_string().contains("its payload is corrupt"),
            "{said} {stderr}"
        );
        assert!(!said["culprits"].to_string().contains("turned"), "{said} {stderr}");
        let (code, said, stderr) = bench.call(&["extract", "run", "--task", "turned", "--out", "case"]);
        let said = format!("{said} {stderr}");
        assert!(code != Some(0) && said.contains("hash mismatch") && !bench.path("case").exists(), "{said}");
        std::fs::write(&payloads, whole).unwrap();
    }
    assert_eq!(bench.replay_all("run"), 6);
}

#[test]
fn launches_of_binary_programs_are_replayed() {
    let Some(bench) = Bench::new() else { return };
    succeeded(&bench.program(Some(("run", "")), "replayed.py").arg("binary").output().unwrap());
    let dump = bench.dump("run");
    let is_binary = |module: &tensortap::format::Module| module.kind.name() == "opencl_binary";
    assert!(dump.modules().iter().any(is_binary), "{:?}", dump.modules());
    assert_eq!(bench.replay_all("run"), 6);
    let (code, said, stderr) = bench.call(&["blame", "run", "--rerun"]);
    assert_eq!((code, &said["verdict"]), (Some(0), &"pass".into()), "{said} {stderr}");
}

#[test]
fn a_launch_recorded_at_level_hash_is_refused_with_the_reason() {
    let Some(bench) = Bench::new() else { return };
    succeeded(&bench.program(Some(("run", "--dump-tensor=hash")), "replayed.py").output().unwrap());
    let (code, said, stderr) = bench.call(&["replay", "run", "--all"]);
    assert_eq!((code, &said["verdict"]), (Some(1), &"fail".into()), "{said} {stderr}");
    let reason = said["refused"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("would be zeros: its content before the launch is unknown"), "{reason}");
}

#[test]
fn an_unknown_device_is_a_usage_error() {
    let Some(bench) = Bench::new() else { return };
    succeeded(&bench.program(Some(("run", "")), "replayed.py").output().unwrap());
    let lines: [&[&str]; 4] = [
        &["replay", "run", "--all"],
        &["replay", "run", "several"],
        &["blame", "run", "--rerun"],
        &["blame", "run", "--reference"],
    ];
    for line in lines {
        let line: Vec<&str> = line.iter().copied().chain(["--device", "nosuch"]).collect();
        let (code, said, stderr) = bench.call(&line);
        let message = said["error"]["message"].as_str().unwrap_or_default();
        let is_named = message.starts_with("there is no OpenCL device `nosuch`; there are: 0 (");
        assert!(code == Some(2) && is_named, "{line:?}: {said} {stderr}");
    }
}
