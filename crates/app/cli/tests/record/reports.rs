//! What the reading verbs report about recorded programs: names, steps, queues, source lines, processes.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::examples::{good, root, tensortap};

/// Three processes, one after the other, each with three iterations of two tasks. Arguments make the second
/// process add one, or make the ids the same in every iteration.
const PROGRAM: &str = r#"
#include <tensortap_record.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void work(float add, int same_ids)
{
    tt_session *session = tt_attach();
    tt_recorder *r = tt_thread(session);
    float x[4] = {1, 2, 3, 4}, y[4];
    const uint64_t n[1] = {4};
    const tt_kernel_arg args[2] = {{"x", TT_IN, 0}, {"y", TT_OUT, 0}};
    tt_task_info info = tt_task_of(0);
    tt_recorded_task task;
    info.queue = tt_queue_id(r, "stream 7");
    info.source_file = tt_string(r, "program.c");
    info.source_line = 17;
    info.scope = tt_scope_id(r, "layer 1, head 2", 0);
    for (int step = 0; step < 3; step++) {
        char name[32];
        snprintf(name, sizeof name, "iteration %d", step);
        info.step = tt_step_id(r, name);
        info.kernel[0] = tt_kernel_with(r, "add", 0, args, 2);
        info.id = same_ids ? 5 : 0;
        tt_view given = tt_dense(0, TT_IN, x, TT_FLOAT32, 1, n), made = tt_dense(1, TT_OUT, y, TT_FLOAT32, 1, n);
        tt_task_begin(r, &task, &info);
        tt_record_before(r, &task, &given);
        for (int at = 0; at < 4; at++)
            y[at] = x[at] + add;
        tt_record_after(r, &task, &made);
        tt_task_end(r, &task);
        info.kernel[0] = tt_kernel_id(r, "twice");
        info.id = same_ids ? 6 : 0;
        tt_view both = tt_dense(0, TT_INOUT, y, TT_FLOAT32, 1, n);
        both.name = tt_string(r, "state");
        tt_task_begin(r, &task, &info);
        tt_record_before(r, &task, &both);
        for (int at = 0; at < 4; at++)
            x[at] = y[at] *= 2;
        tt_record_after(r, &task, &both);
        tt_task_end(r, &task);
    }
    tt_close(session);
}

int main(int argc, char **argv)
{
    const int wrong = argc > 1 && atoi(argv[1]), same_ids = argc > 2, processes = argc > 3 ? atoi(argv[3]) : 3;
    for (int at = 0; at < processes; at++) {
        if (!fork()) {
            work((float)(1 + at + (wrong && at == 1)), same_ids);
            _exit(0);
        }
        wait(NULL);
    }
    return 0;
}
"#;

struct RecordedRun(TempDir);

