//! Exit statuses and messages of `record`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tensortap::format::{Dump, Status};

use crate::{Bench, check_closed, common, stderr};

fn status(bench: &Bench, program: &[&str]) -> (Option<i32>, String) {
    let output = bench.recorder("").args(program).output().unwrap();
    (output.status.code(), stderr(&output))
}

#[test]
fn the_status_is_the_programs_or_shows_why_it_did_not_start() {
    for (program, expected) in [
        (&["sh", "-c", "exit 7"][..], 7),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["no-such-program"], 127),
        (&["/etc/passwd"], 126),
        (&["/"], 126),
    ] {
        let bench = Bench::new();
        let (code, said) = status(&bench, program);
        assert_eq!(code, Some(expected), "{program:?}: {said}");
        assert_eq!(bench.path("run").exists(), !(126..=127).contains(&expected), "{program:?}");
        bench.assert_no_socket();
    }
}

#[test]
fn missing_libraries_are_reported_with_the_part_they_record() {
    let bench = Bench::new();
    fs::create_dir(bench.path("release")).unwrap();
    let copied = bench.path("release/tensortap");
    fs::copy(common::executable(), &copied).unwrap();
    let record = |name: &str, options: &[&str]| {
        let mut command = Command::new(&copied);
        command.args(["record", "--out", name]).args(options).args(["--", "true"]);
        stderr(&command.current_dir(bench.path("")).output().unwrap())
    };
    let said = record("all", &[]);
    for word in [
        "libtensortap.so, libtensortap_opencl.so and libtensortap_cuda.so not found",
        "OpenCL and CUDA",
        "scripts/install",
    ] {
        assert!(said.contains(word), "no {word:?}: {said}");
    }
    assert!(said.contains("a library that was not found may be the reason"), "{said}");
    let said = record("cuda", &["--no-opencl"]);
    assert!(
        said.contains("libtensortap.so and libtensortap_cuda.so not found") && !said.contains("and OpenCL"),
        "{said}"
    );
    // A folder of cargo, in which only the command was built.
    fs::create_dir(bench.path("release/.fingerprint")).unwrap();
    let said = record("cargo", &["--no-cuda"]);
    let build = "run: cargo build --release -p tensortap-capi -p tensortap-opencl\n";
    assert!(said.contains(build) && !said.contains("scripts/install"), "{said}");
}

