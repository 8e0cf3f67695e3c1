use tensortap::RunConfig;

use super::DispatchArgs;
use crate::verbs::{platform_names, runtime_names};

/// The hidden scene that is measured.
const SCENE: &str = "bench_dispatch";
/// Its shapes.
pub const SHAPES: [&str; 3] = ["independent", "chain", "fanout"];

/// One row of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Shape of the graph.
    pub shape: &'static str,
    /// Platform.
    pub platform: String,
    /// Runtime.
    pub runtime: String,
    /// Blocks; `None` for the default.
    pub blocks: Option<u32>,
    /// Scheduler threads.
    pub schedulers: u32,
}

impl Case {
    /// The same for the library.
    pub fn config(&self, tasks: u64) -> RunConfig {
        let mut config = RunConfig::new(SCENE).param("shape", self.shape).param("tasks", tasks);
        config.registry = tensortap_bench::registry();
        config.platform.clone_from(&self.platform);
        config.runtime = Some(self.runtime.clone());
        config.blocks = self.blocks;
        config.schedulers = self.schedulers;
        config
    }

    /// For the progress bar.
    pub fn describe(&self) -> String {
        format!("{}: {} {}", self.shape, self.platform, self.runtime)
    }
}

/// Every combination that was asked for, by runtime.
pub fn all(args: &DispatchArgs, cpus: usize) -> Vec<Case> {
    let chosen = |only: &Option<String>, every: Vec<&str>| -> Vec<String> {
        only.clone().map_or_else(|| every.into_iter().map(Into::into).collect(), |name| vec![name])
    };
    let platforms = chosen(&args.platform, platform_names());
    let runtimes = chosen(&args.runtime, runtime_names());
    let mut cases = Vec::new();
    for runtime in &runtimes {
        for shape in SHAPES {
            for platform in &platforms {
                for (blocks, schedulers) in sizes(args.all, args.schedulers, cpus) {
                    let (platform, runtime) = (platform.clone(), runtime.clone());
                    cases.push(Case { shape, platform, runtime, blocks, schedulers });
                }
            }
        }
    }
    cases
}

/// Schedulers beside one, where all is measured.
const SCHEDULERS: u32 = 2;

/// Blocks and schedulers. A scheduler without a block would measure nothing, and a default of one block nothing new.
fn sizes(all: bool, schedulers: Option<u32>, cpus: usize) -> Vec<(Option<u32>, u32)> {
    let mut sizes = vec![(Some(1), 1)];
    if all && cpus > 1 {
        sizes.push((None, 1));
    }
    let schedulers = schedulers.unwrap_or(if all { SCHEDULERS } else { 1 });
    if schedulers > 1 {
        sizes.push((None, schedulers));
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_case_is_measured_twice_or_for_nothing() {
        assert_eq!(sizes(false, None, 8), [(Some(1), 1)]);
        assert_eq!(sizes(false, Some(4), 8), [(Some(1), 1), (None, 4)]);
        assert_eq!(sizes(true, Some(1), 1), [(Some(1), 1)]);
        assert_eq!(sizes(true, Some(1), 8), [(Some(1), 1), (None, 1)]);
        assert_eq!(sizes(true, None, 8), [(Some(1), 1), (None, 1), (None, 2)]);
        assert_eq!(sizes(true, Some(4), 1), [(Some(1), 1), (None, 4)]);
    }
}
