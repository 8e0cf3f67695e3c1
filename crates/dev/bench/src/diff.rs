//! The speed of comparing a tensor with its golden, compared with numpy and with reading the memory.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use serde::Serialize;
use tensortap::DType;
use tensortap::judge::{Comparison, Level, Rule, TensorType};

use crate::machine::load_average;
use crate::numpy::{Numpy, Session};
use crate::watch::check;
use crate::{BenchError, Machine, Spread, Watch};

/// Target speedup of the quick set over numpy, with all threads.
const TARGET_RATIO: f64 = 10.0;
/// Bytes read alternately from the two buffers, so that both streams are active as in a comparison.
const TURN_BYTES: usize = 4096;

const NOTES: [&str; 5] = [
    "quick: elements outside atol + rtol * |golden|, and the largest error; full: every metric",
    "numpy: numpy.allclose(dump, golden) and numpy.max(numpy.abs(dump - golden)) on the same data, one thread",
    "speedup: numpy's time divided by tensortap's, in the same round; per core: speedup divided by threads",
    "of limit: bytes per second as a share of only reading both tensors with as many threads",
    "every measurement starts with a round that is not counted",
];

/// The configuration of the benchmark.
#[derive(Clone, Debug)]
pub struct DiffBenchConfig {
    /// Bytes of the float32 tensor and of its golden, each.
    pub bytes: u64,
    /// Rounds; the result is the median.
    pub repeat: u32,
    /// Threads of the multi-threaded cases; `None` for one per CPU.
    pub threads: Option<usize>,
    /// Python interpreter with numpy to compare with.
    pub python: String,
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct DiffBenchReport {
    /// The machine.
    pub machine: Machine,
    /// The vector instructions in use.
    pub instructions: &'static str,
    /// Bytes of each tensor.
    pub bytes_per_side: u64,
    /// Rounds.
    pub repeat: u32,
    /// Load average before the benchmark.
    pub load_average_before: Option<f64>,
    /// Load average after the benchmark.
    pub load_average_after: Option<f64>,
    /// `None` if the interpreter has no numpy.
    pub numpy: Option<Numpy>,
    /// Multi-threaded cases first.
    pub cases: Vec<DiffCase>,
    /// Notes about the method.
    pub notes: [&'static str; 5],
}

/// A message before the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffBenchPart {
    /// The interpreter has no numpy, so there is no comparison with it.
    NoNumpy,
}

/// One set of metrics with one number of threads.
#[derive(Clone, Debug, Serialize)]
pub struct DiffCase {
    /// `quick` or `full`.
    pub set: &'static str,
    /// Number of threads.
    pub threads: usize,
    /// Time of a round.
    pub seconds: Spread,
    /// Both tensors together.
    pub bytes_per_s: Spread,
    /// Only reading both tensors.
    pub read_bytes_per_s: Spread,
    /// Speed divided by that of reading.
    pub share_of_reading: f64,
    /// numpy's time divided by tensortap's.
    pub numpy_ratio: Option<Spread>,
    /// The same divided by the number of threads.
    pub numpy_ratio_per_core: Option<f64>,
    /// The target of the ratio.
    pub target_ratio: Option<f64>,
    /// Whether the median reaches it.
    pub met: Option<bool>,
}

/// Measures every case.
///
/// ```
/// use tensortap_bench::{DiffBenchConfig, diff};
///
/// let config = DiffBenchConfig { bytes: 4096, repeat: 1, threads: Some(1), python: "no-such-python".into() };
/// let report = diff(&config, &())?;
/// assert!(report.numpy.is_none() && report.cases.len() == 2);
/// # Ok::<(), tensortap_bench::BenchError>(())
/// ```
pub fn diff(
    config: &DiffBenchConfig,
    watch: &dyn Watch<DiffBenchPart>,
) -> Result<DiffBenchReport, BenchError> {
    let (machine, load_average_before) = (Machine::read(), load_average());
    let numel = usize::try_from(config.bytes / 4)
        .map_err(|_| BenchError::Wrong("the tensor is too large for the address space".into()))?;
    let data = Data::new(numel);
    let threads = config.threads.unwrap_or(machine.cpus);
    watch.expect(u64::from(config.repeat) + 1);
    let bench = Bench { threads, comparison: data.comparison()?, data, watch };
    let session = Session::start(&config.python, &bench.data)?;
    if session.is_none() {
        watch.part(DiffBenchPart::NoNumpy);
    }
    let (cases, numpy) = bench.measure(config.repeat, session)?;
    Ok(DiffBenchReport {
        machine,
        instructions: Level::detect().name(),
        bytes_per_side: bench.data.bytes_per_side(),
        repeat: config.repeat,
        load_average_before,
        load_average_after: load_average(),
        numpy,
        cases,
        notes: NOTES,
    })
}

struct Bench<'a> {
    threads: usize,
    comparison: Comparison,
    data: Data,
    watch: &'a dyn Watch<DiffBenchPart>,
}

