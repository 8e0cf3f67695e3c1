//! The kernels on an OpenCL device, against what the host computes of the same bytes; and through the compiler of CUDA.

mod decide;
mod hash;
#[path = "../common/library.rs"]
mod library;
#[path = "../common/nvrtc.rs"]
mod nvrtc;
mod opencl;
mod statistics;

use std::sync::{Mutex, PoisonError};

use opencl::{Arg, Buffer, Device, Program};
use tensortap_abi::DType;
use tensortap_device_kernels::{
    BUFFERS, Build, DECIDE, Decision, HASH_LEAVES, KEEP, MEASURE_LEAVES, Measured, Outcome, Part, Plan,
    ROOTS, RangeResult, SOURCE, Source, StoredHashes,
};
use zerocopy::{FromBytes, IntoBytes};

/// `None`, with a notice, where something that a test needs is not there.
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

/// The device with the kernels, built in one way.
struct Kernels {
    device: Device,
    program: Program,
    build: Build,
}

/// Calls a test with the kernels, built for processors and for others, with groups of two sizes. They are built once, and one test
/// has them at a time.
fn each(test: impl Fn(&Kernels)) {
    static BUILT: Mutex<Option<Vec<Kernels>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let accelerator = |group| Build::accelerator(group, true).unwrap();
    let builds = [Build::processor(true), accelerator(64), accelerator(256)];
    built.get_or_insert_with(|| builds.into_iter().map_while(kernels_of).collect()).iter().for_each(test);
}

/// The same without the largest groups: what measures takes long to compile, and goes another way in them nowhere.
fn each_measuring(test: impl Fn(&Kernels)) {
    each(|kernels| {
        if kernels.build.group < 256 {
            test(kernels);
        }
    });
}

fn kernels_of(build: Build) -> Option<Kernels> {
    let device = device()?;
    // To optimise them would take most of the time that these tests have; on GPUs `examples/gpu` tries what is optimised.
    let options = format!("{} -cl-opt-disable", build.opencl_options());
    let program = device.build(SOURCE, &options).unwrap_or_else(|log| panic!("{build:?}: {log}"));
    Some(Kernels { device, program, build })
}

/// A range of a buffer that a test asks about.
#[derive(Clone, Copy)]
struct Asked {
    buffer: usize,
    offset: usize,
    bytes: usize,
    measured: Option<Measured>,
}

impl Asked {
    fn of(buffer: usize, offset: usize, bytes: usize, dtype: Option<DType>) -> Asked {
        Asked { buffer, offset, bytes, measured: dtype.map(|dtype| Measured::whole(dtype, bytes as u64)) }
    }

    fn source(&self) -> Source {
        let &Asked { buffer, offset, bytes, measured } = self;
        Source { buffer: buffer as u64, address: offset as u64, bytes: bytes as u64, measured }
    }
}

/// What the device says of ranges, in their order; the host has come to the same from what the leaves left.
fn outcomes(kernels: &Kernels, contents: &[&[u8]], asked: &[Asked]) -> Vec<Outcome> {
    let buffers: Vec<Buffer> = contents.iter().map(|content| kernels.device.buffer(content)).collect();
    let results = run(kernels, &buffers, asked);
    let dtype = |asked: &Asked| asked.measured.map(|measured| measured.dtype);
    asked.iter().zip(results).map(|(asked, result)| result.outcome(dtype(asked))).collect()
}

fn run(kernels: &Kernels, buffers: &[Buffer], asked: &[Asked]) -> Vec<RangeResult> {
    let sources: Vec<Source> = asked.iter().map(Asked::source).collect();
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

/// Parts are put together in another order on the device, so their last bits may differ.
fn same(host: &RangeResult, device: &RangeResult, bytes: u64) {
    assert_eq!(host.hash, device.hash, "{bytes} bytes");
    let exact = |part: &Part| (part.min, part.max, part.zeros, part.nan, part.inf, part.finite);
    assert_eq!(exact(&host.part), exact(&device.part), "{bytes} bytes");
}

/// Runs leaves and roots of one plan; what the host makes of the leaves.
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

/// Random bytes that are the same every time.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut content = vec![0; bytes];
    random.fill(&mut content);
    content
}

#[test]
fn the_compiler_of_cuda_takes_the_source() {
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
    let log = compiler.compile(&broken, &options).expect_err("a mistake is found");
    assert!(log.contains("tt_rotated_inn"), "{log}");
}
