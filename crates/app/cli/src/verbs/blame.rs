//! `tensortap blame`: finds the first wrong tasks and labels every task.

mod case;
mod headline;
mod joint;
mod rerun;
mod tasks;
mod text;
mod wiring;

use std::path::{Path, PathBuf};

use clap::Args;
use tensortap::analysis::labels::Label;
use tensortap::format::Dump;
use tensortap::scene::Registry;

use tensortap_query::Pair;
use tensortap_query::blame::{BlameReport, Listing};
use tensortap_query::document::BlameDocument;

use crate::compare_args::CompareArgs;
use crate::dump_path::{DumpPathArg, StepArg};
use crate::error::{Exit, UsageError};
use crate::kernel_args::KernelArgs;
use crate::output::Output;
use crate::parse::{JobsArg, choice, whole};
use crate::ranks::{self, DumpVerdict, VerdictDetail};
use case::Case;

/// Arguments of `tensortap blame`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap blame --reference                    compare each task with its reference\n  \
    tensortap blame wrong --golden right           compare with the dump of a correct run\n  \
    tensortap blame wrong --rerun                  run each task again and compare its outputs\n  \
    tensortap blame d --rerun --abi simpler --kernel QK=qk.so   with your kernels\n  \
    tensortap blame wrong --golden outputs.npz     compare with arrays in files\n  \
    tensortap blame wrong --golden right --golden right_2   ignore what differs between correct runs\n  \
    tensortap blame wrong_run --golden right_run   run folders: compare each rank with the same rank\n  \
    tensortap blame wrong --golden right --json --only wrong_here --limit 100\n\n\
    Labels: ok, wrong_here, inherited, raced, fed, masked, unknown.\n\
    Exit status: 0 the verdict is PASS; 1 the verdict is FAIL or UNDECIDED; 2 a dump cannot be read. FAIL means that \
    a record that counts is outside its rule, a task stopped, or nothing could be judged. It also means that the run \
    failed its own golden although every kernel agrees with its reference. UNDECIDED means that something differs, and that what \
    the dumps lack, such as a rank or the content before a task, could show whether it is wrong. Tasks that could not be judged cause a FAIL only with --strict")]
pub struct BlameArgs {
    #[command(flatten)]
    dump: DumpPathArg,

    /// Compare with the dump of a correct run on any platform and runtime, or with .npy, .npz or .safetensors arrays in a
    /// file or folder. Arrays have their names from `export`, the form TASK.ARGUMENT (softmax.scores), or names of outputs of
    /// the run. Repeatable with dumps: differences between correct runs are ignored
    #[arg(long, value_name = "DUMP", conflicts_with = "reference")]
    golden: Vec<PathBuf>,

    /// Names of collectives (tasks whose output depends on the inputs of all ranks): patterns with *, separated by |
    /// [default: all_reduce|allreduce|all_gather|reduce_scatter|broadcast|all_to_all|barrier|nccl*]
    #[arg(long, value_name = "NAMES", requires = "golden")]
    collective: Option<String>,

    /// Compute the expected outputs of each task from its captured inputs; needs no golden
    #[arg(long)]
    reference: bool,

    /// Run every task again, one at a time, on its captured inputs, with the kernels of its scene or of --kernel, and
    /// report the captured outputs that differ; needs no golden
    #[arg(long, conflicts_with_all = ["golden", "reference"])]
    rerun: bool,

    /// Also run tasks whose arguments are not exactly as captured
    #[arg(long)]
    allow_inexact: bool,

    /// Device on which --reference or --rerun runs launches of OpenCL and CUDA: part of its name, or its number in the
    /// loader's or driver's list [default: the device of the capture, with --reference a different one]
    #[arg(long, value_name = "NAME or N", conflicts_with = "golden")]
    device: Option<String>,

    /// Scene folder to use instead of the one recorded in the dump
    #[arg(long, value_name = "DIR")]
    scene: Option<PathBuf>,

    /// Also fail if a task could not be judged, or has no counterpart
    #[arg(long)]
    strict: bool,

    /// List every task, also those that are ok
    #[arg(long)]
    all: bool,

    /// List only tasks with this label; repeatable
    #[arg(long, value_name = "LABEL", value_parser = choice(Label::ALL.map(|label| (label.name(), label))))]
    only: Vec<Label>,

    /// List at most this many tasks, wrong ones first [default: 20; in JSON: all]
    #[arg(long, value_name = "N", value_parser = whole(0_usize..), conflicts_with = "all")]
    limit: Option<usize>,

    #[command(flatten)]
    kernels: KernelArgs,
    #[command(flatten)]
    step: StepArg,
    #[command(flatten)]
    compare: CompareArgs,
    #[command(flatten)]
    jobs: JobsArg,
}

/// The data of a report.
struct Report<'a> {
    found: BlameReport<'a>,
    all: bool,
    allow_unmatched: bool,
    /// Which tasks to list.
    listing: Listing<'a>,
}

/// Labels every task and prints the first wrong ones.
pub fn run(args: &BlameArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    if args.golden.is_empty() && !args.reference && !args.rerun {
        return Err(UsageError {
            message: "blame needs something to compare the dump with".into(),
            hint: "use --reference or --rerun, or --golden DUMP with the dump of a correct run".into(),
        }
        .into());
    }
    if (!args.kernels.kernel.is_empty() || args.allow_inexact) && !args.rerun {
        let option = if args.allow_inexact { "--allow-inexact" } else { "--kernel" };
        return Err(UsageError {
            message: format!("{option} has no effect without --rerun"),
            hint: "add --rerun, which runs the captured tasks again".into(),
        }
        .into());
    }
    let set = args.dump.open_set()?;
    if let Some(golden) = args.golden.first()
        && let Some(run) = joint::Run::of(args, &set, golden)?
    {
        return run.judge(registry, output);
    }
    let folder = set.path().to_owned();
    let pairs = ranks::pairs(set, args.golden.first().map(PathBuf::as_path), &args.dump.rank)?;
    if let [Pair::Paired { member, golden, .. }] = pairs.as_slice() {
        return judge(args, registry, &member.dump, golden.as_deref(), output, |report| report.print(output));
    }
    ranks::judge_each(&folder, pairs, args.compare.allow_unmatched, output, |member, golden| {
        judge(args, registry, &member.dump, golden, output, |report| report.verdict(output))
    })
}

/// Labels the tasks of one dump and passes the report to `tell`.
fn judge<T>(
    args: &BlameArgs,
    registry: &Registry,
    dump: &Dump,
    golden: Option<&Path>,
    output: Output,
    tell: impl FnOnce(Report<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let case = Case::new(args, registry, dump, golden, output)?;
    let blame = case.blame()?;
    case.report(&blame, None, tell)
}

impl Report<'_> {
    /// Prints the report of the only dump.
    fn print(&self, output: Output) -> anyhow::Result<Exit> {
        if output.json {
            output.document(&BlameDocument::of(&self.found, self.listing))?;
        } else {
            output.text(&self.text()?)?;
        }
        Ok(if self.found.passes() { Exit::Good } else { Exit::Difference })
    }

    /// The result for one of several dumps.
    fn verdict(&self, output: Output) -> anyhow::Result<DumpVerdict<BlameDocument>> {
        let detail = match output.json {
            true => VerdictDetail::Document(BlameDocument::of(&self.found, self.listing)),
            false => VerdictDetail::Text(self.text()?),
        };
        Ok(DumpVerdict { passes: self.found.passes(), headline: headline::headline(self), detail })
    }

    fn text(&self) -> anyhow::Result<String> {
        let mut text = Vec::new();
        text::write(&mut text, self)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}
