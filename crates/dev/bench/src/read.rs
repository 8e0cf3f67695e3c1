//! The cost of reading a dump: listing many records, statistics compared with a plain read of the payload file, and an
//! export compared with a copy of it. The command line runs as a separate process, as users call it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use tensortap::DType;

use crate::error::io;
use crate::machine::load_average;
use crate::sample_dump::{self, PAYLOAD_FILE, TENSOR_BYTES};
use crate::scratch::Scratch;
use crate::watch::{check, in_pairs};
use crate::{BenchError, Machine, Spread, Watch};

/// Disk space for index and manifest of one record without payload.
const RECORD_BYTES: u64 = 1024;
/// Elements of four, two and one byte.
const DTYPES: [DType; 3] = [DType::Float32, DType::BFloat16, DType::Float8E4M3FN];
const LIST_TARGET_S: f64 = 0.5;
const LIST_TARGET_BYTES: u64 = 20 << 20;
/// Target for statistics compared with plain reads.
const STATS_TARGET: f64 = 0.7;
/// Target for an export compared with a copy.
const EXPORT_TARGET: f64 = 0.5;
const READ_BYTES: usize = 1 << 20;
const SAMPLE_INTERVAL: Duration = Duration::from_millis(1);

const NOTES: [&str; 4] = [
    "list: `tensortap list` as a separate process, output to /dev/null; anonymous memory is its largest RssAnon, sampled \
     every millisecond",
    "stats: `tensortap stats` as a separate process, one thread per CPU, compared with one thread that reads the payload \
     file with read() of 1 MiB; both from the page cache",
    "export: `tensortap export --format npy` of 1 MiB records, compared with `cp --reflink=never` of the payload file; both \
     from and to the page cache, without sync",
    "of limit: speed of tensortap divided by that of the plain counterpart, pair by pair; the warm-ups are not counted",
];

