//! Disturbs runs: kills processes, or overwrites the region.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::process::{children, kill_group, line_of, nothing_left, signal, start, wait};
use crate::region::Region;
use crate::tally::{Failure, Outcome, Violation};
use crate::truth::{DumpContents, Load, Truth, accounted};
use crate::{Round, words};

/// Time limit. A run with all its checks takes a second or two.
pub const LIMIT: Duration = Duration::from_secs(90);
const RUNTIMES: [&str; 3] = ["tensormap_and_ringbuffer", "aicpu_build_graph", "host_build_graph"];

/// A run that dumps everything.
pub struct DumpRun {
    pub words: Vec<String>,
    pub load: Load,
    pub runtime: &'static str,
    pub out: PathBuf,
    /// Approximate final size of its index.
    pub index_bytes: u64,
}

/// A run that can be interrupted: `tasks` tasks of `bytes` bytes through a small region.
pub fn dumped(round: &mut Round<'_>, tasks: u64, bytes: u64) -> DumpRun {
    let rng = &mut round.rng;
    let runtime = RUNTIMES[rng.usize(0..RUNTIMES.len())];
    let load = ("stream", vec![("tasks", tasks.to_string()), ("bytes", bytes.to_string())]);
    let out = round.folder.join("dump");
    let mut all = words(&format!(
        "run stream --param tasks={tasks} --param bytes={bytes} --runtime {runtime} --blocks 1 --dump-tensor \
         --device-memory 1GiB --dump-liveness 1 --stall-timeout 20 --quiet --json"
    ));
    all.extend(words(if rng.bool() { "--platform a2a3sim" } else { "--platform a5sim" }));
    if runtime == "tensormap_and_ringbuffer" {
        all.extend(words("--ring-slots 256"));
    }
    if rng.u32(0..4) > 0 {
        all.extend(words("--dump-arena 64KiB --dump-buffers 3 --dump-records 16"));
    } else {
        all.extend(words("--dump-arena 4MiB"));
    }
    for (option, of) in [
        ("--no-dedup", 2),
        ("--dump-args", 3),
        ("--dump-sync", 8),
        ("--dump-write direct", 5),
        ("--dump-writers 3", 2),
        ("--dump-files 3", 2),
    ] {
        if rng.u32(0..of) == 0 {
            all.extend(words(option));
        }
    }
    all.extend(["--out".to_string(), out.display().to_string()]);
    DumpRun { words: all, load, runtime, out, index_bytes: tasks * 330 }
}

fn begin(round: &Round<'_>, run: &DumpRun) -> Result<Child, Failure> {
    start(&round.ctx.tensortap, &run.words, &round.folder, round.seed, true)
        .map_err(|error| Failure::new(Violation::Promise, format!("cannot start the run: {error}")))
}

/// Waits until the index has this many bytes or the run has ended. Returns whether it is still running.
fn reach(run: &mut Child, out: &Path, index_bytes: u64) -> bool {
    let began = Instant::now();
    let written = || fs::metadata(out.join("tensor_dump.idx")).map_or(0, |file| file.len());
    while matches!(run.try_wait(), Ok(None)) && began.elapsed() < LIMIT {
        if written() >= index_bytes {
            return true;
        }
        sleep(Duration::from_micros(300));
    }
    false
}

fn ended(run: &mut Child, line: &[String]) -> Result<Option<i32>, Failure> {
    let Some(status) = wait(run, LIMIT) else {
        kill_group(run.id());
        let _ = run.wait();
        return Err(Failure::new(Violation::Hang, format!("the run did not end: {}", line_of(line))));
    };
    Ok(status.code())
}

/// Kills host, device or both at a random moment, and compares the dump with the sequential executor.
pub fn kills(round: &mut Round<'_>) -> Outcome {
    let (tasks, bytes) =
        [(400, 65_536), (300, 100_000), (1500, 8192), (4000, 1024), (8000, 64)][round.rng.usize(0..5)];
    let dumped = dumped(round, tasks, bytes);
    let truth = round.ctx.truths.of(&dumped.load, dumped.runtime);
    let victim = round.rng.usize(0..3);
    let (pause, moment) = (round.rng.bool(), round.rng.u64(0..dumped.index_bytes * 23 / 20));
    let pause_ms = round.rng.u64(0..150);

    let mut host = begin(round, &dumped)?;
    let mut region = None;
    if reach(&mut host, &dumped.out, 1) {
        region = Region::find(host.id());
    }
    let read = region.is_some() && round.rng.u32(0..4) == 0;
    if read && let Err(failure) = read_live(round, &dumped.out) {
        kill_group(host.id());
        let _ = host.wait();
        return Err(failure);
    }
    let hit = reach(&mut host, &dumped.out, moment);
    let devices = children(host.id());
    let mut victims = if victim == 1 { Vec::new() } else { vec![host.id()] };
    victims.extend(devices.iter().filter(|_| victim > 0));
    if hit {
        if pause {
            victims.iter().for_each(|&process| signal(process, Signal::STOP));
            sleep(Duration::from_millis(pause_ms));
        }
        victims.iter().for_each(|&process| signal(process, Signal::KILL));
    }
    let code = ended(&mut host, &dumped.words)?;
    let known = matches!(code, Some(0 | 3)) || (code.is_none() && hit && victim != 1);
    if !known {
        return Err(Failure::new(Violation::Promise, format!("the host ended with {code:?}")));
    }
    nothing_left(round.seed)?;
    let acknowledged = region.map(|region| region.acknowledged()).unwrap_or_default();
    let counted = check_left(round, &dumped.out, &truth, &acknowledged, code == Some(0))?;
    let who = ["host", "device", "host and device"][victim];
    let how = match (hit, pause) {
        (false, _) => "run ended before it was killed".to_string(),
        (_, true) => format!("{who} stopped, then killed"),
        _ => format!("{who} killed"),
    };
    let promised: u64 = acknowledged.iter().sum();
    Ok(vec![
        (how, 1),
        ("dumps read while they were written".into(), read.into()),
        ("records acknowledged before the end".into(), promised),
        ("records compared".into(), counted),
    ])
}

