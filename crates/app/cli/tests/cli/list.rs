use std::process::Stdio;

use serde_json::Value;

use crate::dumps::{Folder, cut, vector_example};
use crate::json::{document, keys};
use crate::{assert_snapshot, command};

#[test]
fn every_record_has_a_row_and_the_footer_counts_them() {
    let folder = Folder::new();
    // Two tasks in sequence, so that the table is deterministic.
    folder.record("dump_tensor_example --dump-tensor", "d");
    let table = folder.good("list d").stdout;
    assert_snapshot("list", &table);
    assert!(table.lines().all(|line| line.trim_end() == line), "{table}");
}

#[test]
fn flags_unusual_records() {
    let folder = Folder::new();
    folder.record("bgemm --dump-tensor=hash --param batch=1 --param layout=transposed", "d");
    let table = folder.good("list d --func gemm_tile --arg 1").stdout;
    assert!(table.contains("no_payload,strided"), "{table}");
}

#[test]
fn joins_the_kernels_of_a_mix_task() {
    let folder = Folder::new();
    folder.record("mixed_example --dump-tensor=meta", "d");
    let mixed =
        document(&folder.good("list d --json"))["records"].as_array().unwrap().iter().find_map(|record| {
            let kernels: Vec<String> = serde_json::from_value(record["kernels"].clone()).expect("names");
            (kernels.len() > 1).then(|| kernels.join("+"))
        });
    let mixed = mixed.expect("there are mix tasks");
    assert!(folder.good("list d").stdout.contains(&mixed), "{mixed}");
}

/// The indices of the records that selectors match.
fn selected(folder: &Folder, selectors: &str) -> Vec<u64> {
    let list = document(&folder.good(&format!("list d --json {selectors}")));
    let records = list["records"].as_array().unwrap();
    assert_eq!(list["selected"], records.len(), "{selectors}");
    assert_eq!(list["total"], 18, "{selectors}");
    let rows = folder.good(&format!("list d {selectors}")).stdout;
    let shown = rows.lines().filter(|line| line.contains(" 0x")).count();
    assert_eq!(shown, records.len(), "text and JSON agree: {selectors}");
    records.iter().map(|record| record["index"].as_u64().unwrap()).collect()
}