/// Seconds of every measurement in one round.
struct Round {
    /// In the order of [`Bench::plan`].
    cases: Vec<f64>,
    /// Reading, in the same order.
    reading: Vec<f64>,
    numpy: Option<f64>,
}

impl Bench<'_> {
    /// Sets and numbers of threads, multi-threaded first.
    fn plan(&self) -> Vec<(&'static str, usize)> {
        let mut plan = vec![("quick", self.threads), ("full", self.threads)];
        if self.threads > 1 {
            plan.extend([("quick", 1), ("full", 1)]);
        }
        plan
    }

    fn measure(
        &self,
        repeat: u32,
        mut session: Option<Session>,
    ) -> Result<(Vec<DiffCase>, Option<Numpy>), BenchError> {
        let mut rounds = Vec::new();
        for number in 0..=repeat {
            check(self.watch)?;
            self.watch.begin(if number == 0 { "warm-up".into() } else { format!("round {number}") });
            let round = self.round(session.as_mut())?;
            self.watch.advance();
            if number > 0 {
                rounds.push(round);
            }
        }
        let cases = self
            .plan()
            .into_iter()
            .enumerate()
            .map(|(at, (set, threads))| self.case(at, set, threads, &rounds));
        let seconds = rounds.iter().filter_map(|round| round.numpy).collect::<Vec<_>>();
        let numpy = session.map(|session| session.finish(seconds, self.data.bytes()));
        Ok((cases.collect(), numpy))
    }

    /// Every measurement once, directly in sequence, so that drift affects all of them equally.
    fn round(&self, session: Option<&mut Session>) -> Result<Round, BenchError> {
        let mut round = Round { cases: Vec::new(), reading: Vec::new(), numpy: None };
        for (set, threads) in self.plan() {
            round.cases.push(self.time_set(set, threads)?);
            round.reading.push(time_reading(&self.data.dump, &self.data.golden, threads));
        }
        if let Some(session) = session {
            let theirs = session.round()?;
            let ours = self.comparison.quick(&self.data.dump, &self.data.golden, self.threads)?;
            if !theirs.agrees_with(&ours) {
                return Err(BenchError::Wrong(format!(
                    "numpy and the quick set disagree: {theirs:?} and {ours:?}"
                )));
            }
            round.numpy = Some(theirs.seconds);
        }
        Ok(round)
    }

    fn time_set(&self, set: &str, threads: usize) -> Result<f64, BenchError> {
        let Data { dump, golden } = &self.data;
        let start = Instant::now();
        if set == "quick" {
            black_box(self.comparison.quick(dump, golden, threads)?);
        } else {
            black_box(self.comparison.full(dump, golden, threads)?);
        }
        Ok(start.elapsed().as_secs_f64())
    }

    fn case(&self, at: usize, set: &'static str, threads: usize, rounds: &[Round]) -> DiffCase {
        let bytes = self.data.bytes();
        let of = |value: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(value).collect());
        let ratios: Option<Vec<f64>> =
            rounds.iter().map(|round| Some(round.numpy? / round.cases[at])).collect();
        let numpy_ratio = ratios.map(Spread::of);
        let target_ratio = (at == 0).then_some(TARGET_RATIO);
        #[expect(clippy::cast_precision_loss, reason = "at most 1024")]
        let per_core = |ratio: Spread| ratio.median / threads as f64;
        DiffCase {
            set,
            threads,
            seconds: of(&|round| round.cases[at]),
            bytes_per_s: of(&|round| bytes / round.cases[at]),
            read_bytes_per_s: of(&|round| bytes / round.reading[at]),
            share_of_reading: of(&|round| round.reading[at] / round.cases[at]).median,
            numpy_ratio,
            numpy_ratio_per_core: numpy_ratio.map(per_core),
            target_ratio,
            met: numpy_ratio.zip(target_ratio).map(|(ratio, target)| ratio.median >= target),
        }
    }
}

