//! Failing runs: the device ends, the reason is reported, and no process or file is left over.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::dumps::Folder;
use crate::json::document;
use crate::{Outcome, command, tensortap};

#[test]
fn a_crash_names_task_kernel_core_and_signal() {
    for options in ["", "--platform a5sim", "--runtime aicpu_build_graph", "--runtime host_build_graph"] {
        let outcome = tensortap(&format!("run crash_segv {options}"));
        assert_names_the_crash(&outcome, "segv", "SIGSEGV");
        assert!(outcome.stdout.contains("crashed"), "{outcome:?}");
    }
}

fn assert_names_the_crash(outcome: &Outcome, kernel: &str, signal: &str) {
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(outcome.stderr.contains("error: crash in "), "{outcome:?}");
    for part in ["task 0x000000", &format!("kernel `{kernel}`"), "core ", signal] {
        assert!(outcome.stderr.contains(part), "no {part} in {}", outcome.stderr);
    }
    assert!(!outcome.stderr.contains("panicked"), "{outcome:?}");
}

#[test]
fn thread_mode_reports_a_crash_and_ends_the_process() {
    for platform in tensortap::PLATFORMS.iter().map(|p| p.name()) {
        for runtime in tensortap::RUNTIMES.iter().map(|r| r.name()) {
            for (scene, kernel, signal) in [
                ("crash_segv", "segv", "SIGSEGV"),
                ("crash_abort", "abort", "SIGABRT"),
                ("crash_stack", "stack", "SIGSEGV"),
            ] {
                let options =
                    format!("--platform {platform} --runtime {runtime} --device-mode thread --quiet");
                let outcome = tensortap(&format!("run {scene} {options}"));
                assert_names_the_crash(&outcome, kernel, signal);
                assert!(outcome.stderr.contains("hint: in thread mode"), "{outcome:?}");
            }
        }
    }
}

#[test]
fn a_dump_survives_a_crash_in_thread_mode() {
    let folder = Folder::new();
    let line = "run crash_segv --param tasks=20 --device-mode thread --quiet --dump-tensor --out d";
    assert_names_the_crash(&folder.tensortap(line), "segv", "SIGSEGV");
    assert!(folder.good("repair d").stdout.starts_with("d: repaired, "));
    folder.good("verify d");
}

#[test]
fn thread_mode_aborts_a_hang() {
    let outcome = tensortap("run hang --device-mode thread --stall-timeout 300ms");
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    for part in ["kernel `hang`", "core ", "thread mode"] {
        assert!(outcome.stderr.contains(part), "no {part} in {}", outcome.stderr);
    }
}

#[test]
fn aborts_a_hang_after_the_stall_timeout() {
    let outcome = tensortap("run hang --stall-timeout 500ms");
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    for part in ["kernel `hang`", "0.5 s", "hint: ", "--stall-timeout"] {
        assert!(outcome.stderr.contains(part), "no {part} in {}", outcome.stderr);
    }
    assert!(outcome.stdout.contains("stalled"), "{outcome:?}");
}

#[test]
fn reports_a_full_disk() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device that is always full");
    let mut command = command(&["scenes"]);
    let output =
        command.stdout(Stdio::from(full)).stderr(Stdio::piped()).output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: cannot write to standard output"));
}

/// A call with a file size limit, in blocks of 512 bytes (1,024 in some shells).
fn limited(blocks: u32, line: &str, folder: &Folder) -> Outcome {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_tensortap")]);
    shell.args(line.split_whitespace()).current_dir(folder.path("."));
    crate::outcome(shell)
}

#[test]
fn reports_a_file_size_limit_as_an_error() {
    let folder = Folder::new();
    let outcome = limited(1024, "run vector_example --device-memory 64MiB", &folder);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    for part in ["device memory of 67108864 bytes", "ulimit -f", "--device-memory"] {
        assert!(outcome.stderr.contains(part), "no {part} in {}", outcome.stderr);
    }
    let line = "run stream --param tasks=1500 --param bytes=65536 --device-memory 32MiB --ring-slots 64 --dump-arena 1MiB --dump-writers 3 --dump-tensor --no-dedup --json --out d";
    let outcome = limited(70_000, line, &folder);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    let document = document(&outcome);
    assert_eq!(
        (&document["status"], &document["golden"]),
        (&"dump_failed".into(), &"pass".into()),
        "{document}"
    );
    assert!(outcome.stderr.contains("the run continues without its dump"), "{outcome:?}");
    assert_eq!(folder.tensortap("verify d").code, Some(0), "what was written is whole");
}

