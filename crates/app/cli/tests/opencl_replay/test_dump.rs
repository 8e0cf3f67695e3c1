//! Dumps of launches.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use tensortap::record::{
    DType, DumpStage, FolderOptions, KernelId, KernelInfo, ModuleImage, ModuleKind, Role, Session, StringId,
    Task, TaskInfo, Tensor, ThreadRecorder, UncapturedReason,
};
use tensortap::{LaunchDevice, ReplayConfig, ReplayReport};

use crate::common::executable;

/// Source of the test kernels.
pub const SOURCE: &str = r#"
kernel void saxpy(global float *y, global const float *x, float a, int n)
{
    size_t at = get_global_id(0);
    if (at < n)
        y[at] = a * x[at] + y[at];
}

kernel void turned(global int *out, float4 add, local int *row, global const int *in)
{
    size_t w = get_global_size(0), l = get_local_id(0), g = get_local_size(0);
    size_t at = get_global_id(1) * w + get_global_id(0);
    row[l] = in[at];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[at] = row[g - 1 - l] + (int)add.x + (int)add.w * FACTOR + (int)get_work_dim();
}

kernel void shared_ends(global int *whole, global int *part, global int *nothing)
{
    size_t at = get_global_id(0);
    part[at] = whole[at] * 3 + (nothing == 0);
}

kernel void forever(global volatile int *flag)
{
    while (flag[0] == 0)
        flag[1] += 1;
}

kernel void astray(global int *x)
{
    *(global volatile int *)8 = x[0];
}
"#;

pub const OPTIONS: &str = "-DFACTOR=10";

