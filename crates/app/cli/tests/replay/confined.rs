//! Tests the confinement of replayed kernels, unless they are trusted.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tensortap::{Confinement, DeviceMode, Outcome};

use crate::cases::{edit, tiny_case};
use crate::{capture, executable, only, replay, replay_of, small};

fn has_seccomp() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("Seccomp:"))
}

#[test]
fn names_a_kernel_that_opens_a_file_a_socket_or_a_program() {
    for (what, calls) in [(1_u32, &["openat", "open"][..]), (2, &["socket"]), (3, &[])] {
        let folder = tempfile::tempdir().expect("a folder");
        let dump = folder.path().join("dump");
        // A run is the user's own code, so it is not confined.
        capture(small("reaching").param("what", what), &dump);
        let mut config = replay_of(&dump);
        config.device_mode = DeviceMode::Process;
        config.trust = true;
        let trusted = replay(&config);
        let exact = |outcome: &Outcome| *outcome == Outcome::BitExact;
        assert_eq!(trusted.count(exact), 3, "{what}: trusted code is not confined");
        assert_eq!(trusted.confinement, Some(Confinement::NONE));

        config.trust = false;
        let confined = replay(&config);
        if !has_seccomp() {
            assert!(
                confined.notes.iter().any(|note| note.contains("cannot confine")),
                "{:?}",
                confined.notes
            );
            eprintln!("skipped: this system cannot filter system calls");
            return;
        }
        assert_eq!(confined.confinement, Some(Confinement::FULL), "{:?}", confined.notes);
        assert_eq!(confined.count(exact), 2, "{what}: the other kernels are harmless");
        let Outcome::Failed(reason) = &confined.tasks[1].outcome else { panic!("{what}: {confined:?}") };
        // Signals are blocked while a program starts.
        if calls.is_empty() {
            assert!(reason.contains("SIGSYS") && reason.contains("start a process"), "{reason}");
            continue;
        }
        let named = calls.iter().any(|call| reason.contains(&format!("the system call {call},")));
        assert!(named && reason.contains("kernel `reach`") && reason.contains("--trust"), "{what}: {reason}");
    }
}

#[test]
fn ordinary_kernels_run_confined() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump");
    capture(small("vector_example"), &dump);
    let output = Command::new(executable())
        .arg("replay")
        .arg(&dump)
        .args(["--all", "--json", "--device-memory", "256MiB"])
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let confinement = document["confinement"].as_object().expect("something was run");
    let keys: Vec<&str> = confinement.keys().map(String::as_str).collect();
    assert_eq!(keys, ["limits", "no_new_privileges", "system_calls"]);
    let full = confinement.values().all(|is| is == true);
    assert!(full || !has_seccomp(), "{document}");
    assert_eq!(full, document["notes"].as_array().expect("a list").is_empty(), "{document}");
}

#[test]
fn a_thread_and_a_debugger_need_trust() {
    let (_folder, case) = tiny_case();
    for words in [&["--device-mode", "thread"][..], &["--debugger"]] {
        let output =
            Command::new(executable()).arg("replay").arg(&case).args(words).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--trust"), "{said}");
    }
}

#[test]
fn refuses_a_scalar_in_place_of_a_tensor() {
    let (_folder, case) = tiny_case();
    edit(&case, |json| {
        // The address that the kernel would write to.
        let records = json["tensors"].as_array_mut().expect("a list");
        let mut address = records[3].clone();
        (address["arg_index"], address["scalar_value"]) = (2.into(), "0x00005555deadbee0".into());
        address.as_object_mut().expect("a record").remove("value");
        records[2] = address;
    });
    let graph = case.join("graph.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&graph).expect("there")).expect("JSON");
    let task = &mut json["tasks"][0];
    (task["tensor_count"], task["scalar_count"]) = (2.into(), 2.into());
    fs::write(&graph, json.to_string()).expect("writable");
    for mode in [DeviceMode::Process, DeviceMode::Thread] {
        let mut config = replay_of(&case);
        config.device_mode = mode;
        config.allow_inexact = true;
        let report = replay(&config);
        let task = only(&report);
        let Outcome::Refused(reason) = &task.outcome else { panic!("{:?}", task.outcome) };
        assert!(reason.contains("declared as an output") && reason.contains("as a scalar"), "{reason}");
    }
}
