use std::time::Duration;

use serde::Serialize;
use tensortap::RunConfig;

use super::Bench;
use super::recorded::{self, Recorded};
use crate::verbs::bench::spread::Spread;

/// What is run with a dump and without.
pub const SCENES: [&str; 2] = ["paged_attention", "tiny_llm"];

/// What a dump adds to a run.
#[derive(Serialize)]
pub struct Overhead {
    /// Scene.
    pub scene: &'static str,
    /// Platform.
    pub platform: String,
    /// Run time without a dump.
    pub without_s: Spread,
    /// Run time with one, until its files are written.
    pub with_s: Spread,
    /// With over without, pair by pair.
    pub ratio: Spread,
    /// Time in capture.
    pub held_up_s: Spread,
    /// Payload bytes captured in a run.
    bytes_captured: u64,
    /// Records of a run.
    records: u64,
}

/// Measures pairs of a run without and with a dump.
pub fn measure(bench: &Bench<'_>, scene: &'static str, platform: &str) -> anyhow::Result<Overhead> {
    let Bench { args, scratch, interrupt, .. } = bench;
    let mut config = RunConfig::new(scene);
    config.platform = platform.into();
    let plain = || recorded::without_dump(&config, interrupt);
    let dumped = || recorded::with_dump(&config, recorded::full(true, args.write), scratch, interrupt);
    let pairs = bench.pairs(&format!("{scene}: {platform}"), plain, dumped)?;
    let ratio =
        |(without, with): &(Duration, Recorded)| with.wall.as_secs_f64() / without.as_secs_f64().max(1e-9);
    let (_, last) = &pairs[pairs.len() - 1];
    Ok(Overhead {
        scene,
        platform: platform.into(),
        without_s: Spread::of(pairs.iter().map(|(without, _)| without.as_secs_f64()).collect()),
        with_s: Spread::of(pairs.iter().map(|(_, with)| with.wall.as_secs_f64()).collect()),
        ratio: Spread::of(pairs.iter().map(ratio).collect()),
        held_up_s: Spread::of(pairs.iter().map(|(_, with)| with.held_up_s()).collect()),
        bytes_captured: last.dump.bytes_captured,
        records: last.dump.records,
    })
}
