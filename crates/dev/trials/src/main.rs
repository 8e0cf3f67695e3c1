//! `trials` is a court: it runs generated programs, records a right and a faulty run, asks `tensortap blame`
//! which task went wrong, and compares the answer with an oracle that knows the truth.
//!
//! It uses `tensortap` only by its path and judges with its own code. [`oracle`] documents the rule of
//! judgment. A trial depends only on its seed: `--seed N --trials 1 --keep DIR` repeats it and keeps both
//! dumps.
#![forbid(unsafe_code)]

mod answer;
mod api;
mod caching;
mod cuda;
mod device;
mod faults;
mod generate;
mod kernels;
mod machine;
mod memory;
mod mentions;
mod opencl;
mod oracle;
mod program;
mod ranks;
mod recorded;
mod recording;
mod scenes;
mod story;
mod tally;
mod trial;
mod waits;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Parser, ValueEnum};

use crate::faults::Fault;
use crate::ranks::RankFault;
use crate::tally::Tally;
use crate::trial::Verdict;

/// How the runs of a trial are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// Generated programs that record through the recording API.
    Api,
    /// Built-in scenes with an injected fault.
    Scene,
    /// Generated OpenCL programs on the first device, such as PoCL.
    Opencl,
    /// Generated training programs of many ranks, with a dump for each rank.
    Ranks,
    /// Generated CUDA programs on the fake driver of the tests. They need a C and a C++ compiler.
    Cuda,
}

/// Judges `tensortap blame` with generated programs. Exits with 1 if an innocent task was named, a right run
/// failed, a wrong run passed, `blame` gave no answer, or it named too few culprits that the dumps show.
#[derive(Parser)]
struct Args {
    /// The tensortap binary.
    #[arg(long, value_name = "PATH")]
    tensortap: PathBuf,
    /// Duration in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Maximum number of trials.
    #[arg(long)]
    trials: Option<u64>,
    /// Number of parallel trials.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Seed of the first trial; later trials count up. Default: from the clock.
    #[arg(long)]
    seed: Option<u64>,
    /// Only trials of these backends. Default: all but `opencl`, which needs Python with `pyopencl`, and `cuda`, which needs a
    /// C and a C++ compiler.
    #[arg(long, value_delimiter = ',')]
    backend: Vec<Backend>,
    /// A Python that has `pyopencl`.
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// Only these faults.
    #[arg(long, value_delimiter = ',', value_parser = fault_names())]
    only: Vec<String>,
    /// Working folder.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Keep the dumps of every trial in this folder, and describe every trial.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Describe at most this many failed trials.
    #[arg(long, default_value_t = 20)]
    show: u64,
    /// Describe failed trials task by task.
    #[arg(long)]
    story: bool,
    /// Also describe trials that were decidable and remained undecided.
    #[arg(long)]
    needless: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(seed_of_clock);
    println!("seed {seed}");
    let tally = Mutex::new(Tally::default());
    let next = Mutex::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for job in 0..args.jobs.max(1) {
            let (tally, next, args) = (&tally, &next, &args);
            scope.spawn(move || work(args, job, seed, began, next, tally));
        }
    });
    cuda::driver::remove();
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    tally.print();
    println!(
        "\n{:.0} s, {} broke a rule, {} without an answer",
        began.elapsed().as_secs_f64(),
        tally.violations,
        tally.broken
    );
    let shortcomings = tally.shortcomings();
    shortcomings.iter().for_each(|shortcoming| println!("{shortcoming}"));
    let fails = tally.violations + tally.broken > 0 || !shortcomings.is_empty();
    if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The names of the faults of all backends but `scene`.
fn fault_names() -> PossibleValuesParser {
    let mut names: Vec<PossibleValue> = Fault::ALL.iter().filter_map(ValueEnum::to_possible_value).collect();
    for name in RankFault::ALL.iter().filter_map(ValueEnum::to_possible_value) {
        if names.iter().all(|known| known.get_name() != name.get_name()) {
            names.push(name);
        }
    }
    PossibleValuesParser::new(names)
}

