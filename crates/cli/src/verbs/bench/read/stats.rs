use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use tensortap::DType;

use super::made::PAYLOAD_FILE;
use super::{Bench, Pairs, child};

const TARGET_RATIO: f64 = 0.5;
const READ_BYTES: usize = 1 << 20;

/// Statistics against plain reads.
#[derive(Serialize)]
pub struct StatsRatio {
    pub dtype: &'static str,
    pub bytes: u64,
    #[serde(flatten)]
    pub pairs: Pairs,
}

/// Measures pairs of a plain read and of `stats` over the same payload file.
pub fn measure(bench: &Bench<'_>, dtype: DType, dump: &Path) -> anyhow::Result<StatsRatio> {
    let bytes = bench.args.payload_bytes();
    let payloads = dump.join(PAYLOAD_FILE);
    let ours = || Ok(child::tensortap(&["stats".as_ref(), dump, Path::new("--quiet")])?.seconds);
    let what = format!("stats: {dtype}");
    let pairs = bench.pairs(&what, bytes, TARGET_RATIO, || read_all(&payloads), ours)?;
    Ok(StatsRatio { dtype: dtype.name(), bytes, pairs })
}

fn read_all(path: &Path) -> anyhow::Result<f64> {
    let told = || format!("reading {}", path.display());
    let mut piece = vec![0; READ_BYTES];
    let started = Instant::now();
    let mut file = File::open(path).with_context(told)?;
    while file.read(&mut piece).with_context(told)? > 0 {}
    Ok(started.elapsed().as_secs_f64())
}
