//! Checks that `torture` detects each kind of violation, with programs that imitate `tensortap`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Answers the calls that prepare a round, and runs `misdeed` for every other verb.
fn tortured(folder: &Path, misdeed: &str) -> Output {
    let program = folder.join("tensortap");
    let script = format!(
        r#"#!/bin/sh
for word in "$@"; do [ "$previous" = --out ] && out=$word; previous=$word; done
case $PWD in *bases)
  case $out in *.safetensors) echo x > "$out" ;; *) mkdir -p "$out"; echo x > "$out/tensor_dump.idx" ;; esac
  exit 0 ;;
esac
{misdeed}
"#
    );
    fs::write(&program, script).expect("writable");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    Command::new(env!("CARGO_BIN_EXE_torture"))
        .args(["--only", "damage", "--rounds", "1", "--seed", "7", "--verb-seconds", "1", "--dir"])
        .arg(folder.join("work"))
        .arg("--tensortap")
        .arg(&program)
        .output()
        .expect("it starts")
}

#[test]
fn every_violation_is_reported_by_name_and_a_good_program_passes() {
    let folder = std::env::temp_dir().join(format!("torture-catches-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let good = tortured(&folder, "exit 0");
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    let misdeeds = [
        ("Panic", "echo \"thread 'main' panicked at src/x.rs:1:1:\" >&2; exit 101"),
        ("Panic", "kill -SEGV $$"),
        ("Hang", "sleep 30"),
        ("WriteOutside", "[ -e outside/new ] || echo x > outside/new"),
        ("WriteOutside", "rm -f outside/victim"),
        ("Memory", "echo 'memory allocation of 99999999999 bytes failed' >&2; kill -ABRT $$"),
        ("Promise", "exit 77"),
        ("Promise", "printf '\\033[2J'"),
    ];
    for (name, misdeed) in misdeeds {
        let caught = tortured(&folder, misdeed);
        let said = String::from_utf8_lossy(&caught.stdout);
        assert_eq!(caught.status.code(), Some(1), "{misdeed}: {said}");
        assert!(said.contains(&format!("FAILED: seed 7, damage: {name}: ")), "{misdeed}: {said}");
        assert!(said.contains("again: --seed 7 --rounds 1 --only damage"), "{said}");
        let kept = said
            .split("kept in ")
            .nth(1)
            .and_then(|rest| rest.split(';').next())
            .expect("the output contains the folder");
        assert!(Path::new(kept).is_dir(), "{kept}");
    }
    fs::remove_dir_all(&folder).expect("removable");
}
