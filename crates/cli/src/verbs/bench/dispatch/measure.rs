use std::time::Instant;

use anyhow::{Context, anyhow};
use serde::Serialize;
use tensortap::RunReport;
use tensortap::scene::SequentialGraph;

use super::DispatchArgs;
use super::cases::Case;
use super::rates::Rates;
use crate::error::Interrupted;
use crate::interrupt::Interrupt;

/// The yardstick: a loop that calls the kernels of a graph.
#[derive(Serialize)]
pub struct CallLoop {
    /// Shape of the graph.
    pub shape: &'static str,
    /// How fast.
    #[serde(flatten)]
    pub rates: Rates,
}

/// What one case came to.
#[derive(Serialize)]
pub struct Measured {
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
    /// How fast.
    #[serde(flatten)]
    pub rates: Rates,
    /// Relative to the call loop over the same graph.
    pub ratio: f64,
}

/// Records the graph of a shape once and runs it as often as any case.
pub fn call_loop(
    shape: &'static str,
    args: &DispatchArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<CallLoop> {
    let case = Case {
        shape,
        platform: tensortap::DEFAULT_PLATFORM.into(),
        runtime: tensortap::RUNTIMES[0].name().into(),
        blocks: None,
        schedulers: 1,
    };
    let request = tensortap::resolve(&case.config(args.tasks))?;
    let inputs = request.scene.host_args(&request.params);
    let mut graph =
        SequentialGraph::record(request.scene, &request.params, &inputs).context("recording the graph")?;
    let runs = (0..args.repeat).map(|_| {
        let started = Instant::now();
        graph.run().map_err(|panic| anyhow!("the call loop failed: {panic}"))?;
        let elapsed = started.elapsed().as_secs_f64().max(1e-9);
        if interrupt.requested() { Err(Interrupted.into()) } else { Ok(args.tasks_f64() / elapsed) }
    });
    Ok(CallLoop { shape, rates: Rates::of(runs.collect::<anyhow::Result<_>>()?) })
}

/// Runs a case as often as asked for.
pub fn case(
    case: &Case,
    args: &DispatchArgs,
    call_loop: &CallLoop,
    interrupt: &Interrupt,
) -> anyhow::Result<Measured> {
    let config = case.config(args.tasks);
    let mut reports = Vec::new();
    for _ in 0..args.repeat {
        // A short run may be over before it looks up.
        if interrupt.requested() {
            return Err(Interrupted.into());
        }
        let report = tensortap::run_observed(&config, &mut |_| !interrupt.requested())?;
        reports.push(complete(report, args.tasks)?);
    }
    let RunReport { platform, runtime, blocks, schedulers, .. } = reports[0];
    let rates = Rates::of(reports.iter().map(RunReport::tasks_per_s).collect());
    let ratio = rates.median / call_loop.rates.median;
    Ok(Measured { shape: case.shape, platform, runtime, blocks, schedulers, rates, ratio })
}

/// A rate means something only when every task was done.
fn complete(report: RunReport, tasks: u64) -> anyhow::Result<RunReport> {
    match report.failure {
        Some(failure) => Err(failure.into()),
        None if report.tasks != tasks => Err(anyhow!("{} of {tasks} tasks are complete", report.tasks)),
        None => Ok(report),
    }
}
