//! A program outside the workspace, with a scene of its own, has the whole command line: `examples/own-scenes`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it exists")
}

/// Builds the program as its author would, but into this build's target folder, which has most of it already.
fn built() -> PathBuf {
    let example = root().join("examples/own-scenes");
    // target/PROFILE/tensortap
    let binary = Path::new(env!("CARGO_BIN_EXE_tensortap"));
    let profile = binary.parent().expect("target/PROFILE");
    let target = profile.parent().expect("target");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--offline", "--locked", "--quiet", "--target-dir"])
        .arg(target)
        .current_dir(&example);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let output = cargo.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    profile.join("own-scenes")
}

/// A folder to work in, and the program.
struct Program {
    path: PathBuf,
    folder: tempfile::TempDir,
}

impl Program {
    /// What it printed, when it ends as it should.
    fn run(&self, line: &str, exit: i32) -> String {
        let output = Command::new(&self.path)
            .args(line.split_whitespace())
            .current_dir(self.folder.path())
            .output()
            .expect("it starts");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(exit), "{line}\n{stdout}{stderr}");
        stdout.into_owned()
    }

    fn json(&self, line: &str, exit: i32) -> Value {
        let text = self.run(&format!("{line} --json"), exit);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}\n{text}"))
    }
}

#[test]
fn a_program_outside_the_workspace_has_the_whole_command_line_for_its_scenes() {
    let program = Program { path: built(), folder: tempfile::tempdir().expect("a folder") };

    let scenes = program.json("scenes", 0);
    let names: Vec<&str> =
        scenes.as_array().expect("a list").iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["polynomial"], "its scenes and no others");
    assert!(program.run("run tiny_llm", 2).is_empty(), "a built-in scene is none of its own");

    // Each piece is squared, then x is added: eight tasks.
    let run = program.json("run polynomial --dump-tensor --out right", 0);
    assert_eq!((&run["golden"], &run["tasks"]), (&"pass".into(), &8.into()), "{run}");
    let listed = program.json("list right --func square --stage after", 0);
    assert_eq!(listed["records"].as_array().map(Vec::len), Some(4), "{listed}");
    program.run("diff right --scene-golden", 0);

    // One wrong kernel: what is downstream of it is not blamed.
    let said = program.run("run polynomial --dump-tensor --out wrong --inject-fault square=last", 1);
    assert!(
        said.contains("own-scenes blame wrong --reference"),
        "its own name is in what it advises: {said}"
    );
    for help in ["--help", "show --help", "help faults"] {
        let help = program.run(help, 0);
        assert!(help.contains("own-scenes ") && !help.contains(" tensortap run"), "{help}");
    }
    for line in ["blame wrong --reference", "blame wrong --golden right"] {
        let blame = program.json(line, 1);
        let labels = blame["tasks"].as_array().expect("tasks").iter();
        let wrong: Vec<&Value> = labels.filter(|task| task["label"] == "wrong_here").collect();
        assert_eq!(wrong.len(), 4, "{blame}");
        assert!(wrong.iter().all(|task| task["kernels"][0] == "square"), "{blame}");
    }
    program.run("diff wrong --scene-golden", 1);

    program.run("replay right --all", 0);
    program.run("replay right --all --reference", 0);
    program.run("replay right --all --inject-fault add=sign", 1);
    program.run("extract right --task 0x100000001 --out cases/add", 0);
    program.run("replay cases --platform a5sim", 0);
    program.run("verify right", 0);

    let live =
        program.json("run polynomial --dump-tensor --out live --live right --inject-fault add=last", 1);
    assert_eq!(live["dump"]["live"]["wrong_here"].as_array().map(Vec::len), Some(4), "{live}");
    // What `bench` measures are scenes that the program does not list.
    let bench =
        program.json("bench dispatch --tasks 20 --repeat 1 --platform a2a3sim --runtime host_build_graph", 0);
    assert_eq!(bench["cases"].as_array().map(Vec::len), Some(3), "{bench}");
}
