use std::time::Duration;

use serde::Serialize;
use tensortap::RunConfig;

use super::recorded::{self, Recorded};
use super::{Bench, TENSORS_PER_TASK};
use crate::verbs::bench::spread::Spread;
use tensortap_query::number;

const TENSOR_BYTES: u64 = 256;
/// Enough for every core to be busy.
const LANES: u64 = 16;
const TARGET_RECORDS_PER_S: f64 = 500_000.0;

/// How many small tensors per second a dump takes.
#[derive(Serialize)]
pub struct Small {
    /// Platform.
    pub platform: String,
    /// Tasks of each run.
    tasks: u64,
    tensor_bytes: u64,
    /// Records of tensors over run time; scalars, tasks and dependencies are recorded beside them and not counted.
    pub records_per_s: Spread,
    /// The same with manifest and graph written.
    pub records_per_s_closed: Spread,
    /// Records of tensors over the time in capture: what one device thread could record.
    pub records_per_s_captured: Spread,
    /// Tensors that tasks have per second without a dump: what there is to record.
    pub tensors_per_s_without: Spread,
    /// What the rate should reach.
    pub target_records_per_s: f64,
    /// Whether its median does.
    pub met: bool,
    /// Time in capture.
    pub held_up_s: Spread,
    /// Writing manifest and graph.
    pub closing_s: Spread,
    /// What takes the most time.
    pub bound: String,
}

/// The run that is measured.
pub fn config(tasks: u64, platform: &str) -> RunConfig {
    let mut config =
        RunConfig::new("stream").param("tasks", tasks).param("bytes", TENSOR_BYTES).param("lanes", LANES);
    config.platform = platform.into();
    config
}

/// Measures pairs of a run without and with a dump.
pub fn measure(bench: &Bench<'_>, platform: &str) -> anyhow::Result<Small> {
    let Bench { args, scratch, interrupt, .. } = bench;
    let config = config(args.tasks, platform);
    let plain = || recorded::without_dump(&config, interrupt);
    let dumped = || recorded::with_dump(&config, recorded::full(false, args.write), scratch, interrupt);
    let pairs = bench.pairs(&format!("{TENSOR_BYTES}-byte tensors: {platform}"), plain, dumped)?;
    Ok(summary(platform, args.tasks, &pairs))
}

fn summary(platform: &str, tasks: u64, pairs: &[(Duration, Recorded)]) -> Small {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let tensors = (tasks * TENSORS_PER_TASK) as f64;
    let over = |value: fn(&(Duration, Recorded)) -> f64| Spread::of(pairs.iter().map(value).collect());
    let per_s = |took: fn(&(Duration, Recorded)) -> f64| {
        Spread::of(pairs.iter().map(|pair| tensors / took(pair).max(1e-9)).collect())
    };
    let records_per_s = per_s(|(_, with)| with.wall.as_secs_f64());
    let (held_up_s, closing_s) = (over(|(_, r)| r.held_up_s()), over(|(_, r)| r.dump.closing.as_secs_f64()));
    let without_s = over(|(without, _)| without.as_secs_f64());
    Small {
        platform: platform.into(),
        tasks,
        tensor_bytes: TENSOR_BYTES,
        records_per_s,
        records_per_s_closed: per_s(|(_, with)| (with.wall + with.dump.closing).as_secs_f64()),
        records_per_s_captured: per_s(|(_, with)| with.held_up_s()),
        tensors_per_s_without: per_s(|(without, _)| without.as_secs_f64()),
        target_records_per_s: TARGET_RECORDS_PER_S,
        met: records_per_s.median >= TARGET_RECORDS_PER_S,
        held_up_s,
        closing_s,
        bound: bound(without_s.median, held_up_s.median),
    }
}

/// Names the largest part of the run time. The parts are measured apart and need not add up to it.
fn bound(without_s: f64, held_up_s: f64) -> String {
    let parts =
        [(without_s, "running the tasks, which without a dump"), (held_up_s, "capture on the device, which")];
    let (seconds, what) = parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).expect("two parts");
    format!("{what} takes {}", number::time(Duration::from_secs_f64(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_part_is_named_with_its_time() {
        assert_eq!(bound(2.0, 1.0), "running the tasks, which without a dump takes 2.00 s");
        assert!(bound(0.1, 0.3).starts_with("capture on the device"));
    }
}
