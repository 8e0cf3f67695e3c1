//! Makes single writes fail or write less than requested.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::process::{LimitedCommand, line_of, nothing_left, run};
use crate::runs::{LIMIT, check_left};
use crate::tally::{Failure, Outcome, Violation};
use crate::truth::DumpContents;
use crate::{Round, words};

/// Memory limit; a program under the tracer is slower, not larger.
const MEMORY_BYTES: u64 = 8 << 30;
const HOWS: [&str; 6] = ["enospc", "eio", "short", "enospc-on", "eio-on", "short-on"];

/// Number of writes of each command line, counted once.
#[derive(Default)]
pub struct Counts(Mutex<HashMap<String, u64>>);

impl Counts {
    fn of(&self, key: &str, count: impl FnOnce() -> Result<u64, Failure>) -> Result<u64, Failure> {
        if let Some(&known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            return Ok(known);
        }
        let counted = count()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.into(), counted);
        Ok(counted)
    }
}

/// Result of a command under the tracer.
struct TracedWrites {
    code: i32,
    stdout: Vec<u8>,
    writes: u64,
}

fn traced(
    round: &Round<'_>,
    tracer: &Path,
    how: &str,
    number: u64,
    line: &[String],
    allowed: &[i32],
) -> Result<TracedWrites, Failure> {
    let mut all = vec![how.to_string(), number.to_string(), round.folder.display().to_string()];
    all.push(round.ctx.tensortap.display().to_string());
    all.extend_from_slice(line);
    let limits = LimitedCommand { memory_bytes: MEMORY_BYTES, time: LIMIT };
    let ended = run(tracer, &all, &round.folder, round.seed, &limits)?;
    nothing_left(round.seed)?;
    let code = ended.code(allowed, &format!("{how} {number}: {}", line_of(line)))?;
    let said = ended
        .stderr
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("faults: ")?.split(' ').next()?.parse().ok());
    Ok(TracedWrites { code, stdout: ended.stdout, writes: said.unwrap_or_default() })
}

/// Disturbs one write of a run, a repair, an export or an extract.
pub fn writes(round: &mut Round<'_>, tracer: &Path) -> Outcome {
    if round.rng.u32(0..3) > 0 { of_a_run(round, tracer) } else { of_a_verb(round, tracer) }
}

fn of_a_run(round: &mut Round<'_>, tracer: &Path) -> Outcome {
    let (scene, runtime) = [
        ("vector_example", "tensormap_and_ringbuffer"),
        ("scalar_data", "host_build_graph"),
        ("stream", "aicpu_build_graph"),
    ][round.rng.usize(0..3)];
    let load = match scene {
        "stream" => (scene, vec![("tasks", "60".to_string()), ("bytes", "8192".to_string())]),
        _ => (scene, Vec::new()),
    };
    let truth = round.ctx.truths.of(&load, runtime);
    let out = round.folder.join("dump");
    let mut line = words(&format!(
        "run {scene} --runtime {runtime} --blocks 1 --dump-tensor --device-memory 1GiB --quiet --json \
         --dump-arena 64KiB --dump-buffers 3 --dump-records 16 --dump-liveness 5"
    ));
    for (key, value) in &load.1 {
        line.extend(["--param".to_string(), format!("{key}={value}")]);
    }
    for option in ["--dump-args", "--dump-sync", "--no-dedup", "--dump-last 20", "--platform a5sim"] {
        if round.rng.u32(0..3) == 0 {
            line.extend(words(option));
        }
    }
    let key = line.join(" ");
    let last = key.contains("--dump-last");
    let counted = round.ctx.counts.of(&key, || {
        let (mut line, out) = (line.clone(), round.folder.join("counted"));
        line.extend(["--out".into(), out.display().to_string()]);
        let writes = traced(round, tracer, "count", 0, &line, &[0])?.writes;
        let _ = std::fs::remove_dir_all(out);
        Ok(writes)
    })?;
    let number = round.rng.u64(1..=counted.max(1));
    let how = HOWS[round.rng.usize(0..HOWS.len())];
    line.extend(["--out".into(), out.display().to_string()]);
    let ended = traced(round, tracer, how, number, &line, &[0, 3])?;
    let is_short = how.starts_with("short");
    if is_short && ended.code != 0 {
        return Err(Failure::new(
            Violation::Promise,
            format!("{how} {number}: a short write fails the run: {key}"),
        ));
    }
    // Every record that the run reports as stored must exist.
    let said: Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
    let claimed = said["dump"]["records"].as_u64().unwrap_or_default();
    let count = check_left(round, &out, &truth, &[], ended.code == 0 && !last)
        .or_else(|failure| accept_window(failure, last, &out, &truth))
        .map_err(|failure| {
            Failure::new(failure.broken, format!("{how} {number} of `{key}`: {}", failure.what))
        })?;
    if count < claimed {
        let what = format!("{how} {number}: the run reports {claimed} records, but {count} exist: {key}");
        return Err(Failure::new(Violation::LostRecord, what));
    }
    Ok(vec![(format!("run: {how}"), 1), ("records compared".into(), count)])
}

/// With `--dump-last`, older records are removed intentionally. The existing ones must still be right.
fn accept_window(
    failure: Failure,
    last: bool,
    out: &Path,
    truth: &crate::truth::Truth,
) -> Result<u64, Failure> {
    if !last || failure.broken != Violation::LostRecord {
        return Err(failure);
    }
    let kept = DumpContents::read(out)?;
    truth.holds_each(&kept)?;
    Ok(kept.len() as u64)
}

/// A task in the dump.
fn first_task(dump: &Path) -> Result<String, Failure> {
    let broken = |what: String| Failure::new(Violation::Promise, what);
    let text =
        std::fs::read(dump.join("tensor_dump.json")).map_err(|e| broken(format!("no manifest: {e}")))?;
    let manifest: Value = serde_json::from_slice(&text).map_err(|e| broken(format!("the manifest: {e}")))?;
    let task = manifest["tensors"][0]["task_id"].as_str();
    Ok(task.ok_or_else(|| broken("the manifest has no record".into()))?.to_string())
}

/// A writing verb must report the error or succeed, and must succeed when the disk accepts writes again.
fn of_a_verb(round: &mut Round<'_>, tracer: &Path) -> Outcome {
    let (name, base) = round.base_dump();
    let dump = round.folder.join("dump");
    crate::damage::copy(&base, &dump);
    let (verb, line) = match round.rng.u32(0..3) {
        0 => {
            let _ = std::fs::remove_file(dump.join("tensor_dump.json"));
            ("repair", "repair dump --json".to_string())
        }
        1 => {
            let formats = ["npy", "npz", "safetensors", "csv", "txt", "raw"];
            ("export", format!("export dump --format {} --out out --json", formats[round.rng.usize(0..6)]))
        }
        _ => {
            let task = first_task(&dump)?;
            ("extract", format!("extract dump --task {task} --out case.safetensors --allow-inexact --json"))
        }
    };
    let (line, how) = (words(&line), HOWS[round.rng.usize(0..HOWS.len())]);
    let number = round.rng.u64(1..40);
    let first = traced(round, tracer, how, number, &line, &[0, 1, 2, 3])?;
    if first.code != 0 && how.starts_with("short") {
        let what = format!("{how} {number}: a short write fails `{}` of {name}", line_of(&line));
        return Err(Failure::new(Violation::Promise, what));
    }
    if verb == "repair" {
        round.tensortap(&["repair", "dump", "--json"], &[0])?;
        round.tensortap(&["verify", "dump", "--json"], &[0])?;
    }
    Ok(vec![(format!("{verb}: {how}"), 1)])
}
