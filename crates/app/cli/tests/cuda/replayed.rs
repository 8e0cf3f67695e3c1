//! Launches that are replayed in a separate process, with the fake driver: its kernels really run there.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use proptest::{strategy::Strategy as _, strategy::ValueTree as _, test_runner::TestRunner};
use serde_json::Value;
use tensortap::record::UncapturedReason;

use crate::{Bench, built, common, plan::text, succeeded, truth::commands};

/// A program that launches every kernel.
const PLAN: &str = "alloc 0 3000\nalloc 1 3000\nalloc 2 1500\nwrite 0 0 0 3000 5 1\nput 0 1 0 7 100 0\n\
                    mix 0 0 0 1 0 5 1000 1\nmix 0 0 7 1 9 5 1000 2\nfold 0 0 0 1 4 9 800 0\ncopy 0 2 0 1 0 1500 0\n\
                    fill 0 2 0 9 10\nspread 0 2 60000 2 1 1\nspread 0 1 100 0 0 0\nread 0 1 0 3000 1\n";

impl Bench {
    fn recorded(&self, plan: &str, options: &str) -> &'static str {
        succeeded(&self.program(plan, Some(("run", options))).output().unwrap());
        "run"
    }

    /// Runs a verb, with environment variables for the worker.
    fn again(&self, words: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(common::executable());
        command.args(words.split_whitespace()).current_dir(self.folder.path());
        command.env("TENSORTAP_LIBCUDA", built().join("libcuda.so.1"));
        command.envs(variables.iter().copied()).output().unwrap()
    }

    fn replay(&self, words: &str, variables: &[(&str, &str)]) -> Value {
        let output = self.again(&format!("replay {words} --json"), variables);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    fn process(&self) -> PathBuf {
        let entries = fs::read_dir(self.path("run")).unwrap();
        let mut folders = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        folders.next().unwrap()
    }
}

/// Number of tasks, and number of those that were replayed bit for bit.
fn counts(report: &Value) -> (u64, u64) {
    (report["tasks"].as_u64().unwrap(), report["bitexact"].as_u64().unwrap())
}

/// The reasons of the tasks with an outcome.
fn reasons<'r>(report: &'r Value, outcome: &str) -> Vec<&'r str> {
    report[outcome].as_array().unwrap().iter().map(|task| task["reason"].as_str().unwrap()).collect()
}

fn placements(report: &Value) -> Vec<&str> {
    let results = report["results"].as_array().unwrap();
    results.iter().filter_map(|task| task["placement"].as_str()).collect()
}

#[test]
fn every_launch_replays_bit_for_bit_at_old_and_new_addresses() {
    let bench = Bench::new();
    let mut runner = TestRunner::deterministic();
    let flags = [0, 1];
    let chosen = commands(60, flags.len()).new_tree(&mut runner).unwrap().current();
    bench.recorded(&text(&flags, &chosen), "");
    let launches = chosen.iter().filter(|(_, what)| what.is_kernel()).count() as u64;
    assert!(launches > 20, "{launches}");
    let there = bench.replay("run --all", &[]);
    assert_eq!(
        counts(&there),
        (launches, launches),
        "{:?} {:?}",
        reasons(&there, "failed"),
        reasons(&there, "refused")
    );
    assert_eq!(there["verdict"], "pass");
    let moved = bench.replay("run --all", &[("TENSORTAP_REPLAY_MOVE", "1")]);
    assert_eq!(
        counts(&moved),
        (launches, launches),
        "{:?} {:?}",
        reasons(&moved, "failed"),
        reasons(&moved, "refused")
    );
    assert!(placements(&moved).iter().all(|place| *place == "relocated"), "{:?}", placements(&moved));
    let taken = bench.replay("run --all --repeat 2", &[("FAKE_TAKEN", "1")]);
    assert_eq!(
        (counts(&taken), &taken["nondeterministic"]),
        ((launches, launches), &Value::Array(Vec::new()))
    );
    assert!(placements(&taken).iter().all(|place| *place == "relocated"));
}

#[test]
fn shared_memory_clusters_and_cooperative_launches_are_replayed() {
    let bench = Bench::new();
    let report = bench.replay(bench.recorded(PLAN, ""), &[]);
    assert!(report["error"].is_object(), "a dump of many tasks wants to know which");
    let report = bench.replay("run --func spread", &[]);
    assert_eq!(counts(&report), (2, 2), "{:?} {:?}", reasons(&report, "failed"), reasons(&report, "refused"));
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let launches: Vec<_> = tasks.iter().filter_map(|task| task.launch.as_deref().copied()).collect();
    let details: Vec<_> = launches.iter().map(|l| (l.shared_bytes, l.cluster, l.is_cooperative)).collect();
    assert!(
        details.contains(&(60_000, [2, 1, 1], true)) && details.contains(&(100, [0, 0, 1], false)),
        "{details:?}"
    );
}

