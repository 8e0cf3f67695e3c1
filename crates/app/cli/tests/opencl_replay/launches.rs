//! Tests launches that can be replayed.

use tensortap::record::{DType, DumpStage, MemorySpace, Operation, Role, StringId, TaskInfo, Tensor};
use tensortap::{LaunchDevice, Outcome, ReplayConfig, ReplayReport};

use crate::test_dump::{Range, TestDump, bytes, call, device, saxpy, spread};

fn words(report: &ReplayReport) -> Vec<&str> {
    report.tasks.iter().map(|task| task.outcome.name()).collect()
}

/// Reverses groups of four in rows of eight, with a value and local memory.
fn turned(made: &mut tensortap::record::ThreadRecorder, kernel: tensortap::record::KernelId) {
    let input: Vec<i32> = (0..24).map(|at| at * at - 50).collect();
    let after: Vec<i32> = (0..24_usize).map(|at| input[at / 4 * 4 + (3 - at % 4)] + 2 + 5 * 10 + 2).collect();
    let add = bytes(&[2.0_f32, 9.0, 9.0, 5.0], f32::to_le_bytes);
    let [input, after] = [input, after].map(|values| bytes(&values, i32::to_le_bytes));
    let zeros = vec![0_u8; 96];
    let mut task = made.begin(&spread(kernel, 2, [8, 3, 0], [0; 3], [4, 1, 1])).unwrap();
    let dtype = DType::Int32;
    let out = Range { arg: 0, address: 0x100, dtype, before: &zeros, after: &after };
    let given = Range { arg: 3, address: 0x10_0000, dtype, before: &input, after: &input };
    out.record(made, &mut task, DumpStage::BeforeDispatch);
    let value = Tensor::of(&add[..], DType::UInt8).unwrap().arg(1).role(Role::Input).space(MemorySpace::Host);
    made.tensor(&mut task, DumpStage::BeforeDispatch, &value).unwrap();
    made.local_memory(&mut task, 2, 16, StringId::NONE).unwrap();
    given.record(made, &mut task, DumpStage::BeforeDispatch);
    [out, given].iter().for_each(|range| range.record(made, &mut task, DumpStage::AfterCompletion));
    made.end(&mut task).unwrap();
}

/// A buffer and a part of it as two arguments, which share memory.
fn shared_ends(made: &mut tensortap::record::ThreadRecorder, kernel: tensortap::record::KernelId) {
    let before: Vec<i32> = (0..512).map(|at| at * 7 - 11).collect();
    let mut after = before.clone();
    (0..100).for_each(|at| after[256 + at] = before[at] * 3 + 1);
    let [before, after] = [before, after].map(|values| bytes(&values, i32::to_le_bytes));
    let mut task = made.begin(&spread(kernel, 1, [100, 0, 0], [0; 3], [0; 3])).unwrap();
    let (dtype, base) = (DType::Int32, 0x7000_0000);
    let ranges = [
        Range { arg: 0, address: base, dtype, before: &before, after: &after },
        Range { arg: 1, address: base + 1024, dtype, before: &before[1024..], after: &after[1024..] },
    ];
    ranges.iter().for_each(|range| range.record(made, &mut task, DumpStage::BeforeDispatch));
    made.scalar(&mut task, 2, DType::UInt64, 0, StringId::NONE).unwrap();
    ranges.iter().for_each(|range| range.record(made, &mut task, DumpStage::AfterCompletion));
    made.end(&mut task).unwrap();
}