/// The configuration of the benchmark.
#[derive(Clone, Debug)]
pub struct ReadConfig {
    /// The executable with the command line.
    pub program: PathBuf,
    /// Records of the listed dump.
    pub records: u64,
    /// Payload bytes that are measured and exported, in tensors of 1 MiB; they should fit twice into the page cache.
    pub bytes: u64,
    /// Runs of each side, in turn; the result is the median.
    pub pairs: u32,
    /// Folder on the disk to use; new files are removed afterwards.
    pub dir: PathBuf,
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct ReadReport {
    /// The machine.
    pub machine: Machine,
    /// The folder of the files.
    pub dir: String,
    /// Runs of each side.
    pub pairs: u32,
    /// Load average before the benchmark.
    pub load_average_before: Option<f64>,
    /// Load average after the benchmark.
    pub load_average_after: Option<f64>,
    /// Listing.
    pub list: ListCost,
    /// By dtype.
    pub stats: Vec<StatsRatio>,
    /// Exporting.
    pub export: ExportRatio,
    /// Notes about the method.
    pub notes: [&'static str; 4],
}

/// A part of the report, sent as soon as it is measured.
#[derive(Clone, Debug)]
pub enum ReadPart {
    /// First: the machine and its load average.
    Machine(Machine, Option<f64>),
    /// Next.
    List(ListCost),
    /// Next, several.
    Stats(StatsRatio),
    /// Last.
    Export(ExportRatio),
}

/// The cost of listing many records.
#[derive(Clone, Debug, Serialize)]
pub struct ListCost {
    /// Number of records.
    pub records: u64,
    /// Seconds.
    pub seconds: Spread,
    /// Largest anonymous memory of any run.
    pub anonymous_bytes: u64,
    /// The target of the time.
    pub target_s: f64,
    /// The target of the memory.
    pub target_bytes: u64,
    /// Whether both targets are met.
    pub met: bool,
}

/// Statistics compared with plain reads.
#[derive(Clone, Debug, Serialize)]
pub struct StatsRatio {
    /// Type of the elements.
    pub dtype: &'static str,
    /// Bytes of the payload.
    pub bytes: u64,
    /// Both sides.
    #[serde(flatten)]
    pub pairs: PairedTimes,
}

/// An export compared with a copy.
#[derive(Clone, Debug, Serialize)]
pub struct ExportRatio {
    /// Bytes of the payload.
    pub bytes: u64,
    /// Bytes of each tensor.
    pub tensor_bytes: u64,
    /// Both sides.
    #[serde(flatten)]
    pub pairs: PairedTimes,
}

/// Times of both sides, and their ratio.
#[derive(Clone, Debug, Serialize)]
pub struct PairedTimes {
    /// The plain counterpart.
    pub plain_s: Spread,
    /// tensortap.
    pub tensortap_s: Spread,
    /// The plain counterpart.
    pub plain_bytes_per_s: Spread,
    /// tensortap.
    pub tensortap_bytes_per_s: Spread,
    /// Speed of tensortap divided by that of its counterpart, pair by pair.
    pub ratio: Spread,
    /// The target of the ratio.
    pub target_ratio: f64,
    /// Whether the median reaches it.
    pub met: bool,
}

/// Measures everything.
pub fn read(config: &ReadConfig, watch: &dyn Watch<ReadPart>) -> Result<ReadReport, BenchError> {
    let scratch = Scratch::new(&config.dir)?;
    config.check_room(&scratch)?;
    let runs = u64::from(config.pairs) + 1;
    // Writing each dump is a step, too.
    watch.expect((1 + runs) + DTYPES.len() as u64 * (1 + 2 * runs) + 2 * runs);
    let (machine, load_average_before) = (Machine::read(), load_average());
    watch.part(ReadPart::Machine(machine.clone(), load_average_before));
    let bench = Bench { config, scratch, watch };
    let list = bench.list()?;
    watch.part(ReadPart::List(list.clone()));
    let (mut stats, mut export) = (Vec::new(), None);
    for dtype in DTYPES {
        watch.begin(format!("writing a dump of {dtype}"));
        let dump = bench.scratch.path(dtype.name());
        sample_dump::with_payload(&dump, dtype, config.tensors(), || check(watch))?;
        watch.advance();
        let row = bench.stats(dtype, &dump)?;
        watch.part(ReadPart::Stats(row.clone()));
        stats.push(row);
        if export.is_none() {
            export = Some(bench.export(&dump)?);
        }
        bench.scratch.remove(&dump)?;
    }
    let export = export.expect("there are dtypes");
    watch.part(ReadPart::Export(export.clone()));
    Ok(ReadReport {
        machine,
        dir: config.dir.display().to_string(),
        pairs: config.pairs,
        load_average_before,
        load_average_after: load_average(),
        list,
        stats,
        export,
        notes: NOTES,
    })
}

impl ReadConfig {
    /// Tensors of the payload measurements; at least one.
    fn tensors(&self) -> u64 {
        (self.bytes / TENSOR_BYTES).max(1)
    }

    /// Bytes that are measured and exported: the requested bytes, in whole tensors.
    pub fn payload_bytes(&self) -> u64 {
        self.tensors().saturating_mul(TENSOR_BYTES)
    }

    /// Checks the disk space. The listed dump is removed before the others are written; a payload needs space for one copy.
    fn check_room(&self, scratch: &Scratch) -> Result<(), BenchError> {
        let (free, list) = (scratch.free_bytes()?, self.records.saturating_mul(RECORD_BYTES));
        let needed = list.max(self.payload_bytes().saturating_mul(2).saturating_add(TENSOR_BYTES));
        if needed <= free {
            return Ok(());
        }
        Err(BenchError::NoRoom { needed, free, headroom: 0, dir: self.dir.clone() })
    }
}

/// A running benchmark.
struct Bench<'a> {
    config: &'a ReadConfig,
    scratch: Scratch,
    watch: &'a dyn Watch<ReadPart>,
}

impl Bench<'_> {
    /// Lists a dump without payloads, several times.
    fn list(&self) -> Result<ListCost, BenchError> {
        let ReadConfig { program, records, pairs, .. } = self.config;
        self.watch.begin("writing a dump to list".into());
        let dump = self.scratch.path("records");
        sample_dump::without_payload(&dump, *records, || check(self.watch))?;
        self.watch.advance();
        let (mut seconds, mut anonymous_bytes) = (Vec::new(), 0);
        for number in 0..=*pairs {
            check(self.watch)?;
            self.watch.begin("list".into());
            let took = call(program, &["list".as_ref(), dump.as_os_str(), "--quiet".as_ref()])?;
            self.watch.advance();
            if number > 0 {
                seconds.push(took.seconds);
            }
            anonymous_bytes = anonymous_bytes.max(took.anonymous_bytes);
        }
        self.scratch.remove(&dump)?;
        let seconds = Spread::of(seconds);
        Ok(ListCost {
            records: *records,
            seconds,
            anonymous_bytes,
            target_s: LIST_TARGET_S,
            target_bytes: LIST_TARGET_BYTES,
            met: seconds.median < LIST_TARGET_S && anonymous_bytes < LIST_TARGET_BYTES,
        })
    }