/// A reader of an unfinished dump only sees complete records.
fn read_live(round: &Round<'_>, out: &Path) -> Result<(), Failure> {
    let path = out.display().to_string();
    let in_live_dump =
        |failure: Failure| Failure::new(failure.broken, format!("while it is written: {}", failure.what));
    round.tensortap(&["verify", &path, "--json"], &[0]).map_err(in_live_dump)?;
    round.tensortap(&["stats", &path, "--json", "--limit", "200"], &[0]).map_err(in_live_dump)?;
    Ok(())
}

/// Checks the files of a run: acknowledged records are in the index, `repair` completes the dump, `verify`
/// agrees, and every record is right. Returns the number of records.
pub fn check_left(
    round: &Round<'_>,
    out: &Path,
    truth: &Truth,
    acknowledged: &[u64],
    complete: bool,
) -> Result<u64, Failure> {
    let index = fs::read(out.join("tensor_dump.idx")).unwrap_or_default();
    let lanes = accounted(&index);
    for (lane, &promised) in (0_u32..).zip(acknowledged) {
        let there = lanes.get(&lane).copied().unwrap_or_default();
        if there < promised {
            let what = format!("lane {lane}: {promised} records were acknowledged, the index has {there}");
            return Err(Failure::new(Violation::LostRecord, what));
        }
    }
    if index.is_empty() {
        return Ok(0);
    }
    let path = out.display().to_string();
    // The header is written with one write. A run that ended before it has no dump.
    let listed = round.tensortap(&["list", &path, "--json", "--limit", "0"], &[0, 2])?;
    let (0, Ok(listed)) = (listed.0, serde_json::from_slice::<Value>(&listed.1)) else {
        return if index.len() < 64 || lanes.is_empty() {
            Ok(0)
        } else {
            Err(Failure::new(Violation::LostRecord, "the dump does not open"))
        };
    };
    round.tensortap(&["repair", &path, "--json"], &[0])?;
    round.tensortap(&["verify", &path, "--json"], &[0])?;
    let kept = DumpContents::read(out)?;
    if Some(kept.len() as u64) != listed["total"].as_u64() {
        let what = format!("{} records before the repair, {} after it", listed["total"], kept.len());
        return Err(Failure::new(Violation::LostRecord, what));
    }
    let count = truth.holds(&kept)?;
    if complete && count != truth.len() {
        let what = format!("a complete run has {count} of {} records", truth.len());
        return Err(Failure::new(Violation::LostRecord, what));
    }
    Ok(count as u64)
}

/// Overwrites words of the region during a run. The run must end, and its dump must be right or reported as
/// bad.
pub fn scribbles(round: &mut Round<'_>) -> Outcome {
    let dumped = dumped(round, 1200, 8192);
    let truth = round.ctx.truths.of(&dumped.load, dumped.runtime);
    let moment = round.rng.u64(10_000..dumped.index_bytes / 2);
    let mut host = begin(round, &dumped)?;
    let mut done: Vec<(String, u64)> = Vec::new();
    let mut content = false;
    let region = reach(&mut host, &dumped.out, moment).then(|| Region::find(host.id())).flatten();
    if let Some(region) = region {
        for _ in 0..round.rng.u32(1..4) {
            let place = region.place(&mut round.rng);
            let word = word(&mut round.rng);
            let bytes = &word.to_le_bytes()[..if round.rng.bool() { 8 } else { 4 }];
            // Repeated, so that it also hits moments at which a thread waits.
            for _ in 0..[1, 5, 40][round.rng.usize(0..3)] {
                region.write(&place, bytes);
                sleep(Duration::from_micros(round.rng.u64(0..2000)));
            }
            content |= place.is_content;
            done.push((place.name.into(), 1));
        }
    }
    let code = ended(&mut host, &dumped.words)?;
    if !matches!(code, Some(0 | 3)) {
        return Err(Failure::new(Violation::Panic, format!("{done:?}: the host ended with {code:?}")));
    }
    nothing_left(round.seed)?;
    let path = dumped.out.display().to_string();
    let (verdict, _) = round.tensortap(&["verify", &path, "--json"], &[0, 1])?;
    round.tensortap(&["list", &path, "--json", "--limit", "0"], &[0])?;
    // An overwritten record is still a record. Any other overwritten word must not become one.
    if verdict == 0 && !content {
        truth
            .holds_each(&DumpContents::read(&dumped.out)?)
            .map_err(|failure| with_overwritten(&failure, &done))?;
    }
    if done.is_empty() {
        done.push(("run ended before the write".into(), 1));
    }
    Ok(done)
}

fn with_overwritten(failure: &Failure, done: &[(String, u64)]) -> Failure {
    Failure::new(failure.broken, format!("{}; overwritten: {done:?}", failure.what))
}

/// Typical values of stray writes: zero, limits of ranges, small numbers, anything.
fn word(rng: &mut fastrand::Rng) -> u64 {
    match rng.u32(0..6) {
        0 => 0,
        1 => u64::MAX,
        2 => rng.u64(1..8),
        3 => 1 << rng.u32(0..64),
        4 => rng.u64(0..1 << 20),
        _ => rng.u64(..),
    }
}
