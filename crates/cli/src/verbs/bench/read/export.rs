use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::Serialize;

use super::made::PAYLOAD_FILE;
use super::{Bench, Pairs, TENSOR_BYTES, child};

const TARGET_RATIO: f64 = 0.5;

/// An export against a copy.
#[derive(Serialize)]
pub struct ExportRatio {
    pub bytes: u64,
    pub tensor_bytes: u64,
    #[serde(flatten)]
    pub pairs: Pairs,
}

/// Measures pairs of a copy of the payload file and of an export of its records.
pub fn measure(bench: &Bench<'_>, dump: &Path) -> anyhow::Result<ExportRatio> {
    let bytes = bench.args.payload_bytes();
    let (payloads, copy, out) =
        (dump.join(PAYLOAD_FILE), bench.scratch.path("copy"), bench.scratch.path("export"));
    let plain = || {
        let took = copy_file(&payloads, &copy)?;
        bench.scratch.remove(&copy)?;
        Ok(took)
    };
    let ours = || {
        let args: [&OsStr; 7] = [
            "export".as_ref(),
            dump.as_ref(),
            "--format".as_ref(),
            "npy".as_ref(),
            "--quiet".as_ref(),
            "--out".as_ref(),
            out.as_ref(),
        ];
        let took = child::tensortap(&args)?.seconds;
        bench.scratch.remove(&out)?;
        Ok(took)
    };
    let pairs = bench.pairs("export: npy", bytes, TARGET_RATIO, plain, ours)?;
    Ok(ExportRatio { bytes, tensor_bytes: TENSOR_BYTES, pairs })
}

fn copy_file(from: &Path, to: &Path) -> anyhow::Result<f64> {
    let started = Instant::now();
    let status =
        Command::new("cp").arg("--reflink=never").args([from, to]).status().context("starting cp")?;
    ensure!(status.success(), "cp could not copy {}", from.display());
    Ok(started.elapsed().as_secs_f64())
}