impl RecordedRun {
    fn new(runs: &[&str]) -> RecordedRun {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("program.c"), PROGRAM).unwrap();
        let mut cc = Command::new("cc");
        cc.current_dir(folder.path()).args(["-std=c11", "-D_GNU_SOURCE", "-I"]);
        good(cc.arg(root().join("include")).args(["program.c", "-o", "program"]));
        runs.iter().for_each(|run| _ = good(&mut tensortap(folder.path(), &format!("record --quiet {run}"))));
        RecordedRun(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn call(&self, words: &[&str]) -> Output {
        tensortap(self.path(), "").args(words).output().unwrap()
    }

    fn said(&self, line: &str) -> String {
        good(&mut tensortap(self.path(), line))
    }

    fn json(&self, line: &str) -> Value {
        let output = tensortap(self.path(), &format!("{line} --json")).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: {error}: {output:?}"))
    }

    /// Process ids in the order of attaching.
    fn pids(&self, run: &str) -> Vec<u64> {
        let run = std::fs::read_to_string(self.path().join(run).join("run.json")).unwrap();
        let run: Value = serde_json::from_str(&run).unwrap();
        run["processes"].as_array().unwrap().iter().map(|process| process["pid"].as_u64().unwrap()).collect()
    }
}

#[test]
fn steps_queues_source_lines_and_processes_are_reported() {
    let recorded = RecordedRun::new(&["--out run -- ./program"]);
    let pids = recorded.pids("run");
    let first = pids[0];
    let page = recorded.said(&format!("show run 2@3 --pid {first}"));
    for line in
        ["  step          iteration 1\n", "  queue         stream 7\n", "  source        program.c:17\n"]
    {
        assert!(page.contains(line), "{page}");
    }
    let page = recorded.json(&format!("show run 2@0x4 --pid {first}"));
    let fields = (&page["step_name"], &page["queue"], &page["source"]);
    assert_eq!(fields, (&"iteration 1".into(), &"stream 7".into(), &"program.c:17".into()), "{page}");
    assert_eq!(page["arguments"][0]["arg_name"], "state", "{page}");

    let csv =
        recorded.said("list run --task 3@0x6 --columns pid,step_name,queue,source,arg_name,stage --csv");
    let line = |pid: &u64, stage| format!("{pid},iteration 2,stream 7,program.c:17,state,{stage}");
    let mut pids = pids;
    pids.sort_unstable();
    let expected: Vec<String> = pids
        .iter()
        .flat_map(|pid| ["before_dispatch", "after_completion"].map(|stage| line(pid, stage)))
        .collect();
    assert_eq!(csv.lines().skip(1).collect::<Vec<_>>(), expected, "{csv}");
    for verb in ["list", "stats"] {
        let table = recorded.said(&format!("{verb} run"));
        assert!(table.contains("PID") && !table.contains("RANK"), "{table}");
        let document = recorded.json(&format!("{verb} run"));
        let records = document["records"].as_array().unwrap();
        let of_first = records.iter().filter(|record| record["pid"] == first).count();
        assert_eq!((records.len(), of_first), (36, 12), "{document}");
        let last = &records[11];
        let fields = (&last["step_name"], &last["queue"], &last["source"]);
        assert_eq!(fields, (&"iteration 2".into(), &"stream 7".into(), &"program.c:17".into()), "{last}");
    }
    let none = recorded.call(&["list", "run", "--task", "9@0x6", "--pid", &first.to_string()]);
    assert!(String::from_utf8_lossy(&none.stdout).contains("task 9@0x6"), "{none:?}");
}

#[test]
fn processes_without_ranks_are_compared_in_the_order_in_which_they_attached() {
    let recorded = RecordedRun::new(&[
        "--out right -- ./program",
        "--out wrong -- ./program 1",
        "--out two -- ./program 0 1 2",
    ]);
    let blame = recorded.json("blame wrong --golden right");
    let (wrong, right) = (recorded.pids("wrong"), recorded.pids("right"));
    for dump in blame["dumps"].as_array().unwrap() {
        let number = wrong.iter().position(|pid| dump["pid"] == *pid).unwrap();
        assert_eq!(dump["golden"], format!("right/pid-{}", right[number]), "{dump}");
        assert_eq!(dump["verdict"], if number == 1 { "fail" } else { "pass" }, "{dump}");
        let first = &dump["tasks"][0];
        let inherited = dump["tasks"].as_array().unwrap().iter().find(|task| task["label"] == "inherited");
        if number == 1 {
            assert_eq!(
                (&first["label"], &first["kernels"][0]),
                (&"wrong_here".into(), &"add".into()),
                "{dump}"
            );
            assert_eq!(
                inherited.unwrap()["outside"][0]["arg_name"],
                "state",
                "the name is from its record: {dump}"
            );
        }
    }
    let said = recorded.call(&["blame", "wrong", "--golden", "right"]);
    let said = String::from_utf8(said.stdout).unwrap();
    let why = format!("(compared with pid {}: both attached as number 2 among the processes", right[1]);
    assert!(
        said.contains(&why)
            && said.starts_with("FAIL: pid ")
            && said.contains("; 1 of 3 dumps in wrong fail\n"),
        "{said}"
    );
    // With different numbers of processes, they cannot be matched.
    let said = recorded.call(&["diff", "two", "right"]);
    let said = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said.matches("have different numbers of such processes").count(), 2, "{said}");
}