    /// Paired times of a plain read and of `stats` over the same payload file.
    fn stats(&self, dtype: DType, dump: &Path) -> Result<StatsRatio, BenchError> {
        let (bytes, payloads) = (self.config.payload_bytes(), dump.join(PAYLOAD_FILE));
        let words = ["stats".as_ref(), dump.as_os_str(), "--quiet".as_ref()];
        let ours = || Ok(call(&self.config.program, &words)?.seconds);
        let pairs = self.pairs(&format!("stats: {dtype}"), STATS_TARGET, || read_all(&payloads), ours)?;
        Ok(StatsRatio { dtype: dtype.name(), bytes, pairs })
    }

    /// Paired times of a copy of the payload file and of an export of its records.
    fn export(&self, dump: &Path) -> Result<ExportRatio, BenchError> {
        let (payloads, copy, out) =
            (dump.join(PAYLOAD_FILE), self.scratch.path("copy"), self.scratch.path("export"));
        let plain = || {
            let took = copy_file(&payloads, &copy)?;
            self.scratch.remove(&copy)?;
            Ok(took)
        };
        let ours = || {
            let words = ["export", "--format", "npy", "--quiet", "--out"].map(OsStr::new);
            let words = [&words[..], &[out.as_os_str(), dump.as_os_str()]].concat();
            let took = call(&self.config.program, &words)?.seconds;
            self.scratch.remove(&out)?;
            Ok(took)
        };
        let pairs = self.pairs("export: npy", EXPORT_TARGET, plain, ours)?;
        Ok(ExportRatio { bytes: self.config.payload_bytes(), tensor_bytes: TENSOR_BYTES, pairs })
    }

    /// Runs both sides over the payload bytes. Each returns its seconds.
    fn pairs(
        &self,
        what: &str,
        target_ratio: f64,
        plain: impl FnMut() -> Result<f64, BenchError>,
        ours: impl FnMut() -> Result<f64, BenchError>,
    ) -> Result<PairedTimes, BenchError> {
        let kept = in_pairs(self.watch, what, self.config.pairs, plain, ours)?;
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let bytes = self.config.payload_bytes() as f64;
        let over = |value: &dyn Fn(&(f64, f64)) -> f64| Spread::of(kept.iter().map(value).collect());
        let ratio = over(&|(plain, ours)| plain / ours);
        Ok(PairedTimes {
            plain_s: over(&|pair| pair.0),
            tensortap_s: over(&|pair| pair.1),
            plain_bytes_per_s: over(&|pair| bytes / pair.0),
            tensortap_bytes_per_s: over(&|pair| bytes / pair.1),
            ratio,
            target_ratio,
            met: ratio.median >= target_ratio,
        })
    }
}

fn read_all(path: &Path) -> Result<f64, BenchError> {
    let mut piece = vec![0; READ_BYTES];
    let started = Instant::now();
    let mut file = File::open(path).map_err(io("reading", path))?;
    while file.read(&mut piece).map_err(io("reading", path))? > 0 {}
    Ok(started.elapsed().as_secs_f64())
}

fn copy_file(from: &Path, to: &Path) -> Result<f64, BenchError> {
    let failed = |said: String| BenchError::Program { program: "cp".into(), said };
    let started = Instant::now();
    let status = Command::new("cp").arg("--reflink=never").args([from, to]).status();
    let status = status.map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        return Err(failed(format!("it could not copy {}", from.display())));
    }
    Ok(started.elapsed().as_secs_f64())
}

/// The cost of one call.
struct CallCost {
    seconds: f64,
    /// Largest sampled anonymous memory.
    anonymous_bytes: u64,
}

/// Calls the command line and discards its output.
fn call(program: &Path, words: &[&OsStr]) -> Result<CallCost, BenchError> {
    let failed = |said: String| BenchError::Program { program: program.display().to_string(), said };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let mut anonymous_bytes = 0;
    let seconds = loop {
        if child.try_wait().map_err(|error| failed(error.to_string()))?.is_some() {
            break started.elapsed().as_secs_f64();
        }
        anonymous_bytes = anonymous_bytes.max(anonymous(&child).unwrap_or(0));
        thread::sleep(SAMPLE_INTERVAL);
    };
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{} failed: {said}", words[0].display())));
    }
    Ok(CallCost { seconds, anonymous_bytes })
}

/// Anonymous memory of a process, from the kernel.
fn anonymous(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}