#[test]
fn every_kind_of_argument_and_size_is_bit_exact_on_the_same_device() {
    let Some(device) = device() else { return };
    let made = TestDump::new(&device, |recorder, kernel| {
        saxpy(recorder, kernel, [1000, 0, 0], [0; 3], 2.0, 1000, false);
        // A part that does not start at the beginning, and more work items than elements.
        saxpy(recorder, kernel, [100, 0, 0], [37, 0, 0], -0.5, 1000, false);
        saxpy(recorder, kernel, [1009, 0, 0], [3, 0, 0], 4.0, 1000, false);
        let id = kernel(recorder, "turned");
        turned(recorder, id);
        let id = kernel(recorder, "shared_ends");
        shared_ends(recorder, id);
        let info = TaskInfo { operation: Operation::Barrier, ..TaskInfo::default() };
        let mut barrier = recorder.begin(&info).unwrap();
        recorder.end(&mut barrier).unwrap();
    });
    let report = made.replay();
    let outcomes: Vec<_> = report.tasks.iter().map(|task| &task.outcome).collect();
    assert_eq!(words(&report), ["bitexact"; 5], "{outcomes:?}");
    assert!(report.passed() && report.replayed_on == [device.clone()] && report.captured_on == [device]);
    let compared: Vec<u64> =
        report.tasks.iter().flat_map(|t| &t.outputs).map(|output| output.compared).collect();
    assert_eq!(compared, [1000, 1000, 1000, 1000, 1000, 1000, 24, 24, 512, 256]);
    assert!(
        report.notes.iter().any(|note| note.starts_with("skipped 1 tasks that do not launch a kernel")),
        "{:?}",
        report.notes
    );
    assert!(report.notes.iter().any(|note| note.contains("without confinement")), "{:?}", report.notes);
    let (code, said, stderr) = made.call(&["replay", "dump", "--all", "--repeat", "3"]);
    assert_eq!(
        (code, &said["bitexact"], &said["verdict"]),
        (Some(0), &5.into(), &"pass".into()),
        "{said} {stderr}"
    );
}

#[test]
fn names_wrong_outputs_and_applies_a_rule_on_another_device() {
    let Some(device) = device() else { return };
    let record = |device: &str| {
        TestDump::new(device, |recorder, kernel| {
            saxpy(recorder, kernel, [64, 0, 0], [0; 3], 2.0, 64, false);
            saxpy(recorder, kernel, [64, 0, 0], [0; 3], 2.0, 64, true);
        })
    };
    let (here, elsewhere) = (record(&device), record("gpu / 535"));
    for (made, wish) in [
        (&here, LaunchDevice::Captured),
        (&here, LaunchDevice::Named("0".into())),
        (&elsewhere, LaunchDevice::Captured),
        (&elsewhere, LaunchDevice::Other),
    ] {
        let report = made.replay_on(wish);
        assert_eq!(words(&report), ["bitexact", "failed"]);
        let why = report.tasks[1].outcome.reason().unwrap();
        assert!(why.starts_with("argument 0: 1 of 64 elements differ, first at [63]"), "{why}");
    }
    let other = here.replay_on(LaunchDevice::Other);
    assert!(
        matches!(&other.tasks[0].outcome, Outcome::Refused(why) if why.contains("only OpenCL device here is the captured one"))
    );
    let unknown = ReplayConfig { launch_device: LaunchDevice::Named("no such".into()), ..here.config() };
    let Err(unknown) = tensortap::replay(&unknown) else { panic!("the device does not exist") };
    let unknown = unknown.to_string();
    assert!(unknown.contains("no OpenCL device `no such`") && unknown.contains(&device), "{unknown}");
    // Without a golden, each launch is compared with another device.
    let (code, said, stderr) = call(elsewhere.folder.path(), &["blame", "dump", "--reference"]);
    assert_eq!(
        (code, &said["first_wrong"]),
        (Some(1), &serde_json::json!(["0x0000000000000002"])),
        "{said} {stderr}"
    );
    let (code, said, stderr) = call(here.folder.path(), &["blame", "dump", "--rerun"]);
    assert_eq!(
        (code, &said["first_wrong"]),
        (Some(1), &serde_json::json!(["0x0000000000000002"])),
        "{said} {stderr}"
    );
}

#[test]
fn an_extracted_launch_replays_with_its_program() {
    let Some(device) = device() else { return };
    let made = TestDump::new(&device, |recorder, kernel| {
        saxpy(recorder, kernel, [64, 0, 0], [0; 3], 2.0, 64, false);
        let id = kernel(recorder, "turned");
        turned(recorder, id);
    });
    let (code, _, stderr) = made.call(&["extract", "dump", "--task", "turned", "--out", "case"]);
    assert_eq!(code, Some(0), "{stderr}");
    std::fs::remove_dir_all(made.dump()).unwrap();
    let (code, said, stderr) = made.call(&["replay", "case"]);
    assert_eq!((code, &said["bitexact"], &said["tasks"]), (Some(0), &1.into(), &1.into()), "{said} {stderr}");
    let (code, said, stderr) = made.call(&["verify", "case"]);
    assert_eq!((code, &said["verdict"]), (Some(0), &"ok".into()), "{said} {stderr}");
}