#[test]
fn kernels_are_filtered_by_name_and_shared_ids_are_reported() {
    let recorded = RecordedRun::new(&[
        "--out some --dump-func tw*,nothing -- ./program",
        "--out same -- ./program 0 1 1",
    ]);
    let listed = recorded.json("list some");
    let records = listed["records"].as_array().unwrap();
    assert_eq!(records.len(), 3 * 3 * 2, "{listed}");
    assert!(records.iter().all(|record| record["kernels"][0] == "twice"), "{listed}");
    let summary = recorded.said("summary same");
    assert!(summary.contains("2 task ids belong to several tasks (first: 1@0x5)"), "{summary}");
    let ids = ["0x0000000000000005", "0x0000000000000006"];
    assert_eq!(recorded.json("summary same")["repeated_ids"], serde_json::json!(ids));
    let one = recorded.pids("some")[0];
    let summary = recorded.json(&format!("summary some --pid {one}"));
    assert_eq!(summary["repeated_ids"], serde_json::json!([]), "{summary}");
}

#[test]
fn unsuccessful_requests_are_answered_with_a_hint() {
    let recorded = RecordedRun::new(&["--out run -- ./program 0 1 1", "--out nothing -- true"]);
    let refused = |words: &[&str], why: &str| {
        let output = recorded.call(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(why), "{words:?}: {said}");
        output.status.code()
    };
    assert_eq!(refused(&["list", "nothing"], "no process of `true` attached to the recorder"), Some(2));
    assert_eq!(refused(&["blame", "nothing", "--golden", "run"], "no process of `true` attached"), Some(2));
    let scope = "layer 1, head 2";
    assert_eq!(refused(&["list", "run", "--scope", scope], "did you mean `\"layer 1, head 2\"`"), Some(2));
    assert_eq!(refused(&["list", "run", "--scope", &format!("\"{scope}\"")], ""), Some(0));
    assert_eq!(refused(&["list", "run", "--sort", "-max"], "--sort max has no effect"), Some(0));
    assert_eq!(refused(&["list", "run", "--task", "x@1"], "has no task or kernel `x@1`"), Some(2));
}

/// A program that closes its session unless fields otherwise, and ends with a status.
const LEAVING: &str = r#"
#include <tensortap_record.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    float x[4] = {1, 2, 3, 4};
    const uint64_t n[1] = {4};
    tt_session *session = tt_attach();
    tt_recorder *r = tt_thread(session);
    tt_task_info info = tt_task_of(tt_kernel_id(r, "twice"));
    tt_view both = tt_dense(0, TT_INOUT, x, TT_FLOAT32, 1, n);
    tt_recorded_task task;
    tt_task_begin(r, &task, &info);
    tt_record_before(r, &task, &both);
    for (int at = 0; at < 4; at++)
        x[at] *= 2;
    tt_record_after(r, &task, &both);
    tt_task_end(r, &task);
    if (argc > 2)
        _exit(atoi(argv[1]));
    tt_close(session);
    return argc > 1 ? atoi(argv[1]) : 0;
}
"#;

#[test]
fn exit_statuses_are_reported_and_are_not_part_of_the_verdict() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("leaving.c"), LEAVING).unwrap();
    let mut cc = Command::new("cc");
    cc.current_dir(folder.path()).args(["-std=c11", "-D_GNU_SOURCE", "-I"]);
    good(cc.arg(root().join("include")).args(["leaving.c", "-o", "leaving"]));
    for (run, code, line) in [("right", 0, ""), ("closed", 7, "7"), ("left", 7, "7 unclosed")] {
        let line = format!("record --quiet --out {run} -- ./leaving {line}");
        assert_eq!(tensortap(folder.path(), &line).output().unwrap().status.code(), Some(code), "{line}");
    }
    let blamed = |run: &str| good(&mut tensortap(folder.path(), &format!("blame {run} --golden right")));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (closed, left) = (words(&blamed("closed")), words(&blamed("left")));
    let of_closed =
        "the program ended with status 7 after its session was closed; this is not part of the verdict";
    assert!(closed.starts_with("PASS: ") && closed.contains(of_closed), "{closed}");
    let of_left = "the process exited with status 7 without closing its session; its last records may be missing; \
                   an exit status is not part of the verdict";
    assert!(left.starts_with("PASS: ") && left.contains(of_left), "{left}");
    assert!(!words(&blamed("right")).contains("status"));
    let listed = good(&mut tensortap(folder.path(), "list left"));
    assert!(listed.contains("The process exited with status 7 without closing its session"), "{listed}");
}
