//! Every dtype from golden to replay. A correct run passes and is captured, verified and replayed bit for
//! bit. A damaged run fails its golden, and `diff` and `blame` name the task.

use std::path::Path;

use tensortap::analysis::diff::{DiffOptions, diff_dumps};
use tensortap::format::{Dump, Record, verify};
use tensortap::judge::Verdict;
use tensortap::scene::FaultKind;
use tensortap::{DType, DeviceMode, DumpStage, GoldenVerdict, Outcome, ReplayConfig, RunReport};

use crate::{blame_by_golden, blame_by_reference, common, config, venue};

const SCENE: &str = "every_dtype";
const ROWS: usize = 5;
const COLS: usize = 7;

fn run(dtype: DType, turn: usize, fault: Option<&str>, out: &Path) -> (RunReport, Dump) {
    let (platform, runtime) = venue(SCENE, turn);
    let mut config = config(SCENE, platform, runtime, out);
    config.params = vec![("dtype".into(), dtype.name().into())];
    config.inject_fault = fault.map(|kernel| (kernel.into(), FaultKind::Last));
    common::count_run();
    let report = tensortap::run(&config).unwrap_or_else(|error| panic!("{dtype}: {error}"));
    let dump = Dump::open(&report.dump.as_ref().expect("dumped").dir).expect("a dump");
    (report, dump)
}

fn records(dump: &Dump) -> Vec<Record> {
    dump.records().map(|record| record.expect("readable")).collect()
}

