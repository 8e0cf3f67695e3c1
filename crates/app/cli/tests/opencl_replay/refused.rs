//! Tests launches that are refused or do not complete.

use std::fs;
use std::time::Duration;

use tensortap::abi::{
    DType, DumpStage, KernelRecord, ModuleKind, ModuleRecord, NO_KERNEL, RECORD_EXTENDED, RECORD_HAS_HASH,
    RECORD_HAS_PAYLOAD, Role, ScalarRecord, TaskRecord, TensorRecord,
};
use tensortap::format::{Dump, DumpWriter, Footer, ImageWriter, IndexRecord, Payload, RunInfo, Status};
use tensortap::record::{DumpLevel, FolderOptions, KernelInfo, ModuleImage};
use tensortap::values::content_hash;
use tensortap::{Outcome, ReplayConfig};

use crate::common::executable;
use crate::test_dump::{OPTIONS, SOURCE, TestDump, device, one_buffer, opaque, saxpy, unfinished};

fn reason(outcome: &Outcome) -> (&'static str, String) {
    (outcome.name(), outcome.reason().unwrap_or_default().to_owned())
}

#[test]
fn launches_after_a_hang_or_crash_still_run() {
    let Some(device) = device() else { return };
    let made = TestDump::new(&device, |recorder, kernel| {
        for name in ["astray", "forever"] {
            let id = kernel(recorder, name);
            one_buffer(recorder, id, 2);
            saxpy(recorder, kernel, [16, 0, 0], [0; 3], 2.0, 16, false);
        }
    });
    let config = ReplayConfig { stall_timeout: Some(Duration::from_secs(5)), ..made.config() };
    let report = tensortap::replay(&config).unwrap();
    let outcomes: Vec<_> = report.tasks.iter().map(|task| reason(&task.outcome)).collect();
    assert!(outcomes[0].0 == "failed" && outcomes[0].1.contains("it crashed: its process"), "{outcomes:?}");
    assert_eq!(outcomes[2], ("failed", "it did not complete within 5 s".to_owned()), "{outcomes:?}");
    assert_eq!([outcomes[1].0, outcomes[3].0], ["bitexact"; 2], "{outcomes:?}");
    // The crash comes first, so the hanging launch does not run again.
    let one = ReplayConfig { max_device_failures: Some(1), ..config };
    let report = tensortap::replay(&one).unwrap();
    assert!(reason(&report.tasks[1].outcome).1.contains("--max-device-failures"));
}

#[test]
fn an_unfinished_launch_runs_only_with_allow_inexact() {
    let Some(device) = device() else { return };
    let made = TestDump::new(&device, |recorder, kernel| {
        let id = kernel(recorder, "saxpy");
        unfinished(recorder, id);
    });
    let (outcome, why) = reason(&made.replay().tasks[0].outcome);
    assert!(outcome == "refused" && why.contains("was still running"), "{outcome}: {why}");
    let allowed = ReplayConfig { allow_inexact: true, ..made.config() };
    let (outcome, why) = reason(&tensortap::replay(&allowed).unwrap().tasks[0].outcome);
    assert!(outcome == "unchecked" && why.contains("cannot be checked"), "{outcome}: {why}");
}

#[test]
fn names_what_is_missing() {
    let Some(device) = device() else { return };
    let made = TestDump::new(&device, |recorder, kernel| {
        let id = kernel(recorder, "saxpy");
        opaque(recorder, id);
        // The kernel has four arguments.
        one_buffer(recorder, id, 4);
        let id = kernel(recorder, "no_such_kernel");
        one_buffer(recorder, id, 4);
        saxpy(recorder, kernel, [16, 0, 0], [0; 3], 2.0, 16, false);
    });
    let report = made.replay();
    let outcomes: Vec<_> = report.tasks.iter().map(|task| reason(&task.outcome)).collect();
    assert!(
        outcomes[0].0 == "refused" && outcomes[0].1.contains("driver object (image, sampler or pipe)"),
        "{outcomes:?}"
    );
    assert!(
        outcomes[1].0 == "refused" && outcomes[1].1.contains("declares 4 arguments, but 1 were"),
        "{outcomes:?}"
    );
    assert!(outcomes[2].0 == "refused" && outcomes[2].1.contains("CL_INVALID_KERNEL_NAME"), "{outcomes:?}");
    assert_eq!(outcomes[3].0, "bitexact");
    let module = Dump::open(&made.dump()).unwrap().modules().remove(0);
    let file = made.dump().join(module.file().unwrap());
    let image = fs::read_to_string(&file).unwrap();
    fs::write(&file, image.replacen("a * x[at]", "a + x[at]", 1)).unwrap();
    let report = made.replay();
    let why = reason(&report.tasks[3].outcome);
    assert!(why.0 == "refused" && why.1.contains("differs from the recorded image"), "{why:?}");
    fs::remove_file(&file).unwrap();
    let why = reason(&made.replay().tasks[3].outcome);
    assert!(why.0 == "refused" && why.1.contains("cannot open"), "{why:?}");
}

