//! Run folders with a dump for each process: verbs read all of them or one rank.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Outcome;
use crate::dumps::{Folder, flip};
use crate::json::document;

/// Two run folders with three ranks, `right` and `wrong`. Ranks 1 and 2 of `wrong` have a wrong kernel.
fn two_runs() -> Folder {
    let folder = Folder::new();
    for rank in 0..3 {
        let run = format!("run vector_example --param n={} --dump-tensor", 32 << rank);
        folder.good(&format!("{run} --out right/rank-{rank}"));
        let fault = if rank == 0 { "" } else { "--inject-fault mul=last" };
        let code = folder.tensortap(&format!("{run} --out wrong/rank-{rank} {fault}")).code;
        assert_eq!(code, Some(i32::from(rank > 0)));
    }
    folder
}

/// The content of a file, or of every file in a folder.
fn files_in(path: &Path) -> Vec<Vec<u8>> {
    match fs::read_dir(path) {
        Ok(entries) => entries.flat_map(|entry| files_in(&entry.expect("readable").path())).collect(),
        Err(_) => vec![fs::read(path).expect("a file")],
    }
}

fn differs(folder: &Folder, line: &str) -> Outcome {
    let outcome = folder.tensortap(line);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""), "{line}: {outcome:?}");
    outcome
}

/// One field of each dump in a document.
fn of_each<'a>(document: &'a Value, field: &str) -> Vec<&'a Value> {
    document["dumps"].as_array().expect("dumps").iter().map(|dump| &dump[field]).collect()
}

#[test]
fn list_notes_repeated_task_ids_of_several_dumps() {
    let folder = two_runs();
    let all = folder.good("list right").stdout;
    assert!(all.contains("Task ids repeat in these dumps; choose a dump with --rank or --pid"), "{all}");
    // No note if ids differ or if there is only one dump.
    let different = folder.good("list right --index 0 --limit 1").stdout;
    assert!(!different.contains("Task ids repeat"), "{different}");
    assert!(!folder.good("list right --rank 1").stdout.contains("Task ids repeat"));
}

#[test]
fn stats_of_a_run_folder_have_a_rank_column() {
    let folder = two_runs();
    let csv = folder.good("stats right --csv --kind tensor").stdout;
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    let at = |name: &str| head.iter().position(|column| *column == name).expect("a column");
    let (rank, numel, hash) = (at("rank"), at("numel"), at("hash"));
    let found: Vec<(String, String, String)> =
        lines.map(|cells| (cells[rank].into(), cells[numel].into(), cells[hash].into())).collect();
    let mut expected = Vec::new();
    for rank in 0..3 {
        let manifest = folder.manifest(&format!("right/rank-{rank}"));
        let records = manifest["tensors"].as_array().expect("records").clone();
        for record in records.iter().filter(|record| record["kind"] == "tensor") {
            let hash = record["hash"].as_str().expect("a hash").to_owned();
            expected.push((rank.to_string(), (32 << rank).to_string(), hash));
        }
    }
    assert_eq!(found.len(), 39);
    assert_eq!(found, expected);
    let all = document(&folder.good("stats right --json"));
    assert_eq!((&all["total"], &all["selected"]), (&54.into(), &54.into()));
    assert_eq!(of_each(&all, "rank"), [0, 1, 2]);
    assert_eq!(of_each(&all, "total"), [18, 18, 18]);
    assert_eq!((&all["records"][0]["rank"], &all["records"][53]["rank"]), (&0.into(), &2.into()));
    let text = folder.good("stats right").stdout;
    assert!(text.contains("RANK") && text.contains("54 records, "), "{text}");
    assert!(!folder.good("stats right --rank 1").stdout.contains("RANK"));
}

#[test]
fn the_limit_of_stats_applies_to_all_ranks_together() {
    let folder = two_runs();
    let all = document(&folder.good("stats right --json --limit 20"));
    let ranks: Vec<&Value> = all["records"].as_array().expect("records").iter().map(|r| &r["rank"]).collect();
    assert_eq!(ranks.len(), 20);
    assert!(
        ranks[..18].iter().all(|rank| **rank == 0) && ranks[18..].iter().all(|rank| **rank == 1),
        "{ranks:?}"
    );
    assert_eq!(all["cut"], true);
}

