//! Tests a program outside of the workspace with its own scene, `examples/own-scenes`: it has the whole
//! command line.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("it exists")
}

/// Builds the program into this build's target folder, so that only the program itself is compiled.
///
/// Cargo identifies a crate by its path below the workspace root, and the example is its own root. Built
/// there, every crate of tensortap would be compiled again. So the example is built below a copy of this
/// workspace's root, with its own sources and dependencies. Its lock file shows that it does not need that
/// root.
fn built(root: &Path) -> PathBuf {
    // target/PROFILE/tensortap
    let binary = Path::new(env!("CARGO_BIN_EXE_tensortap"));
    let profile = binary.parent().expect("target/PROFILE");
    let target = profile.parent().expect("target");
    // Packages of other systems may be missing.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata = ["metadata", "--format-version=1", "--locked", "--filter-platform", &platform];
    cargo(&metadata, &repository().join("examples/own-scenes"));
    let mut words = vec!["build", "--quiet", "--target-dir", target.to_str().expect("a name in UTF-8")];
    if profile.ends_with("release") {
        words.push("--release");
    }
    cargo(&words, &lay_out(root));
    profile.join("own-scenes")
}

/// Recreates the repository with links and with the example as a member of the workspace. Returns the
/// example's folder.
fn lay_out(root: &Path) -> PathBuf {
    let example = root.join("examples/own-scenes");
    fs::create_dir_all(&example).expect("a folder");
    for name in ["crates", ".cargo", "examples/own-scenes/src"] {
        symlink(repository().join(name), root.join(name)).expect("a link");
    }
    fs::copy(repository().join("Cargo.lock"), root.join("Cargo.lock")).expect("readable");
    let edited = |name: &str, from: &str, to: &str| {
        let text = fs::read_to_string(repository().join(name)).expect("readable");
        assert!(text.contains(from), "{name} has {from:?}");
        fs::write(root.join(name), text.replacen(from, to, 1)).expect("writable");
    };
    const MEMBERS: &str = "members = [\"crates/*/*\"]\nexclude = [\"fuzz\", \"examples\"]";
    edited("Cargo.toml", MEMBERS, "members = [\"crates/*/*\", \"examples/*\"]");
    edited("examples/own-scenes/Cargo.toml", "[workspace]\n", "");
    example
}

fn cargo(words: &[&str], folder: &Path) {
    let mut cargo = Command::new(env!("CARGO"));
    // Cargo sets the first variable for this test, and `scripts/run-timed` the second. Some dependencies are compiled again when
    // one of them changes, and other tests are using the old files.
    cargo.env_remove("TENSORTAP_COMMIT").env_remove("RUSTC_BOOTSTRAP");
    cargo.args(words).arg("--offline").current_dir(folder);
    let output = cargo.output().expect("cargo starts");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The program with a working folder.
struct Program {
    path: PathBuf,
    folder: tempfile::TempDir,
}

impl Program {
    /// Runs the program, checks its exit code and returns its output.
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
fn a_program_with_its_own_scenes_has_the_whole_command_line() {
    let root = tempfile::tempdir().expect("a folder");
    let program = Program { path: built(root.path()), folder: tempfile::tempdir().expect("a folder") };

    let scenes = program.json("scenes", 0);
    let names: Vec<&str> =
        scenes.as_array().expect("a list").iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["polynomial"], "only its own scenes");
    assert!(program.run("run tiny_llm", 2).is_empty(), "built-in scenes are unknown");

    // Each of four pieces is squared, then x is added: eight tasks.
    let run = program.json("run polynomial --dump-tensor --out right", 0);
    assert_eq!((&run["golden"], &run["tasks"]), (&"pass".into(), &8.into()), "{run}");
    let listed = program.json("list right --func square --stage after", 0);
    assert_eq!(listed["records"].as_array().map(Vec::len), Some(4), "{listed}");
    program.run("diff right --scene-golden", 0);

    // With one wrong kernel, tasks after it are not blamed.
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
    let readme = fs::read_to_string(program.folder.path().join("cases/add/README.md")).expect("written");
    assert!(readme.contains("\nown-scenes replay add\n") && !readme.contains("tensortap replay"), "{readme}");
    program.run("replay cases --platform a5sim", 0);
    program.run("verify right", 0);

    let live =
        program.json("run polynomial --dump-tensor --out live --live right --inject-fault add=last", 1);
    assert_eq!(live["dump"]["live"]["wrong_here"].as_array().map(Vec::len), Some(4), "{live}");
    // `bench` measures scenes that the program does not list.
    let bench =
        program.json("bench dispatch --tasks 20 --repeat 1 --platform a2a3sim --runtime host_build_graph", 0);
    assert_eq!(bench["cases"].as_array().map(Vec::len), Some(3), "{bench}");
}
