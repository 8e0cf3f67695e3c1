//! Scene folders with C and C++ kernels: run, record, blame and replay.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tensortap::format::Dump;
use tensortap::{DeviceMode, DumpStage, PLATFORMS, RUNTIMES};

use crate::{Outcome, command, outcome};

/// Whether a C and a C++ compiler are installed. Without them, tests of scene folders are skipped with a notice.
pub fn has_compilers() -> bool {
    let found = |name: &str| Command::new(name).arg("--version").output().is_ok();
    let both = found("cc") && found("c++");
    if !both {
        eprintln!("skipped: there is no C or C++ compiler");
    }
    both
}

/// The folder of an example.
pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/scenes").join(name)
}

/// A temporary folder with its own library cache.
pub struct WorkFolder {
    pub folder: tempfile::TempDir,
}

impl WorkFolder {
    pub fn new() -> WorkFolder {
        WorkFolder { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("in the folder")).expect("created");
        std::fs::write(path, text).expect("written");
    }

    pub fn call(&self, words: &[&str]) -> Outcome {
        let mut command = command(words);
        command.current_dir(self.folder.path()).env("TENSORTAP_CACHE", self.path("cache"));
        outcome(command)
    }

    /// The JSON document of a call.
    pub fn json(&self, words: &[&str]) -> (Option<i32>, Value) {
        let said = self.call(&[words, &["--json"]].concat());
        let value = serde_json::from_str(&said.stdout);
        (said.code, value.unwrap_or_else(|error| panic!("{words:?}: {error}: {said:?}")))
    }
}

pub const SCENE: &str = r#"
name = "halves"
about = "z = (2x + y) / 2"
[params]
n = { default = 257, min = 2 }
[[tensor]]
name = "x"
dtype = "float32"
shape = ["n"]
role = "in"
fill = { range = [1.0, 0.5] }
[[tensor]]
name = "y"
dtype = "float32"
shape = ["n"]
role = "in"
fill = { constant = 3.0 }
[[tensor]]
name = "sum"
dtype = "float32"
shape = ["n"]
role = "temp"
[[tensor]]
name = "z"
dtype = "float32"
shape = ["n"]
role = "out"
[[kernel]]
name = "weigh"
source = "weigh.c"
args = ["in x", "in y", "out sum", "scalar factor: float32", "scalar count: uint32"]
reference = "weigh_reference"
[[kernel]]
name = "halve"
source = "halve.cpp"
symbol = "halve"
args = ["in sum", "out z"]
[[task]]
kernel = "weigh"
name = "weighted sum"
args = ["x", "y", "sum", 2.0, "n"]
[[task]]
kernel = "halve"
scope = "end/last"
args = ["sum", "z"]
[golden]
source = "weigh.c"
symbol = "golden"
"#;

pub const WEIGH: &str = r"
#include <tensortap.h>
void kernel_entry(uint64_t *args)
{
    float factor = tt_scalar_f32(args, 3);
    for (uint32_t i = 0; i < tt_scalar_u32(args, 4); i++)
        tt_f32(args, 2)[i] = factor * tt_f32(args, 0)[i] + tt_f32(args, 1)[i];
}
void weigh_reference(uint64_t *args)
{
    for (uint64_t i = 0; i < tt_numel(args, 0); i++)
        tt_f64(args, 2)[i] = (double)tt_scalar_f32(args, 3) * tt_f64(args, 0)[i] + tt_f64(args, 1)[i];
}
void golden(uint64_t *args)
{
    for (uint64_t i = 0; i < tt_numel(args, 0); i++)
        tt_f32(args, 2)[i] = tt_f32(args, 0)[i] + tt_f32(args, 1)[i] / 2;
}
";

pub const HALVE: &str = r"
#include <tensortap.hpp>
TT_KERNEL(halve)
{
    auto sum = args.in<float>(0);
    auto z = args.out<float>(1);
    for (std::size_t i = 0; i < sum.size(); i++)
        z[i] = sum[i] / 2;
}
";

/// The scene of this page, in its own workshop.
pub fn halves() -> WorkFolder {
    let shop = WorkFolder::new();
    shop.write("halves/scene.toml", SCENE);
    shop.write("halves/weigh.c", WEIGH);
    shop.write("halves/halve.cpp", HALVE);
    shop
}

