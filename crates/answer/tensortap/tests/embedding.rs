//! Programs that embed the library: runs the examples as a user would.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs an example. Cargo builds the examples together with the tests of the crate.
fn example(name: &str) -> Output {
    let deps = std::env::current_exe().expect("a test has an executable");
    let path: PathBuf = deps
        .parent()
        .and_then(|deps| deps.parent())
        .expect("target/PROFILE/deps")
        .join("examples")
        .join(name);
    Command::new(&path).output().unwrap_or_else(|error| {
        panic!("{}: {error}; `cargo test -p tensortap` without a choice of targets builds it", path.display())
    })
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_program_that_calls_it_first_runs_its_own_scenes_on_a_device_process() {
    let output = example("embed");
    let (stdout, stderr) = said(&output);
    assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{stdout}");
    assert_eq!(stdout, "1 task on a2a3sim, golden: pass\n");
}

#[test]
fn a_program_that_forgets_it_gets_an_error_with_the_function_and_the_alternative() {
    let output = example("forgets_the_device");
    let (stdout, stderr) = said(&output);
    assert_eq!((output.status.code(), stdout.as_str()), (Some(1), ""), "{stderr}");
    // The first line is the child's refusal to be a host too, the second is the host's error about the
    // child.
    let last = stderr.lines().last().expect("there is an error message");
    for part in ["did not become the device", "become_device_if_asked", "thread mode"] {
        assert!(last.contains(part), "no {part} in {stderr}");
    }
    assert_eq!(stderr.lines().count(), 2, "one child and no grandchild: {stderr}");
}
