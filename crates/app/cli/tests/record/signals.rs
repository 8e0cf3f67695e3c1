//! Signals: those of the terminal reach the program directly, those sent only to the recorder are
//! forwarded, and a second Ctrl-C ends the recording.

use std::process::{Child, Command, Stdio};

use crate::dying::wait_for;
use crate::{Bench, check_closed};

/// Starts a program in a shell that notes its signals, and waits until it runs.
fn start(bench: &Bench, script: &str) -> Child {
    let mut recorder = bench.recorder("--quiet");
    recorder.args(["sh", "-c", &format!("{script}; touch ready; while :; do sleep 0.02; done")]);
    let recorder = recorder.stdout(Stdio::null()).spawn().unwrap();
    wait_for("the program", || bench.path("ready").exists().then_some(()));
    recorder
}

fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_signal_sent_only_to_the_recorder_reaches_the_program_once() {
    for (name, code) in
        [("TERM", 41), ("HUP", 42), ("INT", 43), ("QUIT", 44), ("USR1", 45), ("USR2", 46), ("ALRM", 47)]
    {
        let signal = &format!("-{name}");
        let bench = Bench::new();
        let mut recorder = start(&bench, &format!("trap 'echo {name} >> heard; exit {code}' {name}"));
        send(signal, recorder.id());
        assert_eq!(recorder.wait().unwrap().code(), Some(code), "the program's");
        assert_eq!(std::fs::read_to_string(bench.path("heard")).unwrap(), format!("{name}\n"));
        bench.assert_no_socket();
    }
}

#[test]
fn the_first_interrupt_is_for_the_program_and_the_second_closes_the_dumps() {
    let bench = Bench::new();
    let mut command = bench.recorded("--quiet", "endless");
    // The program keeps its output open longer than the recorder.
    let mut recorder = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let noted = |what: &str| {
        wait_for(what, || bench.notes().into_values().flatten().find(|note| note == what).map(drop));
    };
    noted("safe 8");
    let program = bench.run_file().pid;
    send("-INT", recorder.id());
    // The program and its dump continue.
    noted("safe 80");
    assert!(std::path::Path::new(&format!("/proc/{program}")).exists());
    send("-INT", recorder.id());
    assert_eq!(recorder.wait().unwrap().code(), Some(130));
    let run = bench.run_file();
    assert_eq!((run.status.as_str(), run.processes[0].status.as_str()), ("interrupted", "interrupted"));
    let dump = check_closed(&bench.path("run").join(&run.processes[0].folder));
    assert!(dump.len() >= 80 * crate::program::RECORDS_PER_TASK);
    bench.assert_no_socket();
    // The program continues without the recorder until it is stopped.
    assert!(std::path::Path::new(&format!("/proc/{program}")).exists());
    std::fs::write(bench.path("notes/stop"), "").unwrap();
    wait_for("its end", || (!std::path::Path::new(&format!("/proc/{program}")).exists()).then_some(()));
}

#[test]
fn a_program_has_the_signals_that_the_recorder_was_started_with() {
    let ignored = |words: &[&str]| {
        let bench = Bench::new();
        let mut shell = Command::new("sh");
        shell.current_dir(bench.path("")).args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).args(words);
        let said = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        let mask = said.trim().strip_prefix("SigIgn:").expect("a mask").trim();
        // Signals that the C library reserves are ignored.
        u64::from_str_radix(mask, 16).unwrap() & 0x7fff_ffff
    };
    let plain = ["grep", "SigIgn", "/proc/self/status"];
    let recorder = crate::common::executable().display().to_string();
    let recorded = [&[recorder.as_str(), "record", "--quiet", "--out", "run", "--"], &plain[..]].concat();
    assert_eq!(ignored(&recorded), ignored(&plain));
    assert_eq!(ignored(&plain), 1, "SIGHUP");
}
