//! Tests which environment variables a program trusts.

use std::{
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::compile::{compile, the_program};

/// A foreign library that prints a word when it is loaded.
fn stranger(dir: &Path) -> Option<PathBuf> {
    let source = dir.join("stranger.c");
    let text = "#include <unistd.h>\n__attribute__((constructor)) static void loaded(void) { (void)!write(1, \"loaded\", 6); }\n";
    std::fs::write(&source, text).unwrap();
    let library = dir.join("stranger.so");
    compile("cc", &["-shared", "-fPIC"], &source, &library)?.unwrap();
    Some(library)
}

fn run(program: &Path, dir: &Path, library: &str) -> Output {
    Command::new(program)
        .arg("views")
        .current_dir(dir)
        .env("TENSORTAP_LIBRARY", library)
        .env("TENSORTAP_SOCKET", "/no/such/socket")
        .output()
        .unwrap()
}

#[test]
fn a_program_without_a_recorder_is_silent() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = the_program() else { return };
    let library = stranger(dir.path()).unwrap();
    let ours = crate::compile::library();
    for (path, expected) in [
        ("", ""),
        ("/no/such/library.so", ""),
        ("stranger.so", ""),
        ("./stranger.so", ""),
        // Our library without a recorder.
        (ours.to_str().unwrap(), ""),
        // A foreign library is loaded, because its path was given, and then ignored.
        (library.to_str().unwrap(), "loaded"),
    ] {
        let output = run(program, dir.path(), path);
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(0), expected), "with `{path}`");
    }
}

#[test]
fn a_set_uid_program_loads_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let Some(built) = the_program() else { return };
    let program = dir.path().join("program");
    std::fs::copy(built, &program).unwrap();
    let library = stranger(dir.path()).unwrap();
    // Owned by another user, with the set-uid bit.
    if chown(&program, Some(65_534), None).is_err() {
        eprintln!("skipped: only root can create a set-uid program of another user");
        return;
    }
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(std::fs::metadata(&program).unwrap().mode() & 0o4000, 0o4000);
    let output = run(&program, dir.path(), library.to_str().unwrap());
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b""[..]));
}

#[test]
fn a_static_program_loads_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let built = dir.path().join("static");
    let source = crate::compile::source("program.c");
    match compile("cc", &["-static", "-pthread", "-D_GNU_SOURCE"], &source, &built) {
        Some(Ok(())) => {}
        _ => {
            eprintln!("skipped: static programs cannot be built here");
            return;
        }
    }
    let library = stranger(dir.path()).unwrap();
    let output = run(&built, dir.path(), library.to_str().unwrap());
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b""[..]));
}
