//! `torture` kills runs, makes their writes fail, overwrites their dump region and damages their dumps, for
//! a given time. It compares the remaining files with everything that the documentation guarantees. No
//! violation is tolerated.
//!
//! It uses the `tensortap` binary only by its path. The sequential executor provides the expected records,
//! and torture reads the files with its own code. A round depends only on its seed: `--seed N --rounds 1`
//! reproduces a failure.
#![forbid(unsafe_code)]

mod bases;
mod damage;
mod mutate;
mod process;
mod region;
mod runs;
mod tally;
mod truth;
mod writes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;

use crate::process::{LimitedCommand, ProcessExit, line_of, run};
use crate::tally::{Failure, Kind, Outcome, Report, Tally, Violation, name_of};

/// Disturbs runs of tensortap and damages their dumps. Prints a table of the results, and exits with 1 if a
/// guarantee was violated.
#[derive(Parser)]
struct Args {
    /// The tensortap binary.
    #[arg(long, value_name = "PATH")]
    tensortap: PathBuf,
    /// The tracer that makes writes fail. Without it, no writes fail.
    #[arg(long, value_name = "PATH")]
    faults: Option<PathBuf>,
    /// Duration in seconds.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Maximum number of rounds.
    #[arg(long)]
    rounds: Option<u64>,
    /// Number of parallel rounds.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Seed of the first round; later rounds count up. Default: from the clock.
    #[arg(long)]
    seed: Option<u64>,
    /// Only rounds of these kinds.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Kind>,
    /// Maximum duration of a verb on a small dump, in seconds.
    #[arg(long, default_value_t = 60)]
    verb_seconds: u64,
    /// Working folder, which selects the disk. Failed rounds are kept there.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
}

/// State that all rounds share.
struct Context {
    tensortap: PathBuf,
    faults: Option<PathBuf>,
    limits: LimitedCommand,
    truths: truth::Truths,
    counts: writes::Counts,
    bases: Vec<damage::Base>,
}

/// One round.
struct Round<'a> {
    ctx: &'a Context,
    seed: u64,
    rng: fastrand::Rng,
    folder: PathBuf,
}

/// Memory limit of a verb. On a small dump it needs much less.
const VERB_MEMORY_BYTES: u64 = 2 << 30;

impl Round<'_> {
    /// Runs a verb under limits. Its exit status must be one of `allowed`. Returns the status and the
    /// output.
    fn tensortap(&self, line: &[&str], allowed: &[i32]) -> Result<(i32, Vec<u8>), Failure> {
        let line: Vec<String> = line.iter().map(ToString::to_string).collect();
        let ended = run(&self.ctx.tensortap, &line, &self.folder, self.seed, &self.ctx.limits)?;
        let code = ended.code(allowed, &line_of(&line))?;
        draws_nothing(&line, &ended)?;
        Ok((code, ended.stdout))
    }

    /// A random intact dump: name and path.
    fn base_dump(&mut self) -> (String, PathBuf) {
        let dumps: Vec<_> = self.ctx.bases.iter().filter(|base| base.is_own_dump()).collect();
        let base = dumps[self.rng.usize(0..dumps.len())];
        (base.name.clone(), base.path.clone())
    }
}

/// Text from a dump must not control the terminal: no control characters. Human-readable output must also
/// contain no newer control characters and no marks that change the direction of text or break a line.
fn draws_nothing(line: &[String], ended: &ProcessExit) -> Result<(), Failure> {
    let document = line.iter().any(|word| word == "--json");
    for said in [&ended.stdout[..], ended.stderr.as_bytes()] {
        let text = String::from_utf8_lossy(said);
        let hostile = |c: char| match c {
            '\n' | '\t' => false,
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => !document,
            c if document => c < ' ',
            c => c.is_control(),
        };
        if let Some(found) = text.chars().find(|&c| hostile(c)) {
            let what = format!("`{}` prints U+{:04X}", line_of(line), u32::from(found));
            return Err(Failure::new(Violation::Promise, what));
        }
    }
    Ok(())
}

