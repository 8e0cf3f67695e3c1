//! Task pages built with and without an index.

use tensortap::analysis::graph::load;
use tensortap::format::Dump;
use tensortap::{DeviceMode, DumpConfig, DumpLevel, RunConfig};
use tensortap_query::{TaskIndex, TaskPage};

#[test]
fn pages_with_and_without_an_index_are_equal() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("dump");
    let mut config = RunConfig::new("bgemm").param("m", 64).param("n", 64).param("k", 96).param("batch", 2);
    config.device_mode = DeviceMode::Thread;
    config.dump = Some(DumpConfig::new(DumpLevel::Full));
    config.out = Some(out.clone());
    tensortap::run(&config).expect("it runs");
    let dump = Dump::open(&out).expect("a dump");
    let graph = load(&dump, &[]).expect("a graph");
    let index = TaskIndex::of(&dump, &graph).expect("an index");
    let mut passed = 0;
    for place in 0..graph.len() {
        let walked = TaskPage::of(&dump, &graph, place).expect("a page");
        let found = TaskPage::among(&dump, &graph, &index, place).expect("a page");
        assert_eq!((found.times, &found.consumers), (walked.times, &walked.consumers), "task {place}");
        assert_eq!(found.producers, walked.producers);
        let to = |page: &TaskPage<'_>| page.args.iter().map(|arg| arg.to.clone()).collect::<Vec<_>>();
        assert_eq!(to(&found), to(&walked));
        passed += to(&found).iter().map(Vec::len).sum::<usize>();
    }
    assert!(passed > 10, "content passed between tasks");
}
