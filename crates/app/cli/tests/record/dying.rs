//! Programs, children and recorders that are killed during a recording.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tensortap::format;

use crate::program::{DISTURBED, LAST_TASKS, RECORDS_PER_TASK, task_id};
use crate::{Bench, check, check_closed};

/// Number of tasks of a program. It runs long enough to be killed in the middle.
const TASKS: u64 = 480;
const LONG: Duration = Duration::from_secs(120);

/// Number of kills per victim; the environment can raise it.
fn kills() -> u64 {
    std::env::var("TENSORTAP_RECORD_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(3)
}

/// Waits until `look` returns a value.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LONG, "{what} did not happen in time");
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn kill(pid: u32) {
    send("-KILL", pid);
}

fn send(signal: &str, pid: u32) {
    assert!(
        Command::new("kill")
            .args([signal, &pid.to_string()])
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    );
}

/// Number of tasks that a process knew to be stored.
fn safe(notes: &[String]) -> u64 {
    notes.iter().filter_map(|note| note.strip_prefix("safe ")?.parse().ok()).max().unwrap_or(0)
}

/// Starts a program that notes how many tasks are stored, and waits until about the share `round` /
/// `rounds` of them is. Returns the recorder and the recorded process.
fn start(bench: &Bench, role: &str, round: u64, rounds: u64) -> (Child, u32) {
    let moment = TASKS * (2 * round + 1) / (2 * rounds);
    let mut recorder = bench.recorded("--quiet --no-dedup", &format!("{role} {TASKS}"));
    recorder.stdout(Stdio::null()).stderr(std::fs::File::create(bench.path("said")).unwrap());
    let recorder = recorder.spawn().unwrap();
    let process = wait_for("a stored record", || {
        let notes = bench.notes();
        notes.into_iter().find(|(_, notes)| safe(notes) >= moment.min(TASKS - LAST_TASKS)).map(|(pid, _)| pid)
    });
    (recorder, process)
}

/// Checks that a dump contains every task that its process knew to be stored.
fn check_safe(bench: &Bench, folder: &Path, process: u32) {
    let safe = safe(&bench.notes()[&process]);
    let dump = check(folder);
    let mut found = vec![0; usize::try_from(TASKS).unwrap()];
    for record in dump.records() {
        let number = record.unwrap().task_id - task_id(0, 0);
        found[usize::try_from(number).unwrap()] += 1;
    }
    let whole = found.iter().take_while(|&&count| count == RECORDS_PER_TASK).count();
    assert!(whole as u64 >= safe, "the dump has {whole} complete tasks, but {safe} were stored");
}

#[test]
fn a_killed_program_leaves_a_closed_dump_with_every_stored_record() {
    for round in 0..kills() {
        let bench = Bench::new();
        let (mut recorder, process) = start(&bench, "acknowledged", round, kills());
        kill(process);
        assert_eq!(recorder.wait().unwrap().code(), Some(137));
        let run = bench.run_file();
        let [entry] = &run.processes[..] else { panic!("{run:?}") };
        assert_eq!((entry.status.as_str(), run.signal), ("killed", Some(9)));
        let folder = bench.path("run").join(&entry.folder);
        let summary = Command::new(crate::common::executable()).arg("summary").arg(&folder).output().unwrap();
        let summary = String::from_utf8_lossy(&summary.stdout);
        assert!(summary.contains("\nthe program ended by SIGKILL (9)\n"), "{summary}");
        check_safe(&bench, &folder, process);
        check_closed(&folder);
        bench.assert_no_socket();
    }
}

#[test]
fn a_killed_child_leaves_a_closed_dump_and_its_parent_continues() {
    for round in 0..kills() {
        let bench = Bench::new();
        let (mut recorder, child) = start(&bench, "parent", round, kills());
        kill(child);
        assert_eq!(recorder.wait().unwrap().code(), Some(0));
        let run = bench.run_file();
        let [entry, parent] = &run.processes[..] else { panic!("{run:?}") };
        assert_eq!((entry.pid, entry.status.as_str()), (child, "crashed"));
        assert!(entry.message.as_ref().unwrap().contains("ended without closing"), "{entry:?}");
        let folder = bench.path("run").join(&entry.folder);
        check_safe(&bench, &folder, child);
        check_closed(&folder);
        assert_eq!(check_closed(&bench.path("run").join(&parent.folder)).len(), 20 * RECORDS_PER_TASK);
        bench.assert_no_socket();
    }
}

#[test]
fn a_killed_recorder_leaves_the_stored_records_and_the_program_continues() {
    for round in 0..kills() {
        let bench = Bench::new();
        let (mut recorder, process) = start(&bench, "acknowledged", round, kills());
        kill(recorder.id());
        assert_eq!(recorder.wait().unwrap().code(), None);
        std::fs::write(bench.path(DISTURBED), "").unwrap();
        wait_for("the program's end", || {
            let ended = bench.notes()[&process].contains(&"ended".to_owned());
            (ended && !Path::new(&format!("/proc/{process}")).exists()).then_some(())
        });
        let run = bench.run_file();
        let [entry] = &run.processes[..] else { panic!("{run:?}") };
        assert_eq!((run.status.as_str(), entry.status.as_str()), ("running", "running"));
        let folder = bench.path("run").join(&entry.folder);
        check_safe(&bench, &folder, process);
        format::repair(&folder).unwrap_or_else(|error| panic!("repair failed: {error}"));
        check_safe(&bench, &folder, process);
        check_closed(&folder);
        let said = std::fs::read_to_string(bench.path("said")).unwrap();
        assert_eq!(said.matches("recorder").count(), 1, "the message is printed once: {said}");

        // The next recorder removes the killed recorder's files.
        let status = bench.recorder("--quiet").args(["sh", "-c", ":"]).status().unwrap();
        assert_eq!(status.code(), Some(2), "the folder is in use");
        bench.assert_no_socket();
    }
}

#[test]
fn a_waiting_program_without_free_files_notices_that_its_recorder_died() {
    let bench = Bench::new();
    // Only the recorder's death may end the wait.
    let mut recorder = bench.recorded("--quiet --dump-arena 64KiB --dump-liveness 0", "starved");
    recorder.stdout(Stdio::null()).stderr(std::fs::File::create(bench.path("said")).unwrap());
    let mut recorder = recorder.spawn().unwrap();
    let process = wait_for("the program", || {
        bench.notes().into_iter().find(|(_, notes)| notes.contains(&"starved".to_owned())).map(|(pid, _)| pid)
    });
    send("-STOP", recorder.id());
    // The program has filled its memory and sleeps.
    let state = || std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let mut asleep = 0;
    wait_for("the program's wait", || {
        std::thread::sleep(Duration::from_millis(2));
        asleep = if state().contains(") S ") { asleep + 1 } else { 0 };
        (asleep > 20).then_some(())
    });
    kill(recorder.id());
    recorder.wait().unwrap();
    wait_for("the program's end", || {
        let ended = bench.notes()[&process].contains(&"ended".to_owned());
        (ended && !Path::new(&format!("/proc/{process}")).exists()).then_some(())
    });
    let said = std::fs::read_to_string(bench.path("said")).unwrap();
    assert_eq!(said.matches("recorder").count(), 1, "the message is printed once: {said}");
}
