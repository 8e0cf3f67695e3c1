//! The cost of recording: the throughput of large payloads, the run time of scenes, and the rate of small records.
//! Throughput is compared with a plain write of as many bytes, run time with a run without a dump.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tensortap::scene::Registry;
use tensortap::{DumpConfig, PLATFORMS, PayloadPath, RunConfig};
use tensortap_query::number;

use crate::machine::load_average;
use crate::plain_write::Noise;
use crate::recorded_run::{self, RecordedRun};
use crate::scratch::Scratch;
use crate::watch::in_pairs;
use crate::{BenchError, Machine, Spread, Watch};

/// The scene of the throughput runs.
const SCENE: &str = "stream";
/// Scenes that run with and without a dump.
const OVERHEAD_SCENES: [&str; 2] = ["paged_attention", "tiny_llm"];
/// Size of a tensor in the throughput runs.
const TENSOR_BYTES: u64 = 1 << 20;
/// Tensors that one task of `stream` records: its input and its output.
const TENSORS_PER_TASK: u64 = 2;
/// Room for index, manifest and the dumps of the smaller measurements.
const HEADROOM_BYTES: u64 = 1 << 30;
const SMALL_TENSOR_BYTES: u64 = 256;
/// Enough to keep every core busy.
const SMALL_LANES: u64 = 16;
const TARGET_RECORDS_PER_S: f64 = 500_000.0;

const NOTES: [&str; 5] = [
    "plain write: one thread for each file writes 1 MiB pieces from 64 MiB of memory; both times include fdatasync",
    "dump: from launch until the last payload is written, then fdatasync of the payloads; without manifest and graph",
    "of limit: throughput of the dump divided by that of the plain write of its pair; targets a2a3sim 0.9, a5sim 0.8",
    "held up: total time that device threads spent in capture",
    "every measurement starts with a warm-up that is not counted",
];