/// Name of the test device, as in dumps; `None` with a notice without a device.
pub fn device() -> Option<String> {
    let made = TestDump::new("another device / 1", |recorder, kernel| {
        saxpy(recorder, kernel, [4, 0, 0], [0; 3], 1.0, 4, false);
    });
    match tensortap::replay(&made.config()) {
        Ok(report) => Some(report.replayed_on[0].clone()),
        Err(error) => {
            assert!(std::env::var_os("TENSORTAP_SKIP_NOTHING").is_none(), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// A dump.
pub struct TestDump {
    pub folder: TempDir,
}

impl TestDump {
    /// Makes a dump from the records of `record`, which gets kernels by name.
    pub fn new(
        device: &str,
        record: impl FnOnce(&mut ThreadRecorder, &dyn Fn(&mut ThreadRecorder, &str) -> KernelId),
    ) -> TestDump {
        TestDump::with(device, &FolderOptions::default(), record)
    }

    pub fn with(
        device: &str,
        options: &FolderOptions,
        record: impl FnOnce(&mut ThreadRecorder, &dyn Fn(&mut ThreadRecorder, &str) -> KernelId),
    ) -> TestDump {
        let folder = tempfile::tempdir().unwrap();
        let session = Session::in_folder(&folder.path().join("dump"), options).unwrap();
        let mut recorder = session.thread().unwrap();
        let kernel = |recorder: &mut ThreadRecorder, name: &str| {
            let program = ModuleImage {
                name: "program 1",
                kind: ModuleKind::OpenClC,
                options: OPTIONS,
                device,
                image: SOURCE.as_bytes(),
            };
            let module = recorder.module_image(&program).unwrap();
            recorder.define_kernel(&KernelInfo { name, module, args: &[] }).unwrap()
        };
        record(&mut recorder, &kernel);
        drop(recorder);
        session.close().unwrap();
        TestDump { folder }
    }

    pub fn dump(&self) -> PathBuf {
        self.folder.path().join("dump")
    }

    /// Replays all tasks with the library.
    pub fn config(&self) -> ReplayConfig {
        let mut config = ReplayConfig::new(self.dump(), tensortap_cli::scenes());
        config.device_executable = Some(executable());
        config
    }

    pub fn replay(&self) -> ReplayReport {
        tensortap::replay(&self.config()).unwrap()
    }

    pub fn replay_on(&self, device: LaunchDevice) -> ReplayReport {
        tensortap::replay(&ReplayConfig { launch_device: device, ..self.config() }).unwrap()
    }

    /// Runs the command line with `--json` on this dump.
    pub fn call(&self, args: &[&str]) -> (Option<i32>, Value, String) {
        call(self.folder.path(), args)
    }
}

pub fn call(folder: &Path, args: &[&str]) -> (Option<i32>, Value, String) {
    let said = Command::new(executable()).current_dir(folder).args(args).arg("--json").output().unwrap();
    let stderr = String::from_utf8(said.stderr).unwrap();
    let document = serde_json::from_slice(&said.stdout).unwrap_or(Value::Null);
    (said.status.code(), document, stderr)
}

/// The bytes of some words.
pub fn bytes<const N: usize, T: Copy>(values: &[T], as_bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| as_bytes(value)).collect()
}

/// Device memory, at an address that is not readable here.
pub struct Range<'m> {
    pub arg: u16,
    pub address: u64,
    pub dtype: DType,
    pub before: &'m [u8],
    pub after: &'m [u8],
}

impl Range<'_> {
    pub fn record(&self, recorder: &mut ThreadRecorder, task: &mut Task, stage: DumpStage) {
        let content = if stage == DumpStage::BeforeDispatch { self.before } else { self.after };
        let tensor = Tensor::of(content, self.dtype).unwrap().arg(self.arg).role(Role::InOut);
        let tensor = tensor.space(tensortap::record::MemorySpace::Device).known_at(self.address);
        recorder.tensor(task, stage, &tensor.guessed(false, true, false)).unwrap();
    }
}

/// The grid of a launch.
pub fn spread(kernel: KernelId, dims: u8, size: [u64; 3], offset: [u64; 3], group: [u32; 3]) -> TaskInfo {
    TaskInfo { work_dims: dims, global_size: size, global_offset: offset, group, ..TaskInfo::of(kernel) }
}

/// `y = a x + y` for each work item, with `n` elements; optionally with a wrong last element.
pub fn saxpy(
    recorder: &mut ThreadRecorder,
    kernel: &dyn Fn(&mut ThreadRecorder, &str) -> KernelId,
    size: [u64; 3],
    offset: [u64; 3],
    a: f32,
    n: usize,
    is_wrong: bool,
) {
    let id = kernel(recorder, "saxpy");
    let x: Vec<f32> = (0..n).map(|at| 0.5 + at as f32).collect();
    let before: Vec<f32> = (0..n).map(|at| 7.0 - at as f32 * 0.25).collect();
    let mut after = before.clone();
    for at in offset[0]..offset[0] + size[0] {
        if let Some(y) = after.get_mut(usize::try_from(at).unwrap()) {
            // Each product is exact, so rounding before the sum does not matter.
            *y += a * x[usize::try_from(at).unwrap()];
        }
    }
    if is_wrong {
        *after.last_mut().unwrap() += 1.0;
    }
    let [before, after, x] = [before, after, x].map(|values| bytes(&values, f32::to_le_bytes));
    let mut task = recorder.begin(&spread(id, 1, size, offset, [0; 3])).unwrap();
    let dtype = DType::Float32;
    let ranges = [
        Range { arg: 0, address: 0x1_0000_0000, dtype, before: &before, after: &after },
        Range { arg: 1, address: 0x2_0000_0000, dtype, before: &x, after: &x },
    ];
    ranges.iter().for_each(|range| range.record(recorder, &mut task, DumpStage::BeforeDispatch));
    recorder.scalar(&mut task, 2, DType::Float32, a.to_bits().into(), StringId::NONE).unwrap();
    recorder.scalar(&mut task, 3, DType::Int32, n as u64, StringId::NONE).unwrap();
    ranges.iter().for_each(|range| range.record(recorder, &mut task, DumpStage::AfterCompletion));
    recorder.end(&mut task).unwrap();
}

/// A buffer argument of `words` words.
pub fn one_buffer(recorder: &mut ThreadRecorder, kernel: KernelId, words: usize) {
    let content = vec![0_u8; words * 4];
    let mut task = recorder.begin(&spread(kernel, 1, [1, 0, 0], [0; 3], [0; 3])).unwrap();
    let range =
        Range { arg: 0, address: 0x5_0000_0000, dtype: DType::Int32, before: &content, after: &content };
    range.record(recorder, &mut task, DumpStage::BeforeDispatch);
    range.record(recorder, &mut task, DumpStage::AfterCompletion);
    recorder.end(&mut task).unwrap();
}

/// An argument that no backend can capture.
pub fn opaque(recorder: &mut ThreadRecorder, kernel: KernelId) {
    let mut task = recorder.begin(&spread(kernel, 1, [1, 0, 0], [0; 3], [0; 3])).unwrap();
    let before = DumpStage::BeforeDispatch;
    let argument = (0, Role::InOut, StringId::NONE);
    recorder.not_captured(&mut task, before, argument, UncapturedReason::Opaque).unwrap();
    recorder.end(&mut task).unwrap();
}

/// A launch of `saxpy` without an end record.
pub fn unfinished(recorder: &mut ThreadRecorder, kernel: KernelId) {
    let content = vec![0_u8; 16];
    let mut task = recorder.begin(&spread(kernel, 1, [4, 0, 0], [0; 3], [0; 3])).unwrap();
    for (arg, address) in [(0, 0x5_0000_0000), (1, 0x6_0000_0000)] {
        let range = Range { arg, address, dtype: DType::Float32, before: &content, after: &content };
        range.record(recorder, &mut task, DumpStage::BeforeDispatch);
    }
    recorder.scalar(&mut task, 2, DType::Float32, 0, StringId::NONE).unwrap();
    recorder.scalar(&mut task, 3, DType::Int32, 4, StringId::NONE).unwrap();
}
