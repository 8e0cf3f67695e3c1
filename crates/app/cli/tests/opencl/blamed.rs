//! `blame` compares a wrong recording of a program with a right one and names the launch that went wrong.

use std::process::Command;

use crate::{Bench, WAYS, common, succeeded};

/// The first line of `blame` against the run `right`, and the whole text on one line.
fn blame(bench: &Bench, run: &str) -> (String, String) {
    let mut command = Command::new(common::executable());
    let output =
        command.args(["blame", run, "--golden", "right"]).current_dir(bench.path("")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{run}: {}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (said.lines().next().unwrap_or_default().to_owned(), common::unwrapped(&said))
}

#[test]
fn blame_names_the_wrong_launch_in_every_case() {
    let Some(bench) = Bench::new() else { return };
    let record = |how: &str| {
        let mut program = bench.program(Some((how, "")), "blamed.py");
        // Makes uninitialized memory unlikely to be zeros.
        program.env("MALLOC_PERTURB_", if how == "uninitialized" { "90" } else { "0" });
        succeeded(&program.arg(how).output().unwrap());
    };
    record("right");
    let cases = [
        ("kernel", "(scale) is wrong here", "values off by the constant 1.000"),
        ("size", "(gather) is wrong here", "is launched with a different size: in the dump grid 2 x 1 x 1"),
        ("barrier", "(gather) raced with", "nothing orders the two (the golden orders them)"),
        ("event", "(gather) raced with", "nothing orders the two (the golden orders them)"),
        (
            "swap",
            "(finish) was fed a wrong input",
            "argument 0 (sums) is a different buffer than in the golden: there, this buffer is argument 1 (z)",
        ),
        (
            "uninitialized",
            "(gather) was fed a wrong input",
            "is uninitialized memory, which task 0x4 of the golden writes before",
        ),
    ];
    for (how, first, also) in cases {
        record(how);
        let (verdict, all) = blame(&bench, how);
        assert!(verdict.starts_with("FAIL: ") && verdict.contains(first), "{how}: {verdict}");
        assert!(all.contains(also), "{how}: {all}");
    }
}

#[test]
fn a_refused_or_crashed_launch_is_reported_first() {
    let Some(bench) = Bench::new() else { return };
    let record = |how: &str| bench.program(Some((how, "")), "blamed.py").arg(how).output().unwrap();
    succeeded(&record("right"));
    succeeded(&record("refused"));
    assert!(!record("crash").status.success());
    let cases = [
        (
            "refused",
            "(gather) was refused by the driver with status -54, but ran in the golden; task ",
            ("refused", Some(-54)),
        ),
        (
            "crash",
            "(finish) never ended: it was running when the run ended, but ended in the golden",
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
        // A failure in both runs is no difference.
        let (_, said, stderr) = bench.call(&["blame", how, "--golden", how]);
        assert_eq!(said["stopped"], serde_json::json!([]), "{said} {stderr}");
    }
}

#[test]
fn a_program_that_leaves_after_it_has_waited_has_no_hung_launch() {
    let Some(mut bench) = Bench::new() else { return };
    for way in WAYS {
        let bench = bench.with_snapshots_by(way);
        for (run, how) in [("right", "finish"), ("left", "leave")] {
            let run = format!("{run}-{way}");
            succeeded(&bench.program(Some((&run, "")), "leaves.py").arg(how).output().unwrap());
        }
        let (left, right) = (format!("left-{way}"), format!("right-{way}"));
        let (code, said, stderr) = bench.call(&["blame", &left, "--golden", &right]);
        assert_eq!((code, &said["stopped"]), (Some(0), &serde_json::json!([])), "{way}: {said} {stderr}");
        assert!(!said.to_string().contains("had not completed"), "{way}: {said}");
        if said["labels"]["unknown"] != 0 {
            let words = "but may have completed, because the process left without closing its session";
            assert!(said["remarks"].to_string().contains(words), "{way}: {said}");
        }
    }
}

#[test]
fn races_in_the_golden_run_are_reported_without_blame() {
    let Some(bench) = Bench::new() else { return };
    for how in ["right", "event", "lucky"] {
        succeeded(&bench.program(Some((how, "")), "blamed.py").arg(how).output().unwrap());
    }
    let cases = [
        ("event", "lucky", "cannot be judged: in both recordings, nothing orders it with"),
        ("right", "event", "(gather) cannot be judged: in the golden, nothing orders its task"),
    ];
    for (run, golden, headline) in cases {
        let (code, said, stderr) = bench.call(&["blame", run, "--golden", golden]);
        assert_eq!((code, &said["first_wrong"]), (Some(1), &serde_json::json!([])), "{run}: {said} {stderr}");
        let mut command = Command::new(common::executable());
        let output = command.args(["blame", run, "--golden", golden]).current_dir(bench.path("")).output();
        let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
        let text = common::unwrapped(&text);
        assert!(text.find(headline) < Some(60) && text.contains(headline), "{run}: {text}");
    }
}

#[test]
fn two_recordings_of_one_program_are_equal() {
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

/// The exit code and the text of a verb, on one line.
fn said(bench: &Bench, verb: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(common::executable());
    let output = command.args(verb).current_dir(bench.path("")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), common::unwrapped(&said))
}

#[test]
fn filtered_tasks_are_no_race() {
    let Some(bench) = Bench::new() else { return };
    let cases = [
        // Keeps the launch that fills the sums and the one that reads them, and leaves out the launch in
        // between that made them wrong.
        (
            "kernel",
            "--dump-task 0x4,0x7",
            "(finish) cannot be judged: argument 0 is not what task 0x4 left; filters removed",
        ),
        // Leaves out the tasks that may order the early launch.
        (
            "event",
            "--dump-task 0x5-0x7",
            "(gather) cannot be judged: argument 1 after the task: a task that a dump lacks may have run at the same time",
        ),
    ];
    succeeded(&bench.program(Some(("right", "")), "blamed.py").arg("right").output().unwrap());
    for (how, options, reason) in cases {
        succeeded(&bench.program(Some((how, options)), "blamed.py").arg(how).output().unwrap());
        let (_, said) = said(&bench, &["blame", how, "--golden", "right"]);
        assert!(said.contains("filters removed") && said.contains(reason), "{how}: {said}");
        assert!(!said.contains("raced") && !said.contains("likely race"), "{how}: {said}");
    }
    // Without filters it is a race.
    succeeded(&bench.program(Some(("whole", "")), "blamed.py").arg("event").output().unwrap());
    assert!(said(&bench, &["blame", "whole", "--golden", "right"]).1.contains("(gather) raced with"));
}

#[test]
fn filtered_tasks_may_have_written_the_input_of_a_launch() {
    let Some(bench) = Bench::new() else { return };
    for how in ["right", "kernel"] {
        succeeded(&bench.program(Some((how, "--dump-func finish")), "blamed.py").arg(how).output().unwrap());
    }
    // The launch before it is wrong, but was left out of both runs.
    let (_, said_of) = said(&bench, &["blame", "kernel", "--golden", "right"]);
    assert!(said_of.contains("(finish) cannot be judged: no captured task wrote argument 0"), "{said_of}");
    assert!(said_of.starts_with("FAIL") && !said_of.contains("may be wrong"), "{said_of}");
    assert!(!said_of.contains("uninitialized") && !said_of.contains("no evidence"), "{said_of}");
    assert!(said_of.contains("an uncaptured task may have written it"), "{said_of}");
    let (code, said_of) = said(&bench, &["diff", "kernel", "right"]);
    assert!(code == Some(1) && !said_of.contains("no task of either run"), "{said_of}");
}