/// The configuration of the benchmark.
#[derive(Clone)]
pub struct DumpBenchConfig {
    /// Payload bytes of each throughput run, in tensors of 1 MiB.
    pub bytes: u64,
    /// Runs of each side, in turn; the result is the median.
    pub pairs: u32,
    /// Tasks of each run with small tensors.
    pub tasks: u64,
    /// Folder on the disk to measure; new files are removed afterwards.
    pub dir: PathBuf,
    /// Measure only this platform.
    pub platform: Option<String>,
    /// How payloads are written.
    pub write: PayloadPath,
    /// Numbers of payload files, each with a throughput run.
    pub files: Vec<usize>,
    /// Must contain the scenes of [`registry`](crate::registry). The device must know the same scenes.
    pub registry: Registry,
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct DumpBenchReport {
    /// The machine.
    pub machine: Machine,
    /// The folder of the files.
    pub dir: String,
    /// Free bytes of its disk.
    pub free_bytes: u64,
    /// Payload bytes of each throughput run.
    pub bytes: u64,
    /// Runs of each side.
    pub pairs: u32,
    /// Load average before the benchmark.
    pub load_average_before: Option<f64>,
    /// Load average after the benchmark.
    pub load_average_after: Option<f64>,
    /// By platform and number of files.
    pub throughput: Vec<Throughput>,
    /// By scene and platform.
    pub overhead: Vec<Overhead>,
    /// By platform.
    pub small: Vec<SmallTensors>,
    /// Notes about the method.
    pub notes: [&'static str; 5],
}

/// A part of the report, sent as soon as it is measured.
#[derive(Clone, Debug)]
pub enum DumpBenchPart {
    /// First: the machine, its load average, and the free bytes of the disk.
    Machine(Machine, Option<f64>, u64),
    /// Next, several.
    Throughput(Throughput),
    /// Next, several.
    Overhead(Overhead),
    /// Next, several.
    SmallTensors(SmallTensors),
}

/// Payload bytes per second of a dump and of a plain write.
#[derive(Clone, Debug, Serialize)]
pub struct Throughput {
    /// Platform.
    pub platform: String,
    /// Number of payload files, and of threads that write them.
    pub files: usize,
    /// Payload bytes of each run.
    pub bytes: u64,
    /// Bytes of each tensor.
    pub tensor_bytes: u64,
    /// The plain write.
    pub plain_bytes_per_s: Spread,
    /// The dump.
    pub dump_bytes_per_s: Spread,
    /// Dump divided by plain write, pair by pair.
    pub ratio: Spread,
    /// The target of the ratio.
    pub target_ratio: f64,
    /// Whether the median reaches it.
    pub met: bool,
    /// Time in capture.
    pub held_up_s: Spread,
    /// Every pair.
    pub pairs: Vec<ThroughputPair>,
}

/// A plain write and a dump.
#[derive(Clone, Debug, Serialize)]
pub struct ThroughputPair {
    /// Seconds, including sync.
    pub plain_s: f64,
    /// Seconds, including sync.
    pub dump_s: f64,
    /// Only the sync of the dump.
    pub sync_s: f64,
    /// Dump divided by plain write.
    pub ratio: f64,
    /// Time in capture.
    pub held_up_s: f64,
    /// Rest of the run, outside the measured time.
    pub unclocked_s: f64,
}

/// The overhead of a dump.
#[derive(Clone, Debug, Serialize)]
pub struct Overhead {
    /// Scene.
    pub scene: &'static str,
    /// Platform.
    pub platform: String,
    /// Run time without a dump.
    pub without_s: Spread,
    /// Run time with one, until its files are written.
    pub with_s: Spread,
    /// With divided by without, pair by pair.
    pub ratio: Spread,
    /// Time in capture.
    pub held_up_s: Spread,
    /// Payload bytes captured in a run.
    pub bytes_captured: u64,
    /// Records of a run.
    pub records: u64,
}

/// Small tensors per second that a dump can record.
#[derive(Clone, Debug, Serialize)]
pub struct SmallTensors {
    /// Platform.
    pub platform: String,
    /// Tasks of each run.
    pub tasks: u64,
    /// Bytes of each tensor.
    pub tensor_bytes: u64,
    /// Records of tensors divided by run time. Scalars, tasks and dependencies are also recorded, but not counted.
    pub records_per_s: Spread,
    /// The same, including the time to write manifest and graph.
    pub records_per_s_closed: Spread,
    /// Records of tensors divided by the time in capture: the rate that one device thread could reach.
    pub records_per_s_captured: Spread,
    /// Tensors per second without a dump: the rate at which they must be recorded.
    pub tensors_per_s_without: Spread,
    /// The target of the rate.
    pub target_records_per_s: f64,
    /// Whether the median reaches it.
    pub met: bool,
    /// Time in capture.
    pub held_up_s: Spread,
    /// Time to write manifest and graph.
    pub closing_s: Spread,
    /// The part that takes the most time.
    pub bound: String,
}

/// Measures everything.
pub fn dump(
    config: &DumpBenchConfig,
    watch: &dyn Watch<DumpBenchPart>,
) -> Result<DumpBenchReport, BenchError> {
    let platforms = config.platforms();
    let scratch = Scratch::new(&config.dir)?;
    let free_bytes = config.check_room(&scratch)?;
    for platform in &platforms {
        tensortap::resolve(&config.large_run(platform))?;
        tensortap::resolve(&config.small_run(platform))?;
    }
    watch.expect(platforms.len() as u64 * config.steps_per_platform());
    let (machine, load_average_before) = (Machine::read(), load_average());
    watch.part(DumpBenchPart::Machine(machine.clone(), load_average_before, free_bytes));
    let bench = Bench { config, scratch, watch };
    let (mut throughput, mut overhead, mut small) = (Vec::new(), Vec::new(), Vec::new());
    for platform in &platforms {
        for &files in &config.files {
            throughput.push(bench.report(bench.throughput(platform, files)?, DumpBenchPart::Throughput));
        }
    }
    for scene in OVERHEAD_SCENES {
        for platform in &platforms {
            overhead.push(bench.report(bench.overhead(scene, platform)?, DumpBenchPart::Overhead));
        }
    }
    for platform in &platforms {
        small.push(bench.report(bench.small(platform)?, DumpBenchPart::SmallTensors));
    }
    Ok(DumpBenchReport {
        machine,
        dir: config.dir.display().to_string(),
        free_bytes,
        bytes: config.payload_bytes(),
        pairs: config.pairs,
        load_average_before,
        load_average_after: load_average(),
        throughput,
        overhead,
        small,
        notes: NOTES,
    })
}

impl DumpBenchConfig {
    fn platforms(&self) -> Vec<String> {
        let every = || PLATFORMS.iter().map(|platform| platform.name().into()).collect();
        self.platform.clone().map_or_else(every, |only| vec![only])
    }

    /// Tasks of a throughput run; at least one.
    fn large_tasks(&self) -> u64 {
        (self.bytes / (TENSORS_PER_TASK * TENSOR_BYTES)).max(1)
    }

    /// Bytes that a throughput run stores: the requested bytes, in whole tasks.
    pub fn payload_bytes(&self) -> u64 {
        self.large_tasks().saturating_mul(TENSORS_PER_TASK * TENSOR_BYTES)
    }

    /// Steps for both sides of every pair and of the warm-up.
    fn steps_per_platform(&self) -> u64 {
        let runs = 2 * (u64::from(self.pairs) + 1);
        runs * (self.files.len() as u64 + 1 + OVERHEAD_SCENES.len() as u64)
    }

    /// Checks the disk space. Only one file exists at a time.
    fn check_room(&self, scratch: &Scratch) -> Result<u64, BenchError> {
        let (free, needed) = (scratch.free_bytes()?, self.payload_bytes().saturating_add(HEADROOM_BYTES));
        if needed <= free {
            return Ok(free);
        }
        Err(BenchError::NoRoom { needed, free, headroom: HEADROOM_BYTES, dir: self.dir.clone() })
    }

    fn run(&self, scene: &str, platform: &str) -> RunConfig {
        let mut config = RunConfig::new(scene);
        config.registry = self.registry.clone();
        config.platform = platform.into();
        config
    }

    fn large_run(&self, platform: &str) -> RunConfig {
        let config = self.run(SCENE, platform);
        config.param("tasks", self.large_tasks()).param("bytes", TENSOR_BYTES).param("lanes", 2)
    }

    fn small_run(&self, platform: &str) -> RunConfig {
        let config = self.run(SCENE, platform).param("tasks", self.tasks);
        config.param("bytes", SMALL_TENSOR_BYTES).param("lanes", SMALL_LANES)
    }
}

/// A running benchmark.
struct Bench<'a> {
    config: &'a DumpBenchConfig,
    scratch: Scratch,
    watch: &'a dyn Watch<DumpBenchPart>,
}

impl Bench<'_> {
    fn report<T: Clone>(&self, row: T, part: fn(T) -> DumpBenchPart) -> T {
        self.watch.part(part(row.clone()));
        row
    }

