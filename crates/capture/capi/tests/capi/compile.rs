//! Compiles programs with the host's compilers.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Warnings that the header must not cause.
pub const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

pub fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../include")
}

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// The library, which is built with these tests.
pub fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libtensortap.so")
}

/// A folder that contains the library under its soname.
pub fn installed() -> &'static Path {
    static INSTALLED: OnceLock<tempfile::TempDir> = OnceLock::new();
    let install = || {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(library(), dir.path().join("libtensortap.so.0")).unwrap();
        dir
    };
    INSTALLED.get_or_init(install).path()
}

/// Compiles a source. The error is the compiler's output; `None` without a compiler.
pub fn compile(
    compiler: &str,
    options: &[&str],
    source: &Path,
    program: &Path,
) -> Option<Result<(), String>> {
    let output = Command::new(compiler)
        .args(options)
        .arg("-I")
        .arg(include())
        .arg(source)
        .arg("-o")
        .arg(program)
        .args(options.contains(&"-DTT_LINKED").then(|| library().display().to_string()))
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: no compiler `{compiler}`");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { Ok(()) } else { Err(said) })
}

/// `program.c`, compiled once for all tests.
pub fn the_program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<(tempfile::TempDir, PathBuf)>> = OnceLock::new();
    let build = || {
        let dir = tempfile::tempdir().unwrap();
        let program = program("program.c", dir.path(), &[])?;
        Some((dir, program))
    };
    BUILT.get_or_init(build).as_ref().map(|(_, program)| &**program)
}

/// Compiles a program of `tests/programs` with strict warnings.
pub fn program(name: &str, dir: &Path, options: &[&str]) -> Option<PathBuf> {
    let (compiler, standard) =
        if name.ends_with(".cpp") { ("c++", "-std=c++17") } else { ("cc", "-std=c11") };
    let program = dir.join(name.replace('.', "_"));
    let options: Vec<&str> =
        [&[standard, "-O1", "-g", "-pthread", "-D_GNU_SOURCE"][..], &STRICT, options].concat();
    compile(compiler, &options, &source(name), &program)?.unwrap_or_else(|said| panic!("{said}"));
    Some(program)
}