/// Elements of a stored payload.
fn floats(dump: &Dump, task: u64, arg_index: u16, stage: DumpStage) -> Vec<f32> {
    // The id of the second task depends on the runtime: with rings, it is the first one in the ring of its scope.
    let is_task = |id: u64| id == task || (task > 0 && id >> 32 > 0);
    let record = (0..dump.len())
        .map(|at| dump.record(at).expect("readable"))
        .find(|record| is_task(record.task_id) && record.arg_index == arg_index && record.stage == stage);
    let bytes = dump.payload(&record.expect("recorded")).expect("stored");
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

#[test]
fn a_scene_folder_computes_its_formula_everywhere() {
    if !has_compilers() {
        return;
    }
    let shop = halves();
    let modes = [DeviceMode::Process, DeviceMode::Thread];
    let mut runs = 0;
    for platform in PLATFORMS.iter().map(|platform| platform.name()) {
        for runtime in RUNTIMES.iter().map(|runtime| runtime.name()) {
            let mode = modes[runs % 2].name();
            let out = format!("dump-{runs}");
            let (code, said) = shop.json(&[
                "run",
                "halves",
                "--platform",
                platform,
                "--runtime",
                runtime,
                "--device-mode",
                mode,
                "--dump-tensor",
                "--dump-args",
                "--out",
                &out,
            ]);
            assert_eq!(
                (code, &said["golden"], &said["scene"]),
                (Some(0), &"pass".into(), &"halves".into()),
                "{said}"
            );
            let dump = Dump::open(&shop.path(&out)).expect("a dump");
            let x: Vec<f32> = (0..257_u16).map(|i| 1.0 + 0.5 * f32::from(i)).collect();
            let sum: Vec<f32> = x.iter().map(|x| 2.0 * x + 3.0).collect();
            assert_eq!(floats(&dump, 0, 0, DumpStage::BeforeDispatch), x);
            assert_eq!(floats(&dump, 0, 2, DumpStage::AfterCompletion), sum);
            assert_eq!(
                floats(&dump, 1, 1, DumpStage::AfterCompletion),
                sum.iter().map(|s| s / 2.0).collect::<Vec<_>>()
            );
            let info = dump.info();
            assert!(
                info.kernels.iter().all(|k| k.code.contains(" gnu:") && k.code.ends_with(&k.build_id)),
                "{info:?}"
            );
            let (code, again) = shop.json(&["replay", &out, "--all"]);
            assert_eq!((code, &again["bitexact"]), (Some(0), &2.into()), "{again}");
            runs += 1;
        }
    }
    assert_eq!(runs, 6);
}

#[test]
fn a_new_scene_runs_in_both_languages_and_overwrites_nothing() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    for (words, source) in
        [(&["new-scene", "demo"][..], "kernels.c"), (&["new-scene", "plus", "--cpp"], "kernels.cpp")]
    {
        let written = shop.call(words);
        assert!(written.code == Some(0) && written.stdout.contains(source), "{written:?}");
        let (code, said) =
            shop.json(&["run", words[1], "--dump-tensor", "--out", &format!("{}-dump", words[1])]);
        assert_eq!((code, &said["golden"], &said["tasks"]), (Some(0), &"pass".into(), &2.into()), "{said}");
        assert_eq!(said["scene"], words[1]);
        let again = shop.call(words);
        assert!(
            again.code == Some(2) && again.stderr.contains("is not empty; name a new folder"),
            "{again:?}"
        );
    }
}