#[test]
fn a_stopped_device_ends_with_its_killed_host() {
    let mut command = command(&["run", "hang", "--stall-timeout", "0", "--quiet"]);
    let mut host = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let device = device_of(&host);
    kill_process(pid(device), Signal::STOP).expect("the device lives");
    kill_process(pid(host.id()), Signal::KILL).expect("the host lives");
    host.wait().expect("the host ends");
    let deadline = Instant::now() + Duration::from_secs(20);
    // A zombie that was not reaped yet counts as dead.
    let lives = || {
        let status = fs::read_to_string(format!("/proc/{device}/stat")).unwrap_or_default();
        status.rsplit(") ").next().is_some_and(|state| !state.is_empty() && !state.starts_with('Z'))
    };
    while lives() && Instant::now() < deadline {
        sleep(Duration::from_millis(20));
    }
    let left = lives();
    if left {
        kill_process(pid(device), Signal::KILL).expect("the device lives");
    }
    assert!(!left, "the stopped device outlives its host");
}

#[test]
fn an_interrupted_run_ends_its_device_and_exits_with_128_and_the_signal() {
    for (line, part, signal, status) in [
        ("run hang --stall-timeout 0", "interrupted", Signal::INT, 130),
        ("run hang --stall-timeout 0 --json", "\"status\": \"interrupted\"", Signal::INT, 130),
        ("run hang --stall-timeout 0", "interrupted", Signal::TERM, 143),
        ("run hang --stall-timeout 0 --json", "\"status\": \"interrupted\"", Signal::HUP, 129),
    ] {
        let mut command = command(&line.split(' ').collect::<Vec<_>>());
        let host = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let device = device_of(&host);
        // The device is running; the signal arrives between its launch and its last kernel.
        kill_process(pid(host.id()), signal).expect("the host lives");
        let output = host.wait_with_output().expect("the host ends");
        assert_eq!(output.status.code(), Some(status), "{line}");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(stdout.contains(part), "{line}: {stdout}");
        assert!(stderr.contains("error: the run was interrupted"), "{line}: {stderr}");
        assert!(!fs::exists(format!("/proc/{device}")).unwrap(), "device {device} is still running");
    }
}

#[test]
fn an_interrupted_measurement_exits_with_130() {
    let mut command = command(&["bench", "dispatch", "--tasks", "5000", "--repeat", "1000", "--json"]);
    let host = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    device_of(&host);
    kill_process(pid(host.id()), Signal::INT).expect("the host lives");
    let output = host.wait_with_output().expect("the host ends");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!((output.status.code(), &document["error"]["exit_status"]), (Some(130), &130.into()));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("interrupted"), "it ended by itself, before its grace was over: {stderr}");
}

fn pid(id: u32) -> Pid {
    i32::try_from(id).ok().and_then(Pid::from_raw).expect("a process number")
}

/// Waits until the device process has started its program.
fn device_of(host: &Child) -> u32 {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if let Some(device) = children(host.id()).into_iter().find(|&child| threads(child) > 3) {
            return device;
        }
        sleep(Duration::from_millis(5));
    }
    panic!("the host started no device");
}

fn children(parent: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let lists = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(|id| id.parse().expect("a number")).collect::<Vec<_>>())
        .collect()
}

/// A device that runs a graph has a thread for each core.
fn threads(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count)
}

/// The cells of each row of a list, because columns get wider with more rows.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().filter(|line| line.contains(" 0x")).map(|line| line.split_whitespace().collect()).collect()
}

/// Waits until the list of a dump that is being written has a record of this kernel.
fn wait_for_listed_kernel(folder: &Folder, dump: &str, kernel: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        let outcome = folder.tensortap(&format!("list {dump}"));
        if outcome.code == Some(0) && rows(&outcome.stdout).iter().any(|row| row.contains(&kernel)) {
            return outcome.stdout;
        }
        sleep(Duration::from_millis(20));
    }
    panic!("the dump never showed {kernel}");
}

