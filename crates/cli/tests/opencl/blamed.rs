//! Of two recordings of a program, one of them wrong, blame names the launch.

use std::process::Command;

use crate::{Bench, common, succeeded};

/// What blame of a run against the right one says first, on one line, and everything else.
fn blame(bench: &Bench, run: &str) -> (String, String) {
    let mut command = Command::new(common::executable());
    let output =
        command.args(["blame", run, "--golden", "right"]).current_dir(bench.path("")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{run}: {}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (
        said.lines().next().unwrap_or_default().to_owned(),
        said.split_whitespace().collect::<Vec<_>>().join(" "),
    )
}

#[test]
fn the_launch_is_named_whatever_is_wrong() {
    let Some(bench) = Bench::new() else { return };
    let record = |how: &str| {
        let mut program = bench.program(Some((how, "")), "blamed.py");
        // What was never written is not zeros by chance.
        program.env("MALLOC_PERTURB_", if how == "uninitialised" { "90" } else { "0" });
        succeeded(&program.arg(how).output().unwrap());
    };
    record("right");
    let cases = [
        ("kernel", "(scale) is wrong here", "values off by the constant 1.000"),
        ("size", "(gather) is wrong here", "is launched in another size: in the dump grid 2 x 1 x 1"),
        ("barrier", "(gather) raced with", "nothing orders the two, as the golden does"),
        ("event", "(gather) raced with", "nothing orders the two, as the golden does"),
        (
            "swap",
            "(finish) was fed a wrong input",
            "argument 0 (sums) is another buffer than in the golden: the one that is argument 1 (z) there",
        ),
        ("uninitialised", "(gather) was fed a wrong input", "is memory that no recorded task wrote before"),
    ];
    for (how, first, also) in cases {
        record(how);
        let (verdict, all) = blame(&bench, how);
        assert!(verdict.starts_with("FAIL: ") && verdict.contains(first), "{how}: {verdict}");
        assert!(all.contains(also), "{how}: {all}");
    }
}

#[test]
fn a_launch_that_was_refused_or_crashed_is_what_is_said_first() {
    let Some(bench) = Bench::new() else { return };
    let record = |how: &str| bench.program(Some((how, "")), "blamed.py").arg(how).output().unwrap();
    succeeded(&record("right"));
    succeeded(&record("refused"));
    assert!(!record("crash").status.success());
    let cases = [
        (
            "refused",
            "(gather) was refused by the driver with status -54, and ran in the golden; task ",
            ("refused", Some(-54)),
        ),
        (
            "crash",
            "(finish) never ended: it was running when the run ended, and ended in the golden",
            ("never_ended", None),
        ),
    ];
    for (how, first, (what, status)) in cases {
        let (_, all) = blame(&bench, how);
        assert!(all.starts_with("FAIL: task 0x") && all.contains(first), "{how}: {all}");
        assert!(all.find(first) < Some(30), "{how}: {all}");
        let (code, said, stderr) = bench.call(&["blame", how, "--golden", "right"]);
        let stopped = &said["stopped"][0];
        assert_eq!(
            (code, &stopped["how"], &stopped["status"]),
            (Some(1), &what.into(), &status.into()),
            "{said} {stderr}"
        );
        assert!(stopped["words"].as_str().is_some_and(|words| words.contains(" the golden")), "{stopped}");
        // In both runs it is no difference.
        let (_, said, stderr) = bench.call(&["blame", how, "--golden", how]);
        assert_eq!(said["stopped"], serde_json::json!([]), "{said} {stderr}");
    }
}

#[test]
fn launches_that_race_in_both_runs_or_in_the_golden_are_named_and_none_is_blamed() {
    let Some(bench) = Bench::new() else { return };
    for how in ["right", "event", "lucky"] {
        succeeded(&bench.program(Some((how, "")), "blamed.py").arg(how).output().unwrap());
    }
    let cases = [
        (
            "event",
            "lucky",
            "(scale) likely race for argument 0 (y): nothing orders the two, in the golden neither",
        ),
        ("right", "event", "(gather) cannot be judged: the golden is ambiguous there, as its task"),
    ];
    for (run, golden, headline) in cases {
        let (code, said, stderr) = bench.call(&["blame", run, "--golden", golden]);
        assert_eq!((code, &said["first_wrong"]), (Some(1), &serde_json::json!([])), "{run}: {said} {stderr}");
        let mut command = Command::new(common::executable());
        let output = command.args(["blame", run, "--golden", golden]).current_dir(bench.path("")).output();
        let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.find(headline) < Some(60) && text.contains(headline), "{run}: {text}");
    }
}

#[test]
fn two_recordings_of_one_program_differ_in_nothing() {
    let Some(bench) = Bench::new() else { return };
    for run in ["right", "again"] {
        succeeded(
            &bench.program(Some((run, "--dump-tensor=hash")), "blamed.py").arg("right").output().unwrap(),
        );
    }
    let mut command = Command::new(common::executable());
    succeeded(
        &command.args(["blame", "again", "--golden", "right"]).current_dir(bench.path("")).output().unwrap(),
    );
}

/// What `blame` says of a run against another, on one line.
fn said(bench: &Bench, verb: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(common::executable());
    let output = command.args(verb).current_dir(bench.path("")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), said.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn what_filters_left_out_is_no_race() {
    let Some(bench) = Bench::new() else { return };
    let cases = [
        // What fills the sums and what reads them, without the launch between that made them wrong.
        (
            "kernel",
            "--dump-task 0x4,0x7",
            "(finish) cannot be judged: argument 0 is not what task 0x4 left, and filters kept",
        ),
        // A launch that is early, and what may have ordered it was left out.
        (
            "event",
            "--dump-task 0x5-0x7",
            "(gather) cannot be judged: argument 0 is ambiguous: nothing orders it with task 0x5",
        ),
    ];
    succeeded(&bench.program(Some(("right", "")), "blamed.py").arg("right").output().unwrap());
    for (how, options, reason) in cases {
        succeeded(&bench.program(Some((how, options)), "blamed.py").arg(how).output().unwrap());
        let (_, said) = said(&bench, &["blame", how, "--golden", "right"]);
        assert!(said.contains("filters kept") && said.contains(reason), "{how}: {said}");
        assert!(!said.contains("raced") && !said.contains("likely race"), "{how}: {said}");
    }
    // With nothing left out it is one.
    succeeded(&bench.program(Some(("whole", "")), "blamed.py").arg("event").output().unwrap());
    assert!(said(&bench, &["blame", "whole", "--golden", "right"]).1.contains("(gather) raced with"));
}

#[test]
fn what_filters_left_out_may_have_written_what_a_launch_was_given() {
    let Some(bench) = Bench::new() else { return };
    for how in ["right", "kernel"] {
        succeeded(&bench.program(Some((how, "--dump-func finish")), "blamed.py").arg(how).output().unwrap());
    }
    // The launch before it is wrong, and was left out of both.
    let (_, said_of) = said(&bench, &["blame", "kernel", "--golden", "right"]);
    assert!(said_of.starts_with("FAIL: task 0x7 (finish) was fed a wrong input"), "{said_of}");
    assert!(!said_of.contains("uninitialised") && !said_of.contains("no evidence"), "{said_of}");
    assert!(said_of.contains("a task that was not captured may have written it"), "{said_of}");
    let (code, said_of) = said(&bench, &["diff", "kernel", "right"]);
    assert!(code == Some(1) && !said_of.contains("no task of either run"), "{said_of}");
}
