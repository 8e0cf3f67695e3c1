//! `tensortap blame`: finds the first wrong tasks and labels every task.

mod headline;
mod rerun;
mod tasks;
mod text;
mod wiring;

use std::path::{Path, PathBuf};

use clap::Args;
use tensortap::analysis::blame::{Baseline, Blame, BlameOptions, VerdictOptions};
use tensortap::analysis::labels::Label;
use tensortap::analysis::{AnalysisError, Work};
use tensortap::format::Dump;
use tensortap::judge::{Profile, RuleBook};
use tensortap::scene::Registry;

use tensortap_query::Pair;
use tensortap_query::blame::{BlameReport, Listing, culprits};
use tensortap_query::document::BlameDocument;
use tensortap_query::golden::{Golden, open};
use tensortap_query::words::{printable, printable_path};

use crate::compare_args::{CompareArgs, check_steps};
use crate::dump_path::{DumpPathArg, StepArg, quoted};
use crate::error::{Exit, UsageError};
use crate::kernel_args::KernelArgs;
use crate::output::Output;
use crate::parse::{JobsArg, choice, whole};
use crate::program::program;
use crate::progress::StepProgress;
use crate::ranks::{self, DumpVerdict, VerdictDetail};

/// Arguments of `tensortap blame`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap blame --reference                    compare each task with its reference\n  \
    tensortap blame wrong --golden right           compare with the dump of a correct run\n  \
    tensortap blame wrong --rerun                  run each task again and compare its outputs\n  \
    tensortap blame d --rerun --abi simpler --kernel QK=qk.so   with your kernels\n  \
    tensortap blame wrong --golden outputs.npz     compare with arrays in files\n  \
    tensortap blame wrong_run --golden right_run   run folders: compare each rank with the same rank\n  \
    tensortap blame wrong --golden right --json --only wrong_here --limit 100\n\n\
    Labels: ok, wrong_here, inherited, raced, fed, masked, unknown.\n\
    Exit status: 0 no record that counts is outside its rule; 1 a record is, a task stopped, nothing could be \
    judged, or the run failed its own golden although every kernel agrees with its reference; 2 a dump cannot be \
    read. Tasks that could not be judged fail only with --strict")]
pub struct BlameArgs {
    #[command(flatten)]
    dump: DumpPathArg,

