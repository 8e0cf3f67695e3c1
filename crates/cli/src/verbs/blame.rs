//! `tensortap blame`: which task is wrong.

mod headline;
mod rerun;
mod tasks;
mod text;
mod wiring;

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::analysis::blame::{Against, Blame, BlameOptions};
use tensortap::analysis::labels::Label;
use tensortap::analysis::{AnalysisError, Work};
use tensortap::format::Dump;
use tensortap::judge::Profile;
use tensortap::scene::Registry;

use tensortap_query::Pair;
use tensortap_query::blame::{BlameReport, Listing, culprits};
use tensortap_query::document::BlameDocument;
use tensortap_query::golden::{Golden, open, other_scene, remarks};
use tensortap_query::module_words::other_programs;

use crate::compare_args::{CompareArgs, check_steps};
use crate::dump_arg::{DumpArg, StepArg, quoted};
use crate::error::{Exit, UsageError};
use crate::kernel_args::KernelArgs;
use crate::output::Output;
use crate::parse::{JobsArg, whole};
use crate::program::program;
use crate::progress::StepProgress;
use crate::ranks::{self, Judged, Told};

/// What `tensortap blame` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap blame --reference                    the newest dump, each task alone against its reference\n  \
    tensortap blame wrong --golden right           against the dump of a run that was right\n  \
    tensortap blame wrong --rerun                  each task run again: does it write the same?\n  \
    tensortap blame d --rerun --abi simpler --kernel QK=qk.so   a dump of `simpler`, with your kernels\n  \
    tensortap blame wrong --golden outputs.npz     against arrays, named as records, arguments or outputs\n  \
    tensortap blame wrong_run --golden right_run   run folders: each rank against the same rank\n  \
    tensortap blame wrong --golden right --json --only wrong_here --limit 100\n\n\
    Labels: ok, wrong_here, inherited, raced, fed, masked, unknown.\n\
    Exit status: 0 every task is ok or masked, 1 some task is not, 2 a dump cannot be read; 1 also when the\n\
    run's own golden failed although every kernel is right by its reference")]
pub struct BlameArgs {
    #[command(flatten)]
    dump: DumpArg,

    /// Compare with the dump of a run that was right, on any platform and runtime; or with a folder or a file of .npy, .npz
    /// or .safetensors arrays, named as `export` names records, as TASK.ARGUMENT (softmax.scores), or as outputs of the run
    #[arg(long, value_name = "DUMP", conflicts_with = "reference")]
    golden: Option<PathBuf>,

    /// Compute what each task should have made of its captured inputs; needs no golden
    #[arg(long)]
    reference: bool,

    /// Run every task again, alone, on its captured inputs: with the kernels of its scene, or those of --kernel. Says which
    /// captured outputs they do not make again; needs no golden
    #[arg(long, conflicts_with_all = ["golden", "reference"])]
    rerun: bool,

    /// Run what is not exactly as captured again, too
    #[arg(long)]
    allow_inexact: bool,

    /// Of launches of OpenCL and CUDA, the device that --reference or --rerun runs them on: part of its name, or its place in the list of its loader or driver
    /// [default: with --reference another than they were captured on, with --rerun the same]
    #[arg(long, value_name = "NAME or N", conflicts_with = "golden")]
    device: Option<String>,

    /// Folder of the scene, instead of the one that the dump names
    #[arg(long, value_name = "DIR")]
    scene: Option<PathBuf>,

    /// List every task, those that are ok, too
    #[arg(long)]
    all: bool,

    /// List tasks with this label alone; may be given several times
    #[arg(long, value_name = "LABEL", value_parser = labels())]
    only: Vec<Label>,

    /// List at most this many tasks, those that are wrong first [default: 20 in the text, all with --json]
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

/// Everything that is reported.
struct Report<'a> {
    found: BlameReport<'a>,
    /// That the golden is of another scene.
    other_scene: Option<String>,
    all: bool,
    allow_unmatched: bool,
    /// Which tasks are listed.
    listing: Listing<'a>,
    /// The run's golden failed, and no kernel is wrong.
    suspects_orchestration: bool,
    /// The run's golden failed, and what has a reference is right.
    suspects_unjudged: bool,
}

