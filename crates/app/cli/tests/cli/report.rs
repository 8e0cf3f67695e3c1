//! Reports: they agree with the stored bytes, respect their size limit, and escape all names.

use std::fs;

use serde_json::Value;
use tensortap::abi::Role;
use tensortap::format::{Dump, WriterOptions};
use tensortap::{DType, DumpStage};

use crate::dumps::Folder;
use crate::json::document;
use crate::made::{DumpMaker, f32s};

/// The data that the page of a report shows.
fn data(folder: &Folder, file: &str) -> Value {
    let page = fs::read_to_string(folder.path(file)).expect("a page");
    let (_, rest) = page.split_once("id=\"data\">").expect("data");
    serde_json::from_str(rest.split_once("</script>").expect("its end").0).expect("JSON")
}

/// A column of a table, row by row.
fn column(table: &Value, key: &str) -> Vec<String> {
    let columns = table["columns"].as_array().expect("columns");
    let column = columns.iter().find(|column| column["key"] == key).unwrap_or_else(|| panic!("no {key}"));
    let word = |at: &Value| {
        let at = usize::try_from(at.as_u64().expect("a place")).expect("small");
        column["words"][at].as_str().expect("text").to_owned()
    };
    column["at"].as_array().expect("rows").iter().map(word).collect()
}

/// The floats of a record, read by the library.
fn floats(folder: &Folder, dump: &str, name: &str) -> Vec<f32> {
    let dump = Dump::open(&folder.path(dump)).expect("a dump");
    let records = dump.records().map(|record| record.expect("readable"));
    let named = |record: &tensortap::format::Record| tensortap_query::words::record_name(record) == name;
    let record = records.into_iter().find(named).unwrap_or_else(|| panic!("no {name}"));
    let bytes = dump.payload(&record).expect("stored");
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four"))).collect()
}

#[test]
fn shows_the_first_wrong_task_and_the_stored_values() {
    let folder = Folder::new();
    folder.record("vector_example --param n=64 --dump-tensor", "right");
    folder.tensortap("run vector_example --param n=64 --dump-tensor --out wrong --inject-fault mul=sign");
    let said = folder.finds("report wrong --golden right -o report.html").stdout;
    let report = data(&folder, "report.html");
    let member = &report["members"][0];
    let blame = document(&folder.tensortap("blame wrong --golden right --json"));

    let sentence = member["verdict"]["sentence"].as_str().expect("a sentence");
    assert_eq!(member["verdict"]["word"], "FAIL");
    assert!(said.starts_with(&format!("FAIL: {sentence}\n")), "{said}");
    let first = blame["first_wrong"][0].as_str().expect("a task");
    let id = format!("{:#x}", u64::from_str_radix(first.trim_start_matches("0x"), 16).expect("hex"));
    assert_eq!(blame["headline"], sentence);
    let detail = member["verdict"]["remarks"][0].as_str().expect("a remark");
    for words in ["Kernel mul went wrong first", &id, "shows the wrong sign, in all 64 elements"] {
        assert!(detail.contains(words), "no {words} in {detail}");
    }
    for label in member["labels"].as_array().expect("labels") {
        assert_eq!(label["tasks"], blame["labels"][label["label"].as_str().expect("a label")], "{label}");
    }

    let record = &member["culprits"][0]["records"][0];
    let name = record["name"].as_str().expect("a name");
    let (ours, right) = (floats(&folder, "wrong", name), floats(&folder, "right", name));
    assert_eq!((ours.len(), &record["difference"]["elements"]), (64, &64.into()));
    let cells = record["difference"]["cells"]["mean"].as_array().expect("cells");
    for ((cell, one), other) in cells.iter().zip(&ours).zip(&right) {
        let (cell, apart) = (cell.as_f64().expect("a number"), f64::from(*one) - f64::from(*other));
        assert!((cell - apart).abs() <= apart.abs() * 1e-3, "{cell} is pictured where {apart} is");
    }
    assert_eq!(cells.len(), 64);
    check_spread(&record["spread"], [&ours, &right]);
    let axis = record["axes"][0]["bins"]["bins"].as_array().expect("bins");
    let differing: Vec<u64> = axis.iter().map(|bin| bin["not_zero"].as_u64().expect("a count")).collect();
    let expected: Vec<u64> = ours.iter().zip(&right).map(|(one, other)| u64::from(one != other)).collect();
    assert_eq!(differing, expected);

    let listed = document(&folder.good("list wrong --json"));
    let listed = listed["records"].as_array().expect("records");
    assert_eq!(
        (&member["records"]["rows"], &member["records"]["of"]),
        (&listed.len().into(), &listed.len().into())
    );
    let verdicts = column(&member["records"], "verdict");
    assert_eq!(verdicts.iter().filter(|verdict| *verdict == "fail").count() as u64, outside(&blame));
    assert_eq!(column(&member["tasks"], "label").len(), blame["tasks"].as_array().expect("tasks").len());
    assert_eq!(column(&member["kernels"], "kernels").len(), 3, "{}", member["kernels"]);

    // The command to copy works.
    let commands = member["culprits"][0]["commands"].as_array().expect("commands");
    assert!(commands.len() >= 4, "{commands:?}");
    for command in commands.iter().chain(member["commands"].as_array().expect("commands")) {
        let line = command["command"].as_str().expect("a command").strip_prefix("tensortap ").expect("ours");
        let outcome = folder.tensortap(line);
        assert!(matches!(outcome.code, Some(0 | 1)), "{line}: {outcome:?}");
    }
}