#[test]
fn a_launch_without_content_is_refused_and_never_passes() {
    let Some(device) = device() else { return };
    let options = FolderOptions { level: DumpLevel::Hash, ..FolderOptions::default() };
    let made = TestDump::with(&device, &options, |recorder, kernel| {
        saxpy(recorder, kernel, [16, 0, 0], [0; 3], 2.0, 16, false);
    });
    let why = reason(&made.replay().tasks[0].outcome);
    assert!(why.0 == "refused" && why.1.contains("argument 0 would be zeros"), "{why:?}");
    let report = tensortap::replay(&ReplayConfig { allow_inexact: true, ..made.config() }).unwrap();
    let why = reason(&report.tasks[0].outcome);
    assert_eq!(why, ("failed", "argument 0: its hash differs from the captured one".to_owned()));
    for (option, word) in
        [("--set-arg=0=1", "--set-arg"), ("--bench", "--bench"), ("--reference", "--reference")]
    {
        let (code, _, stderr) = made.call(&["replay", "dump", "--all", option]);
        assert!(code == Some(2) && stderr.contains(word), "{stderr}");
    }
}

#[test]
fn a_debugger_that_would_never_stop_does_not_start() {
    let made = TestDump::new("any device / 1", |recorder, kernel| {
        saxpy(recorder, kernel, [16, 0, 0], [0; 3], 2.0, 16, false);
    });
    let (code, _, stderr) =
        made.call(&["replay", "dump", "--task", "1", "--debugger=no-debugger", "--trust"]);
    let words = "--debugger cannot stop in a kernel of OpenCL or CUDA";
    assert!(code == Some(2) && stderr.contains(words), "{stderr}");
    let (code, _, stderr) =
        made.call(&["replay", "no-dump", "--task", "1", "--debugger=no-debugger", "--trust"]);
    assert!(code == Some(2) && stderr.contains("no-dump") && !stderr.contains("no-debugger"), "{stderr}");
}

/// Writes one launch of `saxpy` over 16 elements. For each stage: whether the content or only its hash is
/// stored.
fn by_hand(
    task_id: u64,
    stored: [bool; 2],
    contents: [&[u8]; 3],
    writer: &mut DumpWriter,
) -> Vec<IndexRecord> {
    let [before, after, x] = contents;
    let task = TaskRecord {
        task_id,
        func_id: [1, NO_KERNEL, NO_KERNEL],
        started_ns: task_id,
        completed_ns: task_id + 1,
        tensor_count: 2,
        scalar_count: 2,
        module: 1,
        work_dims: 1,
        flags: RECORD_EXTENDED,
        global_size: [16, 0, 0],
        ..TaskRecord::default()
    };
    let mut records = vec![IndexRecord::plain(&task)];
    let stages = [DumpStage::BeforeDispatch, DumpStage::AfterCompletion];
    for (stage, (is_stored, y)) in stages.into_iter().zip(stored.into_iter().zip([before, after])) {
        for (arg_index, content) in [(0, y), (1, x)] {
            let tensor = TensorRecord {
                task_id,
                stage: stage as u8,
                arg_index,
                flags: RECORD_HAS_HASH,
                hash: content_hash(content).to_le_bytes(),
                address: 0x1000 + 0x1000 * u64::from(arg_index),
                dtype: DType::Float32.tag(),
                ndims: 1,
                role: Role::InOut.tag(),
                shape: [16, 0, 0, 0, 0, 0, 0, 0],
                strides: [1, 0, 0, 0, 0, 0, 0, 0],
                ..TensorRecord::default()
            };
            let payload = if is_stored {
                let offset = writer.reserve(64);
                writer.write_payload(offset, content).unwrap();
                Payload::Stored { offset, bytes: 64 }
            } else {
                Payload::Dropped
            };
            records.push(IndexRecord::tensor(&tensor, payload));
        }
    }
    let stage = DumpStage::BeforeDispatch as u8;
    for (arg_index, dtype, bits) in [(2, DType::Float32, 2.0_f32.to_bits()), (3, DType::Int32, 16)] {
        let (dtype, bits) = (dtype.tag(), bits.into());
        let scalar = ScalarRecord { task_id, stage, arg_index, dtype, bits, ..ScalarRecord::default() };
        records.push(IndexRecord::plain(&scalar));
    }
    records
}

