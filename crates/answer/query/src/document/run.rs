//! What `run --json` prints.

use serde::Serialize;
use tensortap::format::{DumpCounters, Loss};
use tensortap::judge::Metrics;
use tensortap::{
    DumpReport, Error, FailureKind, LiveReport, OutputVerdict, Overrun, Request, RunConfig, RunFailure,
    RunReport, SanitizerReport, TaskId,
};

use crate::number::{json_float, json_optional_float};

/// The document of a run.
#[derive(Serialize)]
pub struct RunDocument<'a> {
    scene: &'a str,
    platform: &'a str,
    runtime: &'a str,
    /// Null if the device was not opened.
    blocks: Option<u32>,
    schedulers: u32,
    status: &'a str,
    golden: &'a str,
    outputs: Vec<OutputDocument<'a>>,
    tasks: u64,
    dispatches: u64,
    wall_s: f64,
    tasks_per_s: f64,
    failure: Option<FailureDocument<'a>>,
    dump: Option<DumpDocument<'a>>,
}

#[derive(Serialize)]
struct OutputDocument<'a> {
    name: &'a str,
    #[serde(serialize_with = "json_optional_float")]
    max_abs_err: Option<f64>,
    /// The same over pairs of finite values.
    #[serde(serialize_with = "json_optional_float")]
    max_finite_err: Option<f64>,
    unmatched_nan: Option<u64>,
    verdict: &'static str,
    elements: u64,
    outside: u64,
    first_outside: Option<ElementDocument>,
}

#[derive(Serialize)]
struct ElementDocument {
    index: u64,
    #[serde(serialize_with = "json_float")]
    actual: f64,
    #[serde(serialize_with = "json_float")]
    expected: f64,
}

#[derive(Serialize)]
struct FailureDocument<'a> {
    kind: &'static str,
    message: String,
    task_id: Option<String>,
    kernel: Option<&'a str>,
    core: Option<u32>,
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overrun: Option<OverrunDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<&'a str>,
}

impl<'a> RunDocument<'a> {
    /// The document of a run that started.
    #[must_use]
    pub fn of(report: &'a RunReport) -> RunDocument<'a> {
        let RunReport { scene, platform, runtime, blocks, schedulers, tasks, dispatches, wall, .. } = *report;
        RunDocument {
            scene,
            platform,
            runtime,
            blocks: Some(blocks),
            schedulers,
            status: report.status(),
            golden: report.golden.name(),
            outputs: report.outputs.iter().map(OutputDocument::of).collect(),
            tasks,
            dispatches,
            wall_s: wall.as_secs_f64(),
            tasks_per_s: report.tasks_per_s(),
            failure: report.failure.as_ref().map(FailureDocument::of),
            dump: report.dump.as_ref().map(DumpDocument::of),
        }
    }

    /// The document of a run that failed before its launch.
    #[must_use]
    pub fn not_started(request: &Request, config: &RunConfig, error: &Error) -> RunDocument<'a> {
        RunDocument {
            scene: request.scene.name(),
            platform: request.platform.name(),
            runtime: request.runtime.name(),
            blocks: config.blocks,
            schedulers: config.schedulers,
            status: "crashed",
            golden: "none",
            outputs: Vec::new(),
            tasks: 0,
            dispatches: 0,
            wall_s: 0.0,
            tasks_per_s: 0.0,
            failure: Some(FailureDocument {
                kind: "not_started",
                message: error.to_string(),
                task_id: None,
                kernel: None,
                core: None,
                signal: None,
                overrun: None,
                report: None,
            }),
            dump: None,
        }
    }
}

impl<'a> OutputDocument<'a> {
    fn of(output: &'a OutputVerdict) -> OutputDocument<'a> {
        let metrics = output.metrics();
        OutputDocument {
            name: &output.name,
            max_abs_err: metrics.map(Metrics::max_abs_err),
            max_finite_err: metrics.and_then(Metrics::max_finite_err),
            unmatched_nan: metrics.map(|m| m.unmatched_nan),
            verdict: if output.passed() { "pass" } else { "fail" },
            elements: metrics.map_or(0, |m| m.elements),
            outside: metrics.map_or(0, |m| m.failing),
            first_outside: output.first_outside.as_ref().map(|worst| ElementDocument {
                index: worst.index,
                actual: worst.dump.to_f64(),
                expected: worst.golden.to_f64(),
            }),
        }
    }
}

impl<'a> FailureDocument<'a> {
    fn of(failure: &'a RunFailure) -> FailureDocument<'a> {
        FailureDocument {
            kind: kind_name(failure),
            message: failure.to_string(),
            task_id: failure.task.map(|task| task.to_string()),
            kernel: failure.kernel,
            core: failure.core,
            signal: failure.signal.or(failure.death.and_then(|death| death.signal)),
            overrun: failure.overrun.map(OverrunDocument::of),
            report: failure.report.as_ref().map(SanitizerReport::text),
        }
    }
}

/// The byte outside an argument that a kernel accessed.
#[derive(Serialize)]
struct OverrunDocument {
    arg_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    /// Bytes past the argument's end; negative: before its start.
    distance: i64,
}

impl OverrunDocument {
    fn of(Overrun { arg_index, name, distance }: Overrun) -> OverrunDocument {
        OverrunDocument { arg_index, name, distance }
    }
}

fn kind_name(failure: &RunFailure) -> &'static str {
    match failure.kind {
        _ if failure.interrupted => "interrupted",
        Some(FailureKind::Signal) => "signal",
        Some(FailureKind::Panic) => "panic",
        Some(FailureKind::Stall) => "stall",
        Some(FailureKind::Orchestration) => "orchestration",
        Some(FailureKind::RingDeadlock) => "ring_deadlock",
        Some(FailureKind::GraphDeadlock) => "graph_deadlock",
        Some(FailureKind::Launch) => "launch",
        Some(FailureKind::Exit) => "exit",
        Some(FailureKind::Overrun) => "overrun",
        None => "device_died",
    }
}

/// The document of a dump that a run wrote.
#[derive(Serialize)]
pub struct DumpDocument<'a> {
    dir: String,
    #[serde(flatten)]
    counters: &'a DumpCounters,
    folder_bytes: u64,
    held_up_s: f64,
    closing_s: f64,
    level: &'static str,
    dump_args: bool,
    live: Option<LiveDocument>,
    losses: &'a [Loss],
    problem: Option<&'a str>,
}