/// Number of records outside their rules according to `blame`.
fn outside(blame: &Value) -> u64 {
    let tasks = blame["tasks"].as_array().expect("tasks").iter();
    tasks.map(|task| task["outside"].as_array().expect("records").len() as u64).sum()
}

/// Counts every value independently.
fn check_spread(spread: &Value, tensors: [&[f32]; 2]) {
    let all = || tensors.iter().copied().flatten().map(|value| f64::from(*value));
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    assert_eq!((spread["min"].as_f64(), spread["max"].as_f64()), (Some(low), Some(high)));
    for (series, tensor) in spread["series"].as_array().expect("series").iter().zip(tensors) {
        let counts: Vec<u64> = series["counts"]
            .as_array()
            .expect("counts")
            .iter()
            .map(|count| count.as_u64().expect("a count"))
            .collect();
        let mut expected = vec![0; counts.len()];
        for value in tensor {
            let share = (f64::from(*value) - low) / (high - low) * counts.len() as f64;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small whole number"
            )]
            let bin = (share as usize).min(counts.len() - 1);
            expected[bin] += 1;
        }
        assert_eq!(counts, expected);
    }
}

#[test]
fn the_page_without_scripts_names_kernel_layer_and_error() {
    let folder = Folder::new();
    let run = "run tiny_llm --param tokens=3 --param prompt=2 --dump-tensor";
    for (fault, words) in [
        ("swiglu=nan", ["Kernel swiglu", "layer 0 / feed_forward", "shows NaN, in all 256 elements"]),
        ("rms_norm=last", ["Kernel rms_norm", "layer 0 / attention", "only in the last of 128 elements"]),
        (
            "project_f16=shift",
            ["Kernel project_f16", "layer 0", "inputs read in the wrong place, 1 element later"],
        ),
        (
            "add_residual=stale",
            ["Kernel add_residual", "layer 0 / attention", "shows the same content as before the task"],
        ),
    ] {
        folder.tensortap(&format!("{run} --out d --inject-fault {fault}"));
        folder.finds("report d --reference -o report.html");
        // The page before any script has run.
        let page = fs::read_to_string(folder.path("report.html")).expect("a page");
        let (_, body) = page.split_once("<body>").expect("a body");
        let body = body.split_once("<script").expect("scripts").0;
        for words in words {
            assert!(body.contains(words), "{fault}: no {words} in {body}");
        }
        fs::remove_dir_all(folder.path("d")).expect("removed");
    }
}

