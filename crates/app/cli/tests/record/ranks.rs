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