    fn with_dump(&self, run: &RunConfig, dedup: bool, files: usize) -> Result<RecordedRun, BenchError> {
        let dump = DumpConfig { files, writers: files, ..recorded_run::full(dedup, self.config.write) };
        recorded_run::with_dump(run, dump, &self.scratch, &|| self.watch.goes_on())
    }

    fn without_dump(&self, run: &RunConfig) -> Result<Duration, BenchError> {
        recorded_run::without_dump(run, &|| self.watch.goes_on())
    }

    /// Paired times of a plain write and a dump of as many bytes.
    fn throughput(&self, platform: &str, files: usize) -> Result<Throughput, BenchError> {
        let (bytes, run, source) =
            (self.config.payload_bytes(), self.config.large_run(platform), Noise::new());
        let plain = || {
            let paths: Vec<PathBuf> =
                (0..files).map(|number| self.scratch.path(&format!("plain-{number}"))).collect();
            let took = source.write(&paths, bytes, &|| self.watch.goes_on())?;
            paths.iter().try_for_each(|path| self.scratch.remove(path))?;
            Ok(took)
        };
        let dumped = || {
            let run = self.with_dump(&run, false, files)?;
            match run.dump.counters.bytes_written {
                written if written == bytes => Ok(run),
                written => Err(BenchError::Wrong(format!(
                    "{written} payload bytes were written, {bytes} were expected"
                ))),
            }
        };
        let what = format!("throughput: {platform}, {files} payload files");
        let pairs = in_pairs(self.watch, &what, self.config.pairs, plain, dumped)?;
        Ok(throughput(
            platform,
            files,
            bytes,
            pairs.iter().map(|(plain, dump)| ThroughputPair::new(*plain, dump)).collect(),
        ))
    }

    /// Paired times of a run without and with a dump.
    fn overhead(&self, scene: &'static str, platform: &str) -> Result<Overhead, BenchError> {
        let run = self.config.run(scene, platform);
        let (plain, dumped) = (|| self.without_dump(&run), || self.with_dump(&run, true, 1));
        let what = format!("{scene}: {platform}");
        let pairs = in_pairs(self.watch, &what, self.config.pairs, plain, dumped)?;
        let over = |value: fn(&(Duration, RecordedRun)) -> f64| Spread::of(pairs.iter().map(value).collect());
        let (_, last) = &pairs[pairs.len() - 1];
        Ok(Overhead {
            scene,
            platform: platform.into(),
            without_s: over(|(without, _)| without.as_secs_f64()),
            with_s: over(|(_, with)| with.wall.as_secs_f64()),
            ratio: over(|(without, with)| with.wall.as_secs_f64() / without.as_secs_f64().max(1e-9)),
            held_up_s: over(|(_, with)| with.held_up_s()),
            bytes_captured: last.dump.counters.bytes_captured,
            records: last.dump.counters.records,
        })
    }

