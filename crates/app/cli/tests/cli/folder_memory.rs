//! C kernels that access memory outside their tensors: what the dump shows, and how they are found.

use serde_json::Value;
use tensortap::{PLATFORMS, RUNTIMES};

use crate::common;
use crate::folders::{WorkFolder, has_compilers};

/// `total` directly follows `y` in memory if `y` fills whole cache lines, so writing past `y` changes `total`.
const SCENE: &str = r#"
name = "sums"
about = "y = 2x, total += 1 in its last element, z = y + total"
[params]
n = { default = 64, min = 2 }
[[tensor]]
name = "x"
dtype = "float32"
shape = ["n"]
role = "in"
fill = { range = [1.0, 0.5] }
[[tensor]]
name = "y"
dtype = "float32"
shape = ["n"]
role = "out"
[[tensor]]
name = "total"
dtype = "float32"
shape = ["n"]
role = "inout"
fill = { constant = 3.0 }
[[tensor]]
name = "half"
dtype = "float32"
shape = ["n"]
role = "temp"
[[tensor]]
name = "z"
dtype = "float32"
shape = ["n"]
role = "out"
[[kernel]]
name = "twice"
source = "twice.c"
args = ["in x", "out y", "inout total"]
reference = "twice_reference"
[[kernel]]
name = "add"
source = "add.c"
args = ["in y", "in total", "out z"]
[[task]]
kernel = "twice"
args = ["x", "y", "total"]
[[task]]
kernel = "add"
args = ["y", "total", "half"]
[[task]]
kernel = "add"
args = ["half", "half", "z"]
[golden]
source = "twice.c"
symbol = "golden"
"#;

const TWICE: &str = r"
#include <tensortap.h>
void kernel_entry(uint64_t *args)
{
    int64_t n = (int64_t)tt_numel(args, 0);
    for (int64_t i = FIRST; i < n + PAST; i++)
        tt_f32(args, 1)[i] = i < 0 || i >= n ? -7 : 2 * tt_f32(args, 0)[i];
    tt_f32(args, 2)[n - 1] += 1;
}
void twice_reference(uint64_t *args)
{
    uint64_t n = tt_numel(args, 0);
    for (uint64_t i = 0; i < n; i++)
        tt_f64(args, 1)[i] = 2 * tt_f64(args, 0)[i];
    tt_f64(args, 2)[n - 1] += 1;
}
void golden(uint64_t *args)
{
    uint64_t n = tt_numel(args, 0);
    tt_f32(args, 2)[n - 1] += 1;
    for (uint64_t i = 0; i < n; i++) {
        tt_f32(args, 1)[i] = 2 * tt_f32(args, 0)[i];
        tt_f32(args, 3)[i] = 2 * (tt_f32(args, 1)[i] + tt_f32(args, 2)[i]);
    }
}
";

pub const ADD: &str = r"
#include <tensortap.h>
void kernel_entry(uint64_t *args)
{
    int64_t n = (int64_t)tt_numel(args, 0);
    for (int64_t i = FIRST; i < n + PAST; i++)
        tt_f32(args, 2)[i] = i < 0 || i >= n ? -7 : tt_f32(args, 0)[i] + tt_f32(args, 1)[i];
}
";

/// Elements that the kernel writes before and after its output.
#[derive(Clone, Copy, Default)]
pub struct Leaves {
    pub before: u32,
    pub past: u32,
}

pub fn write(shop: &WorkFolder, file: &str, source: &str, leaves: Leaves) {
    let source = source.replace("FIRST", &format!("-{}", leaves.before));
    shop.write(&format!("sums/{file}"), &source.replace("PAST", &leaves.past.to_string()));
}

/// The scene with kernels that write this far outside their tensors.
pub fn sums(twice: Leaves, add: Leaves) -> WorkFolder {
    let shop = WorkFolder::new();
    shop.write("sums/scene.toml", SCENE);
    write(&shop, "twice.c", TWICE, twice);
    write(&shop, "add.c", ADD, add);
    shop
}

pub fn past(elements: u32) -> Leaves {
    Leaves { before: 0, past: elements }
}

fn labels(said: &Value) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    let tasks = said["tasks"].as_array().expect("tasks").iter();
    tasks
        .map(|task| (word(&task["kernels"][0]), word(&task["label"])))
        .filter(|(_, label)| label != "ok")
        .collect()
}

