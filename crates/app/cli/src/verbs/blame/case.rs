//! One dump with everything that its tasks are compared with.

use std::path::{Path, PathBuf};

use tensortap::LibraryKernel;
use tensortap::analysis::blame::{Baseline, Blame, BlameOptions, Rerun, VerdictOptions};
use tensortap::analysis::{AnalysisError, Work};
use tensortap::format::Dump;
use tensortap::judge::{Profile, RuleBook};
use tensortap::scene::Registry;
use tensortap_query::blame::{BlameReport, Listing, culprits};
use tensortap_query::golden::{Golden, open};
use tensortap_query::ids::IdRange;
use tensortap_query::run_blame::AcrossRanks;
use tensortap_query::words::{printable, printable_path};

use super::{BlameArgs, Report, rerun};
use crate::compare_args::check_steps;
use crate::dump_path::{golden_for_rank, quoted};
use crate::error::UsageError;
use crate::output::Output;
use crate::program::program;
use crate::progress::StepProgress;

/// A dump and what it is compared with.
pub(super) struct Case<'a> {
    args: &'a BlameArgs,
    dump: &'a Dump,
    registry: Registry,
    opened: Option<Golden>,
    golden: Option<PathBuf>,
    /// Further dumps of right runs.
    other_goldens: Vec<Dump>,
    golden_steps: Vec<IdRange>,
    rules: RuleBook,
    /// The rerun with kernels from libraries.
    rerun: Option<(Rerun, Vec<LibraryKernel>)>,
    output: Output,
}

impl<'a> Case<'a> {
    /// Opens the golden, or runs every task again if the options ask for it.
    pub fn new(
        args: &'a BlameArgs,
        registry: &Registry,
        dump: &'a Dump,
        golden: Option<&Path>,
        output: Output,
    ) -> anyhow::Result<Case<'a>> {
        check_steps(dump, &args.step.step)?;
        let opened = golden.map(open).transpose()?;
        let mut case = Case {
            args,
            dump,
            registry: with_scene(args, registry, dump)?,
            golden_steps: opened
                .as_ref()
                .map_or(Ok(Vec::new()), |golden| args.compare.golden_steps(golden))?,
            opened,
            golden: golden.map(Path::to_owned),
            other_goldens: other_goldens(args, dump)?,
            rules: rules(args, dump)?,
            rerun: None,
            output,
        };
        // GPU launches have no references; another device takes their place.
        if args.rerun || args.reference && dump.has_programs() {
            let progress = StepProgress::new(output, dump.len());
            let show = |done: u64, of: u64| progress.at(done, of);
            let options = case.options(Work { threads: args.jobs.get(), progress: &show });
            let rerun = rerun::run(args, &case.registry, dump, &options, output)?;
            drop(options);
            case.rerun = Some(rerun);
        }
        Ok(case)
    }

    /// Labels every task.
    pub fn blame(&self) -> anyhow::Result<Blame> {
        let progress = StepProgress::new(self.output, self.dump.len());
        let show = |done: u64, of: u64| progress.at(done, of);
        let options = self.options(Work { threads: self.args.jobs.get(), progress: &show });
        Ok(Blame::of(self.dump, &self.against()?, &options)?)
    }

    /// Analyzes the first wrong tasks and passes the report to `tell`.
    pub fn report<T>(
        &self,
        blame: &Blame,
        across: Option<AcrossRanks<'_>>,
        tell: impl FnOnce(Report<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let args = self.args;
        let progress = StepProgress::new(self.output, self.dump.len());
        let show = |done: u64, of: u64| progress.at(done, of);
        let options = self.options(Work { threads: args.jobs.get(), progress: &show });
        let culprits = culprits(blame, self.dump, &self.against()?, &options)?;
        drop(options);
        drop(progress);
        let listing = Listing { only: &args.only, limit: args.limit };
        let given = self.rerun.as_ref().map_or(&[][..], |(_, given)| given);
        let replay_options = args.kernels.options();
        let replay_options = replay_options
            .iter()
            .map(|(name, value)| format!(" --{name} {}", quoted(Path::new(value))))
            .collect();
        let (all, allow_unmatched) = (args.all, args.compare.allow_unmatched);
        let golden = self.opened.as_ref().zip(self.golden.as_deref());
        let verdict = VerdictOptions { strict: args.strict, allow_unmatched };
        let report = BlameReport::new(self.dump, blame, culprits, golden, verdict, program());
        let found = BlameReport { given, replay_options, across, ..report };
        tell(Report { found, all, allow_unmatched, listing })
    }

    fn options<'o>(&'o self, work: Work<'o>) -> BlameOptions<'o> {
        BlameOptions {
            rules: self.rules.clone(),
            other_dtypes: self.args.compare.golden_dtype,
            steps: self.args.step.step.clone(),
            golden_steps: self.golden_steps.clone(),
            other_goldens: self.other_goldens.iter().collect(),
            scene: self.registry.find(&self.dump.info().scene),
            work,
        }
    }

    fn against(&self) -> anyhow::Result<Baseline<'_>> {
        Ok(match (&self.opened, &self.rerun) {
            (Some(Golden::Dump(golden)), _) => Baseline::Golden(golden),
            (Some(Golden::Files(arrays)), _) => Baseline::Arrays(arrays),
            (None, Some((rerun, _))) => Baseline::Rerun(rerun),
            (None, None) => {
                let scene = self.dump.info().scene.clone();
                let found = self.registry.find(&scene);
                if found.is_none() && self.dump.info().is_of_program() {
                    let (dir, program) = (printable_path(self.dump.dir()), printable(&scene));
                    return Err(UsageError::new(
                        format!("{dir} is a recording of the program `{program}`, which has no references"),
                        "use --golden DUMP with the dump of a correct run, or --rerun with --kernel NAME=LIB:SYMBOL",
                    )
                    .into());
                }
                Baseline::Reference(found.ok_or(AnalysisError::UnknownScene { scene })?)
            }
        })
    }
}

/// The dumps of the goldens after the first, of the same rank.
fn other_goldens(args: &BlameArgs, dump: &Dump) -> anyhow::Result<Vec<Dump>> {
    let others = args.golden.get(1..).unwrap_or_default();
    if others.is_empty() {
        return Ok(Vec::new());
    }
    let rank = dump.info().rank();
    let open_dump = |path: &PathBuf| -> anyhow::Result<Dump> {
        match open(&golden_for_rank(path, rank)?)? {
            Golden::Dump(golden) => Ok(*golden),
            Golden::Files(_) => Err(not_repeatable(path)),
        }
    };
    if let Some(first) = args.golden.first()
        && let Golden::Files(_) = open(&golden_for_rank(first, rank)?)?
    {
        return Err(not_repeatable(first));
    }
    others.iter().map(open_dump).collect()
}

fn not_repeatable(path: &Path) -> anyhow::Error {
    let message =
        format!("{} contains arrays; only dumps can be given as several goldens", printable_path(path));
    UsageError::new(message, "give the dumps of several correct runs, or one --golden with arrays").into()
}

/// The rules of the comparison. A rerun reproduces the bits of a kernel that is the same as in the run. A kernel from the
/// user's library is a different build, so its outputs are compared within tolerances, as `replay` does.
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

/// The scenes, including the scene folder of the dump. References need it; with a golden it is optional.
fn with_scene(args: &BlameArgs, registry: &Registry, dump: &Dump) -> Result<Registry, tensortap::Error> {
    match tensortap::with_scene_of(registry, dump, args.scene.as_deref()) {
        Err(_) if !args.golden.is_empty() && args.scene.is_none() => Ok(registry.clone()),
        found => found,
    }
}
