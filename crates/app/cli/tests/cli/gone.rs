//! A dump of a running recording that keeps only its newest tasks: records that are removed after opening are skipped and
//! counted.

use tensortap::abi::Role;
use tensortap::analysis::blame::{Baseline, Blame, BlameOptions};
use tensortap::analysis::diff::{DiffOptions, diff_arrays, diff_dumps};
use tensortap::analysis::labels::Label;
use tensortap::format::{Dump, PayloadState, Record, WriterOptions};
use tensortap::interchange::NamedArrays;
use tensortap::{DType, DumpStage, ExportConfig, ExportFormat, ExportLayout};

use crate::dumps::Folder;
use crate::made::{DumpMaker, f32s};

/// Tasks when the dump is opened. Only the newest stay.
const TASKS: u64 = 28;
const STAY: u64 = 4;

/// A task that reads two numbers and writes two. `off` is within the tolerance of float32, so hashes differ but values pass.
fn task(made: &mut DumpMaker, task_id: u64, off: f32) {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let value = task_id as f32;
    made.task(task_id, 0, DumpStage::BeforeDispatch);
    made.scalar(2, DType::UInt32, task_id);
    made.tensor(Role::Input, 0, DType::Float32, &[2], &f32s([value + off, 1.0]));
    made.task(task_id, 0, DumpStage::AfterCompletion);
    made.tensor(Role::Output, 1, DType::Float32, &[2], &f32s([value + off, 2.0]));
}

/// A golden, and the dump of a run whose window moves after it is opened. The run lasts until the writer is dropped.
fn dumps(folder: &Folder) -> (Dump, Dump, DumpMaker) {
    let mut golden = DumpMaker::new(&folder.path("golden"), 2);
    (0..TASKS).for_each(|id| task(&mut golden, id, 1e-6));
    golden.finish();
    let options = WriterOptions { keep_last_tasks: Some(2 * STAY), ..WriterOptions::default() };
    let mut run = DumpMaker::with(&folder.path("run"), 2, options);
    (0..TASKS).for_each(|id| task(&mut run, id, 0.0));
    run.append();
    let dump = Dump::open(&folder.path("run")).expect("it opens");
    (TASKS..TASKS + STAY).for_each(|id| task(&mut run, id, 0.0));
    run.append();
    run.move_window();
    (dump, Dump::open(&folder.path("golden")).expect("it opens"), run)
}

#[test]
fn comparisons_skip_records_that_left() {
    let folder = Folder::new();
    let (dump, golden, _run) = dumps(&folder);
    let records: Vec<Record> = dump.records().map(|record| record.expect("readable")).collect();
    let options = DiffOptions::default();
    tensortap::export(&golden, &ExportConfig::new(ExportFormat::Npy, folder.path("arrays")))
        .expect("exported");
    let arrays = NamedArrays::open(&folder.path("arrays")).expect("arrays");
    let (tensors, stay) = (2 * usize::try_from(TASKS).unwrap(), 2 * usize::try_from(STAY).unwrap());
    let scalars = tensors / 2;
    for diff in [
        diff_dumps(&dump, &golden, &records, &options).expect("readable"),
        diff_arrays(&dump, &arrays, &records, &options).expect("readable"),
    ] {
        assert_eq!(
            (diff.rows.len(), diff.compared(), diff.gone()),
            (tensors + scalars, stay + scalars, tensors - stay)
        );
        assert!(diff.passes(false), "what is still there is right");
    }
    for against in [Baseline::Golden(&golden), Baseline::Arrays(&arrays)] {
        let blame = Blame::of(&dump, &against, &BlameOptions::default()).expect("readable");
        assert_eq!(blame.gone(), (tensors - stay) as u64);
        let count = |label| blame.count(label) as u64;
        assert_eq!((count(Label::Ok), count(Label::Unknown)), (STAY, TASKS - STAY));
    }
}

#[test]
fn export_skips_records_that_left() {
    let folder = Folder::new();
    let (dump, _, _run) = dumps(&folder);
    for (format, layout, files) in [
        (ExportFormat::Npy, ExportLayout::FilePerRecord, TASKS + 2 * STAY),
        (ExportFormat::Npz, ExportLayout::FilePerTask, TASKS),
        (ExportFormat::Safetensors, ExportLayout::OneFile, 1),
    ] {
        let out = folder.path(format.name());
        let config = ExportConfig { layout, ..ExportConfig::new(format, &out) };
        let report = tensortap::export(&dump, &config).expect("exported");
        assert_eq!((report.tensors, report.scalars, report.files), (2 * STAY, TASKS, files), "{format:?}");
        assert_eq!(report.skipped.len() as u64, 2 * (TASKS - STAY), "{format:?}");
        assert!(report.skipped.iter().all(|skipped| skipped.payload == PayloadState::Gone.name()));
        assert!(report.skipped.is_sorted_by_key(|skipped| skipped.index));
        // The written files are complete.
        let arrays = NamedArrays::open(&out).expect("arrays");
        assert_eq!(arrays.arrays().len() as u64, 2 * STAY + TASKS, "{format:?}");
        for array in arrays.arrays().iter().filter(|array| array.dtype == DType::Float32) {
            let content = array.content().expect("readable");
            assert!(content != [0; 8], "{} is a hole", array.name);
        }
    }
}
