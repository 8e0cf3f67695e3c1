//! `summary`, compared with the output of other verbs.

use serde_json::Value;

use crate::dumps::Folder;
use crate::json::document;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn sums_by_kernel_equal_the_records() {
    let folder = Folder::new();
    folder.tensortap("run vector_example --dump-tensor --out d --inject-fault mul=nan");
    let summary = document(&folder.good("summary d --json"));
    let stats = document(&folder.good("stats d --json"));
    let records = stats["records"].as_array().expect("records");
    let kernels = summary["kernels"].as_array().expect("kernels");
    assert_eq!(kernels.len(), 3, "{summary}");
    for kernel in kernels {
        let name = kernel["kernels"].as_str().expect("a name");
        let own = || records.iter().filter(|record| record["kernels"] == serde_json::json!([name]));
        let mut tasks: Vec<&Value> = own().map(|record| &record["task_id"]).collect();
        tasks.dedup();
        let left = own().filter(|r| r["stage"] == "after_completion").map(|r| number(&r["stats"]["nan"]));
        assert_eq!(number(&kernel["nan"]), left.sum::<u64>(), "{kernel}");
        assert_eq!(number(&kernel["tasks"]), if name == "mul" { 1 } else { 2 }, "{kernel}");
        assert!(
            number(&kernel["longest_ns"]) <= number(&kernel["time_ns"]) && number(&kernel["longest_ns"]) > 0
        );
    }
    assert!(kernels.iter().any(|kernel| number(&kernel["nan"]) > 0), "the fault is seen: {summary}");
    let first = &summary["flagged"][0];
    assert_eq!((first["name"].as_str(), &first["flags"][0]), (Some("0x100000002/after/2"), &"nan".into()));
    let text = folder.good("summary d").stdout;
    assert!(text.contains("next: tensortap blame d --reference"), "{text}");
}

#[test]
fn the_critical_path_follows_the_graph_and_its_times_add_up() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "d");
    let summary = document(&folder.good("summary d --json --no-values"));
    let way: Vec<&str> = summary["critical_path"]["tasks"]
        .as_array()
        .expect("tasks")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    // t0, then t1 or t2, t3, t4: for any times, the path has four tasks.
    assert_eq!((way.len(), way[0]), (4, "0x0000000000000000"), "{summary}");
    let mut sum = 0;
    for (place, task) in way.iter().enumerate() {
        let page = document(&folder.good(&format!("show d {task} --json")));
        sum += number(&page["took_ns"]);
        let before = |page: &Value| -> Vec<String> {
            let producers = page["producers"].as_array().expect("producers").iter();
            producers.map(|task| task["task_id"].as_str().expect("an id").to_owned()).collect()
        };
        assert!(place == 0 || before(&page).iter().any(|id| id == way[place - 1]), "{page}");
    }
    assert_eq!(number(&summary["critical_path"]["time_ns"]), sum);
    assert_eq!(number(&summary["unmeasured"]), number(&summary["records"]));
    let slowest = summary["slowest"].as_array().expect("tasks").iter().map(|task| number(&task["took_ns"]));
    assert!(slowest.is_sorted_by(|a, b| a >= b));
}

#[test]
fn reports_missing_and_empty_dumps() {
    let folder = Folder::new();
    let none = folder.tensortap("summary nowhere");
    assert_eq!(none.code, Some(2), "{none:?}");
    folder.record("vector_example --dump-tensor=marked", "empty");
    let text = folder.good("summary empty").stdout;
    assert!(text.contains(" records, 0 bytes stored"), "{text}");
}
