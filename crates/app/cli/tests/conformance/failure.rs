//! Kernels that crash or hang end the run, are named, and leave no process.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tensortap::{
    DeviceMode, DiskGate, DumpConfig, DumpLevel, FailureKind, GoldenVerdict, RunConfig, RunFailure,
};

use crate::common::{count_run, executable, share};
use crate::{config, config_in, everywhere, label, run};

fn process_mode(scene: &str) -> Vec<RunConfig> {
    everywhere(scene).into_iter().filter(|c| c.device_mode == DeviceMode::Process).collect()
}

fn fail(config: &RunConfig) -> RunFailure {
    let report = run(config);
    assert!(report.tasks > 0, "{}: some tasks succeed first", label(config));
    report.failure.unwrap_or_else(|| panic!("{} should fail", label(config)))
}

#[test]
fn a_crash_report_names_task_kernel_core_and_signal() {
    for (scene, kernel, signal) in
        [("crash_segv", "segv", 11), ("crash_abort", "abort", 6), ("crash_stack", "stack", 11)]
    {
        for config in process_mode(scene) {
            let failure = fail(&config);
            assert_eq!(failure.kind, Some(FailureKind::Signal), "{}: {failure}", label(&config));
            assert_eq!((failure.kernel, failure.signal), (Some(kernel), Some(signal)), "{failure}");
            assert!(failure.task.is_some() && failure.core.is_some(), "{failure}");
            assert_eq!(failure.death.and_then(|d| d.signal), Some(signal), "{failure}");
            assert_eq!(failure.status(), "crashed");
        }
    }
}

#[test]
fn a_hang_is_detected_within_the_limit_and_named() {
    for mut config in process_mode("hang") {
        config.stall_timeout = Some(Duration::from_millis(300));
        let failure = fail(&config);
        assert_eq!((failure.kind, failure.kernel), (Some(FailureKind::Stall), Some("hang")), "{failure}");
        assert!(failure.core.is_some() && failure.contained, "{failure}");
        assert_eq!(failure.status(), "stalled");
    }
}

#[test]
fn in_thread_mode_a_hang_report_names_what_it_leaves_running() {
    let mut config = config("hang");
    config.device_mode = DeviceMode::Thread;
    config.stall_timeout = Some(Duration::from_millis(300));
    let failure = fail(&config);
    assert!(!failure.contained && failure.to_string().contains("thread mode"), "{failure}");
}

/// Runs the command line in its own process group, so that every process it leaves can be found.
fn spawn_cli(args: &[&str]) -> Child {
    count_run();
    let mut command = Command::new(executable());
    command.args(args).args(["--device-memory", "1GiB", "--quiet"]).process_group(0);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

#[test]
fn failed_runs_exit_with_3_and_leave_no_process() {
    for (turn, scene) in ["crash_segv", "crash_abort", "crash_stack", "hang"].into_iter().enumerate() {
        for venue in share(scene, turn, 3) {
            let config = config_in(scene, venue);
            let mode = venue.mode.name();
            let device = ["--platform", venue.platform, "--runtime", venue.runtime, "--device-mode", mode];
            let cli = spawn_cli(&[&["run", scene, "--stall-timeout", "200ms"][..], &device].concat());
            let group = cli.id();
            let output = cli.wait_with_output().expect("it ends");
            assert_eq!(output.status.code(), Some(3), "{}", label(&config));
            assert_eq!(processes_where(|p| p.group == group), [], "{}", label(&config));
        }
    }
}

#[test]
fn a_killed_device_ends_the_run_without_a_culprit() {
    let cli = spawn_cli(&["run", "hang", "--stall-timeout", "0"]);
    let (host, device) = (cli.id(), device_of(cli.id()));
    kill(device);
    let output = cli.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("SIGKILL") && !message.contains("kernel"), "{message}");
    assert_eq!(processes_where(|p| p.group == host), []);
}

#[test]
fn a_killed_host_takes_its_device_along() {
    let mut cli = spawn_cli(&["run", "hang", "--stall-timeout", "0"]);
    let device = device_of(cli.id());
    cli.kill().expect("it runs");
    cli.wait().expect("it ends");
    eventually("the device ends", || processes_where(|p| p.id == device).is_empty());
}

/// The device process of a host, once it runs.
fn device_of(host: u32) -> u32 {
    let mut found = None;
    eventually("the device starts", || {
        found = processes_where(|p| p.parent == host).first().map(|p| p.id);
        found.is_some()
    });
    found.expect("waited for")
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < patience, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(process: u32) {
    let status = Command::new("kill").args(["-9", &process.to_string()]).status();
    assert!(status.expect("kill exists").success());
}

#[derive(Debug, PartialEq, Eq)]
struct Process {
    id: u32,
    parent: u32,
    group: u32,
}

/// Processes that exist and are not zombies.
fn processes_where(wanted: impl Fn(&Process) -> bool) -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").expect("Linux");
    let ids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(read_process).filter(|p| wanted(p)).collect()
}

fn read_process(id: u32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name is in parentheses and may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (state != "Z" && state != "X").then_some(Process { id, parent, group })
}

#[test]
fn an_observer_can_end_a_run() {
    let mut config = config("hang");
    config.stall_timeout = None;
    let error = tensortap::run_observed(&config, &mut |progress| progress.completed == 0).expect_err("ended");
    assert_eq!(error.to_string(), "the run was interrupted");
    assert_eq!(error.into_report().expect("it began").status(), "interrupted");
}

/// A disk without space.
struct FullDisk;

impl DiskGate for FullDisk {
    fn before_payload(&self, _: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::StorageFull.into())
    }
}

#[test]
fn a_failed_run_is_an_error_that_contains_its_report() {
    for (scene, status, said) in [("crash_segv", "crashed", "crash in"), ("hang", "stalled", "kernel `hang`")]
    {
        let mut config = config(scene);
        config.stall_timeout = Some(Duration::from_millis(300));
        let error = tensortap::run(&config).expect_err("a failed run is an error");
        assert!(!error.is_usage() && error.to_string().contains(said), "{error}");
        assert_eq!(error.into_report().expect("it began").status(), status);
    }
    // A run whose dump failed is an error too, although its golden passed.
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config("vector_example");
    config.dump = Some(DumpConfig::new(DumpLevel::Full));
    config.out = Some(folder.path().join("dump"));
    config.disk = Some(Arc::new(FullDisk));
    let error = tensortap::run(&config).expect_err("nothing is on disk");
    assert!(error.to_string().starts_with("the dump failed: "), "{error}");
    let report = error.into_report().expect("it began");
    assert_eq!((report.status(), report.golden), ("dump_failed", GoldenVerdict::Pass));
}
