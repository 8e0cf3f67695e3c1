//! `run --live`.

use crate::dumps::Folder;
use crate::json::document;

#[test]
fn a_run_that_agrees_passes_and_one_that_does_not_names_the_task() {
    let folder = Folder::new();
    folder.good("run vector_example --dump-tensor=hash --out golden");
    let agrees = document(&folder.good("run vector_example --live golden --out same --json"));
    let live = &agrees["dump"]["live"];
    assert_eq!((&live["verdict"], &live["judged"], &live["of"]), (&"pass".into(), &5.into(), &5.into()));
    assert_eq!(agrees["dump"]["bytes_written"], 0);

    let outcome =
        folder.tensortap("run vector_example --inject-fault mul=sign --live golden --out differs --json");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let live = &document(&outcome)["dump"]["live"];
    assert_eq!((&live["verdict"], &live["differing"]), (&"fail".into(), &2.into()));
    assert_eq!(live["wrong_here"], serde_json::json!(["0x0000000100000002"]));

    let people = folder.tensortap("run vector_example --inject-fault mul=sign --live golden --out again");
    for said in [
        "FAIL, compared 5 of 5 tasks with golden",
        "2 tasks, 1 of them although their inputs agree: ",
        "0x0000000100000002",
    ] {
        assert!(people.stdout.contains(said), "{said}: {}", people.stdout);
    }
}

#[test]
fn options_that_make_no_sense_together_are_refused() {
    let folder = Folder::new();
    folder.good("run vector_example --dump-tensor=hash --out golden");
    for (line, said) in [
        ("run vector_example --stop-at-first", "--live"),
        ("run vector_example --live golden --dump-tensor=hash", "--live needs level full, not hash"),
        ("run bgemm --live golden", "its scene is `vector_example`"),
        ("run vector_example --live nowhere", "nowhere"),
    ] {
        let outcome = folder.tensortap(line);
        assert_eq!(outcome.code, Some(2), "{line}: {outcome:?}");
        assert!(outcome.stderr.contains(said), "{line}: {}", outcome.stderr);
    }
}
