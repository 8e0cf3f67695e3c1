//! Empty tasks per second that each runtime and platform can submit, schedule and finish. The baseline is a loop that calls
//! the same kernels in this process.

use std::time::Instant;

use serde::Serialize;
use tensortap::abi::MAX_ARRAY_TASKS;
use tensortap::scene::{Registry, SequentialGraph};
use tensortap::{Error, PLATFORMS, RUNTIMES, RunConfig, RunReport};

use crate::watch::check;
use crate::{BenchError, Machine, Spread, Watch};

/// The hidden scene of this benchmark.
const SCENE: &str = "bench_dispatch";
/// The shapes of its graph.
const SHAPES: [&str; 3] = ["independent", "chain", "fanout"];
/// Number of schedulers in addition to one, with `all`.
const SCHEDULERS: u32 = 2;

const NOTES: [&str; 2] = [
    "ratio: tasks/s divided by those of a plain loop that calls the same kernels in this process",
    "host_build_graph: the host builds the graph before the clock starts; other runtimes build it while the clock runs",
];

/// The configuration of the benchmark.
#[derive(Clone)]
pub struct DispatchConfig {
    /// Measure only this platform.
    pub platform: Option<String>,
    /// Measure only this runtime.
    pub runtime: Option<String>,
    /// Also measure with every block, and with every block and several schedulers.
    pub all: bool,
    /// Also measure with every block and this many schedulers.
    pub schedulers: Option<u32>,
    /// Tasks of each run.
    pub tasks: u64,
    /// Runs of each case; the result is the median.
    pub repeat: u32,
    /// Must contain the scenes of [`registry`](crate::registry). The device must know the same scenes.
    pub registry: Registry,
}

impl Default for DispatchConfig {
    fn default() -> DispatchConfig {
        DispatchConfig {
            platform: None,
            runtime: None,
            all: false,
            schedulers: None,
            tasks: 100_000,
            repeat: 3,
            registry: crate::registry(),
        }
    }
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct DispatchReport {
    /// The machine.
    pub machine: Machine,
    /// Tasks of each run.
    pub tasks: u64,
    /// Runs of each case.
    pub repeat: u32,
    /// The baselines.
    pub call_loop: Vec<CallLoop>,
    /// The cases, by runtime.
    pub cases: Vec<DispatchCase>,
    /// Notes about the method.
    pub notes: [&'static str; 2],
}

/// A part of the report, sent as soon as it is measured.
#[derive(Clone, Debug)]
pub enum DispatchPart {
    /// First: the machine.
    Machine(Machine),
    /// Next, several.
    CallLoop(CallLoop),
    /// Then these, by runtime.
    Case(DispatchCase),
}

/// Tasks per second over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// The median.
    #[serde(rename = "tasks_per_s")]
    pub median: f64,
    /// The slowest run.
    #[serde(rename = "tasks_per_s_min")]
    pub min: f64,
    /// The fastest run.
    #[serde(rename = "tasks_per_s_max")]
    pub max: f64,
}

impl Rates {
    fn of(runs: Vec<f64>) -> Rates {
        let Spread { median, min, max } = Spread::of(runs);
        Rates { median, min, max }
    }
}

/// The baseline: a loop that calls the kernels of a graph.
#[derive(Clone, Debug, Serialize)]
pub struct CallLoop {
    /// Shape of the graph.
    pub shape: &'static str,
    /// Tasks per second.
    #[serde(flatten)]
    pub rates: Rates,
}

/// The result of one case.
#[derive(Clone, Debug, Serialize)]
pub struct DispatchCase {
    /// Shape of the graph.
    pub shape: &'static str,
    /// Platform.
    pub platform: &'static str,
    /// Runtime.
    pub runtime: &'static str,
    /// Blocks, after defaults.
    pub blocks: u32,
    /// Scheduler threads.
    pub schedulers: u32,
    /// Tasks per second.
    #[serde(flatten)]
    pub rates: Rates,
    /// Tasks per second divided by those of the call loop.
    pub ratio: f64,
}

/// Measures every case, the call loops first.
///
/// ```
/// use tensortap_bench::{DispatchConfig, dispatch};
///
/// let config = DispatchConfig {
///     runtime: Some("aicpu_build_graph".into()),
///     platform: Some("a5sim".into()),
///     tasks: 100,
///     repeat: 1,
///     ..DispatchConfig::default()
/// };
/// let refused = DispatchConfig { tasks: 10_000_000, ..config };
/// assert!(dispatch(&refused, &()).is_err(), "too many for a task array");
/// ```
pub fn dispatch(
    config: &DispatchConfig,
    watch: &dyn Watch<DispatchPart>,
) -> Result<DispatchReport, BenchError> {
    config.check()?;
    let machine = Machine::read();
    let plan = config.plan(machine.cpus);
    for case in &plan {
        tensortap::resolve(&config.run_config(case))?;
    }
    watch.expect((SHAPES.len() + plan.len()) as u64);
    watch.part(DispatchPart::Machine(machine.clone()));
    let mut call_loop = Vec::new();
    for shape in SHAPES {
        watch.begin(format!("{shape}: call loop"));
        let measured = config.call_loop(shape, watch)?;
        watch.part(DispatchPart::CallLoop(measured.clone()));
        watch.advance();
        call_loop.push(measured);
    }
    let mut cases = Vec::new();
    for case in &plan {
        watch.begin(format!("{}: {} {}", case.shape, case.platform, case.runtime));
        let baseline = call_loop.iter().find(|call_loop| call_loop.shape == case.shape);
        let measured = config.case(case, baseline.expect("one of every shape was measured"), watch)?;
        watch.part(DispatchPart::Case(measured.clone()));
        watch.advance();
        cases.push(measured);
    }
    let &DispatchConfig { tasks, repeat, .. } = config;
    Ok(DispatchReport { machine, tasks, repeat, call_loop, cases, notes: NOTES })
}

/// One case to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PlannedCase {
    shape: &'static str,
    platform: String,
    runtime: String,
    /// `None` for the default.
    blocks: Option<u32>,
    schedulers: u32,
}

