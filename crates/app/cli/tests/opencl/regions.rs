//! Launches inside of regions of a C++ program.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{executable, regions};
use crate::{Bench, succeeded};

/// Prints the path of the OpenCL loader that Python uses.
const LOADER: &str = "import glob, os, pyopencl as cl; \
    print(next(iter(glob.glob(os.path.dirname(cl.__file__) + '/.libs/libOpenCL*')), 'libOpenCL.so.1'))";

#[test]
fn launches_in_a_region_have_it_as_parent_whichever_library_attaches_first() {
    let Some(bench) = Bench::new() else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/opencl/regions.cpp");
    let program = regions::compile(&source, &[], &bench.path("regions"));
    let said = Command::new(&bench.python).args(["-c", LOADER]).output().unwrap();
    let loader = PathBuf::from(String::from_utf8(said.stdout).unwrap().trim());
    for first in ["record", "device"] {
        let runs = ["right", "again", "wrong"].map(|name| format!("{first}-{name}"));
        for run in &runs {
            let is_wrong = run.ends_with("wrong");
            let mut command = Command::new(executable());
            command.args(["record", "--out", run, "--"]).arg(&program);
            command.args([first, if is_wrong { "wrong" } else { "right" }]).current_dir(bench.folder.path());
            command.env("TENSORTAP_OPENCL", &loader).env("XDG_CACHE_HOME", bench.path("cache"));
            // The loader in the wheel of `pyopencl` requires this variable.
            if let Some(wheel) = loader.parent().and_then(Path::parent) {
                command.env("PYOPENCL_HOME", wheel);
            }
            let output = command.output().unwrap();
            succeeded(&output);
            assert_eq!(String::from_utf8_lossy(&output.stdout), regions::printed(is_wrong), "{run}");
            regions::check_parents(&bench.dump(run));
        }
        let names = runs.each_ref().map(String::as_str);
        regions::check_verdicts(bench.folder.path(), names, &bench.dump(names[2]));
    }
}
