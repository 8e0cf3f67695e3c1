//! Scenes as tests: every case of a scene on every platform and runtime it makes sense for, and of what failed, why.

mod explain;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tensortap_platform::PLATFORMS;
use tensortap_scene::{Case, Scene};

pub use explain::{Culprit, Explanation, HeldAgainst};

use crate::parallel::{in_order, threads};
use crate::{
    DumpConfig, Error, GoldenVerdict, RunConfig, RunReport, Unknown, resolve, run_observed, runtimes_of,
};

/// What is tried, and how.
#[derive(Clone)]
pub struct SuiteConfig {
    /// What holds for every run: registry, device, limits, a fault. Scene, parameters, platform, runtime, dump and folder are
    /// each trial's own.
    pub run: RunConfig,
    /// Scenes by name; every one that is not hidden when there are none.
    pub scenes: Vec<String>,
    /// Cases by name; all when there are none.
    pub cases: Vec<String>,
    /// Platforms by name; all when there are none.
    pub platforms: Vec<String>,
    /// Runtimes by name; all that make sense for a scene when there are none.
    pub runtimes: Vec<String>,
    /// Recorded of every trial; of those that fail when `None`, for there the reason is looked for.
    pub dump: Option<DumpConfig>,
    /// Below it each dump has a folder, named for its trial.
    pub out: PathBuf,
    /// Trials at a time; one for each CPU when `None`.
    pub jobs: Option<usize>,
}

impl SuiteConfig {
    /// Every scene of the registry, nothing recorded but what fails.
    ///
    /// ```
    /// use tensortap::suite::{SuiteConfig, run_suite, trials};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let mut config = SuiteConfig::new(tensortap::RunConfig::new(""), folder.path());
    /// # config.run.device_mode = tensortap::DeviceMode::Thread;
    /// (config.scenes, config.platforms) = (vec!["vector_example".into()], vec!["a5sim".into()]);
    /// let trials = trials(&config)?;
    /// let reports = run_suite(&config, &trials, &|_| (), &|| true);
    /// assert!(reports.len() == 3 && reports.iter().all(|report| report.passed()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(run: RunConfig, out: &Path) -> SuiteConfig {
        SuiteConfig {
            run,
            scenes: Vec::new(),
            cases: Vec::new(),
            platforms: Vec::new(),
            runtimes: Vec::new(),
            dump: None,
            out: out.to_owned(),
            jobs: None,
        }
    }
}

/// One run of a suite.
#[derive(Clone)]
pub struct Trial {
    /// The scene.
    pub scene: &'static dyn Scene,
    /// What it is run with.
    pub case: Case,
    /// Where it runs.
    pub platform: &'static str,
    /// By which runtime.
    pub runtime: &'static str,
}

impl Trial {
    /// Its name, which is that of its dump's folder: `softmax-default-a5sim-host_build_graph`.
    #[must_use]
    pub fn name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '.' { c } else { '_' };
        let words = [self.scene.name(), &self.case.name, self.platform, self.runtime];
        words.map(|word| word.chars().map(plain).collect::<String>()).join("-")
    }

    fn run_config(&self, suite: &SuiteConfig) -> RunConfig {
        let mut config = suite.run.clone();
        config.scene = self.scene.name().into();
        // What was asked for on top of the case comes last, and so holds.
        config.params = self.case.params.iter().chain(&suite.run.params).cloned().collect();
        config.tolerances.clone_from(&self.case.tolerances);
        config.platform = self.platform.into();
        config.runtime = Some(self.runtime.into());
        config.dump.clone_from(&suite.dump);
        config.out = Some(suite.out.join(self.name()));
        config
    }
}

/// What came of a trial.
pub struct TrialReport {
    /// Which.
    pub trial: Trial,
    /// The run; an error when there was none, or when it ended early.
    pub outcome: Result<RunReport, Error>,
    /// All of it, the search for a reason included.
    pub wall: Duration,
    /// Why it failed, when it did and was looked into.
    pub explanation: Option<Explanation>,
    /// Its turn did not come: the suite was ended.
    pub skipped: bool,
}