/// The words of a command line.
fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rest @ ..] = words.as_slice()
        && first == "becomes"
    {
        eprintln!("error: {}", process::become_limited(rest));
        return ExitCode::from(2);
    }
    match torture(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs rounds until the time is up. Returns whether all passed.
fn torture(args: &Args) -> Result<bool, String> {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let first = args.seed.unwrap_or(clock.as_secs() % 1_000_000 * 1000);
    fs::create_dir_all(&args.dir).map_err(|error| format!("{}: {error}", args.dir.display()))?;
    let folder = absolute(&args.dir)?.join(format!("torture-{}", std::process::id()));
    let ctx = context(args, &folder)?;
    println!("seed {first}, {} s, {} at a time", args.seconds, args.jobs);
    let began = Instant::now();
    let tally = rounds(args, &ctx, first, &folder);
    tally.print(began.elapsed());
    let only: Vec<&str> = args.only.iter().map(|&kind| name_of(kind)).collect();
    let only = if only.is_empty() { String::new() } else { format!(" --only {}", only.join(",")) };
    for Report { seed, kept, failure, .. } in &tally.reports {
        println!("{:?}: {}", failure.broken, failure.what);
        println!("  kept in {}; again: --seed {seed} --rounds 1{only}", kept.display());
    }
    if tally.reports.is_empty() {
        let _ = fs::remove_dir_all(&folder);
    }
    Ok(tally.reports.is_empty())
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn context(args: &Args, folder: &Path) -> Result<Context, String> {
    let tensortap = absolute(&args.tensortap)?;
    let faults = args.faults.as_deref().map(absolute).transpose()?;
    if faults.is_none() {
        println!("notice: without --faults, no writes fail");
    }
    let bases = bases::prepare(&tensortap, &folder.join("bases"))?;
    let limits =
        LimitedCommand { memory_bytes: VERB_MEMORY_BYTES, time: Duration::from_secs(args.verb_seconds) };
    Ok(Context { tensortap, faults, limits, truths: Default::default(), counts: Default::default(), bases })
}

/// Runs rounds until the time is up, several in parallel.
fn rounds(args: &Args, ctx: &Context, first: u64, folder: &Path) -> Tally {
    let began = Instant::now();
    let state = Mutex::new((first, Tally::default()));
    let last = args.rounds.map_or(u64::MAX, |rounds| first.saturating_add(rounds));
    let next = || {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let seed = state.0;
        state.0 += 1;
        (seed < last && began.elapsed().as_secs() < args.seconds).then_some(seed)
    };
    let work = || {
        while let Some(seed) = next() {
            let (kind, cell, outcome) = play(ctx, seed, &args.only, folder);
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(events) => {
                    state.1.good(kind, events);
                    let _ = fs::remove_dir_all(cell);
                }
                Err(failure) => {
                    println!(
                        "FAILED: seed {seed}, {}: {:?}: {}",
                        name_of(kind),
                        failure.broken,
                        failure.what
                    );
                    state.1.bad(Report { seed, kind, failure, kept: cell });
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(work);
        }
    });
    state.into_inner().unwrap_or_else(PoisonError::into_inner).1
}

/// One round in its own folder.
fn play(ctx: &Context, seed: u64, only: &[Kind], folder: &Path) -> (Kind, PathBuf, Outcome) {
    // Neighboring seeds would produce similar first numbers.
    let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let all = [Kind::Kills, Kind::Writes, Kind::Scribbles, Kind::Damage];
    let kinds = if only.is_empty() { &all } else { only };
    let kind = kinds[rng.usize(0..kinds.len())];
    let cell = folder.join(format!("round-{seed}"));
    let _ = fs::create_dir_all(&cell);
    let mut round = Round { ctx, seed, rng, folder: cell.clone() };
    let outcome = match (kind, &ctx.faults) {
        (Kind::Kills, _) => runs::kills(&mut round),
        (Kind::Scribbles, _) => runs::scribbles(&mut round),
        (Kind::Damage, _) => damage::damage(&mut round),
        (Kind::Writes, Some(tracer)) => writes::writes(&mut round, tracer),
        (Kind::Writes, None) => Ok(vec![("skipped: no tracer".into(), 1)]),
    };
    (kind, cell, outcome)
}
