//! Child processes: started with limits, waited for with a limit, and searched for when they should be
//! gone.

use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};

use crate::tally::{Failure, Violation};

/// Environment variable that marks the processes of a round.
const MARK: &str = "TENSORTAP_TORTURE_ROUND";
/// Time for a process to end after the process that it served.
const GRACE: Duration = Duration::from_secs(10);

/// Limits of a command.
pub struct LimitedCommand {
    /// Limit of the address space.
    pub memory_bytes: u64,
    /// Limit of the wall-clock time.
    pub time: Duration,
}

/// Output and exit status of a command.
pub struct ProcessExit {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output, at most 64 MiB.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
}

impl ProcessExit {
    /// Its exit code if it exited with one of `allowed`; otherwise the violation.
    pub fn code(&self, allowed: &[i32], line: &str) -> Result<i32, Failure> {
        let said = self.stderr.lines().last().unwrap_or("").to_string();
        let short: String = said.chars().take(300).collect();
        if self.stderr.contains("panicked at") || self.status.code() == Some(101) {
            let panic = self.stderr.lines().find(|line| line.contains("panicked at")).unwrap_or(&short);
            return Err(Failure::new(Violation::Panic, format!("`{line}`: {panic}")));
        }
        if self.stderr.contains("memory allocation of") {
            return Err(Failure::new(Violation::Memory, format!("`{line}`: {short}")));
        }
        match self.status.code() {
            Some(code) if allowed.contains(&code) => Ok(code),
            Some(code) => {
                // Verdicts are in the document, errors on standard error.
                let said = String::from_utf8_lossy(&self.stdout);
                let said: String = if short.is_empty() { said.chars().take(300).collect() } else { short };
                let what = format!("`{line}` exits with {code}, which is not one of {allowed:?}: {said}");
                Err(Failure::new(Violation::Promise, what))
            }
            None => {
                let signal = self.status.signal().unwrap_or_default();
                Err(Failure::new(
                    Violation::Panic,
                    format!("`{line}` was killed by signal {signal}: {short}"),
                ))
            }
        }
    }
}

/// Replaces this process by the command in the arguments, under a memory limit:
/// `MEMORY_BYTES COMMAND ARG...`.
pub fn become_limited(words: &[String]) -> String {
    let [memory, program, args @ ..] = words else { return "too few arguments".into() };
    let Ok(bytes) = memory.parse::<u64>() else { return format!("`{memory}` is not a number") };
    if let Err(error) = setrlimit(Resource::As, Rlimit { current: Some(bytes), maximum: Some(bytes) }) {
        return format!("cannot set the memory limit: {error}");
    }
    // A process that is killed by a signal must not leave a core file in the watched folder.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    Command::new(program).args(args).exec().to_string()
}

/// The command line with only the name of its program.
pub fn line_of(words: &[String]) -> String {
    format!("tensortap {}", words.join(" "))
}

/// Starts a program in its own process group, marked with its round.
pub fn start(
    program: &Path,
    words: &[String],
    folder: &Path,
    round: u64,
    quiet: bool,
) -> std::io::Result<Child> {
    let pipe = || if quiet { Stdio::null() } else { Stdio::piped() };
    Command::new(program)
        .args(words)
        .current_dir(folder)
        .env(MARK, format!("{round:#018x}"))
        .env("TMPDIR", folder)
        .env("HOME", folder)
        // One allocator arena per thread would count against the memory limit.
        .env("MALLOC_ARENA_MAX", "2")
        .env("RUST_BACKTRACE", "0")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(pipe())
        .stderr(pipe())
        .spawn()
}

/// Runs a program to its end under limits.
pub fn run(
    program: &Path,
    words: &[String],
    folder: &Path,
    round: u64,
    limits: &LimitedCommand,
) -> Result<ProcessExit, Failure> {
    let own = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let mut all = vec!["becomes".to_string(), limits.memory_bytes.to_string(), program.display().to_string()];
    all.extend_from_slice(words);
    let mut child = start(&own, &all, folder, round, false).map_err(|error| {
        Failure::new(Violation::Promise, format!("cannot start {}: {error}", own.display()))
    })?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let ended = wait(&mut child, limits.time);
    if ended.is_none() {
        kill_group(child.id());
        let _ = child.wait();
    }
    let stdout = stdout.join().unwrap_or_default();
    let stderr = String::from_utf8_lossy(&stderr.join().unwrap_or_default()).into_owned();
    match ended {
        Some(status) => Ok(ProcessExit { status, stdout, stderr }),
        None => Err(Failure::new(
            Violation::Hang,
            format!("`{}` did not end within {:.0} s", line_of(words), limits.time.as_secs_f64()),
        )),
    }
}

fn reader(from: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            let _ = from.by_ref().take(64 << 20).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut from, &mut std::io::sink());
        }
        bytes
    })
}

/// Waits for a process; `None` if the time is up.
pub fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if began.elapsed() < limit => thread::sleep(Duration::from_millis(2)),
            _ => return None,
        }
    }
}

/// Sends a signal to a process that may have ended already.
pub fn signal(process: u32, which: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, which);
    }
}

/// Kills a process and its whole group.
pub fn kill_group(process: u32) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
}

/// The children of a process; the child of a host is its device.
pub fn children(process: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|entry| fs::read_to_string(entry.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

/// Live processes of a round. Zombies do not count.
fn living(round: u64) -> Vec<u32> {
    let mark = format!("{MARK}={round:#018x}");
    let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let marked = ids.filter(|id| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes())
    });
    marked.filter(|&id| is_alive(id)).collect()
}

fn is_alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().next())
        .is_some_and(|s| s != "Z" && s != "X")
}

/// Checks that nothing of a round is left: no process and no named shared memory.
pub fn nothing_left(round: u64) -> Result<(), Failure> {
    let began = Instant::now();
    let mut left = living(round);
    while !left.is_empty() && began.elapsed() < GRACE {
        thread::sleep(Duration::from_millis(10));
        left = living(round);
    }
    if !left.is_empty() {
        for &process in &left {
            signal(process, Signal::KILL);
        }
        return Err(Failure::new(Violation::Orphan, format!("processes outlive their run: {left:?}")));
    }
    let shared = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let ours =
        shared.map(|entry| entry.file_name()).find(|name| name.to_string_lossy().contains("tensortap"));
    ours.map_or(Ok(()), |name| {
        Err(Failure::new(Violation::Orphan, format!("/dev/shm/{} was not removed", name.to_string_lossy())))
    })
}