impl DispatchConfig {
    fn check(&self) -> Result<(), BenchError> {
        let arrays = self.runtime.as_deref().is_none_or(|runtime| runtime != "tensormap_and_ringbuffer");
        let (tasks, limit) = (self.tasks, MAX_ARRAY_TASKS as u64);
        if arrays && tasks > limit { Err(BenchError::TooManyTasks { tasks, limit }) } else { Ok(()) }
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    fn tasks_f64(&self) -> f64 {
        self.tasks as f64
    }

    /// Every chosen combination, by runtime.
    fn plan(&self, cpus: usize) -> Vec<PlannedCase> {
        let chosen = |only: &Option<String>, every: Vec<&str>| -> Vec<String> {
            only.clone().map_or_else(|| every.into_iter().map(Into::into).collect(), |name| vec![name])
        };
        let platforms = chosen(&self.platform, PLATFORMS.iter().map(|platform| platform.name()).collect());
        let runtimes = chosen(&self.runtime, RUNTIMES.iter().map(|runtime| runtime.name()).collect());
        let mut plan = Vec::new();
        for runtime in &runtimes {
            for shape in SHAPES {
                for platform in &platforms {
                    for (blocks, schedulers) in sizes(self.all, self.schedulers, cpus) {
                        let (platform, runtime) = (platform.clone(), runtime.clone());
                        plan.push(PlannedCase { shape, platform, runtime, blocks, schedulers });
                    }
                }
            }
        }
        plan
    }

    fn run_config(&self, case: &PlannedCase) -> RunConfig {
        let mut config = RunConfig::new(SCENE).param("shape", case.shape).param("tasks", self.tasks);
        config.registry = self.registry.clone();
        config.platform.clone_from(&case.platform);
        config.runtime = Some(case.runtime.clone());
        config.blocks = case.blocks;
        config.schedulers = case.schedulers;
        config
    }

    /// Records the graph of a shape once and runs it as often as the cases.
    fn call_loop(
        &self,
        shape: &'static str,
        watch: &dyn Watch<DispatchPart>,
    ) -> Result<CallLoop, BenchError> {
        let mut config = RunConfig::new(SCENE).param("shape", shape).param("tasks", self.tasks);
        config.registry = self.registry.clone();
        let request = tensortap::resolve(&config)?;
        let inputs = request.scene.host_args(&request.params);
        let mut graph = SequentialGraph::record(request.scene, &request.params, &inputs)?;
        let mut runs = Vec::new();
        for _ in 0..self.repeat {
            let started = Instant::now();
            graph.run().map_err(|panic| BenchError::CallLoop(panic.to_string()))?;
            let elapsed = started.elapsed().as_secs_f64().max(1e-9);
            check(watch)?;
            runs.push(self.tasks_f64() / elapsed);
        }
        Ok(CallLoop { shape, rates: Rates::of(runs) })
    }

    /// Runs a case `repeat` times.
    fn case(
        &self,
        case: &PlannedCase,
        call_loop: &CallLoop,
        watch: &dyn Watch<DispatchPart>,
    ) -> Result<DispatchCase, BenchError> {
        let config = self.run_config(case);
        let mut reports = Vec::new();
        for _ in 0..self.repeat {
            // A short run may end before it checks the watcher.
            check(watch)?;
            let report = tensortap::run_observed(&config, &mut |_| watch.goes_on());
            let report = report.or_else(Error::into_report)?;
            reports.push(complete(report, self.tasks)?);
        }
        let RunReport { platform, runtime, blocks, schedulers, .. } = reports[0];
        let rates = Rates::of(reports.iter().map(RunReport::tasks_per_s).collect());
        let ratio = rates.median / call_loop.rates.median;
        Ok(DispatchCase { shape: case.shape, platform, runtime, blocks, schedulers, rates, ratio })
    }
}

/// Blocks and schedulers. A scheduler without a block would be idle, and a default of one block would repeat a case.
fn sizes(all: bool, schedulers: Option<u32>, cpus: usize) -> Vec<(Option<u32>, u32)> {
    let mut sizes = vec![(Some(1), 1)];
    if all && cpus > 1 {
        sizes.push((None, 1));
    }
    let schedulers = schedulers.unwrap_or(if all { SCHEDULERS } else { 1 });
    if schedulers > 1 {
        sizes.push((None, schedulers));
    }
    sizes
}

/// Checks that every task completed, because otherwise the rate is meaningless.
fn complete(report: RunReport, tasks: u64) -> Result<RunReport, BenchError> {
    match report.failure {
        Some(failure) => Err(Box::new(failure).into()),
        None if report.tasks != tasks => {
            Err(BenchError::Wrong(format!("{} of {tasks} tasks are complete", report.tasks)))
        }
        None => Ok(report),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_no_case_twice() {
        assert_eq!(sizes(false, None, 8), [(Some(1), 1)]);
        assert_eq!(sizes(false, Some(4), 8), [(Some(1), 1), (None, 4)]);
        assert_eq!(sizes(true, Some(1), 1), [(Some(1), 1)]);
        assert_eq!(sizes(true, Some(1), 8), [(Some(1), 1), (None, 1)]);
        assert_eq!(sizes(true, None, 8), [(Some(1), 1), (None, 1), (None, 2)]);
        assert_eq!(sizes(true, Some(4), 1), [(Some(1), 1), (None, 4)]);
    }

    #[test]
    fn rejects_more_tasks_than_a_task_array_holds() {
        let many = DispatchConfig { tasks: MAX_ARRAY_TASKS as u64 + 1, ..DispatchConfig::default() };
        assert!(matches!(many.check(), Err(BenchError::TooManyTasks { .. })));
        let rings = DispatchConfig { runtime: Some("tensormap_and_ringbuffer".into()), ..many };
        assert!(rings.check().is_ok());
    }
}
