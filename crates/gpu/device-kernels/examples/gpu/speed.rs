//! Measures the kernels, next to a copy inside of the device.

use tensortap_abi::DType;
use tensortap_device_kernels::{Plan, RangeElements, Source};

use crate::driver::Stream;
use crate::launch::{Kernels, PreparedPlan};

/// Size of the content: several times the cache.
const POOL: usize = 4 << 30;
const ROUNDS: usize = 9;

pub fn speed(kernels: &Kernels<'_>) -> Result<(), String> {
    let device = kernels.device;
    let memory = device.allocate(POOL)?;
    let mut chunk = vec![0; 64 << 20];
    let mut random = fastrand::Rng::with_seed(3);
    for at in (0..POOL).step_by(chunk.len()) {
        random.fill(&mut chunk);
        // Clear one exponent bit, so that floats of every type are finite.
        chunk.iter_mut().for_each(|byte| *byte &= 0xbf);
        memory.write(at, &chunk)?;
    }
    println!(
        "{:<44}{:>12}{:>17}{:>17}{:>17}{:>17}",
        "microseconds (GB/s of content)", "4 KiB", "256 KiB", "4 MiB", "32 MiB", "1 GiB"
    );
    let sizes = [4 << 10, 256 << 10, 4 << 20, 32 << 20, 1 << 30];
    let row = |name: &str, measure: &dyn Fn(usize) -> Result<f64, String>| -> Result<(), String> {
        let mut line = format!("{name:<36}");
        for bytes in sizes {
            let us = measure(bytes)?;
            line += &format!("{us:>9.1} ({:>5.0})", bytes as f64 / us / 1e3);
        }
        println!("{line}");
        Ok(())
    };
    let stream = device.stream()?;
    row("device copy (reads and writes)", &|bytes| {
        let half = POOL as u64 / 2;
        let places = places(bytes, POOL / 2);
        timed(kernels, stream, &places, |at| {
            device.copy(memory.address + half + at, memory.address + at, bytes, stream)
        })
    })?;
    for (name, off, dtype) in [
        ("hash", 0, None),
        ("hash, at an address + 2", 2, None),
        ("hash and statistics, bfloat16", 0, Some(DType::BFloat16)),
        ("hash and statistics, float16", 0, Some(DType::Float16)),
        ("hash and statistics, float32", 0, Some(DType::Float32)),
        ("hash and statistics, float64", 0, Some(DType::Float64)),
        ("hash and statistics, int32", 0, Some(DType::Int32)),
        ("hash and statistics, uint8", 0, Some(DType::UInt8)),
        ("hash and statistics, float8_e4m3fn", 0, Some(DType::Float8E4M3FN)),
        ("hash and statistics, bfloat16, + 2", 2, Some(DType::BFloat16)),
    ] {
        row(name, &|bytes| {
            let prepared = prepared(kernels, memory.address + off, bytes, dtype)?;
            timed(kernels, stream, &prepared, |plan| kernels.launch(plan, stream))
        })?;
    }
    Ok(())
}

/// Start offsets in the pool, few enough for a short measurement.
fn places(bytes: usize, pool: usize) -> Vec<u64> {
    (0..pool / bytes.max(16 << 20)).map(|place| (place * bytes.max(16 << 20)) as u64).collect()
}

/// One plan per place, so that the content is not cached.
fn prepared<'d>(
    kernels: &Kernels<'d>,
    base: u64,
    bytes: usize,
    dtype: Option<DType>,
) -> Result<Vec<PreparedPlan<'d>>, String> {
    let plan = |at: u64| {
        let bytes = bytes as u64;
        let measured = dtype.and_then(|dtype| RangeElements::whole(dtype, bytes));
        Plan::by_address(&[Source { buffer: 0, address: base + at, bytes, measured }])
    };
    // The last place has no room for shifted ranges.
    let mut places = places(bytes, POOL);
    places.pop();
    places.into_iter().map(|at| kernels.prepare(plan(at).map_err(|error| error.to_string())?)).collect()
}

/// Median time per piece of work in microseconds.
fn timed<T>(
    kernels: &Kernels<'_>,
    stream: Stream,
    works: &[T],
    work: impl Fn(&T) -> Result<(), String>,
) -> Result<f64, String> {
    let device = kernels.device;
    let (begin, end) = (device.event()?, device.event()?);
    let mut times = Vec::new();
    for round in 0..=ROUNDS {
        device.record(begin, stream)?;
        works.iter().try_for_each(&work)?;
        device.record(end, stream)?;
        let time = device.microseconds(begin, end)? / works.len() as f64;
        // The first round warms up.
        if round > 0 {
            times.push(time);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
