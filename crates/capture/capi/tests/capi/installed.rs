//! Tests the files that `scripts/install` installs.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use object::Object as _;
use tensortap_format::Dump;

use crate::compile::{library, source};

fn install(from: &Path, prefix: &Path) -> std::process::Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/install");
    Command::new(script).arg("--from").arg(from).arg(prefix).env_remove("DESTDIR").output().unwrap()
}

/// Installs everything and moves the tree, which must keep working.
fn installed(dir: &Path) -> PathBuf {
    let from = dir.join("built");
    std::fs::create_dir_all(from.join("deps")).unwrap();
    for name in ["libtensortap.so", "libtensortap.a"] {
        std::os::unix::fs::symlink(library().with_file_name(name), from.join("deps").join(name)).unwrap();
    }
    let (first, prefix) = (dir.join("first"), dir.join("prefix"));
    let refused = install(&from, &first);
    assert!(!refused.status.success() && !first.exists(), "nothing is installed without the command");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("does not contain"));
    std::fs::write(from.join("tensortap"), "#!/bin/sh\n").unwrap();
    let output = install(&from, &first);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(&first, &prefix).unwrap();
    prefix
}

fn run(command: &mut Command, what: &str) -> Option<String> {
    let Ok(output) = command.output() else {
        eprintln!("SKIPPED: {what}: no `{}` here", command.get_program().display());
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {said}{}", String::from_utf8_lossy(&output.stdout));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The program records into its own folder, using only the installed files.
fn records(program: &Path, prefix: &Path, folder: &Path) {
    let mut command = Command::new(program);
    command.args(["folder", folder.to_str().unwrap()]).env("LD_LIBRARY_PATH", prefix.join("lib"));
    run(&mut command, "a program built with the installed files");
    assert_eq!(Dump::open(folder).unwrap().len(), 1);
}

/// Whether static programs can be built here.
fn links_statically(dir: &Path) -> bool {
    let source = dir.join("nothing.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut build = Command::new("cc");
    build.arg("-static").arg(source).arg("-o").arg(dir.join("nothing"));
    build.output().is_ok_and(|output| output.status.success())
}

#[test]
fn builds_programs_with_pkg_config_shared_and_static() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = installed(dir.path());
    assert!(prefix.join("bin/tensortap").exists() && prefix.join("include/tensortap.hpp").exists());
    assert!(prefix.join("include/tensortap_record.hpp").exists());
    for kind in ["shared", "rpath", "static", "wholly-static"] {
        let shared = kind == "shared" || kind == "rpath";
        let mut query = Command::new("pkg-config");
        query.args(["--cflags", "--libs", "tensortap"]).args((!shared).then_some("--static"));
        query.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let Some(flags) = run(&mut query, "flags of pkg-config") else { return };
        let mut flags = flags.trim().to_owned();
        if !shared {
            flags = flags.replace("-ltensortap", "-l:libtensortap.a");
        }
        let program = dir.path().join(kind);
        let mut build = Command::new("cc");
        if kind == "wholly-static" {
            if !links_statically(dir.path()) {
                eprintln!("SKIPPED: a static program: static programs cannot be built here");
                return;
            }
            build.arg("-static");
        }
        build
            .args(["-std=c11", "-pthread", "-D_GNU_SOURCE"])
            .arg(source("program.c"))
            .arg("-o")
            .arg(&program);
        build.args(flags.split_whitespace());
        if kind == "rpath" {
            build.arg(format!("-Wl,-rpath,{}", prefix.join("lib").display()));
        }
        let Some(_) = run(&mut build, "a program") else { return };
        records(&program, &prefix, &program.with_extension("dump"));
        let needs_it = Command::new(&program).env_remove("LD_LIBRARY_PATH").output().unwrap();
        assert_eq!(
            needs_it.status.success(),
            kind != "shared",
            "{kind}: only the shared kind needs the library at run time"
        );
    }
}

#[test]
fn installed_libraries_have_no_unneeded_symbols() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = installed(dir.path());
    let Some(_) = run(Command::new("strip").arg("--version"), "stripped libraries") else { return };
    let symbols = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        object::File::parse(bytes.as_slice()).unwrap().symbols().count()
    };
    assert!(symbols(&library()) > 0);
    assert_eq!(symbols(&prefix.join("lib/libtensortap.so")), 0);
    let bytes = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(bytes(&prefix.join("lib/libtensortap.a")) < bytes(&library().with_file_name("libtensortap.a")));
}

#[test]
fn a_cmake_project_finds_the_library() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = installed(dir.path());
    let project = dir.path().join("project");
    std::fs::create_dir(&project).unwrap();
    for file in ["program.c", "expect.h"] {
        std::fs::copy(source(file), project.join(file)).unwrap();
    }
    let lists = "cmake_minimum_required(VERSION 3.13)\nproject(user C)\nfind_package(tensortap 0.1 REQUIRED)\n\
        find_package(Threads REQUIRED)\nadd_compile_definitions(_GNU_SOURCE)\n\
        foreach(kind tensortap static header)\n  add_executable(${kind} program.c)\n  \
        target_link_libraries(${kind} PRIVATE tensortap::${kind} Threads::Threads)\nendforeach()\n";
    std::fs::write(project.join("CMakeLists.txt"), lists).unwrap();
    let mut configure = Command::new("cmake");
    configure.args(["-S", ".", "-B", "build"]).arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    if run(configure.current_dir(&project), "a CMake project").is_none() {
        return;
    }
    run(Command::new("cmake").args(["--build", "build"]).current_dir(&project), "building a CMake project");
    for kind in ["tensortap", "static"] {
        records(&project.join("build").join(kind), &prefix, &dir.path().join(kind));
    }
    run(&mut Command::new(project.join("build/header")), "a program with only the header");
}
