//! Recordings of launches with content from only one side of each task.

use std::path::{Path, PathBuf};

use tensortap::DumpStage;
use tensortap::abi::{DumpFilter, MemorySpace};
use tensortap::record::FolderOptions;

use crate::blame::{blamed_runs, first};
use crate::common;
use crate::program::{Program, Range, on};

const N: usize = 32;

/// `scale` writes an uninitialized buffer completely, except its last four bytes.
fn run(folder: &Path, stages: u64, (factor, garbage): (u8, u8)) -> PathBuf {
    let filter = DumpFilter { stages, ..DumpFilter::ALL };
    let mut program = Program::with(folder, &FolderOptions { filter, ..FolderOptions::default() });
    let (x, y) =
        (program.buffer(&[3; N], MemorySpace::Host), program.buffer(&[garbage; N], MemorySpace::Host));
    program.write(on("one"), Range(x, 0, N), &[3; N]);
    program.launch("scale", on("one"), &[Range(x, 0, N), Range(y, 0, N)], |memory| {
        let given = memory[x].clone();
        (0..N - 4).for_each(|at| memory[y][at] = given[at].wrapping_mul(factor));
    });
    program.end()
}

const AFTER: u64 = 1 << DumpStage::AfterCompletion as u64;
const RIGHT: (u8, u8) = (5, 90);

#[test]
fn a_wrong_run_with_only_outputs_does_not_pass() {
    let runs = |wrong| blamed_runs(|dir| run(dir, AFTER, wrong), |dir| run(dir, AFTER, RIGHT));
    for run in [(6, 90), (5, 91)] {
        let (document, text) = runs(run);
        let text = common::unwrapped(&text);
        assert_eq!(
            (&document["verdict"], &document["failure"]),
            (&"undecided".into(), &"undecided".into()),
            "{text}"
        );
        assert!(
            text.starts_with("UNDECIDED: argument 1 of task 0x2 (scale) differs after the task, but"),
            "{text}"
        );
        assert_eq!(document["first_wrong"].as_array().unwrap().len(), 0, "{text}");
    }
    let (document, text) = runs(RIGHT);
    assert_eq!(document["verdict"], "pass", "{text}");
}

#[test]
fn content_before_the_task_in_one_of_the_runs_shows_what_it_wrote() {
    for stages in [[AFTER, u64::MAX], [u64::MAX, AFTER]] {
        let runs = |wrong| blamed_runs(|dir| run(dir, stages[0], wrong), |dir| run(dir, stages[1], RIGHT));
        let (document, text) = runs((6, 90));
        assert_eq!(
            (&document["verdict"], &document["failure"]),
            (&"fail".into(), &"outside".into()),
            "{text}"
        );
        assert_eq!(document["first_wrong"].as_array().unwrap().len(), 0, "its inputs are not known: {text}");
        // Only the slack differs.
        let (document, text) = runs((5, 91));
        assert_eq!(document["verdict"], "undecided", "{text}");
    }
    let both = blamed_runs(|dir| run(dir, u64::MAX, (6, 91)), |dir| run(dir, u64::MAX, RIGHT)).0;
    assert_eq!(first(&both).0, "scale");
    assert_eq!(
        blamed_runs(|dir| run(dir, u64::MAX, (5, 91)), |dir| run(dir, u64::MAX, RIGHT)).0["verdict"],
        "pass"
    );
}