#[test]
fn only_launches_of_a_changed_kernel_fail_to_replay() {
    let bench = Bench::new();
    bench.recorded(PLAN, "");
    let report = bench.replay("run --all", &[("FAKE_KERNEL", "mix=wrong")]);
    assert_eq!(counts(&report), (6, 4));
    let failed = reasons(&report, "failed");
    assert!(failed.len() == 2 && failed.iter().all(|why| why.contains("argument 0: 1 of ")), "{failed:?}");
    // The replayed result is compared: a launch that did not run cannot pass.
    let output = bench.again("blame run --rerun --json", &[("FAKE_KERNEL", "fold=wrong")]);
    let blamed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &blamed["verdict"]), (Some(1), &"fail".into()));
    let output = bench.again("blame run --rerun", &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "copies and fills are not launches: {said}");
}

#[test]
fn a_failed_replay_is_reported_and_the_next_launch_runs() {
    let bench = Bench::new();
    bench.recorded(PLAN, "");
    for (how, words, why) in [
        ("mix=stray", "", "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("mix=crash", "", "SIGSEGV"),
        ("mix=spin", "--stall-timeout 1", "did not complete within 1 s"),
    ] {
        let report = bench.replay(&format!("run --all {words}"), &[("FAKE_KERNEL", how)]);
        assert_eq!(counts(&report), (6, 4), "{how}");
        let failed = reasons(&report, "failed");
        assert!(failed.len() == 2 && failed.iter().all(|said| said.contains(why)), "{how}: {failed:?}");
    }
    let full = bench.replay("run --all", &[("FAKE_FULL", "1")]);
    assert!(reasons(&full, "refused").iter().all(|why| why.contains("CUDA_ERROR_OUT_OF_MEMORY")));
    assert_eq!(counts(&full), (6, 0));
}

#[test]
fn missing_content_is_reported_and_nothing_runs() {
    let bench = Bench::new();
    bench.recorded(PLAN, "");
    let error = |variables: &[(&str, &str)]| {
        let output = bench.again("replay run --all", variables);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(error(&[("TENSORTAP_LIBCUDA", "/nowhere/libcuda.so")]).contains("there is no CUDA driver here"));
    assert!(error(&[("FAKE_NO_DEVICE", "1")]).contains("found no device"));
    let other = bench.replay("run --all", &[("FAKE_ARCHITECTURE", "80")]);
    assert!(
        reasons(&other, "refused").iter().all(|why| why.contains("for sm_90") && why.contains("is sm_80"))
    );
    assert_eq!(counts(&other), (6, 0));
    // Options that do not apply to these runs.
    for option in ["--reference", "--bench", "--guard", "--platform a5sim", "--set-arg 0=1"] {
        let output = bench.again(&format!("replay run --all {option}"), &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains("CUDA"), "{option}: {said}");
    }
    let text = String::from_utf8_lossy(&bench.again("replay run --all", &[]).stdout).into_owned();
    assert!(text.contains("reproduces the captured outputs\n") && !text.contains("--reference"), "{text}");
    images_that_are_not_as_recorded(&bench);
}

fn images_that_are_not_as_recorded(bench: &Bench) {
    let modules = bench.process().join("modules");
    let images: Vec<PathBuf> = fs::read_dir(&modules).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(images.len(), 4, "{images:?}");
    let is_mix = |image: &&PathBuf| fs::read(image).unwrap().windows(9).any(|bytes| bytes == b".text.mix");
    let mix = images.iter().find(is_mix).unwrap();
    let whole = fs::read(mix).unwrap();
    let mut damaged = whole.clone();
    damaged[500] ^= 1;
    fs::write(mix, damaged).unwrap();
    let report = bench.replay("run --all", &[]);
    let refused = reasons(&report, "refused");
    assert!(
        refused.len() == 2 && refused.iter().all(|why| why.contains("differs from the recorded image")),
        "{refused:?}"
    );
    assert_eq!(counts(&report), (6, 4), "the other launches must run");
    fs::remove_file(mix).unwrap();
    let report = bench.replay("run --all", &[]);
    assert!(reasons(&report, "refused").iter().all(|why| why.contains("No such file")), "{report}");
    // A symbolic link is not followed, whatever its target is.
    fs::write(mix, whole).unwrap();
    let elsewhere = modules.with_file_name("elsewhere");
    fs::rename(&modules, &elsewhere).unwrap();
    symlink(&elsewhere, &modules).unwrap();
    let report = bench.replay("run --all", &[]);
    assert_eq!(counts(&report), (6, 0), "{report}");
}

#[test]
fn content_that_was_not_recorded_is_reported_before_anything_runs() {
    let bench = Bench::new();
    bench.recorded(PLAN, "--dump-tensor=hash");
    let report = bench.replay("run --func mix", &[]);
    let refused = reasons(&report, "refused");
    assert!(
        refused.len() == 2 && refused.iter().all(|why| why.contains("argument 0 would be zeros")),
        "{refused:?}"
    );
    let cut = Bench::new();
    cut.recorded(PLAN, "--max-range 400");
    let report = cut.replay("run --func mix", &[]);
    let refused = reasons(&report, "refused");
    assert!(
        refused.len() == 2 && refused.iter().all(|why| why.contains("larger --max-range")),
        "{refused:?}"
    );
}

#[test]
fn memory_that_may_contain_pointers_moves_only_if_allowed() {
    let bench = Bench::new();
    // A word of the second buffer is an address in the first.
    bench.recorded(
        "alloc 0 300\nalloc 1 300\nfill 0 0 0 7 300\nlink 0 1 200 0 4\nmix 0 0 0 1 100 5 50 0\n",
        "",
    );
    let there = bench.replay("run --func mix", &[]);
    assert_eq!(counts(&there), (1, 1), "{there}");
    let moved = [("TENSORTAP_REPLAY_MOVE", "1")];
    let refused = bench.replay("run --func mix", &moved);
    assert!(reasons(&refused, "refused")[0].contains("may contain pointers"), "{refused}");
    let allowed = bench.replay("run --func mix --allow-inexact", &moved);
    assert_eq!((counts(&allowed), &allowed["fidelity"]["partial"]), ((1, 1), &1.into()));
    // Memory that is no argument of the launch was not captured.
    let out = Bench::new();
    out.recorded("alloc 0 300\nalloc 1 300\nalloc 2 300\nlink 0 1 200 2 4\nput 0 1 100 5 50 0\n", "");
    let report = out.replay("run --func put", &[]);
    assert!(
        reasons(&report, "refused")[0].contains("may be a pointer to memory that was not captured"),
        "{report}"
    );
    assert_eq!(counts(&out.replay("run --func put --allow-inexact", &[])), (1, 1));
}

#[test]
fn variables_are_set_before_a_launch_and_compared_after_it() {
    let bench = Bench::new();
    // Two images have a kernel of this name and a variable of the same name. Each launch changes it.
    let mut plan = String::from("alloc 3 256\nfill 0 3 0 1 256\ntotal 0 50\n");
    (0..6).for_each(|turn| plan += &format!("tally 0 3 {} 40 {}\n", turn * 30, turn % 2));
    bench.recorded(&plan, "");
    for variables in [&[][..], &[("TENSORTAP_REPLAY_MOVE", "1")]] {
        let report = bench.replay("run --all", variables);
        let said = (reasons(&report, "failed"), reasons(&report, "refused"));
        assert_eq!(counts(&report), (6, 6), "{said:?}");
    }
    // Without the variables, the launch cannot be replayed exactly.
    let hidden = Bench::new();
    let mut command = hidden.program(&plan.replace("total 0 50\n", ""), Some(("run", "")));
    succeeded(&command.env("FAKE_HIDES_VARIABLES", "1").output().unwrap());
    let report = hidden.replay("run --all", &[]);
    let refused = reasons(&report, "refused");
    assert!(
        refused.len() == 6 && refused.iter().all(|why| why.contains("argument 2 would be zeros")),
        "{refused:?}"
    );
    let report = hidden.replay("run --all --allow-inexact", &[]);
    let first = "the first of each has what its image gives it";
    assert_eq!(counts(&report), (6, 2), "{first}: {:?}", reasons(&report, "failed"));
}

#[test]
fn a_changed_value_inside_a_struct_is_reported_but_addresses_are_not() {
    let bench = Bench::new();
    let plan = |blocks: &str, k: u32| {
        format!(
            "{blocks}alloc 0 1000\nalloc 1 1000\nfill 0 0 0 100 1000\nfill 0 1 0 7 1000\nfold 0 0 0 1 0 {k} 800 0\nread 0 1 0 1000 1\n"
        )
    };
    // In the second run, memory is at other addresses. Nothing else differs.
    for (name, blocks, k) in
        [("golden", "", 5), ("moved", "alloc 5 5000\nalloc 6 7000\n", 5), ("other", "", 6)]
    {
        succeeded(&bench.program(&plan(blocks, k), Some((name, ""))).output().unwrap());
    }
    let said = |verb: &str, run: &str, golden: &str| {
        let output = bench.again(&format!("{verb} {run} {golden}"), &[]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), common::unwrapped(&text))
    };
    let (code, text) = said("blame", "moved", "--golden golden");
    assert!(code == Some(0) && !text.contains("orchestration"), "{text}");
    assert_eq!(said("diff", "moved", "golden").0, Some(0));
    let (code, text) = said("blame", "other", "--golden golden");
    assert_eq!(code, Some(1), "{text}");
    let words = "argument 0, passed by value, differs from byte 24 (addresses ignored): in the dump 06 in the golden 05";
    assert!(text.contains(words) && !text.contains("memory that no recorded task wrote"), "{text}");
    let (code, text) = said("diff", "other", "golden");
    assert!(code == Some(1) && text.contains("1 record passed by value"), "{text}");
    // A plain number is compared.
    for k in [5, 6] {
        let plan = format!("alloc 0 8\nput 0 0 0 {k} 8 0\n");
        succeeded(&bench.program(&plan, Some((&format!("put{k}"), ""))).output().unwrap());
    }
    let (code, text) = said("diff", "put6", "put5 --kind scalar");
    assert!(code == Some(1) && text.contains("FAIL: 1 record is outside its rule"), "{text}");
}

#[test]
fn a_refused_launch_is_not_replayed_and_is_reported_as_refused() {
    let bench = Bench::new();
    // The launch of a CUDA module, and a launch that the driver refused.
    succeeded(
        &bench.program("alloc 0 300\nput 0 0 0 1 9 0\nrefused 0 4\n", Some(("run", ""))).output().unwrap(),
    );
    let report = bench.replay("run --task 0x2", &[]);
    assert!(
        reasons(&report, "refused")[0].starts_with("the driver refused "),
        "{:?}",
        reasons(&report, "refused")
    );
}

#[test]
fn one_launch_is_extracted_as_a_case() {
    let bench = Bench::new();
    bench.recorded(PLAN, "");
    let output = bench.again("extract run --task 5 --out case", &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let readme = fs::read_to_string(bench.path("case/README.md")).unwrap();
    assert!(readme.contains("# One launch of `fold`") && readme.contains("fake device"), "{readme}");
    fs::remove_dir_all(bench.path("run")).unwrap();
    assert_eq!(counts(&bench.replay("case", &[])), (1, 1));
    assert_eq!(counts(&bench.replay("case", &[("FAKE_KERNEL", "fold=wrong")])), (1, 0));
    assert!(Path::new(&bench.path("case/modules")).is_dir());
}

#[test]
fn a_launch_that_may_use_a_texture_is_reported_as_inexact() {
    let bench = Bench::new();
    let fold = "fold 0 0 0 1 0 1 700 0\n";
    // The kernel receives the handle of a texture, then of a surface, inside of a struct, while they exist.
    let plan = format!(
        "alloc 0 1000\nalloc 1 1000\nwrite 0 0 0 1000 5 1\nwrite 0 1 0 1000 6 1\n{fold}texture 700\n{fold}texture_gone 700\n{fold}\
         surface 700\n{fold}surface_gone 700\nput 0 1 0 700 9 1\nread 0 1 0 1000 1\n"
    );
    bench.recorded(&plan, "");
    let dump = bench.dump("run");
    let tasks = dump.tasks().unwrap();
    let mut launches: Vec<_> = tasks.iter().filter(|task| task.kernel_names() == ["fold"]).collect();
    launches.sort_unstable_by_key(|task| task.task_id);
    let unseen: Vec<Vec<_>> =
        launches.iter().map(|task| task.uncaptured_args().map(|(_, reason)| reason).collect()).collect();
    let texture = vec![UncapturedReason::Texture];
    assert_eq!(unseen, [vec![], texture.clone(), vec![], texture]);
    let report = bench.replay("run --all", &[]);
    assert_eq!(counts(&report), (5, 3), "{:?}", reasons(&report, "failed"));
    let refused = reasons(&report, "refused");
    assert!(
        refused.len() == 2 && refused.iter().all(|why| why.contains("memory of a texture or surface")),
        "{refused:?}"
    );
    let report = bench.replay("run --all --allow-inexact", &[]);
    assert_eq!(counts(&report), (5, 5), "the fake device has none: {:?}", reasons(&report, "failed"));
}
