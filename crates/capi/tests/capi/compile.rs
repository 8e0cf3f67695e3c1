//! Compiles programs with the host's compilers.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// What every user of the header may demand of it.
pub const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

pub fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include")
}

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// The library, which is built with these tests.
pub fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libtensortap.so")
}

/// A folder in which the library has the name by which programs that link it look for it.
pub fn installed() -> &'static Path {
    static INSTALLED: OnceLock<tempfile::TempDir> = OnceLock::new();
    let install = || {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(library(), dir.path().join("libtensortap.so.0")).unwrap();
        dir
    };
    INSTALLED.get_or_init(install).path()
}

/// Compiles a source; what the compiler said if it would not, `None` without a compiler.
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
        eprintln!("skipped: there is no compiler `{compiler}`");
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

/// A program of `tests/programs`, compiled as strictly as may be.
pub fn program(name: &str, dir: &Path, options: &[&str]) -> Option<PathBuf> {
    let (compiler, standard) =
        if name.ends_with(".cpp") { ("c++", "-std=c++17") } else { ("cc", "-std=c11") };
    let program = dir.join(name.replace('.', "_"));
    let options: Vec<&str> =
        [&[standard, "-O1", "-g", "-pthread", "-D_GNU_SOURCE"][..], &STRICT, options].concat();
    compile(compiler, &options, &source(name), &program)?.unwrap_or_else(|said| panic!("{said}"));
    Some(program)
}
