//! Hosts and devices killed during a run: every dump opens, and verifies after a repair.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tensortap::format::{self, Dump};

use crate::common::{count_run, executable};

/// Kills per victim, spread over a run. `torture` makes many more, at random moments of all kinds of runs.
const KILLS: u32 = 6;
/// Tasks of a run, which takes a thousand times as long as one look at its progress.
const TASKS: u64 = 10_000;
/// Time between two looks at the progress.
const LOOK: Duration = Duration::from_micros(300);

fn start(out: &Path, tasks: u64) -> Child {
    let tasks = format!("tasks={tasks}");
    count_run();
    Command::new(executable())
        .args([
            "run",
            "stream",
            "--param",
            &tasks,
            "--param",
            "bytes=4096",
            "--blocks",
            "1",
            "--dump-tensor",
            "--no-dedup",
        ])
        .args(["--device-memory", "1GiB", "--quiet", "--json", "--out"])
        .arg(out)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts")
}

/// Size of the index of an undisturbed run.
fn whole_index_bytes(folder: &Path) -> u64 {
    let out = folder.join("whole");
    assert!(start(&out, TASKS).wait().expect("it ends").success());
    let bytes = index_bytes(&out);
    std::fs::remove_dir_all(&out).expect("removable");
    bytes
}

fn index_bytes(out: &Path) -> u64 {
    std::fs::metadata(out.join("tensor_dump.idx")).map_or(0, |file| file.len())
}

/// Kills `victim` of a run at evenly spread moments and checks the dump. Returns how many kills hit a running
/// dump.
fn rounds(victim: impl Fn(&Child) -> Option<u32>) -> u32 {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = whole_index_bytes(folder.path());
    let mut hits = 0;
    for round in 0..KILLS {
        let out = folder.path().join(format!("round-{round}"));
        let mut run = start(&out, TASKS);
        // By the progress of the dump, not by the clock, because the speed of the machine varies.
        let moment = whole * u64::from(2 * round + 1) / u64::from(2 * KILLS);
        while index_bytes(&out) < moment && run.try_wait().expect("it can be asked").is_none() {
            std::thread::sleep(LOOK);
        }
        let hit = run.try_wait().expect("it can be asked").is_none();
        if let Some(process) = victim(&run).filter(|_| hit) {
            signal(process, "-KILL");
        }
        run.wait().expect("it ends");
        hits += u32::from(hit && check(&out));
        std::fs::remove_dir_all(&out).expect("removable");
    }
    hits
}

/// Opens, repairs and verifies the dump of a killed run; false if it had not begun.
fn check(out: &Path) -> bool {
    if !out.join("tensor_dump.idx").exists() {
        return false;
    }
    let torn = Dump::open(out).unwrap_or_else(|error| panic!("it does not open: {error}"));
    let before = torn.len();
    assert!(torn.gaps().is_empty(), "acknowledged records are missing: {:?}", torn.gaps());
    drop(torn);
    format::repair(out).unwrap_or_else(|error| panic!("it cannot be repaired: {error}"));
    let whole = Dump::open(out).expect("it opens after the repair");
    assert_eq!(whole.len(), before, "the repair loses nothing");
    let verdict = format::verify(&whole).expect("readable");
    assert!(verdict.is_ok(), "{:?}", verdict.problems.first());
    true
}

fn signal(process: u32, name: &str) {
    // The process may have ended by itself meanwhile.
    let _ = Command::new("kill").args([name, &process.to_string()]).stderr(Stdio::null()).status();
}

fn device_of(host: u32) -> Option<u32> {
    let threads = std::fs::read_dir(format!("/proc/{host}/task")).ok()?.flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    children.collect::<String>().split_whitespace().next()?.parse().ok()
}

#[test]
fn a_killed_host_leaves_a_dump_that_repairs_and_verifies() {
    let hits = rounds(|run| Some(run.id()));
    assert!(hits * 10 >= KILLS * 8, "only {hits} of {KILLS} kills hit a running dump");
}

#[test]
fn a_killed_device_leaves_a_dump_that_verifies() {
    let hits = rounds(|run| device_of(run.id()));
    assert!(hits * 10 >= KILLS * 8, "only {hits} of {KILLS} kills hit a running dump");
}

#[test]
fn a_paused_host_or_device_resumes_without_loss() {
    for pause_device in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("dump");
        let mut run = start(&out, 2 * TASKS);
        let mut paused = 0;
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(100));
            let process = if pause_device { device_of(run.id()) } else { Some(run.id()) };
            if let Some(process) = process.filter(|_| run.try_wait().expect("it can be asked").is_none()) {
                signal(process, "-STOP");
                std::thread::sleep(Duration::from_millis(300));
                signal(process, "-CONT");
                paused += 1;
            }
        }
        assert!(paused > 0, "the run was over before it could be paused");
        assert!(run.wait().expect("it ends").success());
        let dump = Dump::open(&out).expect("it opens");
        assert_eq!((dump.len(), dump.gaps().len()), (6 * TASKS, 0), "two tensors and a scalar each");
        assert!(format::verify(&dump).expect("readable").is_ok());
    }
}
