//! `tensortap extract`: extracts one task into a case that `replay` can run.

use std::path::PathBuf;

use clap::Args;
use tensortap::scene::Registry;
use tensortap::{ExpectedSource, ExtractConfig, ExtractReport, TaskChoice, TaskId};

use tensortap_query::document::{ExtractDocument, expect_name};

use crate::dump_path::{RankArg, StepArg, quoted, source_path};
use crate::error::Exit;
use crate::kernel_args::KernelArgs;
use crate::output::Output;
use crate::parse::{choice, whole};
use crate::program::program;
use tensortap_query::ids::parse_task_choice;
use tensortap_query::number::{bytes, counted};
use tensortap_query::words::kernels_text;

/// Arguments of `tensortap extract`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap extract --task 3 --out cases/mul\n  \
    tensortap extract my_dump --task 0x100000002 --out mul.safetensors\n  \
    tensortap extract --task 3 --out cases/right --expect reference   expect the correct output\n  \
    tensortap extract --task 3 --out shared --redact   replace contents with noise\n  \
    tensortap extract d --task 1:2 --abi simpler --kernel QK=qk.so --out cases/qk\n  \
    tensortap replay cases\n\n\
    Exit status: 0 written; 2 bad usage, no such task, or part of the task is missing; 3 the case cannot be written")]
pub struct ExtractArgs {
    /// Dump, or case to rewrite [default: the newest dump under outputs/]
    #[arg(value_name = "DUMP")]
    source: Option<PathBuf>,

    #[command(flatten)]
    rank: RankArg,

    #[command(flatten)]
    step: StepArg,

    /// Task: id (0x100000002, 3), ring and position (1:2), or its kernel if no other task runs it (mul)
    #[arg(long, value_name = "TASK", value_parser = parse_task_choice)]
    task: Option<TaskChoice>,

    /// New folder, or new file with the suffix .safetensors
    #[arg(long, value_name = "DIR or FILE.safetensors")]
    out: PathBuf,

    /// Expected outputs: the captured ones, bit by bit, or those of the kernels' f64 references, within the rule
    #[arg(long, value_name = "WHAT", default_value = "captured", value_parser = choice([ExpectedSource::Captured, ExpectedSource::Reference].map(|expect| (expect_name(expect), expect))))]
    expect: ExpectedSource,

    /// Replace tensor contents with seeded noise of the same range; keep shapes, dtypes, scalars, statistics and hashes
    #[arg(long)]
    redact: bool,

    /// Seed of the noise
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(0_u64..), requires = "redact")]
    seed: u64,

    /// Also extract a task that was not captured completely
    #[arg(long)]
    allow_inexact: bool,

    /// Scene folder to use instead of the one recorded in the dump
    #[arg(long, value_name = "DIR")]
    scene: Option<PathBuf>,

    #[command(flatten)]
    kernels: KernelArgs,
}

/// Writes the case and prints a summary.
pub fn run(args: &ExtractArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let report = tensortap::extract(&ExtractConfig {
        source: source_path(args.source.clone(), &args.rank)?,
        task: args.task.clone(),
        steps: args.step.step.clone(),
        out: args.out.clone(),
        expect: args.expect,
        redact: args.redact.then_some(args.seed),
        allow_inexact: args.allow_inexact,
        scene_folder: args.scene.clone(),
        open_folder: None,
        kernels: args.kernels.code(),
        block_num: args.kernels.block_num,
        load_kernels: None,
        registry: registry.clone(),
        program: program().into(),
    })?;
    if let Some(outside) = &report.outside {
        crate::output::warning(&format!(
            "the captured output differs from the kernel's reference: {outside}; a fixed kernel would fail this case; \
             use `--expect reference` for a case that a fixed kernel passes"
        ));
    }
    if output.json {
        output.document(&ExtractDocument::of(&report))?;
    } else {
        output.text(&text(&report))?;
    }
    Ok(Exit::Good)
}

fn text(report: &ExtractReport) -> String {
    let ExtractReport { out, task_id, kernels, arguments, payloads, bytes: size, redacted, expect, .. } =
        report;
    let allow = if *redacted { " --allow-inexact" } else { "" };
    let note = match (*redacted, expect) {
        (true, _) => "  contents are noise: the outputs cannot be checked\n",
        (false, ExpectedSource::Captured) => "  expects    the captured output\n",
        (false, ExpectedSource::Reference) => {
            "  expects    the output of its kernels' f64 references, within the rule\n"
        }
    };
    format!(
        "task {}, {}: {}, {}, {}\n{note}  try        {} replay {}{allow}\n",
        TaskId(*task_id),
        kernels_text(kernels),
        counted(*arguments as u64, "argument"),
        counted(*payloads as u64, "payload"),
        bytes(*size),
        program(),
        quoted(out),
    )
}
