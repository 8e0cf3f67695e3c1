//! Compares the results of the device with the host's for the same bytes.

use tensortap_abi::{DType, TensorStats};
use tensortap_device_kernels::{
    Decision, FEW_RANGES, MANY_RANGES, Plan, RangeElements, RangeResult, Source, StoredHashes,
};
use tensortap_values::{Statistics, content_hash};
use zerocopy::IntoBytes;

use crate::driver::Memory;
use crate::launch::Kernels;

pub fn check(kernels: &Kernels<'_>) -> Result<(), String> {
    let content = noise(96 << 20);
    let memory = kernels.device.upload(&content)?;
    let held = |asked: &[RangeCase]| {
        // Ranges with little content have their own kernels.
        let mut ranges = hold(kernels, &content, &memory, asked)?;
        for few in asked.chunks(FEW_RANGES).step_by(3).chain(asked.chunks(MANY_RANGES).step_by(5)) {
            ranges += hold(kernels, &content, &memory, few)?;
        }
        Ok::<usize, String>(ranges)
    };
    report("every length to 9,000 bytes, 17 alignments", held(&every_length())?);
    report("lengths around edges, 32 alignments", held(&edges())?);
    report("large ranges of random sizes and places", held(&large(content.len()))?);
    report("statistics of every dtype", held(&dtypes(content.len()))?);
    check_gibibyte(kernels)?;
    check_decisions(kernels, &content, &memory)
}

/// A range of the content.
#[derive(Clone, Copy)]
struct RangeCase {
    offset: usize,
    bytes: usize,
    dtype: Option<DType>,
}

fn report(what: &str, ranges: usize) {
    println!("equal: {what}: {ranges} ranges");
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    fastrand::Rng::with_seed(1).fill(&mut content);
    content
}

fn plain(offset: usize, bytes: usize) -> RangeCase {
    RangeCase { offset, bytes, dtype: None }
}

fn every_length() -> Vec<RangeCase> {
    (0..=9000).flat_map(|bytes| [plain(bytes % 17, bytes), plain(16 * (bytes % 5), bytes)]).collect()
}

fn edges() -> Vec<RangeCase> {
    let near = |edge: usize| edge - 2..=edge + 2;
    let leaves = [15, 16, 17, 63, 64, 65, 66, 128, 129, 192].map(|leaves| leaves * 4096);
    let edges = [240, 1024, 2048, 4096, 8192].into_iter().chain(leaves);
    edges.flat_map(near).flat_map(|bytes| (0..32).map(move |offset| plain(offset, bytes))).collect()
}

fn large(bytes: usize) -> Vec<RangeCase> {
    let mut random = fastrand::Rng::with_seed(2);
    let mut asked = vec![plain(0, bytes), plain(1, bytes - 1), plain(0, bytes - 3), plain(2, bytes - 4096)];
    for _ in 0..40 {
        let size = random.usize(..16 << 20);
        asked.push(plain(random.usize(..bytes - size), size));
    }
    asked
}

fn dtypes(bytes: usize) -> Vec<RangeCase> {
    let sizes = [0, 1, 16, 100, 241, 4095, 4096, 4097, 70_001, 262_144, 262_145, 3 << 20];
    let of = |dtype| {
        sizes.map(|bytes| [0, 1, 2, 8, 16].map(|offset| RangeCase { offset, bytes, dtype: Some(dtype) }))
    };
    let mut asked: Vec<RangeCase> = DType::ALL.into_iter().flat_map(of).flatten().collect();
    asked.extend(DType::ALL.map(|dtype| RangeCase { offset: 0, bytes, dtype: Some(dtype) }));
    asked
}

/// Runs all ranges in one launch and compares each with the host. Returns the number of ranges.
fn hold(
    kernels: &Kernels<'_>,
    content: &[u8],
    memory: &Memory<'_>,
    asked: &[RangeCase],
) -> Result<usize, String> {
    let sources: Vec<Source> = asked.iter().map(|asked| source(memory.address, asked)).collect();
    let prepared = kernels.prepare(Plan::by_address(&sources).map_err(|error| error.to_string())?)?;
    let results = kernels.run(&prepared)?;
    for ((asked, by_device), by_host) in asked.iter().zip(&results).zip(prepared.finish_on_host()?) {
        if by_host.map(|result| result.hash) != Some(by_device.hash) {
            return Err(format!(
                "{} bytes at {}: the roots of host and device differ",
                asked.bytes, asked.offset
            ));
        }
        hold_one(&content[asked.offset..][..asked.bytes], asked, by_device)?;
    }
    Ok(results.len())
}

fn source(base: u64, asked: &RangeCase) -> Source {
    let &RangeCase { offset, bytes, dtype } = asked;
    let measured = dtype.and_then(|dtype| RangeElements::whole(dtype, bytes as u64));
    Source { buffer: 0, address: base + offset as u64, bytes: bytes as u64, measured }
}

