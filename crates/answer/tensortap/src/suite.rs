//! Scenes as tests: runs every case of a scene on every platform and runtime that supports it, and explains
//! failures.

mod explain;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tensortap_platform::PLATFORMS;
use tensortap_scene::{Case, Scene};
use tensortap_sync::parallel::map;

pub use explain::{Culprit, Explanation, TrialReference};

use crate::parallel::threads;
use crate::{
    DumpConfig, Error, GoldenVerdict, RunConfig, RunReport, UnknownName, resolve, run_observed, runtimes_of,
};

/// Options of a suite.
#[derive(Clone)]
pub struct SuiteConfig {
    /// Options of every run: registry, device, limits, a fault. Each trial sets scene, parameters,
    /// platform, runtime, dump and folder itself.
    pub run: RunConfig,
    /// Scenes by name; empty for all that are not hidden.
    pub scenes: Vec<String>,
    /// Cases by name; empty for all.
    pub cases: Vec<String>,
    /// Platforms by name; empty for all.
    pub platforms: Vec<String>,
    /// Runtimes by name; empty for all that support a scene.
    pub runtimes: Vec<String>,
    /// Dump of every trial. `None` means only failed trials are recorded, to find the reason.
    pub dump: Option<DumpConfig>,
    /// Folder for the dumps, which are named like their trials.
    pub out: PathBuf,
    /// Number of trials at a time; `None` means one per CPU.
    pub jobs: Option<usize>,
}

impl SuiteConfig {
    /// Every scene of the registry; only failures are recorded.
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
    /// The case.
    pub case: Case,
    /// The platform.
    pub platform: &'static str,
    /// The runtime.
    pub runtime: &'static str,
}

impl Trial {
    /// Its name, which is also the name of its dump's folder: `softmax-default-a5sim-host_build_graph`.
    #[must_use]
    pub fn name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '.' { c } else { '_' };
        let words = [self.scene.name(), &self.case.name, self.platform, self.runtime];
        words.map(|word| word.chars().map(plain).collect::<String>()).join("-")
    }

    fn run_config(&self, suite: &SuiteConfig) -> RunConfig {
        let mut config = suite.run.clone();
        config.scene = self.scene.name().into();
        // Parameters from the user come last and override those of the case.
        config.params = self.case.params.iter().chain(&suite.run.params).cloned().collect();
        config.tolerances.clone_from(&self.case.tolerances);
        config.platform = self.platform.into();
        config.runtime = Some(self.runtime.into());
        config.dump.clone_from(&suite.dump);
        config.out = Some(suite.out.join(self.name()));
        config
    }
}

/// The result of a trial.
pub struct TrialReport {
    /// The trial.
    pub trial: Trial,
    /// The run; an error if it did not start or ended early.
    pub outcome: Result<RunReport, Error>,
    /// Total time, including the search for a reason.
    pub wall: Duration,
    /// Why it failed, if it did and was examined.
    pub explanation: Option<Explanation>,
    /// Whether it was not started because the suite was canceled.
    pub skipped: bool,
}

impl TrialReport {
    /// Whether it completed and its outputs are right. A scene without a golden passes by completing.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|report| report.golden != GoldenVerdict::Fail)
    }

    /// Whether it passed only by completing, because its scene has no golden.
    #[must_use]
    pub fn ran_only(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|report| report.golden == GoldenVerdict::None)
    }

    /// The results of the run, however it ended.
    #[must_use]
    pub fn run(&self) -> Option<&RunReport> {
        match &self.outcome {
            Ok(report) => Some(report),
            Err(Error::Failed(report)) => Some(report),
            Err(_) => None,
        }
    }
}

/// The trials of a suite, scene by scene. Every name and every case's parameters are checked before
/// anything runs.
///
/// # Errors
/// If a name is unknown, or a scene does not accept its parameters.
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
        return Err(UnknownName::new("case", name, names.iter().map(String::as_str)).into());
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
        found.ok_or_else(|| UnknownName::new("scene", name, known.clone().map(|scene| scene.name())).into())
    };
    config.scenes.iter().map(find).collect()
}

fn chosen(
    what: &'static str,
    wanted: &[String],
    known: impl Iterator<Item = &'static str> + Clone,
) -> Result<Vec<&'static str>, UnknownName> {
    if wanted.is_empty() {
        return Ok(known.collect());
    }
    let find = |name: &String| {
        known.clone().find(|known| known == name).ok_or_else(|| UnknownName::new(what, name, known.clone()))
    };
    wanted.iter().map(find).collect()
}

/// Runs trials, several at a time, and examines failures. `ended` is called with each finished trial, on
/// the thread that ran it. Once `go_on` returns false, current runs are stopped and the remaining trials
/// are skipped. Reports are in the order of the trials.
pub fn run_suite(
    config: &SuiteConfig,
    trials: &[Trial],
    ended: &(dyn Fn(&TrialReport) + Sync),
    go_on: &(dyn Fn() -> bool + Sync),
) -> Vec<TrialReport> {
    let one = |trial: &Trial| {
        let report = run_trial(config, trial, go_on);
        ended(&report);
        report
    };
    let Ok(mut reports) = map(threads(config.jobs), trials, |trial| Ok::<_, Infallible>(one(trial)));
    explain::compare_with_others(config, &mut reports, go_on);
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