    /// The same for small tensors.
    fn small(&self, platform: &str) -> Result<SmallTensors, BenchError> {
        let run = self.config.small_run(platform);
        let (plain, dumped) = (|| self.without_dump(&run), || self.with_dump(&run, false, 1));
        let what = format!("{SMALL_TENSOR_BYTES}-byte tensors: {platform}");
        let pairs = in_pairs(self.watch, &what, self.config.pairs, plain, dumped)?;
        Ok(small(platform, self.config.tasks, &pairs))
    }
}

impl ThroughputPair {
    fn new(plain: Duration, dump: &RecordedRun) -> ThroughputPair {
        let (plain_s, dump_s) = (plain.as_secs_f64(), dump.on_disk().as_secs_f64());
        ThroughputPair {
            plain_s,
            dump_s,
            sync_s: dump.sync.as_secs_f64(),
            ratio: plain_s / dump_s,
            held_up_s: dump.held_up_s(),
            unclocked_s: dump.unclocked.as_secs_f64(),
        }
    }
}

fn throughput(platform: &str, files: usize, bytes: u64, pairs: Vec<ThroughputPair>) -> Throughput {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let total = bytes as f64;
    let over = |value: fn(&ThroughputPair) -> f64| Spread::of(pairs.iter().map(value).collect());
    let per_s =
        |took: fn(&ThroughputPair) -> f64| Spread::of(pairs.iter().map(|pair| total / took(pair)).collect());
    // The host must copy the memory of this platform, so it reaches less.
    let (ratio, target_ratio) = (over(|p| p.ratio), if platform == "a5sim" { 0.8 } else { 0.9 });
    Throughput {
        platform: platform.into(),
        files,
        bytes,
        tensor_bytes: TENSOR_BYTES,
        plain_bytes_per_s: per_s(|p| p.plain_s),
        dump_bytes_per_s: per_s(|p| p.dump_s),
        ratio,
        target_ratio,
        met: ratio.median >= target_ratio,
        held_up_s: over(|p| p.held_up_s),
        pairs,
    }
}

fn small(platform: &str, tasks: u64, pairs: &[(Duration, RecordedRun)]) -> SmallTensors {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let tensors = (tasks * TENSORS_PER_TASK) as f64;
    let over = |value: fn(&(Duration, RecordedRun)) -> f64| Spread::of(pairs.iter().map(value).collect());
    let per_s = |took: fn(&(Duration, RecordedRun)) -> f64| {
        Spread::of(pairs.iter().map(|pair| tensors / took(pair).max(1e-9)).collect())
    };
    let records_per_s = per_s(|(_, with)| with.wall.as_secs_f64());
    let (held_up_s, closing_s) = (over(|(_, r)| r.held_up_s()), over(|(_, r)| r.dump.closing.as_secs_f64()));
    let without_s = over(|(without, _)| without.as_secs_f64());
    SmallTensors {
        platform: platform.into(),
        tasks,
        tensor_bytes: SMALL_TENSOR_BYTES,
        records_per_s,
        records_per_s_closed: per_s(|(_, with)| (with.wall + with.dump.closing).as_secs_f64()),
        records_per_s_captured: per_s(|(_, with)| with.held_up_s()),
        tensors_per_s_without: per_s(|(without, _)| without.as_secs_f64()),
        target_records_per_s: TARGET_RECORDS_PER_S,
        met: records_per_s.median >= TARGET_RECORDS_PER_S,
        held_up_s,
        closing_s,
        bound: bound(without_s.median, held_up_s.median),
    }
}

/// Names the largest part of the run time. The parts are measured separately and do not add up to it.
fn bound(without_s: f64, held_up_s: f64) -> String {
    let (seconds, what) = if without_s > held_up_s {
        (without_s, "running the tasks, which without a dump")
    } else {
        (held_up_s, "capture on the device, which")
    };
    format!("{what} takes {}", number::time(Duration::from_secs_f64(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_largest_part_with_its_time() {
        assert_eq!(bound(2.0, 1.0), "running the tasks, which without a dump takes 2.00 s");
        assert!(bound(0.1, 0.3).starts_with("capture on the device"));
    }
}