    /// Compare with the dump of a correct run on any platform and runtime, or with .npy, .npz or .safetensors arrays (file
    /// or folder) named as by `export`, as TASK.ARGUMENT (softmax.scores), or as outputs of the run
    #[arg(long, value_name = "DUMP", conflicts_with = "reference")]
    golden: Option<PathBuf>,

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
    if args.golden.is_none() && !args.reference && !args.rerun {
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
    let folder = set.path().to_owned();
    let pairs = ranks::pairs(set, args.golden.as_deref(), &args.dump.rank)?;
    if let [Pair::Paired { member, golden, .. }] = pairs.as_slice() {
        return judge(args, registry, &member.dump, golden.as_deref(), output, |report| {
            if output.json {
                output.document(&BlameDocument::of(&report.found, report.listing))?;
            } else {
                output.text(&report.text()?)?;
            }
            Ok(if report.found.passes() { Exit::Good } else { Exit::Difference })
        });
    }
    ranks::judge_each(&folder, pairs, args.compare.allow_unmatched, output, |member, golden| {
        judge(args, registry, &member.dump, golden, output, |report| {
            let detail = match output.json {
                true => VerdictDetail::Document(BlameDocument::of(&report.found, report.listing)),
                false => VerdictDetail::Text(report.text()?),
            };
            Ok(DumpVerdict { passes: report.found.passes(), headline: headline::headline(&report), detail })
        })
    })
}

/// The scenes, including the scene folder of the dump. References need it; with a golden it is optional.
fn with_scene(args: &BlameArgs, registry: &Registry, dump: &Dump) -> Result<Registry, tensortap::Error> {
    match tensortap::with_scene_of(registry, dump, args.scene.as_deref()) {
        Err(_) if args.golden.is_some() && args.scene.is_none() => Ok(registry.clone()),
        found => found,
    }
}

/// The rules of the comparison. A rerun reproduces the bits of a kernel that is the same as in the run. A kernel of the
/// user's is another build, so its outputs are compared within tolerances, as `replay` does.
fn rules(args: &BlameArgs, dump: &Dump) -> anyhow::Result<RuleBook> {
    let info = dump.info();
    let is_other_build = info.is_of_program() || dump.format().is_foreign();
    let usual = match (args.rerun, args.kernels.kernel.is_empty()) {
        (false, _) => Profile::Default,
        (true, false) if is_other_build => Profile::Default,
        (true, _) => Profile::BitExact,
    };
    let mut rules = args.compare.rules(info, usual)?;
    if args.rerun && !args.compare.has_profile() {
        rules.replaced = args.kernels.kernel.iter().map(|code| code.name.clone()).collect();
    }
    Ok(rules)
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
    check_steps(dump, &args.step.step)?;
    let registry = &with_scene(args, registry, dump)?;
    let opened = golden.map(open).transpose()?;
    let golden_steps = opened.as_ref().map_or(Ok(Vec::new()), |golden| args.compare.golden_steps(golden))?;
    let progress = StepProgress::new(output, dump.len());
    let show = |done: u64, of: u64| progress.at(done, of);
    let options = BlameOptions {
        rules: rules(args, dump)?,
        other_dtypes: args.compare.golden_dtype,
        steps: args.step.step.clone(),
        golden_steps,
        scene: registry.find(&dump.info().scene),
        work: Work { threads: args.jobs.get(), progress: &show },
    };
    // GPU launches have no references; another device takes their place.
    let runs = args.rerun || args.reference && dump.has_programs();
    let rerun = if runs { Some(rerun::run(args, registry, dump, &options, output)?) } else { None };
    let against = match (&opened, &rerun) {
        (Some(Golden::Dump(golden)), _) => Baseline::Golden(golden),
        (Some(Golden::Files(arrays)), _) => Baseline::Arrays(arrays),
        (None, Some((rerun, _))) => Baseline::Rerun(rerun),
        (None, None) => {
            let scene = dump.info().scene.clone();
            let found = registry.find(&scene);
            if found.is_none() && dump.info().is_of_program() {
                let (dir, program) = (printable_path(dump.dir()), printable(&scene));
                return Err(UsageError::new(
                    format!("{dir} is a recording of the program `{program}`, which has no references"),
                    "use --golden DUMP with the dump of a correct run, or --rerun with --kernel NAME=LIB:SYMBOL",
                )
                .into());
            }
            Baseline::Reference(found.ok_or(AnalysisError::UnknownScene { scene })?)
        }
    };
    let blame = Blame::of(dump, &against, &options)?;
    let culprits = culprits(&blame, dump, &against, &options)?;
    drop(progress);
    let listing = Listing { only: &args.only, limit: args.limit };
    let given = rerun.as_ref().map_or(&[][..], |(_, given)| given);
    let replay_options = args.kernels.options();
    let replay_options = replay_options
        .iter()
        .map(|(name, value)| format!(" --{name} {}", quoted(Path::new(value))))
        .collect();
    let (all, allow_unmatched) = (args.all, args.compare.allow_unmatched);
    let verdict = VerdictOptions { strict: args.strict, allow_unmatched };
    let report = BlameReport::new(dump, &blame, culprits, opened.as_ref().zip(golden), verdict, program());
    let found = BlameReport { given, replay_options, ..report };
    tell(Report { found, all, allow_unmatched, listing })
}

impl Report<'_> {
    fn text(&self) -> anyhow::Result<String> {
        let mut text = Vec::new();
        text::write(&mut text, self)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}
