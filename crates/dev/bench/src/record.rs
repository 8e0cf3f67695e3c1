//! The cost of the recording header for a C program: calls without a recorder, and with a session.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;
use tensortap::DType;
use tensortap_query::number;

use crate::capture::{Rig, View};
use crate::error::io;
use crate::machine::load_average;
use crate::scratch::Scratch;
use crate::watch::check;
use crate::{BenchError, Machine, Spread, Watch};

const PROGRAM: &str = include_str!("record.c");
const HEADER: &str = include_str!("../../../../include/tensortap_record.h");
const LIBRARY: &str = "libtensortap.so";
/// Largest payload of a round. With a full arena, the program would have to wait.
const ROUND_BYTES: u64 = 2 << 20;
/// Largest number of records in a round, for the same reason.
const MOST_RECORDS: u64 = 1024;
const SIZES: [u64; 4] = [16, 256, 4 << 10, 64 << 10];

const NOTES: [&str; 5] = [
    "off: a C program calls tt_record_before with the handle that it gets without a recorder; goals 2 ns, linked 5 ns",
    "single: one tensor per call, including two readings of the clock; of four: four tensors per call",
    "copy: memcpy of as many bytes in the same program; limit: copy, content hash and a store of 192 bytes, measured here",
    "of limit: time of the limit divided by time of a record of four, medians",
    "a thread of the program collects at the same time; every measurement starts with a round that is not counted",
];

