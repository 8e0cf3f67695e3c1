//! CUDA programs recorded by the `tensortap` binary, with a fake driver: its device is the process, and its
//! streams are threads. What only a real GPU can show is tested in `tests/gpu`.

mod blamed;
#[path = "../common/mod.rs"]
mod common;
mod gone;
mod graphs;
mod memory;
mod nvtx;
mod plan;
mod regions;
mod replayed;
mod torch;
mod truth;
mod variables;
mod ways;
mod words;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use tempfile::TempDir;
use tensortap::{RunFile, format::Dump};

/// The fake driver and the program, compiled once.
fn built() -> &'static Path {
    static BUILT: OnceLock<TempDir> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let source = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda").join(name);
        let library = folder.path().join("libcuda.so.1");
        compile(&["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"], &[&source("fake.c")], &library);
        // One file with two names is loaded once. CUPTI is part of the fake driver.
        symlink(&library, folder.path().join("libcupti.so.13")).unwrap();
        let rpath = format!("-Wl,-rpath,{}", folder.path().display());
        for name in ["program", "blamed"] {
            let program = source(&format!("{name}.c"));
            compile(&[&rpath, "-rdynamic"], &[&program, &library], &folder.path().join(name));
        }
        // An allocator like PyTorch's, with lazy binding and with immediate binding.
        let c10 = folder.path().join("libc10.so");
        compile_as("c++", &["-shared", "-fPIC", "-Wl,-soname,libc10.so"], &[&source("c10.cpp")], &c10);
        for (name, binding) in
            [("libc10_cuda.so", "-Wl,-z,lazy"), ("libc10_cuda.so.bound", "-Wl,-z,relro,-z,now")]
        {
            let options = ["-shared", "-fPIC", "-fvisibility=hidden", binding, &rpath];
            let parts = [source("c10_cuda.cpp"), c10.clone(), library.clone()];
            compile_as("c++", &options, &parts.each_ref().map(PathBuf::as_path), &folder.path().join(name));
        }
        folder
    });
    folder.path()
}

fn compile(options: &[&str], sources: &[&Path], out: &Path) {
    compile_as("c", options, sources, out);
}

/// Compiles C or C++.
fn compile_as(language: &str, options: &[&str], sources: &[&Path], out: &Path) {
    let (variable, usual, standard) = match language {
        "c" => ("CC", "cc", "-std=gnu11"),
        _ => ("CXX", "c++", "-std=c++17"),
    };
    let compiler = std::env::var_os(variable).unwrap_or_else(|| usual.into());
    let mut command = Command::new(compiler);
    command.args([standard, "-O1", "-Wall", "-Wextra", "-Werror"]).args(options).args(sources);
    let output = command.args(["-lpthread", "-ldl", "-o"]).arg(out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The folder in which a test runs its program.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with a plan, recorded into a folder or not.
    fn program(&self, plan: &str, recorded: Option<(&str, &str)>) -> Command {
        fs::write(self.path("plan"), plan).unwrap();
        let program = built().join("program");
        let mut command = match recorded {
            Some((out, options)) => {
                let mut command = Command::new(common::executable());
                command
                    .args(["record", "--out", out])
                    .args(options.split_whitespace())
                    .arg("--")
                    .arg(program);
                command
            }
            None => Command::new(program),
        };
        command.arg("plan").current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("TENSORTAP_CUPTI", built().join("libcupti.so.13"));
        command.env_remove("CUDA_INJECTION64_PATH");
        command
    }

    /// The dump of a run with one process.
    fn dump(&self, run: &str) -> Dump {
        let run_file = RunFile::read(&self.path(run)).expect("there is a run.json");
        assert_eq!(run_file.processes.len(), 1, "{:?}", run_file.processes);
        let dump = Dump::open(&self.path(run).join(&run_file.processes[0].folder)).unwrap();
        let findings = tensortap::format::verify(&dump).unwrap();
        assert!(findings.is_ok(), "{:?}", findings.problems.first());
        dump
    }
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}\n{}", output.status, said(&output.stdout), said(&output.stderr));
    said(&output.stdout)
}
