use std::time::Duration;

use anyhow::bail;
use serde::Serialize;
use tensortap::RunConfig;

use super::plain::Source;
use super::recorded::{self, Recorded};
use super::{Bench, DumpArgs, TENSOR_BYTES};
use crate::verbs::bench::spread::Spread;

const SCENE: &str = "stream";

/// Payload bytes per second, dumped and plainly written.
#[derive(Serialize)]
pub struct Throughput {
    /// Platform.
    pub platform: String,
    /// Payload bytes of each run.
    pub bytes: u64,
    /// Bytes of each tensor.
    tensor_bytes: u64,
    /// One thread that only writes.
    pub plain_bytes_per_s: Spread,
    /// The dump.
    pub dump_bytes_per_s: Spread,
    /// Dump over plain write, pair by pair.
    pub ratio: Spread,
    /// What the ratio should reach.
    pub target_ratio: f64,
    /// Whether its median does.
    pub met: bool,
    /// Time in capture.
    pub held_up_s: Spread,
    pairs: Vec<Pair>,
}

#[derive(Serialize)]
struct Pair {
    plain_s: f64,
    /// Sync included.
    dump_s: f64,
    sync_s: f64,
    ratio: f64,
    held_up_s: f64,
    /// Of the dump's run, outside its clock.
    unclocked_s: f64,
}

impl Pair {
    fn new(plain: Duration, dump: &Recorded) -> Pair {
        let (plain_s, dump_s) = (plain.as_secs_f64(), dump.on_disk().as_secs_f64());
        Pair {
            plain_s,
            dump_s,
            sync_s: dump.sync.as_secs_f64(),
            ratio: plain_s / dump_s,
            held_up_s: dump.held_up_s(),
            unclocked_s: dump.unclocked.as_secs_f64(),
        }
    }
}

/// The run that is measured.
pub fn config(args: &DumpArgs, platform: &str) -> RunConfig {
    let mut config = RunConfig::new(SCENE)
        .param("tasks", args.large_tasks())
        .param("bytes", TENSOR_BYTES)
        .param("lanes", 2);
    config.platform = platform.into();
    config
}

/// Measures pairs of a plain write and a dump of as many bytes.
pub fn measure(bench: &Bench<'_>, platform: &str) -> anyhow::Result<Throughput> {
    let Bench { args, scratch, interrupt, .. } = bench;
    let (bytes, config, source) = (args.payload_bytes(), config(args, platform), Source::new());
    let plain = || {
        let path = scratch.path("plain");
        let took = source.write(&path, bytes, interrupt)?;
        scratch.remove(&path)?;
        Ok(took)
    };
    let dumped = || {
        let run = recorded::with_dump(&config, recorded::full(false, args.write), scratch, interrupt)?;
        match run.dump.bytes_written {
            written if written == bytes => Ok(run),
            written => bail!("{written} payload bytes were written, {bytes} were expected"),
        }
    };
    let pairs = bench.pairs(&format!("throughput: {platform}"), plain, dumped)?;
    let pairs: Vec<Pair> = pairs.iter().map(|(plain, dump)| Pair::new(*plain, dump)).collect();
    Ok(summary(platform, bytes, pairs))
}

fn summary(platform: &str, bytes: u64, pairs: Vec<Pair>) -> Throughput {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let total = bytes as f64;
    let over = |value: fn(&Pair) -> f64| Spread::of(pairs.iter().map(value).collect());
    let per_s = |took: fn(&Pair) -> f64| Spread::of(pairs.iter().map(|pair| total / took(pair)).collect());
    let (ratio, target_ratio) = (over(|p| p.ratio), target_ratio(platform));
    Throughput {
        platform: platform.into(),
        bytes,
        tensor_bytes: TENSOR_BYTES,
        plain_bytes_per_s: per_s(|p| p.plain_s),
        dump_bytes_per_s: per_s(|p| p.dump_s),
        ratio,
        target_ratio,
        met: ratio.median >= target_ratio,
        held_up_s: over(|p| p.held_up_s),
        pairs,
    }
}

/// A platform whose memory the host must copy reaches less.
fn target_ratio(platform: &str) -> f64 {
    if platform == "a5sim" { 0.8 } else { 0.9 }
}
