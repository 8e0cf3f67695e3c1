//! Tests the kernels on an OpenCL device against the host, and compiles them as CUDA C.

mod decide;
mod hash;
mod opencl;
mod statistics;

use std::sync::{Mutex, PoisonError};

use opencl::{Arg, Buffer, Device, Program};
use tensortap_abi::DType;
use tensortap_device_kernels::{
    BUFFERS, Build, DECIDE, Decision, HASH_LEAVES, KEEP, MEASURE_LEAVES, Outcome, Part, Plan, ROOTS,
    RangeElements, RangeResult, SOURCE, Source, StoredHashes,
};
use tensortap_driver::nvrtc;
use zerocopy::{FromBytes, IntoBytes};

/// `None` with a notice if something that a test needs is missing.
fn or_skip<T>(found: Result<T, String>, what: &str, remedy: &str) -> Option<T> {
    found
        .map_err(|reason| {
            assert!(std::env::var_os("TENSORTAP_SKIP_NOTHING").is_none(), "{what}: {reason}; {remedy}");
            eprintln!("SKIPPED: {what}, as {reason}; {remedy}");
        })
        .ok()
}

fn device() -> Option<Device> {
    or_skip(Device::find(), "kernels on an OpenCL device", "TENSORTAP_OPENCL names a loader with a device")
}

/// A device with one build of the kernels.
struct Kernels {
    device: Device,
    program: Program,
    build: Build,
}

/// Runs a test with the kernels built for CPUs and for other devices with two group sizes. They are built
/// once, and one test uses them at a time.
fn each(test: impl Fn(&Kernels)) {
    static BUILT: Mutex<Option<Vec<Kernels>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let accelerator = |group| Build::accelerator(group, true).unwrap();
    let builds = [Build::processor(true), accelerator(64), accelerator(256)];
    built.get_or_insert_with(|| builds.into_iter().map_while(kernels_of).collect()).iter().for_each(test);
}

/// Runs a test without the largest groups: statistics take long to compile, and the code is the same.
fn each_measuring(test: impl Fn(&Kernels)) {
    each(|kernels| {
        if kernels.build.group < 256 {
            test(kernels);
        }
    });
}

fn kernels_of(build: Build) -> Option<Kernels> {
    let device = device()?;
    // Optimizing would take most of the test time. `examples/gpu` tests optimized kernels on GPUs.
    let options = format!("{} -cl-opt-disable", build.opencl_options());
    let program = device.build(SOURCE, &options).unwrap_or_else(|log| panic!("{build:?}: {log}"));
    Some(Kernels { device, program, build })
}

/// A range of a buffer in a test.
#[derive(Clone, Copy)]
struct RangeCase {
    buffer: usize,
    offset: usize,
    bytes: usize,
    measured: Option<RangeElements>,
}

impl RangeCase {
    fn of(buffer: usize, offset: usize, bytes: usize, dtype: Option<DType>) -> RangeCase {
        RangeCase {
            buffer,
            offset,
            bytes,
            measured: dtype.and_then(|dtype| RangeElements::whole(dtype, bytes as u64)),
        }
    }

    fn source(&self) -> Source {
        let &RangeCase { buffer, offset, bytes, measured } = self;
        Source { buffer: buffer as u64, address: offset as u64, bytes: bytes as u64, measured }
    }
}

/// Results of the device for ranges, in order. Checks that the host computes the same from the results of
/// leaves.
fn outcomes(kernels: &Kernels, contents: &[&[u8]], asked: &[RangeCase]) -> Vec<Outcome> {
    let buffers: Vec<Buffer> = contents.iter().map(|content| kernels.device.buffer(content)).collect();
    let results = run(kernels, &buffers, asked);
    let dtype = |asked: &RangeCase| asked.measured.map(|measured| measured.dtype);
    asked.iter().zip(results).map(|(asked, result)| result.outcome(dtype(asked))).collect()
}

