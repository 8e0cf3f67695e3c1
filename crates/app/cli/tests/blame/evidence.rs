//! A verdict without evidence is a failure.

use tensortap::analysis::labels::Label;
use tensortap::{DumpLevel, DumpStage};

use crate::{blame_by_golden, blame_by_reference, config, passes, run};

fn vector(folder: &std::path::Path, name: &str) -> tensortap::RunConfig {
    config("vector_example", "a2a3sim", "tensormap_and_ringbuffer", &folder.join(name))
}

#[test]
fn dumps_without_common_tasks_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = run(&vector(folder.path(), "dump"));
    let other = run(&config("stream", "a2a3sim", "tensormap_and_ringbuffer", &folder.path().join("stream")));
    let blame = blame_by_golden(&dump, &other);
    assert!(!passes(&blame));
    assert_eq!((blame.compared, blame.count(Label::Unknown)), (0, 5));
    assert!(blame.findings.iter().all(|f| f.reason.is_some()));
    assert_eq!((blame.matching.only_first.len(), blame.matching.only_second.len()), (5, 12));
}

#[test]
fn missing_payloads_fail_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let golden = run(&vector(folder.path(), "golden"));
    let mut config = vector(folder.path(), "dump");
    config.dump.as_mut().expect("dumped").level = DumpLevel::Meta;
    let dump = run(&config);
    for blame in [blame_by_golden(&dump, &golden), blame_by_reference(&dump)] {
        assert!(!passes(&blame));
        let judged: Vec<_> = blame.findings.iter().filter(|f| f.label != Label::Unknown).collect();
        assert!(judged.is_empty(), "{judged:?}");
        assert!(blame.findings.iter().all(|f| f.reason.is_some()));
    }
}

#[test]
fn with_only_outputs_no_task_is_named_but_the_first_wrong_output_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let golden = run(&vector(folder.path(), "golden"));
    let mut config = vector(folder.path(), "dump");
    config.dump.as_mut().expect("dumped").stage = Some(DumpStage::AfterCompletion);
    config.inject_fault = Some(("mul".into(), tensortap::scene::FaultKind::Last));
    let dump = run(&config);
    let blame = blame_by_golden(&dump, &golden);
    let labels: Vec<Label> = blame.findings.iter().map(|f| f.label).collect();
    assert_eq!(
        labels,
        [Label::Ok, Label::Ok, Label::Ok, Label::Unknown, Label::Inherited],
        "{:?}",
        blame.findings
    );
    let rests: Vec<bool> = blame.findings.iter().map(|f| f.rests_on_edges()).collect();
    assert_eq!(rests, [false, false, false, false, true], "{:?}", blame.findings);
    assert_eq!((&blame.first_wrong[..], blame.suspect()), (&[][..], Some(3)));
    assert!(!passes(&blame));
}