#[test]
fn blame_and_guard_find_a_kernel_that_writes_into_a_neighbor() {
    if !has_compilers() {
        return;
    }
    let shop = sums(Leaves::default(), Leaves::default());
    assert_eq!(shop.call(&["run", "sums", "--dump-tensor", "--out", "good"]).code, Some(0));
    write(&shop, "twice.c", TWICE, past(1));
    assert_eq!(shop.call(&["run", "sums", "--dump-tensor", "--out", "bad"]).code, Some(1));
    let (code, said) = shop.json(&["blame", "bad", "--golden", "good"]);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(labels(&said)[0], ("twice".to_owned(), "wrong_here".to_owned()), "{said}");
    let (_, said) = shop.json(&["blame", "bad", "--reference"]);
    assert_eq!(labels(&said)[0], ("twice".to_owned(), "wrong_here".to_owned()), "{said}");
    let delta =
        shop.call(&["show", "bad", "--task", "twice", "--arg", "total", "--stage", "after", "--delta"]);
    assert_eq!(delta.code, Some(0), "{delta:?}");
    assert!(delta.stdout.contains("2 of 64"), "the first element and the last: {}", delta.stdout);
    for platform in PLATFORMS.iter().map(|platform| platform.name()) {
        for runtime in RUNTIMES.iter().map(|runtime| runtime.name()) {
            let (code, said) =
                shop.json(&["run", "sums", "--guard", "--platform", platform, "--runtime", runtime]);
            let failure = &said["failure"];
            assert_eq!(
                (code, &failure["kind"], &failure["kernel"]),
                (Some(3), &"signal".into(), &"twice".into()),
                "{said}"
            );
            assert_eq!(failure["task_id"], "0x0000000000000000", "{said}");
            let overrun = serde_json::json!({"arg_index": 1, "name": "y", "distance": 0});
            assert_eq!(failure["overrun"], overrun, "{said}");
        }
    }
    let thread = shop.call(&["run", "sums", "--guard", "--device-mode", "thread"]);
    assert_eq!(thread.code, Some(3), "{thread:?}");
    for part in
        ["crash in kernel `twice`, task 0x0000000000000000", "0 bytes past the end of argument 1 (`y`)"]
    {
        assert!(thread.stderr.contains(part), "no `{part}` in {}", thread.stderr);
    }
}

#[test]
fn a_guarded_run_records_the_same_bytes() {
    if !has_compilers() {
        return;
    }
    let shop = sums(Leaves::default(), Leaves::default());
    assert_eq!(shop.call(&["run", "sums", "-p", "n=77", "--dump-tensor", "--out", "plain"]).code, Some(0));
    for (turn, runtime) in RUNTIMES.iter().map(|runtime| runtime.name()).enumerate() {
        let platform = PLATFORMS[turn % PLATFORMS.len()].name();
        let out = format!("guarded-{turn}");
        let (code, said) = shop.json(&[
            "run",
            "sums",
            "-p",
            "n=77",
            "--guard",
            "--runtime",
            runtime,
            "--platform",
            platform,
            "--dump-tensor",
            "--out",
            &out,
        ]);
        assert_eq!((code, &said["golden"], &said["tasks"]), (Some(0), &"pass".into(), &3.into()), "{said}");
        assert_eq!(shop.call(&["verify", &out]).code, Some(0));
        let (code, said) = shop.json(&["blame", &out, "--golden", "plain"]);
        assert_eq!((code, &said["verdict"]), (Some(0), &"pass".into()), "{said}");
        let (code, said) = shop.json(&["replay", &out, "--all", "--guard"]);
        assert_eq!((code, &said["bitexact"]), (Some(0), &3.into()), "{said}");
    }
    // Small rings reuse pages, and every built-in kernel must pass with guard pages.
    let rings = ["run", "paged_attention", "--guard", "--ring-heap", "1MiB", "--ring-slots", "64"];
    let said = shop.call(&rings);
    assert!(said.code == Some(0) && said.stdout.contains("golden    PASS"), "{said:?}");
}

/// How far a kernel writes outside its output, and the expected report. After 65 elements, 60 bytes precede the guard page.
const CANARY: &[(Leaves, &str, i64)] = &[
    (
        Leaves { before: 0, past: 1 },
        "4 bytes overwritten, the nearest 0 bytes past the end of argument 2 (`z`)",
        0,
    ),
    (
        Leaves { before: 0, past: 15 },
        "60 bytes overwritten, the nearest 0 bytes past the end of argument 2 (`z`)",
        0,
    ),
    (
        Leaves { before: 2, past: 0 },
        "8 bytes overwritten, the nearest 1 byte before the start of argument 2 (`z`)",
        -1,
    ),
];

