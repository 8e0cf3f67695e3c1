//! `--debugger` stops at the kernel's first instruction, with its real arguments.

use std::process::Command;

use crate::cases::task_of;
use crate::{capture, executable, small};

#[test]
fn gdb_stops_at_the_kernel_with_its_arguments_and_goes_on_to_the_end() {
    if Command::new("gdb").arg("--version").output().is_err() {
        eprintln!("skipped: there is no gdb here");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump");
    capture(small("vector_example"), &dump);
    let task = task_of(&dump, "mul").to_string();
    let mut command = Command::new(executable());
    command.arg("replay").arg(&dump).args(["--task", &task, "--debugger=gdb -q -nx -batch", "--trust"]);
    // Two inputs, one output, then the number of elements.
    for line in ["info symbol $pc", "printf \"elements %lu\\n\", $args[3]", "delete", "continue"] {
        command.args(["--debugger-command", line]);
    }
    let output = command.env_remove("DEBUGINFOD_URLS").output().expect("it starts");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if said.contains("ptrace") && said.contains("not permitted") {
        eprintln!("skipped: gdb may not look into processes here");
        return;
    }
    assert!(said.contains("kernel_entry"), "{said}");
    assert!(said.contains("elements 16384"), "{said}");
    assert!(said.contains("bitexact"), "the replay goes on to its end: {said}");
}
