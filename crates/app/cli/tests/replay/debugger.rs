//! Tests that `--debugger` stops at the kernel's first instruction with its arguments.

use std::process::Command;

use crate::cases::task_of;
use crate::{capture, executable, small};

#[test]
fn gdb_stops_at_the_kernel_and_continues_to_the_end() {
    if Command::new("gdb").arg("--version").output().is_err() {
        eprintln!("skipped: no gdb here");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump");
    capture(small("vector_example"), &dump);
    let task = task_of(&dump, "mul").to_string();
    let mut command = Command::new(executable());
    command.arg("replay").arg(&dump).args(["--task", &task, "--debugger=gdb -q -nx -batch", "--trust"]);
    // Two inputs, one output, and the number of elements.
    for line in ["info symbol $pc", "printf \"elements %lu\\n\", $args[3]", "delete", "continue"] {
        command.args(["--debugger-command", line]);
    }
    let output = command.env_remove("DEBUGINFOD_URLS").output().expect("it starts");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if said.contains("ptrace") && said.contains("not permitted") {
        eprintln!("skipped: gdb cannot trace processes here");
        return;
    }
    assert!(said.contains("kernel_entry"), "{said}");
    assert!(said.contains("elements 16384"), "{said}");
    assert!(said.contains("bitexact"), "the replay completes: {said}");
}