#[test]
fn lists_unusual_outputs_first_without_a_golden() {
    let folder = Folder::new();
    folder.tensortap("run vector_example --dump-tensor --out d --inject-fault mul=nan");
    folder.good("report d -o report.html");
    let report = data(&folder, "report.html");
    let member = &report["members"][0];
    let summary = document(&folder.good("summary d --json"));
    assert_eq!(
        (&member["verdict"]["word"], &member["verdict"]["passes"]),
        (&"NOT JUDGED".into(), &Value::Null)
    );
    assert_eq!(member["flagged_count"], summary["flagged_count"]);
    assert!(summary["flagged_count"].as_u64() > Some(0), "{summary}");
    let first = &summary["flagged"][0];
    assert_eq!(member["flagged"][0]["name"], first["name"]);
    let sentence = member["verdict"]["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("unusual") && sentence.contains(" NaN of "), "{sentence}");
    assert!(member["culprits"].as_array().expect("culprits").is_empty());
    let tracks = member["timeline"]["tracks"].as_array().expect("tracks").iter();
    let slices: usize = tracks.map(|track| track["start"].as_array().expect("slices").len()).sum();
    assert_eq!(Some(slices as u64), summary["tasks"].as_u64());
    folder.good("report d --no-values -o quiet.html");
    assert_eq!(data(&folder, "quiet.html")["members"][0]["flagged_count"], 0);
}

/// A dump with this many tasks, each with a small output; every 100th contains a NaN.
fn many(folder: &Folder, name: &str, tasks: u64) {
    let mut made = DumpMaker::new(&folder.path(name), 2);
    for task in 0..tasks {
        let value = if task % 100 == 0 { f32::NAN } else { 1.5 };
        made.task(task, 0, DumpStage::AfterCompletion);
        made.tensor(Role::Output, 0, DType::Float32, &[2], &f32s([value, 2.0]));
    }
    made.finish();
}

#[test]
fn limits_the_size_of_large_reports() {
    let folder = Folder::new();
    for (tasks, kept) in [(10_000, 10_000), (12_500, 10_000)] {
        let name = format!("d{tasks}");
        many(&folder, &name, tasks);
        folder.good(&format!("report {name} -o report.html"));
        let size = fs::metadata(folder.path("report.html")).expect("a page").len();
        assert!(size < 5_000_000, "{size} bytes");
        let report = data(&folder, "report.html");
        let table = &report["members"][0]["tasks"];
        assert_eq!((&table["rows"], &table["of"]), (&kept.into(), &tasks.into()));
        assert_eq!(column(table, "task").len() as u64, kept);
        let note = table["note"].as_str().unwrap_or_default();
        let left = tasks - kept;
        assert_eq!(note.is_empty(), left == 0, "{note}");
        assert!(
            left == 0 || note.contains("10,000 of 12,500 rows") && note.contains("2,500 are not"),
            "{note}"
        );
        assert_eq!(report["members"][0]["flagged_count"], tasks / 100);
    }
}

#[test]
fn contains_every_rank_of_a_run() {
    let folder = Folder::new();
    for rank in 0..3 {
        folder.good(&format!("run vector_example --dump-tensor --out right/rank-{rank}"));
        let fault = if rank == 1 { "--inject-fault mul=last" } else { "" };
        folder.tensortap(&format!("run vector_example --dump-tensor --out wrong/rank-{rank} {fault}"));
    }
    folder.finds("report wrong --golden right -o report.html");
    let report = data(&folder, "report.html");
    let names: Vec<&str> = report["members"]
        .as_array()
        .expect("members")
        .iter()
        .map(|m| m["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["rank 0", "rank 1", "rank 2"]);
    let passes = |member: usize| report["members"][member]["verdict"]["passes"].as_bool();
    assert_eq!([passes(0), passes(1), passes(2)], [Some(true), Some(false), Some(true)]);
    let all = report["verdict"]["sentence"].as_str().expect("a sentence");
    let expected = "Rank 1: task 0x100000002 (inner / t3: mul) is wrong here; 1 of 3 dumps fail.";
    assert_eq!(all, expected, "the same words as those of blame");
    folder.good("report wrong --golden right --rank 2 -o one.html");
    let one = data(&folder, "one.html");
    assert_eq!((one["members"].as_array().expect("members").len(), &one["verdict"]), (1, &Value::Null));
    assert_eq!(one["members"][0]["verdict"]["word"], "PASS");
}

#[test]
fn escapes_names_of_a_dump() {
    let hostile = "</script><script>alert(1)</script><!--\"'&";
    let folder = Folder::new();
    for (name, value) in [("d", f32::NAN), ("right", 1.0)] {
        let mut made = DumpMaker::named(&folder.path(name), 2, WriterOptions::default(), hostile);
        made.task(7, 1, DumpStage::AfterCompletion);
        made.tensor(Role::Output, 0, DType::Float32, &[2, 3], &f32s([value; 6]));
        // Claims more elements than fit into memory, of which few are stored.
        made.tensor(Role::Output, 1, DType::Float32, &[1 << 20, 1 << 20], &f32s([value; 6]));
        made.finish();
    }
    for (line, code) in [("report d -o report.html", 0), ("report d --golden right -o report.html", 1)] {
        assert_eq!(folder.tensortap(line).code, Some(code), "{line}");
        let page = fs::read_to_string(folder.path("report.html")).expect("a page");
        let count = |what: &str| page.matches(what).count();
        assert_eq!((count("<script"), count("</script"), count("<!--")), (2, 2, 0), "{line}");
        let report = data(&folder, "report.html");
        assert_eq!(column(&report["members"][0]["tasks"], "kernels"), [hostile], "{line}");
    }
    let member = &data(&folder, "report.html")["members"][0];
    assert_eq!(member["culprits"][0]["records"][0]["kind"]["relation"], "nan");
    assert_eq!(member["culprits"][0]["records"][0]["difference"]["nan"], 6);
    let refused = folder.tensortap("report d -o nowhere/report.html");
    assert!(refused.code == Some(3) && refused.stderr.contains("nowhere/report.html"), "{refused:?}");
    assert_eq!(folder.tensortap("report d").code, Some(2));
}

#[test]
fn tables_list_wrong_rows_first() {
    let folder = Folder::new();
    folder.record("vector_example --param n=64 --dump-tensor", "right");
    folder.tensortap(
        "run vector_example --param n=64 --dump-tensor --out wrong --inject-fault add_scalar=last",
    );
    folder.finds("report wrong --golden right -o report.html");
    let member = &data(&folder, "report.html")["members"][0];
    let labels = column(&member["tasks"], "label");
    assert_eq!(labels, ["wrong_here", "wrong_here", "inherited", "inherited", "ok"]);
    let blame = document(&folder.tensortap("blame wrong --golden right --json"));
    let first: Vec<String> = blame["first_wrong"]
        .as_array()
        .expect("tasks")
        .iter()
        .map(|id| format!("{:#x}", u64::from_str_radix(&id.as_str().expect("an id")[2..], 16).expect("hex")))
        .collect();
    assert_eq!(column(&member["tasks"], "task")[..2], first[..]);
    let verdicts = column(&member["records"], "verdict");
    let wrong = verdicts.iter().take_while(|verdict| *verdict == "fail").count();
    assert!(wrong > 0 && !verdicts[wrong..].contains(&"fail".to_owned()), "{verdicts:?}");
}

#[test]
fn reports_when_nothing_is_compared_or_the_file_cannot_be_written() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "d");
    folder.record("scalar_data --dump-tensor", "other");
    let nothing = folder.tensortap("report d --golden other -o report.html");
    let said = "NOTHING COMPARED: nothing could be compared: the dump is of scene vector_example, the golden of scalar_data\n";
    assert!(nothing.code == Some(1) && nothing.stdout.starts_with(said), "{nothing:?}");
    assert_eq!(folder.tensortap("blame d --golden other").code, nothing.code, "as blame says it");
    let report = document(&folder.tensortap("report d --golden other -o report.html --json"));
    assert_eq!((&report["verdict"], &report["passes"]), (&"NOTHING COMPARED".into(), &false.into()));
    assert_eq!(data(&folder, "report.html")["members"][0]["verdict"]["word"], "NOTHING COMPARED");

    let nowhere = folder.tensortap("report d -o no/such/x.html");
    assert_eq!(nowhere.code, Some(3), "{nowhere:?}");
    assert!(
        nowhere
            .stderr
            .contains("cannot write no/such/x.html: the folder no/such does not exist; create it first"),
        "{nowhere:?}"
    );
    let drawn = folder.tensortap("graph d -o no/such/x.svg");
    assert!(drawn.code == Some(3) && drawn.stderr.contains("the folder no/such does not exist"), "{drawn:?}");
}
