use std::path::Path;

use serde::Serialize;

use super::{Bench, child, made};
use crate::verbs::bench::spread::Spread;

const TARGET_S: f64 = 1.0;
const TARGET_BYTES: u64 = 300 << 20;

/// Listing many records.
#[derive(Serialize)]
pub struct Listed {
    pub records: u64,
    pub seconds: Spread,
    /// Greatest anonymous memory of any run.
    pub anonymous_bytes: u64,
    pub target_s: f64,
    pub target_bytes: u64,
    pub met: bool,
}

/// Lists a dump without payloads, several times.
pub fn measure(bench: &Bench<'_>) -> anyhow::Result<Listed> {
    let dump = made::without_payload(bench)?;
    let mut seconds = Vec::new();
    let mut anonymous_bytes = 0;
    for number in 0..=bench.args.pairs {
        bench.check_interrupt()?;
        bench.steps.begin("list".into());
        let took = child::tensortap(&["list".as_ref(), dump.as_path(), Path::new("--quiet")])?;
        bench.steps.advance();
        if number > 0 {
            seconds.push(took.seconds);
        }
        anonymous_bytes = anonymous_bytes.max(took.anonymous_bytes);
    }
    bench.scratch.remove(&dump)?;
    let seconds = Spread::of(seconds);
    let met = seconds.median < TARGET_S && anonymous_bytes < TARGET_BYTES;
    let (records, target_s, target_bytes) = (bench.args.records, TARGET_S, TARGET_BYTES);
    Ok(Listed { records, seconds, anonymous_bytes, target_s, target_bytes, met })
}
