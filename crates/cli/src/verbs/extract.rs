//! `tensortap extract`: one task as a case of its own.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::scene::Registry;
use tensortap::{Expect, ExtractConfig, ExtractReport, TaskChoice, TaskId};

use tensortap_query::document::{ExtractDocument, expect_name};

use crate::dump_arg::{RankArg, StepArg, one_of, quoted};
use crate::error::Exit;
use crate::kernel_args::KernelArgs;
use crate::output::Output;
use crate::parse::whole;
use crate::program::program;
use tensortap_query::ids::parse_task_choice;
use tensortap_query::number::{bytes, counted};
use tensortap_query::words::kernels_text;

/// What `tensortap extract` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap extract --task 3 --out cases/mul\n  \
    tensortap extract my_dump --task 0x100000002 --out mul.safetensors\n  \
    tensortap extract --task 3 --out cases/right --expect reference   what it should have written\n  \
    tensortap extract --task 3 --out shared --redact\n  \
    tensortap extract d --task 1:2 --abi simpler --kernel QK=qk.so --out cases/qk\n  \
    tensortap replay cases\n\n\
    Exit status: 0 written; 2 bad usage, no such task, or something of it is missing; 3 it could not be written")]
pub struct ExtractArgs {
    /// Dump, or case to write again [default: the newest dump under outputs/]
    #[arg(value_name = "DUMP")]
    source: Option<PathBuf>,

    #[command(flatten)]
    rank: RankArg,

    #[command(flatten)]
    step: StepArg,

    /// Task, in hex, decimal or as ring and position, or by its kernel if no other task runs it: 0x100000002, 1:2, mul
    #[arg(long, value_name = "TASK", value_parser = parse_task_choice)]
    task: Option<TaskChoice>,

    /// New folder, or new file that ends in .safetensors
    #[arg(long, value_name = "DIR or FILE.safetensors")]
    out: PathBuf,

    /// What outputs should be: those captured, bit by bit, or those of the kernels' f64 references, by rule
    #[arg(long, value_name = "WHAT", default_value = "captured", value_parser = expectations())]
    expect: Expect,

    /// Replace tensor contents by seeded noise of the same range; shapes, dtypes, scalars, statistics and hashes stay
    #[arg(long)]
    redact: bool,

    /// Seed of the noise
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(0_u64..), requires = "redact")]
    seed: u64,

    /// Extract a task of which something is missing, too
    #[arg(long)]
    allow_inexact: bool,

    /// Folder of the scene, instead of the one that the dump names
    #[arg(long, value_name = "DIR")]
    scene: Option<PathBuf>,

    #[command(flatten)]
    kernels: KernelArgs,
}

fn expectations() -> impl TypedValueParser<Value = Expect> {
    PossibleValuesParser::new([expect_name(Expect::Captured), expect_name(Expect::Reference)])
        .map(|word| if word == expect_name(Expect::Reference) { Expect::Reference } else { Expect::Captured })
}

/// Writes the case and tells where.
pub fn run(args: &ExtractArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let report = tensortap::extract(&ExtractConfig {
        source: one_of(args.source.clone(), &args.rank)?,
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
        give_kernels: None,
        registry: registry.clone(),
        program: program().into(),
    })?;
    if let Some(outside) = &report.outside {
        crate::output::warning(&format!(
            "the captured output is not what the kernel's reference gives: {outside}; a repaired kernel will fail this \
             case; `--expect reference` makes one that it passes"
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
        (true, _) => "  contents are noise: its outputs cannot be checked\n",
        (false, Expect::Captured) => "  expects    what was captured\n",
        (false, Expect::Reference) => "  expects    what the f64 references of its kernels give, by rule\n",
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
