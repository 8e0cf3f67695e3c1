//! Executables that do not become the device, and processes that cannot be hosts.

use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use tensortap_platform::PlatformError;

use crate::{
    harness::{Case, Test},
    roles,
};

pub const TESTS: &[Test] = &[
    ("an_executable_that_exits_is_explained", an_executable_that_exits_is_explained),
    (
        "an_executable_that_never_answers_is_explained_and_ended",
        an_executable_that_never_answers_is_explained_and_ended,
    ),
    ("a_missing_executable_is_explained", a_missing_executable_is_explained),
    ("a_named_executable_can_be_the_device", a_named_executable_can_be_the_device),
    (
        "a_host_without_become_device_does_not_start_processes_recursively",
        a_host_without_become_device_does_not_start_processes_recursively,
    ),
    ("a_process_started_as_device_opens_none", a_process_started_as_device_opens_none),
    ("the_variable_without_a_socket_makes_no_device", the_variable_without_a_socket_makes_no_device),
    (
        "a_host_of_another_version_is_refused_with_a_reason",
        a_host_of_another_version_is_refused_with_a_reason,
    ),
];

fn open_as(case: &Case, executable: &Path, handshake_timeout: Duration) -> PlatformError {
    let mut options = case.options();
    options.executable = Some(executable.to_owned());
    options.handshake_timeout = handshake_timeout;
    case.open_with(&options).err().expect("this is no device")
}

fn assert_explained(error: &PlatformError, executable: &Path, why: &str) {
    assert!(matches!(error, PlatformError::DidNotBecomeDevice { .. }), "{error}");
    let message = error.to_string();
    let name = executable.to_string_lossy();
    for part in [&*name, why, "become_device_if_asked", "thread mode"] {
        assert!(message.contains(part), "the message lacks `{part}`: {message}");
    }
}

fn an_executable_that_exits_is_explained(case: &Case) {
    let executable = Path::new("/bin/true");
    let error = open_as(case, executable, Duration::from_secs(60));
    assert_explained(&error, executable, "exited with code 0");
}

fn an_executable_that_never_answers_is_explained_and_ended(case: &Case) {
    let script = Script::new("sleeper", "echo $$ > \"$0.pid\"\nexec sleep 600");
    let error = open_as(case, &script.0, Duration::from_secs(2));
    assert_explained(&error, &script.0, "no answer within 2s");
    let pid = fs::read_to_string(script.0.with_extension("pid")).expect("the script ran");
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the child still exists");
}

fn a_missing_executable_is_explained(case: &Case) {
    let executable = Path::new("/no/such/device");
    let error = open_as(case, executable, Duration::from_secs(60));
    assert_explained(&error, executable, "did not start");
}

fn a_named_executable_can_be_the_device(case: &Case) {
    let mut options = case.options();
    options.executable = Some(std::env::current_exe().unwrap());
    let device = case.open_with(&options).unwrap();
    assert!(device.survives_kernel_faults());
}

fn a_host_without_become_device_does_not_start_processes_recursively(_: &Case) {
    let output = roles::command(roles::FORGETFUL_HOST).arg("process").output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(roles::EXIT_REFUSED), "{message}");
    // First line: the child refuses to open another device. Second line: the host's error about the child.
    let [child, host] = message.lines().collect::<Vec<_>>()[..] else {
        panic!("two lines expected: {message}")
    };
    assert!(child.contains("was started as a device") && child.contains("become_device_if_asked"), "{child}");
    assert!(host.contains("did not become the device") && host.contains("exited with code 77"), "{host}");
}

fn a_process_started_as_device_opens_none(_: &Case) {
    for mode in ["process", "thread"] {
        let mut command = roles::command(roles::FORGETFUL_HOST);
        let output = command.arg(mode).env("TENSORTAP_DEVICE", "1").output().unwrap();
        assert_eq!(output.status.code(), Some(roles::EXIT_REFUSED));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(
            message.contains("TENSORTAP_DEVICE") && message.contains("become_device_if_asked"),
            "{message}"
        );
    }
}

fn the_variable_without_a_socket_makes_no_device(_: &Case) {
    let mut command = std::process::Command::new("/proc/self/exe");
    let output = command.env("TENSORTAP_DEVICE", "1").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty(), "the process continued as a test");
    assert!(String::from_utf8_lossy(&output.stderr).contains("unset the variable"));
}

fn a_host_of_another_version_is_refused_with_a_reason(_: &Case) {
    let (host, device): (OwnedFd, OwnedFd) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .unwrap();
    let mut command = std::process::Command::new("/proc/self/exe");
    command.env("TENSORTAP_DEVICE", "99").stdin(Stdio::from(device)).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut hello = [0u8; 32];
    hello[0] = 1;
    hello[4] = 99;
    rustix::net::send(&host, &hello, SendFlags::NOSIGNAL).unwrap();
    let mut answer = [0; 512];
    let (count, _) = rustix::net::recv(&host, &mut answer, RecvFlags::empty()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    let text = String::from_utf8_lossy(&answer[32..count]);
    assert!(text.contains("protocol 99") && text.contains("one build"), "{text}");
}

/// A shell script in a temporary folder.
struct Script(PathBuf);

impl Script {
    fn new(name: &str, body: &str) -> Script {
        let dir = std::env::temp_dir().join(format!("platform-test-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Script(path)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if let Some(dir) = self.0.parent() {
            let _ = fs::remove_dir_all(dir);
        }
    }
}
