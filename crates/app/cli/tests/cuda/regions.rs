//! Launches inside of regions of a C++ program.

use std::path::Path;
use std::process::Command;

use crate::common::{executable, regions};
use crate::{Bench, built, succeeded};

#[test]
fn launches_in_a_region_have_it_as_parent_whichever_library_attaches_first() {
    let bench = Bench::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/regions.cpp");
    let rpath = format!("-Wl,-rpath,{}", built().display());
    let more = [&built().join("libcuda.so.1"), Path::new(&rpath)];
    let program = regions::compile(&source, &more, &bench.path("regions"));
    for first in ["record", "device"] {
        let runs = ["right", "again", "wrong"].map(|name| format!("{first}-{name}"));
        for run in &runs {
            let is_wrong = run.ends_with("wrong");
            let mut command = Command::new(executable());
            command.args(["record", "--out", run, "--"]).arg(&program);
            command.args([first, if is_wrong { "wrong" } else { "right" }]).current_dir(bench.folder.path());
            command
                .env("TENSORTAP_CUPTI", built().join("libcupti.so.13"))
                .env_remove("CUDA_INJECTION64_PATH");
            assert_eq!(succeeded(&command.output().unwrap()), regions::printed(is_wrong), "{run}");
            regions::check_parents(&bench.dump(run));
        }
        let names = runs.each_ref().map(String::as_str);
        regions::check_verdicts(bench.folder.path(), names, &bench.dump(names[2]));
    }
}