#[test]
fn errors_that_prevent_recording_are_reported_before_the_program_runs() {
    let started = |bench: &Bench| bench.path("started").exists();
    let touch = &["touch", "started"][..];
    let bench = Bench::new();
    fs::create_dir(bench.path("run")).unwrap();
    fs::write(bench.path("run/other"), "").unwrap();
    let (code, said) = status(&bench, touch);
    assert_eq!((code, started(&bench)), (Some(2), false), "{said}");

    let bench = Bench::new();
    for (option, why) in [
        (format!("--dump-func {}", "a".repeat(600)), "use a pattern for several kernels"),
        ("--library /bin/ls".into(), "/bin/ls is not a recording library"),
        ("--library /etc/passwd".into(), "it is not a shared library"),
        ("--dump-threads 1024 --dump-arena 64MiB".into(), "--dump-arena"),
    ] {
        let output = bench.recorder(&option).args(touch).output().unwrap();
        assert_eq!((output.status.code(), started(&bench)), (Some(2), false), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }

    // A file instead of the folder: even root cannot write there.
    let bench = Bench::new();
    fs::write(bench.path("file"), "").unwrap();
    let mut command = Command::new(common::executable());
    command.current_dir(bench.path("")).env("XDG_RUNTIME_DIR", bench.path("sockets"));
    let output = command.args(["record", "--out", "file/run", "--"]).args(touch).output().unwrap();
    assert_eq!((output.status.code(), started(&bench)), (Some(125), false), "{}", stderr(&output));
    assert!(stderr(&output).contains("file/run"), "{}", stderr(&output));

    // More memory than a process may share.
    let script = "ulimit -f 1024; exec \"$0\" record --out run -- touch started";
    let mut shell = Command::new("sh");
    shell.current_dir(bench.path("")).args(["-c", script]).arg(common::executable());
    let output = shell.output().unwrap();
    assert_eq!((output.status.code(), started(&bench)), (Some(125), false), "{}", stderr(&output));
    assert!(stderr(&output).contains("ulimit -f"), "{}", stderr(&output));
    bench.assert_no_socket();
}

#[test]
fn an_unwritable_folder_affects_the_recording_and_not_the_program() {
    let bench = Bench::new();
    // A file takes the name of the first process's folder once the program runs.
    let script = "touch run/pid-$$; exec \"$@\"";
    let mut command = bench.recorder("");
    command.args(["sh", "-c", script, "sh"]).args(crate::program::words());
    command.envs(crate::program::command("leaves 4 0", &bench.path("notes")));
    let output = command.output().unwrap();
    let said = stderr(&output);
    // The program cannot attach and reports that itself. The recorder then stops trying.
    assert!(said.contains("is not recorded: cannot create"), "{said}");
    assert_eq!(output.status.code(), Some(101), "the program's: {said}");
    assert_eq!(bench.run_file().problems.len(), 1);
}

#[test]
fn a_full_disk_affects_the_recording_and_not_the_program() {
    let bench = Bench::new();
    let script = "ulimit -f 65536; exec \"$@\"";
    let recorder =
        bench.recorded("--dump-arena 64KiB --dump-records 64 --dump-buffers 2 --no-dedup", "tasks 2 4000");
    let mut shell = Command::new("sh");
    shell
        .current_dir(bench.path(""))
        .args(["-c", script, "sh"])
        .arg(recorder.get_program())
        .args(recorder.get_args());
    shell.envs(recorder.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    let run = bench.run_file();
    assert_eq!((run.exit_code, run.processes[0].status.as_str()), (Some(0), "dump_failed"), "{said}");
    assert!(said.contains("the dump in pid-"), "{said}");
    assert!(bench.notes()[&run.pid].contains(&"recorded 24000".to_owned()), "the program continued");
    crate::check(&bench.path("run").join(&run.processes[0].folder));
}

#[test]
fn a_closed_output_does_not_affect_recording() {
    let bench = Bench::new();
    let recorder = bench.recorded("", "tasks 1 10");
    let mut shell = Command::new("sh");
    shell.current_dir(bench.path("")).args(["-c", "exec \"$@\" >&- 2>&-", "sh"]).arg(recorder.get_program());
    shell
        .args(recorder.get_args())
        .envs(recorder.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(shell.status().unwrap().code(), Some(0));
    let run = bench.run_file();
    assert_eq!(check_closed(&bench.path("run").join(&run.processes[0].folder)).len(), 30);
}

#[test]
fn the_dump_of_a_process_that_does_not_close_its_session_reports_how_it_ended() {
    for (role, code, status, words) in [
        ("leaves 10 0", 0, Status::Complete, "exited with status 0 without closing its session"),
        ("leaves 10 5", 5, Status::Crashed, "exited with status 5 without closing its session"),
        ("becomes 10", 4, Status::Crashed, "became another program"),
    ] {
        let bench = Bench::new();
        let output = bench.recorded("", role).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{role}: {}", stderr(&output));
        let run = bench.run_file();
        let process = &run.processes[0];
        let dump = check_closed(&bench.path("run").join(&process.folder));
        assert_eq!((dump.len(), dump.status()), (30, Some(status)), "{role}");
        assert!(process.message.as_ref().unwrap().contains(words), "{role}: {process:?}");
    }
}

#[test]
fn an_empty_recording_is_reported_with_the_likely_cause() {
    let bench = Bench::new();
    let output = bench.recorder("").args(["sh", "-c", "test -f $TENSORTAP_LIBRARY"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("nothing was recorded: the program did not use OpenCL, CUDA"),
        "{}",
        stderr(&output)
    );
    assert!(Dump::open(&bench.path("run")).is_err());

    let bench = Bench::new();
    let output = bench.recorder("--no-opencl").args(["sh", "-c", "kill -SEGV $$"]).output().unwrap();
    let said = stderr(&output);
    assert!(
        output.status.code() == Some(139)
            && said.contains("; recording was turned off for OpenCL (--no-opencl)")
            && said.contains("ended     by SIGSEGV (11)"),
        "{said}"
    );

    let bench = Bench::new();
    let script = bench.path("mpirun");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, said) = status(&bench, &["./mpirun"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("processes on other hosts cannot attach"), "{said}");
}

#[test]
fn a_hostile_process_is_reported_once_and_harms_no_other() {
    let bench = Bench::new();
    let output = bench.recorded("", "hostile").output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let run = bench.run_file();
    let good = run.processes.iter().find(|process| process.rank == Some(7)).expect("it was recorded");
    assert_eq!((good.folder.as_str(), good.status.as_str()), ("rank-7", "complete"));
    assert_eq!(check_closed(&bench.path("run/rank-7")).len(), 2 * 50 * 3);
    let strange = run.processes.iter().find(|process| process.rank.is_none()).expect("it was welcome");
    assert!(strange.message.as_ref().unwrap().contains("protocol error"), "{strange:?}");
    assert_eq!(said.matches(&format!("process {} is not recorded", run.pid)).count(), 1, "{said}");
    assert!(!said.contains('\x1b'), "{said:?}");
    bench.assert_no_socket();
}

#[test]
fn no_process_receives_the_memory_of_another_by_claiming_to_be_it() {
    let bench = Bench::new();
    // Small, because the memory is searched. An arena that may grow is mostly empty address space.
    let output = bench.recorded("--dump-arena 64KiB --dump-threads 4", "impersonated").output().unwrap();
    let (said, run) = (stderr(&output), bench.run_file());
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(bench.notes()[&run.pid], ["ended"], "{said}");
    let [own, child, program] = &run.processes[..] else { panic!("{run:?}") };
    assert_eq!((own.pid, own.status.as_str(), program.pid), (run.pid, "complete", run.pid));
    assert_ne!(child.pid, run.pid);
    let dump = Dump::open(&bench.path("run").join(&own.folder)).unwrap();
    let records: Vec<_> = dump.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 1);
    assert_eq!(dump.payload(&records[0]).unwrap(), crate::hostile::SECRET);
    assert!(said.contains("16 libraries of this process are already being recorded"), "{said}");
    bench.assert_no_socket();
}

#[test]
fn a_process_that_hangs_up_before_its_answer_does_not_fail_the_recording() {
    let bench = Bench::new();
    let output = bench.recorded("", "hangs_up").output().unwrap();
    let (said, run) = (stderr(&output), bench.run_file());
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(run.problems.is_empty() && said.contains("disconnected before it received its memory"), "{said}");
    // A process may hang up so late that it has received its memory. Then it has an empty dump without a goodbye.
    let good: Vec<_> = run.processes.iter().filter(|process| process.message.is_none()).collect();
    assert_eq!(good.len(), 1, "{run:?}");
    assert_eq!(check_closed(&bench.path("run").join(&good[0].folder)).len(), 6);
    let folders = fs::read_dir(bench.path("run")).unwrap().flatten().filter(|entry| entry.path().is_dir());
    assert_eq!(folders.count(), run.processes.len(), "processes that are gone leave no folders");
}
