//! `tensortap extract`: one task as a case of its own.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tensortap::{ExtractConfig, ExtractReport, TaskId};

use crate::dump_arg::{newest, quoted};
use crate::exit::Exit;
use crate::ids::parse_task;
use crate::number::{bytes, counted};
use crate::output::Output;
use crate::parse::whole;

/// What `tensortap extract` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap extract --task 3 --out cases/mul\n  \
    tensortap extract my_dump --task 0x100000002 --out mul.safetensors\n  \
    tensortap extract --task 3 --out shared --redact\n  \
    tensortap replay cases\n\n\
    Exit status: 0 written, 2 bad usage, no such task, or something of it is missing")]
pub struct ExtractArgs {
    /// Dump, or case to write again [default: the newest dump under outputs/]
    #[arg(value_name = "DUMP")]
    source: Option<PathBuf>,

    /// Task, in hex, decimal or as ring and position: 0x100000002, 1:2
    #[arg(long, value_name = "ID", value_parser = parse_task)]
    task: Option<u64>,

    /// New folder, or new file that ends in .safetensors
    #[arg(long, value_name = "DIR or FILE.safetensors")]
    out: PathBuf,

    /// Replace tensor contents by seeded noise of the same range; shapes, dtypes, scalars, statistics and hashes stay
    #[arg(long)]
    redact: bool,

    /// Seed of the noise
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(0_u64..), requires = "redact")]
    seed: u64,

    /// Extract a task of which something is missing, too
    #[arg(long)]
    allow_inexact: bool,
}

/// Writes the case and tells where.
pub fn run(args: &ExtractArgs, output: Output) -> anyhow::Result<Exit> {
    let report = tensortap::extract(&ExtractConfig {
        source: args.source.clone().map_or_else(newest, Ok)?,
        task: args.task,
        out: args.out.clone(),
        redact: args.redact.then_some(args.seed),
        allow_inexact: args.allow_inexact,
        registry: tensortap::builtin(),
    })?;
    if output.json {
        output.document(&json!({
            "out": report.out.display().to_string(),
            "task_id": TaskId(report.task_id).to_string(),
            "kernels": report.kernels,
            "arguments": report.arguments,
            "payloads": report.payloads,
            "bytes": report.bytes,
            "redacted": report.redacted,
        }))?;
    } else {
        output.text(&text(&report))?;
    }
    Ok(Exit::Good)
}

fn text(report: &ExtractReport) -> String {
    let ExtractReport { out, task_id, kernels, arguments, payloads, bytes: size, redacted } = report;
    let allow = if *redacted { " --allow-inexact" } else { "" };
    let note = if *redacted { "  contents are noise: its outputs cannot be checked\n" } else { "" };
    format!(
        "task {}, {}: {}, {}, {}\n{note}  try        tensortap replay {}{allow}\n",
        TaskId(*task_id),
        kernels.join("+"),
        counted(*arguments as u64, "argument"),
        counted(*payloads as u64, "payload"),
        bytes(*size),
        quoted(out),
    )
}