#[test]
fn verify_checks_every_dump_and_names_the_bad_rank() {
    let folder = two_runs();
    let good = folder.good("verify right").stdout;
    assert!(
        good.starts_with("right: OK, 3 dumps\nrank 0, right/rank-0: OK\n  18 records, 18 checked\n"),
        "{good}"
    );
    flip(&folder.path("right/rank-1/tensor_dump.bin"), 3);
    let bad = differs(&folder, "verify right").stdout;
    assert!(bad.starts_with("right: BAD, 3 dumps\n"), "{bad}");
    assert!(bad.contains("rank 1, right/rank-1: BAD") && bad.contains("rank 2, right/rank-2: OK"), "{bad}");
    let bad = document(&differs(&folder, "verify right --json"));
    assert_eq!(bad["verdict"], "bad");
    assert_eq!(of_each(&bad, "verdict"), ["ok", "bad", "ok"]);
    assert_eq!(of_each(&bad, "rank"), [0, 1, 2]);
    folder.good("verify right --rank 0,2");
}

#[test]
fn repair_repairs_every_torn_dump_of_a_run_folder() {
    let folder = two_runs();
    for rank in [0, 2] {
        let index = folder.path(&format!("right/rank-{rank}/tensor_dump.idx"));
        let length = fs::metadata(&index).expect("an index").len();
        fs::File::options().write(true).open(&index).expect("it is there").set_len(length - 7).expect("cut");
    }
    let done = document(&folder.good("repair right --json"));
    assert_eq!(of_each(&done, "rank"), [0, 1, 2]);
    assert_eq!(of_each(&done, "changed"), [true, false, true]);
    assert_eq!(of_each(&done, "records"), [18, 18, 18]);
    let again = folder.good("repair right").stdout;
    assert!(again.starts_with("rank 0, right/rank-0: no repair needed, 18 records"), "{again}");
    folder.good("verify right");
}

#[test]
fn diff_of_run_folders_compares_equal_ranks() {
    let folder = two_runs();
    let same = folder.good("diff right right").stdout;
    assert!(same.starts_with("PASS: all of 3 dumps in right\n  rank 0: PASS: every record"), "{same}");
    let text = differs(&folder, "diff wrong right").stdout;
    assert!(
        text.starts_with("FAIL: 2 of 3 dumps in wrong\n  rank 0: PASS: every record is within its rule\n"),
        "{text}"
    );
    assert!(text.contains("\n  rank 1: FAIL: ") && text.contains("\n  rank 2: FAIL: "), "{text}");
    assert!(text.contains("records of wrong/rank-1 with right/rank-1"), "{text}");
    assert!(!text.contains("records of wrong/rank-2"), "one is enough: {text}");
    let found = document(&differs(&folder, "diff wrong right --json"));
    assert_eq!(found["verdict"], "fail");
    assert_eq!(of_each(&found, "verdict"), ["pass", "fail", "fail"]);
    assert_eq!(of_each(&found, "golden"), ["right/rank-0", "right/rank-1", "right/rank-2"]);
    let csv = differs(&folder, "diff wrong right --csv --kind tensor").stdout;
    let ranks: Vec<&str> = csv.lines().map(|line| line.split(',').next().expect("a cell")).collect();
    assert_eq!(ranks.len(), 40);
    assert_eq!((ranks[0], ranks[1], ranks[14], ranks[39]), ("rank", "0", "1", "2"));
}

#[test]
fn a_rank_without_counterpart_fails_unless_allowed() {
    let folder = two_runs();
    fs::rename(folder.path("right/rank-2"), folder.path("right/rank-5")).expect("renamed");
    let text = differs(&folder, "diff right wrong --rank 0,2,5").stdout;
    assert!(text.contains("  rank 5: FAIL: the golden has no dump of this rank\n"), "{text}");
    assert!(text.contains("  rank 2: FAIL: only the golden has it\n"), "{text}");
    assert!(!text.contains("rank 1"), "not selected: {text}");
    let allowed = folder.good("diff right wrong --rank 0,2,5 --allow-unmatched").stdout;
    assert!(allowed.starts_with("PASS: ") && allowed.contains("rank 5: skipped: "), "{allowed}");
    let several = folder.tensortap("diff right wrong/rank-0");
    assert_eq!(several.code, Some(2));
    assert!(
        several.stderr.contains("rank 0, rank 1, rank 5") && several.stderr.contains("--rank N"),
        "{several:?}"
    );
}