/// The configuration of the benchmark.
#[derive(Clone, Debug)]
pub struct RecordBenchConfig {
    /// Rounds of each case; the result is the median.
    pub repeat: u32,
    /// The library; `None` for the one next to this executable.
    pub library: Option<PathBuf>,
    /// Folder in which the program is compiled and records; new files are removed afterwards.
    pub dir: PathBuf,
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct RecordBenchReport {
    /// The machine.
    pub machine: Machine,
    /// Rounds.
    pub repeat: u32,
    /// Load average before the benchmark.
    pub load_average_before: Option<f64>,
    /// Load average after the benchmark.
    pub load_average_after: Option<f64>,
    /// Without a recorder.
    pub off: Vec<DisabledCase>,
    /// With a session.
    pub cases: Vec<RecordCase>,
    /// Notes about the method.
    pub notes: [&'static str; 5],
}

/// A part of the report, sent as soon as it is measured.
#[derive(Clone, Debug)]
pub enum RecordBenchPart {
    /// First: the machine and its load average.
    Machine(Machine, Option<f64>),
    /// Next, several.
    Off(DisabledCase),
    /// Last, several.
    Case(RecordCase),
}

/// A call without a recorder.
#[derive(Clone, Debug, Serialize)]
pub struct DisabledCase {
    /// `header`: the program does not find the library; `linked`: it is linked with the library.
    pub program: &'static str,
    /// Nanoseconds per call.
    pub call_ns: Spread,
    /// The target.
    pub goal_ns: f64,
    /// Whether the median meets the target.
    pub met: bool,
}

/// Records of one size.
#[derive(Clone, Debug, Serialize)]
pub struct RecordCase {
    /// Bytes of each payload.
    pub bytes: u64,
    /// Records of each round.
    pub records: u64,
    /// Nanoseconds per record with one tensor per call.
    pub alone_ns: Spread,
    /// Nanoseconds per record with four tensors per call.
    pub among_four_ns: Spread,
    /// Nanoseconds per copy of as many bytes.
    pub copy_ns: Spread,
    /// Nanoseconds of the baseline: copy, hash and store.
    pub limit_ns: Spread,
    /// Time of the baseline divided by time of a record of four, medians.
    #[serde(serialize_with = "number::json_float")]
    pub of_the_limit: f64,
}

/// Compiles a C program and measures its calls.
///
/// # Errors
/// If there is no compiler (`$CC`, or `cc`) or no library, or if the program fails.
pub fn record(
    config: &RecordBenchConfig,
    watch: &dyn Watch<RecordBenchPart>,
) -> Result<RecordBenchReport, BenchError> {
    let library = library(config.library.as_deref())?;
    let scratch = Scratch::new(&config.dir)?;
    let (machine, load_average_before) = (Machine::read(), load_average());
    watch.part(RecordBenchPart::Machine(machine.clone(), load_average_before));
    watch.expect(2 + SIZES.len() as u64);
    let mut off = Vec::new();
    for (program, goal_ns) in [("header", 2.0), ("linked", 5.0)] {
        check(watch)?;
        watch.begin(format!("calls without a recorder, {program}"));
        let linked = (program == "linked").then_some(&*library);
        let compiled = compile(&scratch, program, linked)?;
        let rows = run::<1>(Command::new(&compiled).args(["off", &rounds(config)]), &library, false)?;
        let call_ns = Spread::of(rows.iter().map(|[ns]| *ns).collect());
        let case = DisabledCase { program, call_ns, goal_ns, met: call_ns.median <= goal_ns };
        watch.part(RecordBenchPart::Off(case.clone()));
        off.push(case);
        watch.advance();
    }
    let mut cases = Vec::new();
    for bytes in SIZES {
        check(watch)?;
        watch.begin(format!("records of {}", number::bytes(bytes)));
        let case = measure(config, &scratch, &library, bytes)?;
        watch.part(RecordBenchPart::Case(case.clone()));
        cases.push(case);
        watch.advance();
    }
    Ok(RecordBenchReport {
        machine,
        repeat: config.repeat,
        load_average_before,
        load_average_after: load_average(),
        off,
        cases,
        notes: NOTES,
    })
}

/// The rounds, including the one that is not counted.
fn rounds(config: &RecordBenchConfig) -> String {
    (config.repeat + 1).to_string()
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn measure(
    config: &RecordBenchConfig,
    scratch: &Scratch,
    library: &Path,
    bytes: u64,
) -> Result<RecordCase, BenchError> {
    let records = (ROUND_BYTES / bytes).min(MOST_RECORDS);
    let dump = scratch.path(&format!("dump_{bytes}"));
    let mut program = Command::new(scratch.path("header"));
    program.arg("record").arg(&dump);
    program.args([&bytes.to_string(), &records.to_string(), &rounds(config)]);
    let rows = run::<3>(&mut program, library, true)?;
    let mut rig = Rig::new(View::Contiguous, DType::UInt8, bytes);
    let limits = (0..=config.repeat).map(|_| rig.limit(records) / records as f64 * 1e9);
    let limit_ns = Spread::of(limits.skip(1).collect());
    let column = |at: usize| Spread::of(rows.iter().map(|row| row[at]).collect());
    let among_four_ns = column(1);
    let of_the_limit = limit_ns.median / among_four_ns.median;
    scratch.remove(&dump)?;
    let (alone_ns, copy_ns) = (column(0), column(2));
    Ok(RecordCase { bytes, records, alone_ns, among_four_ns, copy_ns, limit_ns, of_the_limit })
}

fn failed(program: &Command, said: impl std::fmt::Display) -> BenchError {
    BenchError::Program { program: program.get_program().display().to_string(), said: said.to_string() }
}

/// Runs the program and returns the numbers of every round except the first.
fn run<const N: usize>(
    program: &mut Command,
    library: &Path,
    records: bool,
) -> Result<Vec<[f64; N]>, BenchError> {
    program.env_remove("TENSORTAP_SOCKET").env_remove("TENSORTAP_LIBRARY");
    if records {
        program.env("TENSORTAP_LIBRARY", library);
    }
    let output = program.output().map_err(|error| failed(program, error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(program, format!("{}, {}", output.status, said.trim())));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let row = |line: &str| {
        let numbers: Vec<f64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        numbers.try_into().map_err(|_| failed(program, format!("unexpected output `{line}`")))
    };
    text.lines().skip(1).map(row).collect()
}

/// Compiles the program, with or without linking the library.
fn compile(scratch: &Scratch, name: &str, linked: Option<&Path>) -> Result<PathBuf, BenchError> {
    for (name, text) in [("record.c", PROGRAM), ("tensortap_record.h", HEADER)] {
        let path = scratch.path(name);
        fs::write(&path, text).map_err(io("writing", &path))?;
    }
    let program = scratch.path(name);
    let mut compiler =
        Command::new(std::env::var_os("CC").filter(|cc| !cc.is_empty()).unwrap_or("cc".into()));
    compiler.args(["-std=c11", "-O2", "-D_GNU_SOURCE", "-I"]).arg(scratch.path(""));
    compiler.arg(scratch.path("record.c")).arg("-o").arg(&program);
    if let Some(library) = linked {
        // The loader finds the library next to the program by its soname.
        let beside = scratch.path("libtensortap.so.0");
        fs::copy(library, &beside).map_err(io("copying the library to", &beside))?;
        compiler.arg("-DTT_LINKED").arg(&beside).arg("-Wl,-rpath,$ORIGIN");
    }
    let output =
        compiler.output().map_err(|error| failed(&compiler, format!("{error}; set CC to a compiler")))?;
    if !output.status.success() {
        return Err(failed(&compiler, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(program)
}

/// The named library, or the one that was built or installed with this executable.
fn library(named: Option<&Path>) -> Result<PathBuf, BenchError> {
    if let Some(named) = named {
        return fs::canonicalize(named).map_err(io("opening", named));
    }
    let program = std::env::current_exe().map_err(io("finding", Path::new("this program")))?;
    let dir = program.parent().unwrap_or(Path::new("/"));
    let places = [dir.join(LIBRARY), dir.join("deps").join(LIBRARY), dir.join("../lib").join(LIBRARY)];
    places.into_iter().find(|place| place.is_file()).ok_or_else(|| BenchError::Program {
        program: LIBRARY.into(),
        said: format!(
            "not found in {0} or {0}/../lib; build it with `cargo build --release -p tensortap-capi`, or name it with --library",
            dir.display()
        ),
    })
}
