//! The number of ranks of a program: `run.json` has it, and a rank that never attached is missing.

use std::process::Command;

use serde_json::Value;

use crate::{Bench, common, stderr};

/// What `run.json` expects of a program that runs as one rank with this environment.
fn expected(options: &str, environment: &[(&str, &str)]) -> Option<u32> {
    let bench = Bench::new();
    let output = bench.recorded(options, "tasks 1 2").envs(environment.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    bench.run_file().expected_ranks
}

#[test]
fn the_number_of_ranks_comes_from_the_user_or_the_environment() {
    assert_eq!(expected("", &[]), None);
    assert_eq!(expected("", &[("WORLD_SIZE", "4")]), None, "without a rank");
    assert_eq!(expected("", &[("RANK", "1"), ("WORLD_SIZE", "4")]), Some(4));
    assert_eq!(expected("", &[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")]), Some(2));
    assert_eq!(expected("", &[("PMI_RANK", "0"), ("PMI_SIZE", "3")]), Some(3));
    assert_eq!(expected("", &[("SLURM_PROCID", "7"), ("SLURM_NTASKS", "8")]), Some(8));
    assert_eq!(expected("", &[("RANK", "1"), ("WORLD_SIZE", "4"), ("SLURM_NTASKS", "9")]), Some(4));
    assert_eq!(expected("", &[("RANK", "4"), ("WORLD_SIZE", "4")]), None, "no rank of this program");
    assert_eq!(expected("", &[("RANK", "1"), ("WORLD_SIZE", "many")]), None);
    assert_eq!(expected("--ranks 6", &[("RANK", "1"), ("WORLD_SIZE", "4")]), Some(6));
    assert_eq!(expected("--ranks 6", &[]), Some(6));
}

#[test]
fn zero_ranks_are_rejected() {
    let output = Bench::new().recorder("--ranks 0").arg("true").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// Records a program of two ranks, of which only some run.
fn record(bench: &Bench, run: &str, ranks: &[u32]) {
    let words = crate::program::words().map(|word| format!("'{word}'")).join(" ");
    let lines: Vec<String> = ranks.iter().map(|rank| format!("RANK={rank} {words} || exit 1")).collect();
    let mut command = bench.recorder("");
    command.args(["sh", "-c", &lines.join("; ")]).env("WORLD_SIZE", "2");
    command.envs(crate::program::command("tasks 1 2", &bench.path("notes")));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    std::fs::rename(bench.path("run"), bench.path(run)).unwrap();
}

#[test]
fn a_rank_that_never_attached_makes_the_verdict_undecided() {
    let bench = Bench::new();
    record(&bench, "whole", &[0, 1]);
    record(&bench, "part", &[0]);
    let blame = |run: &str, golden: &str, options: &[&str]| -> (Option<i32>, Value) {
        let mut command = Command::new(common::executable());
        command.args(["blame", run, "--golden", golden, "--json"]).args(options);
        let output = command.current_dir(bench.path("")).output().unwrap();
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
    };
    assert_eq!(blame("whole", "whole", &[]).0, Some(0));
    // No run has a dump of rank 1.
    let (code, document) = blame("part", "part", &[]);
    assert_eq!((code, &document["verdict"]), (Some(1), &"undecided".into()), "{document}");
    let because = &document["undecided_because"][0];
    assert_eq!((&because["rank"], &because["name"]), (&1.into(), &"rank 1".into()), "{document}");
    assert_eq!(because["why"], "the program has this rank, but it never attached", "{document}");
    let headline = document["headline"].as_str().unwrap();
    assert!(
        headline.starts_with("rank 1 (the program has this rank, but it never attached) could decide"),
        "{headline}"
    );
    assert_eq!(blame("part", "part", &["--allow-unmatched"]).0, Some(0));
    let (_, document) = blame("part", "whole", &[]);
    assert_eq!(
        (&document["verdict"], &document["undecided_because"][0]["rank"]),
        (&"undecided".into(), &1.into())
    );
}

/// Records a part of a run of two ranks on a host of its own: the run folder is `FOLDER/HOST`.
fn record_host(bench: &Bench, folder: &str, host: &str, ranks: &[u32], options: &str) {
    let words = crate::program::words().map(|word| format!("'{word}'")).join(" ");
    let lines: Vec<String> = ranks.iter().map(|rank| format!("RANK={rank} {words} || exit 1")).collect();
    let mut command = bench.recorder(options);
    command.args(["sh", "-c", &lines.join("; ")]).env("WORLD_SIZE", "2");
    command.env_remove("SLURM_JOB_ID").env_remove("SLURM_STEP_ID");
    command.envs(crate::program::command("tasks 1 2", &bench.path("notes")));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    std::fs::create_dir_all(bench.path(folder)).unwrap();
    std::fs::rename(bench.path("run"), bench.path(folder).join(host)).unwrap();
}

#[test]
fn run_folders_of_several_hosts_are_one_run() {
    let bench = Bench::new();
    for (folder, id) in [("golden", "first"), ("again", "second")] {
        record_host(&bench, folder, "host-a", &[0], &format!("--run-id {id}"));
        record_host(&bench, folder, "host-b", &[1], &format!("--run-id {id}"));
    }
    record_host(&bench, "half", "host-a", &[0], "--run-id third");
    let call = |args: &[&str]| {
        let mut command = Command::new(common::executable());
        let output = command.args(args).arg("--json").current_dir(bench.path("")).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), document, stderr(&output))
    };
    let ranks = |document: &Value| -> Vec<Value> {
        document["dumps"].as_array().unwrap().iter().map(|dump| dump["rank"].clone()).collect()
    };
    let (code, list, said) = call(&["list", "again"]);
    assert_eq!((code, ranks(&list)), (Some(0), vec![0.into(), 1.into()]), "{said}");
    let (code, list, _) = call(&["list", "again", "--rank", "1"]);
    assert!(code == Some(0) && list["dump"].as_str().unwrap().ends_with("host-b/rank-1"), "{list}");
    let (code, blame, said) = call(&["blame", "again", "--golden", "golden"]);
    assert_eq!((code, &blame["verdict"]), (Some(0), &"pass".into()), "{blame} {said}");
    assert_eq!(call(&["verify", "again"]).0, Some(0));
    assert_eq!(call(&["report", "again", "-o", "report.html"]).0, Some(0));

    // A part of a run leaves the verdict open, whether the rest exists or not.
    let because = |run: &str| {
        let (code, blame, said) = call(&["blame", run, "--golden", "golden"]);
        assert_eq!((code, &blame["verdict"]), (Some(1), &"undecided".into()), "{blame} {said}");
        blame["undecided_because"][0]["why"].as_str().unwrap().to_owned()
    };
    assert_eq!(because("half"), "only the golden has it");
    let (code, blame, _) = call(&["blame", "half", "--golden", "half"]);
    assert_eq!((code, &blame["undecided_because"][0]["rank"]), (Some(1), &1.into()), "{blame}");
    let (code, blame, _) = call(&["blame", "again/host-a", "--golden", "again/host-a"]);
    let why = blame["undecided_because"][0]["why"].as_str().unwrap_or_default();
    assert_eq!(code, Some(1), "{blame}");
    assert!(why.contains("name the folder of the whole run"), "{blame}");
}

#[test]
fn run_folders_of_different_runs_are_refused() {
    let bench = Bench::new();
    record_host(&bench, "ids", "host-a", &[0], "--run-id first");
    record_host(&bench, "ids", "host-b", &[1], "--run-id second");
    record_host(&bench, "twice", "host-a", &[0], "--run-id first");
    record_host(&bench, "twice", "host-b", &[0], "--run-id first");
    record_host(&bench, "none", "host-a", &[0], "--run-id first");
    record_host(&bench, "none", "host-b", &[1], "");
    record_host(&bench, "sizes", "host-a", &[0], "--run-id first --ranks 2");
    record_host(&bench, "sizes", "host-b", &[1], "--run-id first --ranks 3");
    record_host(&bench, "unrelated", "one", &[0], "");
    record_host(&bench, "unrelated", "two", &[1], "");
    for (folder, expected) in [
        ("ids", "host-a has the run id `first`, and host-b has the run id `second`"),
        ("none", "host-a has the run id `first`, and host-b has no run id"),
        ("twice", "rank 0 is in host-a and in host-b"),
        ("sizes", "host-a expects 2 ranks, and host-b expects 3"),
    ] {
        for verb in [&["list"][..], &["verify"], &["blame", "--golden", "unrelated"]] {
            let mut command = Command::new(common::executable());
            let output =
                command.arg(verb[0]).arg(folder).args(&verb[1..]).current_dir(bench.path("")).output();
            let output = output.unwrap();
            assert_eq!(output.status.code(), Some(2), "{folder} {verb:?}");
            let said = stderr(&output);
            assert!(said.contains(expected) && said.contains("run folders of different runs"), "{said}");
        }
    }
    // Without run ids, runs next to each other are unrelated: the newest one is read.
    let output =
        Command::new(common::executable()).args(["list", "unrelated"]).current_dir(bench.path("")).output();
    assert_eq!(output.unwrap().status.code(), Some(0));
}
