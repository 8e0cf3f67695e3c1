//! Which environment a program believes.

use std::{
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::compile::{compile, the_program};

/// A library that says that it was loaded, and is none of ours.
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
        .env("TENSORTAP_SOCKET", "/nobody/listens/here")
        .output()
        .unwrap()
}

#[test]
fn a_program_without_a_recorder_is_silent_whatever_its_environment_says() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = the_program() else { return };
    let library = stranger(dir.path()).unwrap();
    let ours = crate::compile::library();
    for (path, expected) in [
        ("", ""),
        ("/no/such/library.so", ""),
        ("stranger.so", ""),
        ("./stranger.so", ""),
        // Ours, and nobody listens.
        (ours.to_str().unwrap(), ""),
        // A library that is none of ours is loaded, for its path was given, and then let be.
        (library.to_str().unwrap(), "loaded"),
    ] {
        let output = run(program, dir.path(), path);
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(0), expected), "with `{path}`");
    }
}

#[test]
fn a_program_with_more_rights_than_its_caller_loads_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let Some(built) = the_program() else { return };
    let program = dir.path().join("program");
    std::fs::copy(built, &program).unwrap();
    let library = stranger(dir.path()).unwrap();
    // Owned by another user, whose rights it then has.
    if chown(&program, Some(65_534), None).is_err() {
        eprintln!("skipped: only root can make a program that runs as somebody else");
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