/// Labels every task and says where it went wrong.
pub fn run(args: &BlameArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    if args.golden.is_none() && !args.reference && !args.rerun {
        return Err(UsageError {
            message: "nothing to hold the dump against".into(),
            hint: "give --reference or --rerun, which need nothing else, or --golden DUMP, the dump of a run that was right".into(),
        }
        .into());
    }
    if (!args.kernels.kernel.is_empty() || args.allow_inexact) && !args.rerun {
        let option = if args.allow_inexact { "--allow-inexact" } else { "--kernel" };
        return Err(UsageError {
            message: format!("{option}: nothing is run"),
            hint: "with --rerun, tasks are run again".into(),
        }
        .into());
    }
    let set = args.dump.open_set()?;
    let folder = set.path().to_owned();
    let pairs = ranks::pairs(set, args.golden.as_deref(), &args.dump.rank)?;
    if let [Pair::Held { member, golden, .. }] = pairs.as_slice() {
        return judge(args, registry, &member.dump, golden.as_deref(), output, |report| {
            if output.json {
                output.document(&BlameDocument::of(&report.found, report.listing))?;
            } else {
                output.text(&report.text()?)?;
            }
            Ok(if report.found.passes { Exit::Good } else { Exit::Difference })
        });
    }
    ranks::judge_each(&folder, pairs, args.compare.allow_unmatched, output, |member, golden| {
        judge(args, registry, &member.dump, golden, output, |report| {
            let told = match output.json {
                true => Told::Document(BlameDocument::of(&report.found, report.listing)),
                false => Told::Text(report.text()?),
            };
            Ok(Judged { passes: report.found.passes, headline: headline::headline(&report), told })
        })
    })
}

/// The scenes, with that of the dump where it is a folder. References need it; against a golden it only sharpens the verdict.
fn with_scene(args: &BlameArgs, registry: &Registry, dump: &Dump) -> Result<Registry, tensortap::Error> {
    match tensortap::with_scene_of(registry, dump, args.scene.as_deref()) {
        Err(_) if args.golden.is_some() && args.scene.is_none() => Ok(registry.clone()),
        found => found,
    }
}

/// Labels the tasks of one dump, and gives what came of it to the function that it takes.
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
    let usual = if args.rerun { Profile::BitExact } else { Profile::Default };
    let options = BlameOptions {
        rules: args.compare.rules(dump.info(), usual)?,
        other_dtypes: args.compare.golden_dtype,
        steps: args.step.step.clone(),
        golden_steps,
        scene: registry.find(&dump.info().scene),
        work: Work { threads: args.jobs.get(), progress: &show },
    };
    // Launches have no references but what other devices make of them.
    let runs = args.rerun || args.reference && dump.has_programs();
    let rerun = if runs { Some(rerun::run(args, registry, dump, &options, output)?) } else { None };
    let against = match (&opened, &rerun) {
        (Some(Golden::Dump(golden)), _) => Against::Golden(golden),
        (Some(Golden::Files(arrays)), _) => Against::Arrays(arrays),
        (None, Some((rerun, _))) => Against::Rerun(rerun),
        (None, None) => {
            let scene = dump.info().scene.clone();
            let found = registry.find(&scene);
            Against::Reference(found.ok_or(AnalysisError::UnknownScene { scene })?)
        }
    };
    let blame = Blame::of(dump, &against, &options)?;
    let culprits = culprits(&blame, dump, &against, &options)?;
    drop(progress);
    let suspects_orchestration = blame.suspects_orchestration(dump);
    let suspects_unjudged = blame.suspects_unjudged(dump);
    let passes = blame.passes(args.compare.allow_unmatched) && !suspects_orchestration && !suspects_unjudged;
    let right = opened.as_ref().and_then(Golden::dump);
    let other_scene = right.and_then(|golden| other_scene(dump, golden));
    let remarks = right.map_or_else(Vec::new, |golden| remarks(dump, golden, blame.compared));
    let golden = golden.map(|path| right.map_or(path, Dump::dir).display().to_string());
    let listing = Listing { only: &args.only, limit: args.limit };
    let given = rerun.as_ref().map_or(&[][..], |(_, given)| given);
    let replay_options = args.kernels.options();
    let replay_options = replay_options
        .iter()
        .map(|(name, value)| format!(" --{name} {}", quoted(Path::new(value))))
        .collect();
    let found = BlameReport {
        dump,
        golden,
        blame: &blame,
        culprits,
        passes,
        program: program(),
        given,
        replay_options,
        remarks,
        other_programs: right.map_or_else(Vec::new, |golden| other_programs(dump, golden)),
    };
    let (all, allow_unmatched) = (args.all, args.compare.allow_unmatched);
    tell(Report {
        found,
        other_scene,
        all,
        allow_unmatched,
        listing,
        suspects_orchestration,
        suspects_unjudged,
    })
}

impl Report<'_> {
    fn text(&self) -> anyhow::Result<String> {
        let mut text = Vec::new();
        text::write(&mut text, self)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

fn labels() -> impl TypedValueParser<Value = Label> {
    PossibleValuesParser::new(Label::ALL.map(Label::name))
        .try_map(|word| Label::from_name(&word).ok_or("no such label"))
}