/// A tensor and its golden, little endian `float32`.
pub(crate) struct Data {
    pub dump: Vec<u8>,
    pub golden: Vec<u8>,
}

impl Data {
    /// Values from -1000 to 1000 with errors within the default tolerance everywhere. No part can be skipped and every
    /// element passes, which is the slowest case for both sides.
    pub(crate) fn new(numel: usize) -> Data {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let (mut dump, mut golden) = (Vec::with_capacity(numel * 4), Vec::with_capacity(numel * 4));
        for _ in 0..numel {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            #[expect(clippy::cast_precision_loss, reason = "23 bits are exact")]
            let unit = (state >> 41) as f32 / (1_u32 << 23) as f32;
            let value = unit * 2000.0 - 1000.0;
            golden.extend(value.to_le_bytes());
            // At most 3 ulps away, which is less than half of the tolerance.
            let moved = f32::from_bits(value.to_bits() + u32::from((state & 3) as u8));
            dump.extend(moved.to_le_bytes());
        }
        Data { dump, golden }
    }

    pub(crate) fn bytes_per_side(&self) -> u64 {
        self.dump.len() as u64
    }

    /// Bytes of both sides.
    #[expect(clippy::cast_precision_loss, reason = "a dividend")]
    pub(crate) fn bytes(&self) -> f64 {
        2.0 * self.dump.len() as f64
    }

    fn comparison(&self) -> Result<Comparison, BenchError> {
        let tensor = TensorType::new(DType::Float32, &[self.bytes_per_side() / 4]);
        Ok(Comparison::new(&tensor, &tensor, Rule::for_dtype(DType::Float32))?)
    }
}

/// Seconds to read two buffers of one length, each cut into a part per thread.
fn time_reading(one: &[u8], other: &[u8], threads: usize) -> f64 {
    let start = Instant::now();
    thread::scope(|scope| {
        for number in 1..threads {
            scope.spawn(move || read_part(one, other, number, threads));
        }
        read_part(one, other, 0, threads);
    });
    start.elapsed().as_secs_f64()
}

fn read_part(one: &[u8], other: &[u8], number: usize, threads: usize) {
    let length = one.len().div_ceil(threads).max(1);
    let (Some(one), Some(other)) = (one.chunks(length).nth(number), other.chunks(length).nth(number)) else {
        return;
    };
    for (one, other) in one.chunks(TURN_BYTES).zip(other.chunks(TURN_BYTES)) {
        black_box(fold(one) ^ fold(other));
    }
}

/// Combines every word, several at a time.
fn fold(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut lanes = [0_u64; 16];
    let (groups, single) = words.as_chunks::<16>();
    for group in groups {
        for (lane, word) in lanes.iter_mut().zip(group) {
            *lane ^= u64::from_le_bytes(*word);
        }
    }
    let tail = single.iter().flatten().chain(rest).fold(0, |all, byte| all ^ u64::from(*byte));
    lanes.into_iter().fold(tail, |all, lane| all ^ lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_passes_although_every_block_differs() {
        let data = Data::new(100_000);
        let comparison = data.comparison().unwrap();
        let metrics = comparison.full(&data.dump, &data.golden, 1).unwrap();
        assert!(metrics.passes() && metrics.max_abs > 0.0, "{metrics:?}");
        assert!(data.dump.chunks(4096).zip(data.golden.chunks(4096)).all(|(dump, golden)| dump != golden));
    }
}