impl<'a> DumpDocument<'a> {
    /// The document with every field of the report.
    #[must_use]
    pub fn of(report: &'a DumpReport) -> DumpDocument<'a> {
        let DumpReport {
            dir,
            level,
            dump_args,
            counters,
            folder_bytes,
            held_up,
            closing,
            live,
            losses,
            problem,
        } = report;
        DumpDocument {
            dir: dir.display().to_string(),
            counters,
            folder_bytes: *folder_bytes,
            held_up_s: held_up.as_secs_f64(),
            closing_s: closing.as_secs_f64(),
            level: level.name(),
            dump_args: *dump_args,
            live: live.as_ref().map(LiveDocument::of),
            losses,
            problem: problem.as_deref(),
        }
    }
}

/// The `live` object of `run --json`.
#[derive(Serialize)]
pub struct LiveDocument {
    verdict: &'static str,
    golden: String,
    judged: u64,
    of: u64,
    differing: u64,
    first_wrong: Option<WrongDocument>,
    wrong_here: Vec<String>,
    wrong_here_count: u64,
    unmatched: u64,
    unjudged: u64,
    released_bytes: u64,
    stop_found: bool,
    stopped: bool,
}

#[derive(Serialize)]
struct WrongDocument {
    task_id: String,
    scope: Option<String>,
    task_name: Option<String>,
    kernels: Vec<String>,
}

impl LiveDocument {
    /// The document with every field of the report.
    #[must_use]
    pub fn of(report: &LiveReport) -> LiveDocument {
        LiveDocument {
            verdict: if report.agrees() { "pass" } else { "fail" },
            golden: report.golden.display().to_string(),
            judged: report.judged,
            of: report.of,
            differing: report.differing,
            first_wrong: report.wrong_here.first().map(|task| WrongDocument {
                task_id: TaskId(task.task_id).to_string(),
                scope: task.scope.clone(),
                task_name: task.task_name.clone(),
                kernels: task.kernels.clone(),
            }),
            wrong_here: report.wrong_here.iter().map(|task| TaskId(task.task_id).to_string()).collect(),
            wrong_here_count: report.wrong_here_count,
            unmatched: report.unmatched,
            unjudged: report.unjudged,
            released_bytes: report.released_bytes,
            stop_found: report.stop_found,
            stopped: report.stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use tensortap::DType;
    use tensortap::judge::{Outcome, Rule, Side, compare_bytes, detail};

    use super::*;

    #[test]
    fn writes_nan_and_infinity_as_strings() {
        let bytes = |values: [f32; 4]| values.map(f32::to_le_bytes).concat();
        let (actual, golden) = (bytes([0.0, 0.0, 0.0, f32::NEG_INFINITY]), bytes([0.0, 0.0, 0.0, 1.5]));
        let rule = Rule::for_dtype(DType::Float32);
        let sides: [Side<'_>; 2] = [&actual, &golden].map(|side| Side::of_bytes(DType::Float32, &[4], side));
        let Ok(detail) = detail(&sides[0], &sides[1], &rule, false);
        let output = OutputVerdict {
            name: "f".into(),
            outcome: compare_bytes(DType::Float32, &[4], &actual, &golden, &rule),
            first_outside: detail.unwrap().first_failing,
        };
        let json = serde_json::to_value(OutputDocument::of(&output)).unwrap();
        assert_eq!((&json["max_abs_err"], &json["max_finite_err"]), (&"Infinity".into(), &0.0.into()));
        assert_eq!(
            json["first_outside"],
            serde_json::json!({"index": 3, "actual": "-Infinity", "expected": 1.5})
        );
    }

    #[test]
    fn an_output_that_was_not_compared_fails_without_an_error_value() {
        let output = OutputVerdict { name: "f".into(), outcome: Outcome::unknown(""), first_outside: None };
        let json = serde_json::to_value(OutputDocument::of(&output)).unwrap();
        assert_eq!((&json["verdict"], &json["max_abs_err"]), (&"fail".into(), &serde_json::Value::Null));
    }
}