/// The backend of a trial. With several backends, all but the first one have one trial in eight each.
fn backend(args: &Args, seed: u64) -> Backend {
    let default: &[Backend] = match args.only.is_empty() {
        true => &[Backend::Api, Backend::Scene, Backend::Ranks],
        false => &[Backend::Api],
    };
    let wanted = if args.backend.is_empty() { default } else { &args.backend };
    let turn = usize::try_from(seed % 8).unwrap_or(0) + 1;
    wanted.get(turn).copied().unwrap_or(wanted[0])
}

fn seed_of_clock() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.as_secs() * 1_000_000
}

fn work(args: &Args, job: usize, seed: u64, began: Instant, next: &Mutex<u64>, tally: &Mutex<Tally>) {
    while began.elapsed() < Duration::from_secs(args.seconds) {
        let number = {
            let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next - 1
        };
        if args.trials.is_some_and(|most| number >= most) {
            break;
        }
        let seed = seed.wrapping_add(number);
        let dir = match &args.keep {
            Some(keep) => keep.join(seed.to_string()),
            None => args.dir.join(format!("trial-{}-{job}", std::process::id())),
        };
        let _ = fs::remove_dir_all(&dir);
        let verdict =
            fs::create_dir_all(&dir).map_err(|error| error.to_string()).and_then(|()| {
                match backend(args, seed) {
                    Backend::Api => api::trial(seed, &args.only, &args.tensortap, &dir),
                    Backend::Scene => scenes::trial(seed, &args.tensortap, &dir),
                    Backend::Ranks => ranks::trial(seed, &args.only, &args.tensortap, &dir),
                    Backend::Opencl => {
                        let tools = opencl::Tools { tensortap: &args.tensortap, python: &args.python };
                        opencl::trial(seed, &args.only, &tools, &dir)
                    }
                    Backend::Cuda => {
                        let tools = cuda::Tools { tensortap: &args.tensortap, dir: &args.dir };
                        cuda::trial(seed, &args.only, &tools, &dir)
                    }
                }
            });
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(error) => {
                println!("trial {seed} cannot be recorded: {error}");
                tally.lock().unwrap_or_else(PoisonError::into_inner).broken += 1;
                continue;
            }
        };
        report(args, seed, &dir, &verdict, tally);
        if args.keep.is_none() {
            let _ = fs::remove_dir_all(&dir);
        }
    }
}

fn report(args: &Args, seed: u64, dir: &Path, verdict: &Verdict, tally: &Mutex<Tally>) {
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    let complaint = match &verdict.judgment {
        Ok(judgment) => {
            tally.count(verdict.cell.clone(), verdict.is_right, judgment);
            let mut complaints = Vec::new();
            for (task, label) in &judgment.innocents {
                complaints.push(format!("innocent task {task:#x} is {label}"));
            }
            if judgment.right_run_failed {
                complaints.push("a right run failed".to_owned());
            }
            if judgment.wrong_run_passed {
                complaints.push("a wrong run passed".to_owned());
            }
            if args.needless && judgment.undecided_needlessly() {
                complaints.push("undecided needlessly".to_owned());
            }
            complaints.join("; ")
        }
        Err(error) => {
            tally.broken += 1;
            format!("no answer: {error}")
        }
    };
    if args.keep.is_some() || (!complaint.is_empty() && tally.violations + tally.broken <= args.show) {
        let only = args.only.join(",");
        let only = if only.is_empty() { only } else { format!(" --only {only}") };
        let (backend, levels, fault) = &verdict.cell;
        println!(
            "{levels}, {fault}: {complaint}: scripts/trials --seed {seed} --trials 1 --backend {backend}{only} --keep target/trials/kept"
        );
        if args.story || args.keep.is_some() {
            println!("{}", verdict.story);
        }
        if args.keep.is_some() {
            println!("  dumps: {}", dir.display());
        }
    }
}