impl TrialReport {
    /// Whether it ran to its end and its outputs are what they should be. A scene without a golden passes by ending well.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|report| report.golden != GoldenVerdict::Fail)
    }

    /// Whether it passed by ending well alone: its scene has no golden.
    #[must_use]
    pub fn ran_only(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|report| report.golden == GoldenVerdict::None)
    }

    /// What the run came to, however it ended.
    #[must_use]
    pub fn run(&self) -> Option<&RunReport> {
        match &self.outcome {
            Ok(report) => Some(report),
            Err(Error::Failed(report)) => Some(report),
            Err(_) => None,
        }
    }
}

/// What a suite consists of, scene by scene; every name and every case's parameters are checked before anything runs.
///
/// # Errors
/// A name nobody knows, or parameters that a scene does not take.
pub fn trials(config: &SuiteConfig) -> Result<Vec<Trial>, Error> {
    let platforms = chosen("platform", &config.platforms, PLATFORMS.iter().map(|platform| platform.name()))?;
    let all = tensortap_runtime::RUNTIMES.iter().map(|runtime| runtime.name());
    let runtimes = chosen("runtime", &config.runtimes, all)?;
    let mut trials = Vec::new();
    let mut names = Vec::new();
    for scene in scenes(config)? {
        for case in scene.cases() {
            names.push(case.name.clone());
            if !config.cases.is_empty() && !config.cases.contains(&case.name) {
                continue;
            }
            for runtime in runtimes_of(scene).into_iter().filter(|runtime| runtimes.contains(runtime)) {
                let of = |&platform| Trial { scene, case: case.clone(), platform, runtime };
                trials.extend(platforms.iter().map(of));
            }
        }
    }
    if let Some(name) = config.cases.iter().find(|&name| !names.contains(name)) {
        return Err(Unknown::new("case", name, names.iter().map(String::as_str)).into());
    }
    for trial in &trials {
        resolve(&trial.run_config(config))?;
    }
    Ok(trials)
}

fn scenes(config: &SuiteConfig) -> Result<Vec<&'static dyn Scene>, Error> {
    let known = config.run.registry.scenes().iter().copied();
    if config.scenes.is_empty() {
        return Ok(known.filter(|scene| !scene.hidden()).collect());
    }
    let find = |name: &String| {
        let found = config.run.registry.find(name);
        found.ok_or_else(|| Unknown::new("scene", name, known.clone().map(|scene| scene.name())).into())
    };
    config.scenes.iter().map(find).collect()
}

fn chosen(
    what: &'static str,
    wanted: &[String],
    known: impl Iterator<Item = &'static str> + Clone,
) -> Result<Vec<&'static str>, Unknown> {
    if wanted.is_empty() {
        return Ok(known.collect());
    }
    let find = |name: &String| {
        known.clone().find(|known| known == name).ok_or_else(|| Unknown::new(what, name, known.clone()))
    };
    wanted.iter().map(find).collect()
}

/// Runs trials, several at a time, and looks into those that fail. `ended` is told each as it ends, on the thread it ran on;
/// once `go_on` says no, runs under way are ended and the rest is skipped. Reports come in the order of trials.
pub fn run_suite(
    config: &SuiteConfig,
    trials: &[Trial],
    ended: &(dyn Fn(&TrialReport) + Sync),
    go_on: &(dyn Fn() -> bool + Sync),
) -> Vec<TrialReport> {
    let mut reports = Vec::with_capacity(trials.len());
    let one = |trial: &Trial| {
        let report = run_trial(config, trial, go_on);
        ended(&report);
        report
    };
    let Ok(()) = in_order(
        threads(config.jobs),
        trials.iter().map(Ok::<_, std::convert::Infallible>),
        || (),
        |(), trial| Ok(one(trial)),
        |_, report| {
            reports.push(report);
            Ok(())
        },
    );
    explain::hold_against_others(config, &mut reports, go_on);
    reports
}

fn run_trial(config: &SuiteConfig, trial: &Trial, go_on: &(dyn Fn() -> bool + Sync)) -> TrialReport {
    let started = Instant::now();
    let wanted = trial.run_config(config);
    let outcome = run_observed(&wanted, &mut |_| go_on());
    let mut report = TrialReport {
        trial: trial.clone(),
        outcome,
        wall: started.elapsed(),
        explanation: None,
        skipped: !go_on(),
    };
    if !report.passed() && !report.skipped {
        report.explanation = explain::explain(&report, &wanted, go_on);
        report.wall = started.elapsed();
    }
    report
}