#[test]
fn selectors_agree_with_the_manifest() {
    let folder = vector_example();
    let manifest = folder.manifest("d");
    let records = manifest["tensors"].as_array().unwrap();
    let expected = |keep: &dyn Fn(&Value) -> bool| -> Vec<u64> {
        (0..).zip(records).filter(|(_, record)| keep(record)).map(|(index, _)| index).collect()
    };
    let second = "0x0000000100000000";
    type Keep<'a> = &'a dyn Fn(&Value) -> bool;
    let cases: [(&str, usize, Keep<'_>); 26] = [
        ("", 18, &|_| true),
        ("--task 0x100000000", 4, &|r| r["task_id"] == second),
        ("--task 0,4294967296", 7, &|r| r["task_id"] == "0x0000000000000000" || r["task_id"] == second),
        ("--func add", 6, &|r| r["func_id"][0] == 0),
        ("--func 1 --func mul", 12, &|r| r["func_id"][0] != 0),
        ("--stage after", 5, &|r| r["stage"] == "after_completion"),
        ("--role output", 5, &|r| r["role"] == "output"),
        ("--arg 2-3 --kind tensor", 3, &|r| r["arg_index"].as_u64() >= Some(2) && r["kind"] == "tensor"),
        ("--kind scalar", 5, &|r| r["kind"] == "scalar"),
        ("--dtype uint32", 3, &|r| r["dtype"] == "uint32"),
        ("--dtype float32,uint32 --stage before", 13, &|r| r["stage"] == "before_dispatch"),
        ("--role inout", 0, &|r| r["role"] == "inout"),
        ("--task 1:0", 4, &|r| r["task_id"] == second),
        ("--task 0:0-0x100000000", 7, &|r| r["task_id"] == "0x0000000000000000" || r["task_id"] == second),
        ("--task mul", 4, &|r| r["func_id"][0] == 2),
        ("--task mul,0", 7, &|r| r["func_id"][0] == 2 || r["task_id"] == "0x0000000000000000"),
        ("--func add*", 14, &|r| r["func_id"][0] != 2),
        ("--func func_2", 4, &|r| r["func_id"][0] == 2),
        ("--stage before_dispatch", 13, &|r| r["stage"] == "before_dispatch"),
        ("--role OUT", 5, &|r| r["role"] == "output"),
        ("--dtype u32", 3, &|r| r["dtype"] == "uint32"),
        ("--dtype FLOAT32 --kind scalar", 2, &|r| r["dtype"] == "float32" && r["kind"] == "scalar"),
        ("--shape 16384", 13, &|r| r["kind"] == "tensor"),
        ("--shape *", 13, &|r| r["kind"] == "tensor"),
        ("--shape 16384x*,[]", 0, &|_| false),
        ("--nan", 0, &|_| false),
    ];
    for (selectors, count, keep) in cases {
        let found = selected(&folder, selectors);
        assert_eq!((found.len(), &found), (count, &expected(keep)), "{selectors}");
    }
    assert_eq!(selected(&folder, "--index 3-5,17"), [3, 4, 5, 17]);
    assert_eq!(selected(&folder, "--index 18"), [0; 0]);
}

#[test]
fn selects_equal_content_by_hash_prefix() {
    let folder = vector_example();
    let manifest = folder.manifest("d");
    let records = manifest["tensors"].as_array().unwrap();
    let hash = records.iter().find(|r| r["stage"] == "after_completion").unwrap()["hash"].as_str().unwrap();
    let expected: Vec<u64> =
        (0..).zip(records).filter(|(_, r)| r["hash"] == hash).map(|(index, _)| index).collect();
    assert!(expected.len() > 1, "the output of the first task is read by others");
    assert_eq!(selected(&folder, &format!("--hash {hash}")), expected);
    assert_eq!(selected(&folder, &format!("--hash {}", &hash[2..10])), expected);
}

#[test]
fn selects_nan_in_content_statistics_and_scalars() {
    for (level, known) in [("full", true), ("hash", true), ("meta", false)] {
        let folder = Folder::new();
        let run = folder
            .tensortap(&format!("run vector_example --dump-tensor={level} --out d --inject-fault mul=nan"));
        assert_eq!(run.code, Some(1), "{run:?}");
        let list = folder.good("list d --nan");
        if known {
            let mul = document(&folder.good("list d --func mul --stage after --json"))["records"][0].clone();
            assert_eq!(selected(&folder, "--nan --stage after --func mul"), [mul["index"].as_u64().unwrap()]);
            let after: Vec<u64> = selected(&folder, "--nan --func mul");
            assert_eq!(after.len(), 1, "no input contains a NaN");
            assert!(list.stdout.contains("add"), "the next task reads them: {list:?}");
        } else {
            assert!(
                list.stdout.contains("There is no NaN in the dump.\n13 records may also hold"),
                "{list:?}"
            );
        }
    }
    let folder = Folder::new();
    folder.record("scalar_data --dump-tensor", "d");
    let scalars = document(&folder.good("list d --kind scalar --json"));
    let holding = |record: &&Value| record["value"] == "NaN";
    let expected = scalars["records"].as_array().unwrap().iter().filter(holding).count();
    let found = document(&folder.good("list d --kind scalar --nan --json"));
    assert_eq!(found["selected"], expected);
}

#[test]
fn an_empty_selection_lists_what_the_dump_has() {
    let folder = vector_example();
    for (selectors, said) in [
        (
            "--task 7",
            "There is no record of task 0x7; tasks with records are 0x0, 0x100000000, 0x100000001, 0x100000002, 0x100000003.",
        ),
        ("--task 5-6,9:9", "There is no record of task 0x5-0x6,0x900000009; tasks with records are 0x0"),
        ("--func 77", "There is no kernel 77; kernels are add, add_scalar, mul."),
        ("--role inout", "There is no role inout; roles are input, output."),
        ("--arg 9", "There is no argument 9; arguments are 0, 1, 2, 3."),
        ("--index 18-20", "There is no index 18-20; indexes are 0 … 17."),
        ("--dtype bool", "There is no dtype bool; dtypes are float32, uint32."),
        ("--shape 3x*", "There is no such shape; shapes are 16384."),
        (
            "--kind scalar --role output",
            "role output by itself matches 5 records, kind scalar by itself matches 5 records.",
        ),
    ] {
        let outcome = folder.good(&format!("list d {selectors}"));
        assert!(
            outcome.stdout.contains("0 of 18 records. ") && outcome.stdout.contains(said),
            "{selectors}: {outcome:?}"
        );
    }
}

/// The rows of a CSV list, each a list of cells.
fn csv(folder: &Folder, options: &str) -> Vec<Vec<String>> {
    let text = folder.good(&format!("list d --csv {options}")).stdout;
    text.lines().map(|line| line.split(',').map(String::from).collect()).collect()
}

#[test]
fn csv_has_headings_and_full_cells() {
    let folder = vector_example();
    let manifest = folder.manifest("d");
    let rows = csv(&folder, "--columns index,task,arg,bytes,hash,value,shape");
    assert_eq!(rows[0], ["index", "task_id", "arg_index", "bytes", "hash", "value", "shape"]);
    assert_eq!(rows.len(), 19);
    for (index, (row, record)) in rows[1..].iter().zip(manifest["tensors"].as_array().unwrap()).enumerate() {
        let text = |key: &str| record[key].as_str().map_or(record[key].to_string(), String::from);
        let tensor = record["kind"] == "tensor";
        let bytes = if tensor { "65536" } else { "4" };
        let expected = [
            index.to_string(),
            text("task_id"),
            text("arg_index"),
            bytes.into(),
            if tensor { text("hash") } else { String::new() },
            if tensor { String::new() } else { text("value") },
            if tensor { "16384".into() } else { String::new() },
        ];
        assert_eq!(*row, expected);
    }
    let head = &csv(&folder, "")[0];
    assert_eq!(head.len(), 18, "{head:?}");
    // `stats` uses the same names and values.
    let stats = folder.good("stats d --csv").stdout;
    let stats: Vec<Vec<&str>> = stats.lines().map(|line| line.split(',').collect()).collect();
    let place = |key: &str| stats[0].iter().position(|name| *name == key);
    for key in ["index", "task_id", "kernels", "stage", "role", "arg_index", "kind", "dtype", "shape", "hash"]
    {
        let at = place(key).unwrap_or_else(|| panic!("{key} is not in {:?}", stats[0]));
        let column = csv(&folder, &format!("--columns {key}"));
        assert!(column.iter().zip(&stats).all(|(list, stats)| list[0] == stats[at]), "{key}");
    }
}

#[test]
fn lists_a_run_folder_completely_or_by_rank() {
    let folder = Folder::new();
    for (process, n) in [("rank-1", 64), ("rank-0", 32), ("pid-77", 16)] {
        folder.good(&format!("run vector_example --param n={n} --dump-tensor --out r/{process}"));
    }
    let rows = |options: &str| -> Vec<(String, String)> {
        let csv = folder.good(&format!("list r --csv --columns rank,shape --kind tensor {options}")).stdout;
        let cells = csv.lines().skip(1).map(|line| line.split_once(',').expect("two cells"));
        cells.map(|(rank, shape)| (rank.to_string(), shape.to_string())).collect()
    };
    let of = |rank: &str, shape: &str| vec![(rank.to_string(), shape.to_string()); 13];
    assert_eq!(rows(""), [of("0", "32"), of("1", "64"), of("", "16")].concat());
    assert_eq!(rows("--rank 1"), of("1", "64"));
    assert_eq!(rows("--sort -shape"), [of("1", "64"), of("0", "32"), of("", "16")].concat());
    let listed = document(&folder.good("list r --json"));
    assert_eq!((&listed["total"], &listed["dumps"][1]["rank"]), (&54.into(), &1.into()));
    assert_eq!(listed["records"][20]["rank"], 1);
    let text = folder.good("list r").stdout;
    assert!(text.contains("RANK") && text.contains("54 records: 39 tensors"), "{text}");
    let several = folder.tensortap("show r 3");
    assert_eq!(several.code, Some(2));
    assert!(
        several.stderr.contains("rank 0, rank 1, pid 77") && several.stderr.contains("--rank N"),
        "{several:?}"
    );
    assert_eq!(document(&folder.good("stats r --rank 0 --json"))["total"], 18);
    let missing = folder.tensortap("verify r --rank 5");
    assert_eq!((missing.code, missing.stderr.contains("no such rank")), (Some(2), true), "{missing:?}");
}

#[test]
fn sorts_and_limits_rows_and_counts_all() {
    let folder = vector_example();
    let column = |options: &str, place: usize| -> Vec<String> {
        csv(&folder, options)[1..].iter().map(|row| row[place].clone()).collect()
    };
    let tasks = column("--sort task --columns task", 0);
    assert!(tasks.is_sorted() && tasks.len() == 18, "{tasks:?}");
    let indexes: Vec<u64> =
        column("--sort -index --columns index", 0).iter().map(|i| i.parse().unwrap()).collect();
    assert_eq!(indexes, (0..18).rev().collect::<Vec<u64>>());
    let rows = csv(&folder, "--sort kernel,-bytes --columns kernel,bytes,index");
    let keys: Vec<(String, i64, u64)> = rows[1..]
        .iter()
        .map(|row| (row[0].clone(), -row[1].parse::<i64>().unwrap(), row[2].parse().unwrap()))
        .collect();
    assert!(keys.is_sorted(), "by kernel, then the largest first, then as captured: {keys:?}");
    assert_eq!(
        column("--sort value --columns value --limit 2", 0),
        ["1.0", "2.0"],
        "what has no value is last"
    );
    assert_eq!(column("--sort -value --columns value --limit 1", 0), ["16384"], "in both directions");

    for options in ["--limit 2", "--limit 2 --sort -bytes"] {
        let table = folder.good(&format!("list d {options}")).stdout;
        assert_eq!(table.lines().filter(|line| line.contains(" 0x")).count(), 2, "{table}");
        assert!(table.contains("18 records: 13 tensors with 832 KiB, 5 scalars\n2 shown"), "{table}");
        let list = document(&folder.good(&format!("list d --json {options}")));
        assert_eq!((&list["selected"], list["records"].as_array().unwrap().len()), (&18.into(), 2));
    }
}

#[test]
fn a_narrow_table_fits_and_names_missing_columns() {
    let folder = Folder::new();
    folder.record("dump_tensor_example --dump-tensor", "d");
    let table = folder.good("list d --width 84").stdout;
    assert_snapshot("list_narrow", &table);
    for width in [80, 90, 100, 110] {
        let table = folder.good(&format!("list d --width {width}")).stdout;
        let rows = table.lines().filter(|line| line.contains("0x") || line.contains("INDEX"));
        assert!(
            rows.clone().count() >= 7 && rows.clone().all(|row| row.chars().count() <= width),
            "{width}: {table}"
        );
    }
}

#[test]
fn rejects_unknown_columns_and_lists_the_valid_ones() {
    let folder = vector_example();
    for (options, part) in [
        ("--columns sise", "bin_size"),
        ("--sort size", "bytes"),
        ("--shape 16-3", "joined by x"),
        ("--hash xyz", "hex digits"),
        ("--limit x", "--limit"),
        ("--task mull", "did you mean `mul`?"),
        ("--task 1-", "FIRST-LAST"),
        ("--stage during", "before, after"),
    ] {
        let outcome = folder.tensortap(&format!("list d {options}"));
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{options}: {outcome:?}");
        assert!(outcome.stderr.contains(part), "{options}: {outcome:?}");
    }
}

#[test]
fn the_document_contains_the_records_of_the_manifest() {
    let folder = vector_example();
    let list = document(&folder.good("list d --json"));
    assert_eq!(
        keys(&list),
        [
            "dump",
            "dump_level",
            "losses",
            "message",
            "missing_records",
            "platform",
            "records",
            "runtime",
            "scene",
            "selected",
            "state",
            "status",
            "torn",
            "total"
        ]
    );
    assert_eq!((&list["dump"], &list["total"], &list["selected"]), (&"d".into(), &18.into(), &18.into()));
    assert_eq!((&list["state"], &list["status"]), (&"closed".into(), &"complete".into()));
    let manifest = folder.manifest("d");
    let records = list["records"].as_array().unwrap();
    for (index, (listed, said)) in records.iter().zip(manifest["tensors"].as_array().unwrap()).enumerate() {
        assert_eq!(listed["index"], index);
        for (key, value) in said.as_object().unwrap() {
            assert_eq!(&listed[key], value, "record {index}, {key}");
        }
    }
}

#[test]
fn finds_a_dump_by_manifest_folder_or_run_folder() {
    let folder = vector_example();
    let all = folder.good("list d").stdout;
    assert_eq!(folder.good("list d/tensor_dump.json").stdout, all);
    let inside = folder.good("list .").stdout;
    assert_eq!(inside.replace("./d:", "d:"), all);
}

#[test]
fn reads_the_newest_dump_by_default() {
    let folder = Folder::new();
    folder.good("run vector_example --dump-tensor");
    folder.good("run scalar_data --dump-tensor");
    let names = folder.outputs();
    assert_eq!(names.len(), 2);
    for verb in ["list", "verify", "repair"] {
        let newest = folder.good(verb).stdout;
        assert!(newest.starts_with(&format!("outputs/{}: ", names[1])), "{verb}: {newest}");
    }
    assert!(folder.good("list").stdout.contains("scalar_data on a2a3sim"));
}

#[test]
fn explains_how_to_record_if_there_is_no_dump() {
    for (line, part) in [
        ("list", "there is no folder outputs/ here"),
        ("verify", "there is no folder outputs/ here"),
        ("repair", "there is no folder outputs/ here"),
        ("list .", "--dump-tensor"),
        ("list nowhere", "nowhere"),
        ("verify nowhere", "nowhere"),
        ("repair nowhere", "nowhere"),
    ] {
        let outcome = Folder::new().tensortap(line);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{line}: {outcome:?}");
        assert!(
            outcome.stderr.starts_with("error: ") && outcome.stderr.contains(part),
            "{line}: {outcome:?}"
        );
    }
}

#[test]
fn rejects_an_unknown_kernel_and_lists_the_known_ones() {
    let outcome = vector_example().tensortap("list d --func ad_scalar");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{outcome:?}");
    for part in ["add, add_scalar, mul", "hint: did you mean `add_scalar`?"] {
        assert!(outcome.stderr.contains(part), "{outcome:?}");
    }
}

#[test]
fn lists_the_readable_records_of_a_torn_dump() {
    let folder = vector_example();
    let whole = std::fs::metadata(folder.path("d/tensor_dump.idx")).unwrap().len();
    cut(&folder.path("d/tensor_dump.idx"), whole / 4);
    std::fs::remove_file(folder.path("d/tensor_dump.json")).unwrap();
    let table = folder.good("list d").stdout;
    for part in ["The dump is torn at byte ", "`tensortap repair d` repairs it."] {
        assert!(table.contains(part), "no {part} in {table}");
    }
    let list = document(&folder.good("list d --json"));
    assert_eq!((&list["state"], &list["status"]), (&"torn".into(), &"killed".into()));
    assert!(list["torn"]["offset"].is_u64() && list["torn"]["reason"].is_string(), "{list}");
    assert!(list["total"].as_u64() < Some(18), "{list}");
}

#[test]
fn a_long_list_ends_silently_at_a_closed_pipe() {
    let folder = Folder::new();
    folder.record("tiny_llm --dump-tensor=meta", "d");
    for line in ["list d", "list d --json"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = command(&line.split(' ').collect::<Vec<_>>());
        command.current_dir(folder.path("")).stdout(Stdio::from(writer)).stderr(Stdio::piped());
        let output = command.spawn().and_then(|child| child.wait_with_output()).expect("the binary runs");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{line}");
    }
}

#[test]
fn columns_stay_aligned_in_long_lists() {
    let folder = Folder::new();
    folder.record("tiny_llm --dump-tensor=meta --param tokens=8", "d");
    let table = folder.good("list d").stdout;
    let rows: Vec<&str> = table.lines().filter(|line| line.contains("0x") && line.contains("  ")).collect();
    assert!(rows.len() > 1000, "{} rows", rows.len());
    let place =
        |row: &&str| row.find("  before  ").or(row.find("  after  ")).map(|at| row[..at].chars().count());
    let stages: Vec<usize> = rows.iter().map(|row| place(row).unwrap()).collect();
    assert!(stages.iter().all(|&column| column == stages[0]), "the stage is not in one column");
}

#[test]
fn a_missing_dump_lists_the_newest_three() {
    let folder = Folder::new();
    let nothing = folder.tensortap("list nothere");
    assert!(
        nothing.stderr.contains(
            "hint: check the path; `tensortap record` and `tensortap run SCENE --dump-tensor` write dumps"
        ),
        "{nothing:?}"
    );
    for name in ["d", "c", "b", "a"] {
        folder.good(&format!("run vector_example --dump-tensor --out outputs/{name}"));
    }
    std::fs::create_dir(folder.path("outputs/no_dump")).unwrap();
    let hint = "outputs/a, outputs/b, outputs/c";
    for line in ["list nothere", "stats nothere", "show nothere 3", "diff nothere outputs"] {
        let outcome = folder.tensortap(line);
        assert_eq!(outcome.code, Some(2), "{line}: {outcome:?}");
        assert!(outcome.stderr.contains("nothere"), "{line}: {outcome:?}");
        assert!(
            outcome.stderr.contains(&format!("hint: existing dumps, newest first: {hint}\n")),
            "{line}: {outcome:?}"
        );
    }
}

/// Selectors by the names in the orchestration and the kernels of the vector example.
#[test]
fn selects_tasks_scopes_and_arguments_by_name() {
    let folder = vector_example();
    let selected = |selectors: &[&str]| -> Vec<(String, u64)> {
        let line: Vec<&str> = ["list", "d", "--json"].into_iter().chain(selectors.iter().copied()).collect();
        let found = folder.tensortap_args(&line);
        let records = document(&found)["records"].as_array().unwrap().clone();
        records
            .iter()
            .map(|r| (r["task_name"].as_str().unwrap().into(), r["arg_index"].as_u64().unwrap()))
            .collect()
    };
    let of = |task: &str, args: &[u64]| args.iter().map(|&arg| (task.to_string(), arg)).collect::<Vec<_>>();
    assert_eq!(selected(&["--task", "t3"]), of("t3", &[0, 1, 3, 2]));
    for word in ["inner / t3", "inner/t3", "inner/mul", "inn*/t3"] {
        assert_eq!(selected(&["--task", word]), of("t3", &[0, 1, 3, 2]), "{word}");
    }
    assert_eq!(selected(&["--scope", "inner"]).len(), 15);
    assert_eq!(selected(&["--scope", "inner", "--task", "t0"]), []);
    assert_eq!(selected(&["--task", "t3", "--arg", "right,count"]), of("t3", &[1, 3]));
    assert_eq!(selected(&["--arg", "mul.left"]), of("t3", &[0]));
    assert_eq!(selected(&["--arg", "add.l*"]), [of("t0", &[0]), of("t4", &[0])].concat());
    assert_eq!(selected(&["--arg", "addend,3"]).len(), 5);

    let unknown = folder.tensortap_args(&["list", "d", "--task", "t33"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("d has no task or kernel `t33`; there are: add, "), "{unknown:?}");
    assert!(unknown.stderr.contains("did you mean `t3`?"), "{unknown:?}");
    // A pattern may match nothing; a name must exist.
    let empty = folder.tensortap_args(&["list", "d", "--arg", "nobod?"]);
    assert_eq!(empty.code, Some(0), "{empty:?}");
    let said = "There is no argument nobod?; arguments are addend, count, left, product, right, sum, x.";
    assert!(empty.stdout.contains(said), "{empty:?}");
    let scope = folder.tensortap_args(&["list", "d", "--scope", "out*"]);
    assert_eq!(scope.code, Some(0), "{scope:?}");
    assert!(scope.stdout.contains("There is no scope out*; scopes are inner."), "{scope:?}");
    for (option, name, said, near) in [
        ("--arg", "sun", "d has no argument `sun`; there are: addend, ", "sum"),
        ("--arg", "mul.lefd", "d has no argument `mul.lefd`; there are: ", ""),
        ("--scope", "iner", "d has no scope `iner`; there are: inner", "inner"),
    ] {
        let unknown = folder.tensortap_args(&["list", "d", option, name]);
        assert_eq!(unknown.code, Some(2), "{unknown:?}");
        assert!(unknown.stderr.contains(said), "{unknown:?}");
        assert!(
            near.is_empty() || unknown.stderr.contains(&format!("did you mean `{near}`?")),
            "{unknown:?}"
        );
    }
}