#[test]
fn reads_a_dump_during_the_run_and_closes_an_interrupted_one() {
    let folder = Folder::new();
    let host = hang_with_dump(&folder, "d");

    let table = wait_for_listed_kernel(&folder, "d", "hang");
    assert!(table.contains(", running\n") && table.contains("The run is still recording"), "{table}");
    assert_eq!(document(&folder.good("list d --json"))["state"], "open");
    assert!(folder.good("verify d").stdout.contains("the run is still recording"));
    let repair = folder.tensortap("repair d");
    assert_eq!((repair.code, repair.stdout.as_str()), (Some(2), ""), "{repair:?}");
    assert!(repair.stderr.contains("still being written"), "{repair:?}");

    kill_process(pid(host.id()), Signal::INT).expect("the host lives");
    let output = host.wait_with_output().expect("the host ends");
    assert_eq!(output.status.code(), Some(130));
    let list = document(&folder.good("list d --json"));
    assert_eq!((&list["state"], &list["status"]), (&"closed".into(), &"interrupted".into()));
    folder.good("verify d");
}

#[test]
fn closes_the_dump_if_the_process_group_is_signaled() {
    let folder = Folder::new();
    for (signal, status) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let host = hang_with_dump(&folder, "g");
        wait_for_listed_kernel(&folder, "g", "hang");
        // As `timeout` and closing terminals do: host and device receive the signal.
        kill_process_group(pid(host.id()), signal).expect("the group lives");
        let output = host.wait_with_output().expect("the host ends");
        assert_eq!(output.status.code(), Some(status), "{}", String::from_utf8_lossy(&output.stderr));
        let list = document(&folder.good("list g --json"));
        assert_eq!((&list["state"], &list["status"]), (&"closed".into(), &"interrupted".into()));
        folder.good("verify g");
        fs::remove_dir_all(folder.path("g")).expect("it can be made again");
    }
}

#[test]
fn a_run_under_nohup_survives_its_terminal() {
    let folder = Folder::new();
    let line = format!(
        "trap '' HUP; exec {} run hang --stall-timeout 0 --dump-tensor --out d",
        crate::common::executable().display()
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(folder.path("")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut host = shell.spawn().expect("a shell");
    wait_for_listed_kernel(&folder, "d", "hang");
    kill_process(pid(host.id()), Signal::HUP).expect("the host lives");
    sleep(Duration::from_millis(200));
    assert_eq!(host.try_wait().expect("a child"), None, "it goes on");
    kill_process(pid(host.id()), Signal::TERM).expect("the host lives");
    assert_eq!(host.wait().expect("it ends").code(), Some(143));
}

fn hang_with_dump(folder: &Folder, out: &str) -> Child {
    let mut command = command(&["run", "hang", "--stall-timeout", "0", "--dump-tensor", "--out", out]);
    command.current_dir(folder.path("")).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command.spawn().expect("the binary starts")
}

#[test]
fn the_dump_of_a_killed_host_is_torn_and_repairable() {
    let folder = Folder::new();
    let mut command = command(&["run", "hang", "--stall-timeout", "0", "--dump-tensor", "--out", "d"]);
    command.current_dir(folder.path("")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut host = command.spawn().expect("the binary starts");
    let running = wait_for_listed_kernel(&folder, "d", "hang");
    host.kill().and_then(|()| host.wait()).expect("the host ends");

    let table = folder.good("list d").stdout;
    assert!(table.contains(", killed\n") && table.contains("`tensortap repair d`"), "{table}");
    let kept = rows(&table);
    assert!(
        rows(&running).iter().all(|row| kept.contains(row)),
        "what was listed is still there: {running}{table}"
    );
    assert_eq!(folder.tensortap("verify d").code, Some(1));
    assert!(folder.good("repair d").stdout.starts_with("d: repaired, "));
    folder.good("verify d");
    assert_eq!(folder.manifest("d")["status"], "killed");
}