#[test]
fn blame_of_two_run_folders_names_the_culprit_of_each_rank() {
    let folder = two_runs();
    for against in ["--golden right", "--reference"] {
        let text = differs(&folder, &format!("blame wrong {against}")).stdout;
        // With a golden, all ranks are judged together, and the first line names the first wrong task.
        let (head, rest) = text.split_once('\n').expect("several lines");
        match against {
            "--reference" => assert_eq!(head, "FAIL: 2 of 3 dumps in wrong"),
            _ => assert!(
                head.starts_with(
                    "FAIL: rank 1: task 0x100000002 (inner / t3: mul) is wrong here; 1 more task"
                ) && head.ends_with("; 2 of 3 dumps in wrong fail"),
                "{text}"
            ),
        }
        assert!(rest.starts_with("  rank 0: PASS: no task is wrong; judged 5 of 5 tasks\n"), "{text}");
        assert!(text.contains("\n  rank 1: FAIL: ") && text.contains("\n  rank 2: FAIL: "), "{text}");
        assert!(text.contains("replay wrong/rank-1"), "{text}");
        assert!(!text.contains("replay wrong/rank-2"), "one is enough: {text}");
        let found = document(&differs(&folder, &format!("blame wrong {against} --json")));
        let alone = document(&differs(&folder, &format!("blame wrong {against} --json --rank 2")));
        assert_eq!(found["dumps"][2]["first_wrong"], alone["first_wrong"]);
        assert_eq!((&found["verdict"], &found["dumps"][0]["verdict"]), (&"fail".into(), &"pass".into()));
        assert_eq!(of_each(&found, "rank"), [0, 1, 2]);
    }
    folder.good("blame right --reference");
}

#[test]
fn one_rank_is_compared_with_the_same_rank() {
    let folder = two_runs();
    let found = document(&differs(&folder, "diff wrong right --rank 2 --json"));
    assert_eq!((&found["dump"], &found["golden"]), (&"wrong/rank-2".into(), &"right/rank-2".into()));
    folder.good("diff wrong right --rank 0");
    let found = document(&differs(&folder, "blame wrong --golden right --rank 1 --json"));
    assert_eq!((&found["dump"], &found["golden"]), (&"wrong/rank-1".into(), &"right/rank-1".into()));
    folder.good("blame wrong --golden right --rank 0");
}

#[test]
fn replay_and_extract_accept_one_rank() {
    let folder = two_runs();
    let replayed = document(&folder.good("replay wrong --rank 0 --all --json"));
    assert_eq!(replayed["source"], "wrong/rank-0", "{replayed:#}");
    for verb in ["replay right --all", "extract right --task 0 --out case"] {
        let several = folder.tensortap(verb);
        assert_eq!(several.code, Some(2), "{several:?}");
        assert!(
            several.stderr.contains("rank 0, rank 1, rank 2") && several.stderr.contains("--rank N"),
            "{several:?}"
        );
        let missing = folder.tensortap(&format!("{verb} --rank 7"));
        assert_eq!((missing.code, missing.stderr.contains("no such rank")), (Some(2), true), "{missing:?}");
    }
    let case = document(&folder.good("extract right --task 0 --rank 2 --out case --json"));
    let manifest = folder.manifest("right/rank-2");
    let payloads = fs::read(folder.path("right/rank-2/tensor_dump.bin")).expect("payloads");
    let records = manifest["tensors"].as_array().expect("records").iter();
    let first =
        records.clone().find(|r| r["task_id"] == case["task_id"] && r["kind"] == "tensor").expect("a tensor");
    let place = |field: &str| usize::try_from(first[field].as_u64().expect("a number")).expect("small");
    let payload = &payloads[place("bin_offset")..][..place("bin_size")];
    assert_eq!(payload.len(), 512, "128 elements of four bytes; other ranks have fewer");
    let holds_it =
        files_in(&folder.path("case")).iter().any(|file| file.windows(512).any(|part| part == payload));
    assert!(holds_it, "the case has the payload of rank 2");
    folder.good("replay case");
}
