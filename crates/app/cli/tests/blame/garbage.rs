//! Buffers with arbitrary content do not hide the culprit.

use tensortap::analysis::labels::Label;
use tensortap::scene::FaultKind;

use crate::{blame_by_golden, blame_by_reference, complaints, config, passes, run, venue};

#[test]
fn correct_runs_with_different_garbage_pass() {
    let folder = tempfile::tempdir().expect("a folder");
    let golden =
        run(&config("garbage", "a5sim", "host_build_graph", &folder.path().join("golden"))
            .param("garbage", 9));
    let dump = run(&config("garbage", "a2a3sim", "tensormap_and_ringbuffer", &folder.path().join("dump")));
    let blame = blame_by_golden(&dump, &golden);
    assert!(passes(&blame), "{:?}", complaints(&blame));
    // The accumulator's first task and the last step of the result overwrite the garbage; all others pass it on. What
    // the first one overwrites is no input of it.
    assert_eq!((blame.count(Label::Masked), blame.count(Label::Ok)), (1, 5), "{:?}", complaints(&blame));
    assert!(blame.findings[1].set_aside == [2], "{:?}", blame.findings);
    let alone = blame_by_reference(&dump);
    assert_eq!(alone.count(Label::Ok), 6, "{:?}", complaints(&alone));
}

#[test]
fn the_culprit_is_found_despite_garbage() {
    let kernels = tensortap_cli::scenes().find("garbage").expect("built in").kernels();
    for (turn, kernel) in kernels.iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let (platform, runtime) = venue("garbage", turn);
        let (other_platform, other_runtime) = venue("garbage", turn + 1);
        let golden = run(&config("garbage", other_platform, other_runtime, &folder.path().join("golden"))
            .param("garbage", 9));
        let mut config = config("garbage", platform, runtime, &folder.path().join("dump"));
        config.inject_fault = Some((kernel.name.into(), FaultKind::Last));
        let dump = run(&config);
        let first = |blame: &tensortap::analysis::blame::Blame| {
            let &place =
                blame.first_wrong.first().unwrap_or_else(|| panic!("nothing is wrong in {}", kernel.name));
            (blame.graph.task(place).kernel_names(), blame.findings[place].label)
        };
        let found = first(&blame_by_golden(&dump, &golden));
        // Garbage in an in-out that a task changes may be the cause; a golden with other garbage cannot
        // exclude it.
        let expected = if kernel.name == "double" { Label::WrongHere } else { Label::Fed };
        assert_eq!(found, (vec![kernel.name.to_string()], expected));
        assert_eq!(first(&blame_by_reference(&dump)), (vec![kernel.name.to_string()], Label::WrongHere));
    }
}
