//! Dumps from another project.

use std::path::PathBuf;

use tensortap::analysis::labels::Label;
use tensortap::format::Dump;

use crate::{blame_by_golden, complaints, passes};

fn peer(name: &str) -> Option<Dump> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/peer-dumps");
    let folder = std::env::var_os("TENSORTAP_PEER_DUMPS").map_or_else(beside, PathBuf::from).join(name);
    if folder.is_dir() {
        return Some(Dump::open(&folder).expect("readable"));
    }
    eprintln!("{} is not there: set TENSORTAP_PEER_DUMPS to test with it", folder.display());
    None
}

#[test]
fn a_real_dump_with_a_broken_multiply_blames_the_multiply() {
    let (Some(dump), Some(golden)) = (peer("blame-vector-fault_mul"), peer("blame-vector-good")) else {
        return;
    };
    let blame = blame_by_golden(&dump, &golden);
    let labels: Vec<(Option<u32>, Label)> = blame
        .graph
        .tasks()
        .iter()
        .zip(&blame.findings)
        .map(|(t, f)| (t.func_ids().next(), f.label))
        .collect();
    let expected = [
        (Some(0), Label::Ok),
        (Some(1), Label::Ok),
        (Some(1), Label::Ok),
        (Some(2), Label::WrongHere),
        (Some(0), Label::Inherited),
    ];
    assert_eq!(labels, expected, "{:?}", complaints(&blame));
    assert_eq!((blame.compared, blame.of), (18, 18));
    let [first] = blame.first_wrong.as_slice() else { panic!("{:?}", blame.first_wrong) };
    assert_eq!(blame.chain(*first).len(), 2);
    assert!(passes(&blame_by_golden(&golden, &golden)));
}