/// The tasks in submission order: flip, repeat, greater.
fn tasks(dump: &Dump) -> [u64; 3] {
    let mut ids: Vec<u64> = records(dump).iter().map(|record| record.task_id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.try_into().expect("three tasks")
}

/// The bits of every element, unpacked one by one.
fn elements(dtype: DType, bytes: &[u8]) -> Vec<u128> {
    let width = dtype.bits() as usize;
    let bit = |at: usize| u128::from(bytes[at / 8] >> (at % 8) & 1);
    (0..ROWS * COLS).map(|n| (0..width).map(|b| bit(n * width + b) << b).sum()).collect()
}

/// Whether a number is greater than another, by the definition of its format: exponent and mantissa bits of a
/// float.
fn is_greater(dtype: DType, one: u128, other: u128) -> bool {
    let halves = |half: u32| {
        [one, other].map(|bits| bits >> (half * dtype.bits() / 2) & (u128::MAX >> (128 - dtype.bits() / 2)))
    };
    let parts = |part: DType| {
        let [[a, c], [b, d]] = [halves(0), halves(1)];
        is_greater(part, a, c) || !is_greater(part, c, a) && is_greater(part, b, d)
    };
    let float = |exponent_bits: u32, mantissa_bits: u32| {
        let value = |bits: u128| {
            let mantissa = (bits & ((1 << mantissa_bits) - 1)) as f64 / (mantissa_bits as f64).exp2();
            let exponent = (bits >> mantissa_bits & ((1 << exponent_bits) - 1)) as f64;
            let sign = if bits >> (exponent_bits + mantissa_bits) == 1 { -1.0 } else { 1.0 };
            let bias = (f64::from(exponent_bits) - 1.0).exp2()
                - if dtype.name().ends_with("fnuz") { 0.0 } else { 1.0 };
            let whole = if exponent == 0.0 { 0.0 } else { 1.0 };
            sign * (whole + mantissa) * (exponent.max(1.0) - bias).exp2()
        };
        value(one) > value(other)
    };
    let signed =
        |bits: u128| bits.cast_signed() - if bits >> (dtype.bits() - 1) == 1 { 1 << dtype.bits() } else { 0 };
    match dtype {
        DType::Float64 => float(11, 52),
        DType::Float32 => float(8, 23),
        DType::Float16 => float(5, 10),
        DType::BFloat16 => float(8, 7),
        DType::Float8E4M3FN | DType::Float8E4M3FNUZ => float(4, 3),
        DType::Float8E5M2 | DType::Float8E5M2FNUZ => float(5, 2),
        DType::Complex64 => parts(DType::Float32),
        DType::Complex128 => parts(DType::Float64),
        // The exponent is all there is.
        DType::Float8E8M0FNU => one > other,
        DType::Float4E2M1 => float(2, 1),
        DType::Int64 | DType::Int32 | DType::Int16 | DType::Int8 | DType::Int4 => signed(one) > signed(other),
        DType::UInt64 | DType::UInt32 | DType::UInt16 | DType::UInt8 | DType::Bool => one > other,
    }
}

/// The inputs and outputs of each task, by position and argument, computed from only the input.
fn expected(dtype: DType, x: &[u128]) -> Vec<((usize, u16), Vec<u128>)> {
    let flipped = |r: usize, c: usize| x[(ROWS - 1 - r) * COLS + COLS - 1 - c];
    let rows = |at: &dyn Fn(usize, usize) -> u128| -> Vec<u128> {
        (0..ROWS).flat_map(|r| (0..COLS).map(move |c| (r, c))).map(|(r, c)| at(r, c)).collect()
    };
    let columns = |at: &dyn Fn(usize, usize) -> u128| -> Vec<u128> {
        (0..COLS).flat_map(|c| (0..ROWS).map(move |r| (r, c))).map(|(r, c)| at(r, c)).collect()
    };
    let greater = |r: usize, c: usize| {
        let (left, right) = (flipped(r, c), x[c]);
        if is_greater(dtype, right, left) { right } else { left }
    };
    vec![
        ((0, 0), rows(&flipped)),
        ((0, 1), rows(&flipped)),
        ((1, 0), rows(&|_, c| x[c])),
        ((1, 1), rows(&|_, c| x[c])),
        ((2, 0), columns(&flipped)),
        ((2, 1), columns(&|_, c| x[c])),
        ((2, 2), columns(&greater)),
    ]
}

fn captured_is_expected(dtype: DType, dump: &Dump) {
    let params = tensortap::resolve(&tensortap::RunConfig::new(SCENE).param("dtype", dtype.name())).unwrap();
    let inputs = params.scene.host_args(&params.params);
    let x = elements(dtype, &inputs.get(&format!("x_{dtype}")).bytes);
    let (ids, expected) = (tasks(dump), expected(dtype, &x));
    let all = records(dump);
    assert_eq!(all.len(), expected.len(), "{dtype}");
    for record in &all {
        let task = ids.iter().position(|id| *id == record.task_id).expect("one of the three");
        let (_, content) =
            expected.iter().find(|(at, _)| *at == (task, record.arg_index)).expect("an argument");
        let payload = dump.payload(record).expect("stored");
        assert_eq!(payload.len(), (ROWS * COLS * dtype.bits() as usize).div_ceil(8), "{dtype} {record}");
        assert_eq!(&elements(dtype, &payload), content, "{dtype} {record}");
        let odd_nibble = dtype.bits() == 4 && payload.last().is_some_and(|byte| byte >> 4 != 0);
        assert!(record.dtype == dtype && !odd_nibble, "{dtype} {record}");
    }
}

fn replays_to_the_bit(dtype: DType, dump: &Dump) {
    let mut replay = ReplayConfig::new(dump.dir(), tensortap_cli::scenes());
    replay.device_executable = Some(common::executable());
    replay.device_mode = DeviceMode::Thread;
    replay.trust = true;
    replay.device_memory = Some(1 << 28);
    common::count_run();
    let report = tensortap::replay(&replay).unwrap_or_else(|error| panic!("{dtype}: {error}"));
    assert!(report.passed(), "{dtype}: {:?}", report.tasks);
    let exact = report.tasks.iter().filter(|task| task.outcome == Outcome::BitExact).count();
    assert_eq!((report.tasks.len(), exact), (3, 3), "{dtype}");
}

/// Checks that `blame` by golden and by reference, and `diff`, find exactly the damaged tasks.
fn is_blamed(dtype: DType, damaged: &[usize], dump: &Dump, golden: &Dump) {
    let ids = tasks(dump);
    let expected: Vec<u64> = damaged.iter().map(|&task| ids[task]).collect();
    for blame in [blame_by_golden(dump, golden), blame_by_reference(dump)] {
        let mut wrong: Vec<u64> = blame.first_wrong.iter().map(|&at| blame.graph.task(at).task_id).collect();
        wrong.sort_unstable();
        assert_eq!(wrong, expected, "{dtype}: {:?}", crate::complaints(&blame));
    }
    let outputs: Vec<Record> =
        records(dump).into_iter().filter(|record| record.stage == DumpStage::AfterCompletion).collect();
    let diff = diff_dumps(dump, golden, &outputs, &DiffOptions::default()).expect("readable");
    assert_eq!(diff.rows.len(), 3, "{dtype}");
    for row in &diff.rows {
        let is_damaged = expected.contains(&row.record.task_id);
        // The next task may ignore what a damaged task wrote.
        let follows = row.record.task_id == ids[2] && !expected.contains(&ids[2]);
        let outside = row.outcome.verdict == Verdict::Outside;
        assert!(outside == is_damaged || follows, "{dtype}: {:?}", row.outcome);
    }
}

#[test]
fn every_dtype_works_from_golden_to_replay_and_a_wrong_task_is_found() {
    for (turn, dtype) in DType::ALL.into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let (report, golden) = run(dtype, turn, None, &folder.path().join("right"));
        assert_eq!(report.golden, GoldenVerdict::Pass, "{dtype}: {:?}", report.outputs);
        captured_is_expected(dtype, &golden);
        let verdict = verify(&golden).expect("readable");
        assert!(verdict.is_ok(), "{dtype}: {verdict:?}");
        replays_to_the_bit(dtype, &golden);

        let (report, wrong) = run(dtype, turn, Some("greater"), &folder.path().join("greater"));
        assert_eq!(report.golden, GoldenVerdict::Fail, "{dtype}: {:?}", report.outputs);
        let first = report.outputs[0].first_outside.as_ref().expect("an element is wrong");
        assert_eq!(first.coordinate[..2], [COLS as u64 - 1, ROWS as u64 - 1], "{dtype}: the last element");
        is_blamed(dtype, &[2], &wrong, &golden);
        let (_, wrong) = run(dtype, turn + 1, Some("rearrange"), &folder.path().join("rearrange"));
        is_blamed(dtype, &[0, 1], &wrong, &golden);
    }
}