fn run(kernels: &Kernels, buffers: &[Buffer], asked: &[RangeCase]) -> Vec<RangeResult> {
    let sources: Vec<Source> = asked.iter().map(RangeCase::source).collect();
    let results_bytes = asked.len() * size_of::<RangeResult>();
    let results = kernels.device.buffer(&vec![0xa5; results_bytes]);
    for plan in Plan::by_buffer(&sources).expect("ranges that can be planned") {
        let by_host = launch(kernels, &plan, buffers, &results);
        let by_device = kernels.device.read(&results, results_bytes);
        let by_device = <[RangeResult]>::ref_from_bytes(&by_device).expect("whole results");
        for (range, result) in plan.ranges().iter().zip(by_host) {
            same(&result.expect("all findings"), &by_device[range.slot as usize], range.bytes);
        }
    }
    let results = kernels.device.read(&results, results_bytes);
    <[RangeResult]>::ref_from_bytes(&results).expect("whole results").to_vec()
}

/// The device merges parts in a different order, so the last bits may differ.
fn same(host: &RangeResult, device: &RangeResult, bytes: u64) {
    assert_eq!(host.hash, device.hash, "{bytes} bytes");
    let exact = |part: &Part| (part.min, part.max, part.zeros, part.nan, part.inf, part.finite);
    assert_eq!(exact(&host.part), exact(&device.part), "{bytes} bytes");
}

/// Runs leaves and roots of one plan. Returns what the host computes from the results of leaves.
fn launch(kernels: &Kernels, plan: &Plan, buffers: &[Buffer], results: &Buffer) -> Vec<Option<RangeResult>> {
    let Kernels { device, program, build } = kernels;
    let scratch = plan.scratch();
    let ranges = device.buffer(plan.ranges().as_bytes());
    let room = |bytes: u64| device.buffer(&vec![0x5a; usize::try_from(bytes).unwrap()]);
    let (hashes, sums, parts) = (room(scratch.leaf_hashes), room(scratch.sums), room(scratch.parts));
    let count = u32::try_from(plan.ranges().len()).unwrap();
    let mut args = vec![Arg::Word(count)];
    args.extend([&ranges, &hashes, &sums, &parts].map(Arg::Buffer));
    args.extend(plan.buffers().iter().map(|buffer| Arg::Buffer(&buffers[usize::try_from(*buffer).unwrap()])));
    args.resize_with(5 + BUFFERS, || Arg::NoBuffer);
    let leaves = if plan.measures() { MEASURE_LEAVES } else { HASH_LEAVES };
    device.launch(program, leaves, plan.bundles() as usize, build.group, &args);
    let mut args: Vec<Arg<'_>> = [&ranges, &hashes, &sums, &parts, results].map(Arg::Buffer).into();
    args.push(Arg::Word(plan.measures().into()));
    device.launch(program, ROOTS, plan.ranges().len(), build.group, &args);
    let hashes = device.read(&hashes, usize::try_from(scratch.leaf_hashes).unwrap());
    let parts = device.read(&parts, usize::try_from(scratch.parts).unwrap());
    plan.finish(<[[u64; 2]]>::ref_from_bytes(&hashes).unwrap(), <[Part]>::ref_from_bytes(&parts).unwrap())
}

/// Reproducible random bytes.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut content = vec![0; bytes];
    random.fill(&mut content);
    content
}

#[test]
fn nvrtc_compiles_the_source() {
    let remedy = "TENSORTAP_NVRTC names the library; `pip install nvidia-cuda-nvrtc` brings it";
    let Some(compiler) = or_skip(nvrtc::Compiler::find(), "the kernels as CUDA C", remedy) else { return };
    let options = Build::CUDA.nvrtc_options("sm_90");
    let code = compiler.compile(SOURCE, &options).unwrap_or_else(|log| panic!("{log}"));
    for name in [HASH_LEAVES, MEASURE_LEAVES, KEEP] {
        let symbol = format!(".text.{name}\0");
        assert!(
            code.windows(symbol.len()).any(|bytes| bytes == symbol.as_bytes()),
            "{name} is not in the code"
        );
    }
    let broken = SOURCE.replacen("tt_rotated_in(secret[word]", "tt_rotated_inn(secret[word]", 1);
    let log = compiler.compile(&broken, &options).expect_err("an error in the source is reported");
    assert!(log.contains("tt_rotated_inn"), "{log}");
}