fn hold_one(content: &[u8], asked: &RangeCase, result: &RangeResult) -> Result<(), String> {
    let outcome = result.outcome(asked.dtype);
    let what = || format!("{} bytes at {}, {:?}", asked.bytes, asked.offset, asked.dtype);
    if outcome.hash != content_hash(content) {
        return Err(format!(
            "{}: hash {:032x} instead of {:032x}",
            what(),
            outcome.hash,
            content_hash(content)
        ));
    }
    let (Some(dtype), Some(stats)) = (asked.dtype, outcome.stats) else { return Ok(()) };
    let measured = RangeElements::whole(dtype, content.len() as u64).expect("measured on the device");
    let mut statistics = Statistics::new(measured.dtype, measured.elements);
    let bytes = (measured.elements * u64::from(measured.dtype.bits())).div_ceil(8);
    statistics.update(&content[..usize::try_from(bytes).expect("part of the content")]);
    let expected = statistics.finish();
    if same(stats, expected) { Ok(()) } else { Err(format!("{}: {stats:?} instead of {expected:?}", what())) }
}

fn same(got: TensorStats, expected: TensorStats) -> bool {
    let ends = |stats: TensorStats| [stats.min, stats.max].map(|end| (end + 0.0).to_bits());
    let exact = |stats: TensorStats| (ends(stats), stats.zeros, stats.nan, stats.inf, stats.numel);
    let scale = expected.max.abs().max(expected.min.abs());
    let near = |got: f64, expected: f64| {
        got.is_nan() && expected.is_nan() || (got / 2.0 - expected / 2.0).abs() <= 1e-12 * scale
    };
    exact(got) == exact(expected) && near(got.mean, expected.mean) && near(got.std, expected.std)
}

fn check_gibibyte(kernels: &Kernels<'_>) -> Result<(), String> {
    let content = noise((1 << 30) + 4099);
    let memory = kernels.device.upload(&content)?;
    let bf16 = Some(DType::BFloat16);
    let asked =
        [plain(0, 1 << 30), plain(3, (1 << 30) + 4096), RangeCase { offset: 0, bytes: 1 << 30, dtype: bf16 }];
    report("1 GiB, aligned, not aligned, with statistics", hold(kernels, &content, &memory, &asked)?);
    Ok(())
}

fn check_decisions(kernels: &Kernels<'_>, content: &[u8], memory: &Memory<'_>) -> Result<(), String> {
    // 500 distinct contents, eight times each.
    let asked: Vec<RangeCase> = (0..4000).map(|place: usize| plain(place * 7 % 500 * 4096, 4000)).collect();
    let sources: Vec<Source> = asked.iter().map(|asked| source(memory.address, asked)).collect();
    let prepared = kernels.prepare(Plan::by_address(&sources).map_err(|error| error.to_string())?)?;
    kernels.run(&prepared)?;
    let mut stored = StoredHashes::with_room(500);
    stored.insert(content_hash(&content[..4000]));
    let set = kernels.device.upload(stored.slots().as_bytes())?;
    let mut new = [0; 500];
    for (place, decision) in kernels.decide(&prepared, &set, &stored)?.into_iter().enumerate() {
        new[place * 7 % 500] += usize::from(decision == Decision::New);
    }
    if new[0] != 0 || new[1..].iter().any(|count| *count != 1) {
        return Err(format!("each content should be new exactly once: {new:?}"));
    }
    if kernels.decide(&prepared, &set, &stored)?.iter().any(|decision| *decision != Decision::Stored) {
        return Err("stored content was decided to be new".into());
    }
    report("decisions: each content is new once", asked.len());
    check_kept(kernels, content, memory)
}

/// Checks that new content is copied at every alignment, and stored content is not.
fn check_kept(kernels: &Kernels<'_>, content: &[u8], memory: &Memory<'_>) -> Result<(), String> {
    let mut stored = StoredHashes::with_room(1000);
    stored.insert(content_hash(&content[100..5100]));
    let set = kernels.device.upload(stored.slots().as_bytes())?;
    let sizes = [5000, 1, 15, 16, 17, 65_535, 65_536, 65_537, 1 << 20, (3 << 20) + 5, 40, 9_000_000];
    let asked: Vec<RangeCase> =
        sizes.iter().zip(0..).map(|(&bytes, at)| plain(100 + 1_000_003 * at, bytes)).collect();
    let sources: Vec<Source> = asked.iter().map(|asked| source(memory.address, asked)).collect();
    let prepared = kernels.prepare(Plan::by_address(&sources).map_err(|error| error.to_string())?)?;
    let decisions = kernels.decide(&prepared, &set, &stored)?;
    let room = kernels.device.upload(&vec![0x5a; 16 << 20])?;
    let (mut at, mut places) = (room.address, Vec::new());
    for (place, asked) in asked.iter().enumerate() {
        let to = at + (memory.address + asked.offset as u64) % 16;
        places.push((place, to));
        at += (asked.bytes as u64 + 16).next_multiple_of(256);
    }
    kernels.kept(&prepared, &places)?;
    let kept: Vec<u8> = room.read(16 << 20)?;
    let mut expected = vec![0x5a; 16 << 20];
    for ((&(_, to), asked), decision) in places.iter().zip(&asked).zip(&decisions) {
        if *decision == Decision::New {
            let to = usize::try_from(to - room.address).expect("in the room");
            expected[to..][..asked.bytes].copy_from_slice(&content[asked.offset..][..asked.bytes]);
        }
    }
    if decisions.iter().filter(|decision| **decision == Decision::New).count() != asked.len() - 1
        || kept != expected
    {
        return Err("the copied content is not the new content".into());
    }
    report("copies of new content", asked.len());
    Ok(())
}