#[test]
fn finds_content_by_its_hash() {
    let Some(device) = device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump");
    let info =
        RunInfo { runtime: "record".into(), platform: "host".into(), dump_level: 2, ..RunInfo::default() };
    let mut writer = DumpWriter::create(&dump, &info).unwrap();
    let (bytes, hash) = (SOURCE.len() as u64, content_hash(SOURCE.as_bytes()));
    let mut image = ImageWriter::create(&dump, ModuleKind::OpenClC, hash, bytes, (0, 0)).unwrap();
    image.write(SOURCE.as_bytes()).unwrap();
    assert!(image.finish(false).unwrap());
    let module = ModuleRecord {
        flags: RECORD_EXTENDED | RECORD_HAS_PAYLOAD,
        id: 1,
        bytes,
        hash: hash.to_le_bytes(),
        options: 2,
        device: 3,
        image_kind: ModuleKind::OpenClC as u8,
        ..ModuleRecord::default()
    };
    let kernel = KernelRecord { func_id: 1, name: 1, module: 1, ..KernelRecord::default() };
    let mut records = vec![
        IndexRecord::string(1, "saxpy"),
        IndexRecord::string(2, OPTIONS),
        IndexRecord::string(3, &device),
        IndexRecord::plain(&module),
        IndexRecord::kernel(&kernel, &[]),
    ];
    let floats =
        |value: &dyn Fn(u16) -> f32| -> Vec<u8> { (0..16).flat_map(|at| value(at).to_le_bytes()).collect() };
    let (before, x) = (floats(&|at| f32::from(at) - 3.0), floats(&|at| f32::from(at) * 0.5));
    let after = floats(&|at| 2.0 * f32::from(at) * 0.5 + f32::from(at) - 3.0);
    let other = floats(&|at| f32::from(at));
    // The second launch has hashes of content that the first one stores. The input of the third is not
    // stored.
    for (task_id, stored, before) in
        [(1, [true; 2], &before), (2, [false; 2], &before), (3, [false, true], &other)]
    {
        records.extend(by_hand(task_id, stored, [before, &after, &x], &mut writer));
    }
    writer.append(0, 0..records.len() as u64, &records).unwrap();
    writer.finish(&Footer::new(Status::Complete)).unwrap();
    let mut config = ReplayConfig::new(&dump, tensortap_cli::scenes());
    config.device_executable = Some(executable());
    let report = tensortap::replay(&config).unwrap();
    let outcomes: Vec<_> = report.tasks.iter().map(|task| reason(&task.outcome)).collect();
    assert_eq!(
        [outcomes[0].0, outcomes[1].0, outcomes[2].0],
        ["bitexact", "bitexact", "refused"],
        "{outcomes:?}"
    );
    assert!(
        outcomes[2].1.contains("argument 0 would be zeros: its content before the launch is unknown"),
        "{outcomes:?}"
    );
}

#[test]
fn refuses_spir_v_on_a_device_without_support() {
    let Some(device) = device() else { return };
    // The header of an empty SPIR-V 1.0 module.
    let head = [0x0723_0203_u32, 0x0001_0000, 0, 1, 0].map(u32::to_le_bytes).concat();
    let made = TestDump::new(&device, |recorder, _| {
        let kind = ModuleKind::SpirV;
        let program = ModuleImage { name: "program 1", kind, options: "", device: &device, image: &head };
        let module = recorder.module_image(&program).unwrap();
        let id = recorder.define_kernel(&KernelInfo { name: "saxpy", module, args: &[] }).unwrap();
        saxpy(recorder, &|_, _| id, [4, 0, 0], [0; 3], 1.0, 4, false);
    });
    let (outcome, why) = reason(&made.replay().tasks[0].outcome);
    // On a device with SPIR-V support, the module has no such kernel.
    let is_taken = why.contains("clCreateKernel") || why.contains("clBuildProgram");
    let says =
        "its program is SPIR-V, which this device does not support; choose another device with --device";
    assert!(outcome == "refused" && (is_taken || why.contains(says)), "{outcome}: {why}");
}