#[test]
fn the_examples_run_everywhere_and_blame_finds_the_softmax_bug() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    for (turn, runtime) in RUNTIMES.iter().map(|runtime| runtime.name()).enumerate() {
        let platform = PLATFORMS[turn % PLATFORMS.len()].name();
        for name in ["saxpy", "gemm"] {
            let folder = example(name);
            let folder = folder.to_str().expect("UTF-8");
            let out = format!("{name}-{runtime}");
            let (code, said) = shop.json(&[
                "run",
                folder,
                "--runtime",
                runtime,
                "--platform",
                platform,
                "--dump-tensor",
                "--out",
                &out,
            ]);
            assert_eq!((code, &said["golden"]), (Some(0), &"pass".into()), "{said}");
            let (code, said) = shop.json(&["blame", &out, "--reference"]);
            assert_eq!((code, &said["verdict"]), (Some(0), &"pass".into()), "{said}");
            let (code, said) = shop.json(&["replay", &out, "--all"]);
            assert_eq!((code, &said["bitexact"]), (Some(0), &said["tasks"]), "{said}");
        }
    }
    let (code, said) =
        shop.json(&["blame", "gemm-host_build_graph", "--golden", "gemm-tensormap_and_ringbuffer"]);
    assert_eq!((code, &said["verdict"]), (Some(0), &"pass".into()), "{said}");
    let names =
        shop.call(&["list", "gemm-aicpu_build_graph", "--scope", "rows 16", "--task", "tile 16.32 step 16"]);
    assert!(names.code == Some(0) && names.stdout.contains("tile_product"), "{names:?}");
    let page = std::fs::read_to_string(example("softmax/README.md")).expect("readable");
    crate::docs::run_page(&page, |folder| {
        let from = example("softmax");
        let to = folder.join("softmax");
        std::fs::create_dir(&to).expect("created");
        for file in ["scene.toml", "softmax.cpp", "golden.cpp"] {
            std::fs::copy(from.join(file), to.join(file)).expect("copied");
        }
    });
    let folder = example("softmax");
    let (code, _) = shop.json(&["run", folder.to_str().expect("UTF-8"), "--dump-tensor", "--out", "wrong"]);
    assert_eq!(code, Some(1));
    let (_, said) = shop.json(&["blame", "wrong", "--reference"]);
    let labels: Vec<_> =
        said["tasks"].as_array().expect("tasks").iter().map(|t| (&t["kernels"][0], &t["label"])).collect();
    let wrong: Vec<_> = labels.iter().filter(|(_, label)| **label == "wrong_here").collect();
    assert!(wrong.len() == 1 && *wrong[0].0 == "row_sum", "{labels:?}");
}

#[test]
fn the_suite_of_examples_fails_only_because_of_the_known_bug() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    let scenes = example("");
    let (code, said) = shop.json(&["test", scenes.to_str().expect("UTF-8"), "--runtime", "host_build_graph"]);
    assert_eq!(code, Some(1), "{said}");
    let trials = said["trials"].as_array().expect("trials");
    let passed = |scene: &str| {
        let of = trials.iter().filter(|trial| trial["scene"] == scene);
        of.map(|trial| trial["verdict"] == "pass").collect::<Vec<_>>()
    };
    assert_eq!(passed("saxpy"), [true; 4], "two cases on two platforms: {said}");
    assert_eq!((passed("gemm"), passed("softmax")), (vec![true; 2], vec![false; 2]), "{said}");
    assert!(said.to_string().contains("row_sum"), "{said}");
}

#[test]
fn a_golden_file_is_only_for_its_parameters() {
    if !has_compilers() {
        return;
    }
    let shop = halves();
    let z: Vec<u8> = (0..257_u16).flat_map(|i| (2.5 + 0.5 * f32::from(i)).to_le_bytes()).collect();
    let header = format!("{:117}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (257,), }");
    let npy = [&b"\x93NUMPY\x01\x00\x76\x00"[..], header.as_bytes(), &z].concat();
    std::fs::write(shop.path("halves/z.npy"), npy).expect("written");
    let files = SCENE.replace("source = \"weigh.c\"\nsymbol = \"golden\"", "files = { z = \"z.npy\" }");
    assert_ne!(files, SCENE);
    shop.write("halves/scene.toml", &files);
    let (code, said) = shop.json(&["run", "halves"]);
    assert_eq!((code, &said["golden"]), (Some(0), &"pass".into()), "{said}");
    let other = shop.call(&["run", "halves", "-p", "n=8"]);
    let why = "z.npy holds float32 [257], but float32 [8] is expected; a golden file is valid for only one set of parameters";
    assert!(other.code == Some(1) && other.stdout.contains(why), "{other:?}");
}
