//! This program as a process of its own, as a user calls it.

use std::ffi::OsStr;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(1);

/// What one call took.
pub struct Took {
    pub seconds: f64,
    /// Greatest anonymous memory that was seen.
    pub anonymous_bytes: u64,
}

/// Calls it with its output thrown away.
pub fn tensortap<A: AsRef<OsStr>>(args: &[A]) -> anyhow::Result<Took> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().context("starting this program")?;
    let mut anonymous_bytes = 0;
    let seconds = loop {
        if child.try_wait().context("waiting for this program")?.is_some() {
            break started.elapsed().as_secs_f64();
        }
        anonymous_bytes = anonymous_bytes.max(anonymous(&child).unwrap_or(0));
        thread::sleep(SAMPLE_INTERVAL);
    };
    let output = child.wait_with_output().context("waiting for this program")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {said}", args[0].as_ref().display());
    Ok(Took { seconds, anonymous_bytes })
}

/// Anonymous memory of a process, as the kernel counts it.
fn anonymous(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}