#[test]
fn canaries_find_writes_before_the_guard_page() {
    if !has_compilers() {
        return;
    }
    let shop = sums(Leaves::default(), Leaves::default());
    for (turn, (leaves, expected, distance)) in CANARY.iter().enumerate() {
        write(&shop, "add.c", ADD, *leaves);
        let runtime = RUNTIMES[turn % RUNTIMES.len()].name();
        let (code, said) = shop.json(&["run", "sums", "-p", "n=65", "--guard", "--runtime", runtime]);
        let failure = &said["failure"];
        assert_eq!(
            (code, &failure["kind"], &failure["kernel"]),
            (Some(3), &"overrun".into(), &"add".into()),
            "{said}"
        );
        let message = failure["message"].as_str().expect("a message");
        assert!(
            message.starts_with("overrun in kernel `add`, task ") && message.ends_with(expected),
            "{message}"
        );
        assert_eq!(failure["overrun"]["distance"], *distance, "{said}");
    }
    // A replay uses its own pattern there.
    write(&shop, "add.c", ADD, past(1));
    shop.call(&["run", "sums", "-p", "n=65", "--dump-tensor", "--out", "bad"]);
    let replayed = shop.call(&["replay", "bad", "--task", "add", "--guard"]);
    assert_eq!(replayed.code, Some(1), "{replayed:?}");
    let words = common::unwrapped(&replayed.stdout);
    assert!(
        words.contains("it wrote 4 bytes outside of its outputs")
            && words.contains("0 bytes past the end of argument 2"),
        "{words}"
    );
    // Without guard pages, the cache line after an argument is checked, also if a task runs at its captured addresses.
    shop.call(&["run", "sums", "-p", "n=64", "--dump-tensor", "--out", "full"]);
    for which in [&["--all"][..], &["--task", "add"]] {
        let replayed = shop.call(&[&["replay", "full"][..], which].concat());
        let words = common::unwrapped(&replayed.stdout);
        assert_eq!(replayed.code, Some(1), "{words}");
        assert!(words.contains("0 bytes past the end of argument 2"), "{words}");
    }
    write(&shop, "add.c", ADD, past(16));
    let replayed = shop.call(&["replay", "bad", "--task", "add", "--guard", "--scene", "sums"]);
    let words = common::unwrapped(&replayed.stdout);
    assert!(
        words.contains("crash in kernel `add`")
            && words.contains("60 bytes past the end of argument 2 (`z`)"),
        "{words}"
    );
}

const MANY: &str = r#"
name = "many"
[params]
tasks = { default = 2700, min = 1 }
held = { default = 1, min = 0 }
[[tensor]]
name = "x"
dtype = "int32"
shape = [1]
role = "in"
[[kernel]]
name = "set"
source = "many.c"
symbol = "set"
args = ["in x", OUTPUTS]
[orchestration]
source = "many.c"
"#;

const MANY_C: &str = r#"
#include <tensortap.h>
void set(uint64_t *args)
{
    for (int each = 1; each < 16; each++)
        tt_i32(args, each)[0] = tt_i32(args, 0)[0];
}
int orchestrate(tt_orch *o)
{
    uint64_t one[] = { 1 }, held = tt_param(o, "held");
    for (uint64_t i = 0; i < tt_param(o, "tasks"); i++) {
        if (!held)
            tt_scope_begin(o, "one");
        tt_begin(o, "set");
        tt_in(o, tt_arg(o, "x"));
        for (int each = 0; each < 15; each++)
            tt_out(o, tt_tensor_new(o, TT_INT32, 1, one));
        tt_submit(o);
        if (!held)
            tt_scope_end(o);
    }
    return 0;
}
"#;

#[test]
fn rejects_more_guarded_tensors_than_the_system_has_mappings() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    let outputs: Vec<String> = (0..15).map(|each| format!("\"out y{each}\"")).collect();
    shop.write("many/scene.toml", &MANY.replace("OUTPUTS", &outputs.join(", ")));
    shop.write("many/many.c", MANY_C);
    let allowed = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("Linux has it");
    if allowed.trim().parse::<u64>().expect("a number") > 80_000 {
        eprintln!("skipped: this system has mappings for more");
        return;
    }
    let said = shop.call(&["run", "many", "--guard", "--runtime", "host_build_graph"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    for part in ["cannot guard 40501 tensors", "vm.max_map_count", "sysctl"] {
        assert!(said.stderr.contains(part), "no `{part}` in {}", said.stderr);
    }
    let roomy = ["run", "many", "--guard", "--ring-slots", "4096", "--ring-heap", "512MiB"];
    let said = shop.call(&roomy);
    assert!(said.code == Some(3) && said.stderr.contains("cannot guard more than"), "{said:?}");
    // As many one after the other are no more than one: those whose memory was taken back make room.
    let said = shop.call(&[&roomy[..], &["-p", "held=0"]].concat());
    assert!(said.code == Some(0) && said.stdout.contains("2,700 tasks"), "{said:?}");
}
