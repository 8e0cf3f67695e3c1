//! Orchestrations in C: their tasks are checked like those in Rust, and failures are reported and contained, whether the
//! host or the device builds the graph.

use crate::folders::{WorkFolder, has_compilers};

const SCENE: &str = r#"
[[tensor]]
name = "x"
dtype = "int32"
shape = [8, 4]
role = "in"
fill = { range = [0, 1] }
[[tensor]]
name = "y"
dtype = "int32"
shape = [4, 8]
role = "out"
[[kernel]]
name = "copy"
source = "copy.c"
args = ["in from", "out to", "scalar add: int32"]
[orchestration]
source = "graph.c"
[golden]
source = "copy.c"
"#;

const COPY: &str = r"
#include <tensortap.h>
void kernel_entry(uint64_t *args)
{
    for (uint64_t i = 0; i < tt_numel(args, 0); i++)
        tt_i32(args, 1)[tt_offset(args, 1, i)] = tt_i32(args, 0)[tt_offset(args, 0, i)] + tt_scalar_i32(args, 2);
}
void golden(uint64_t *args)
{
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 4; c++)
            tt_i32(args, 1)[c * 8 + 7 - r] = 4 * r + c + 5 - 7;
}
";

/// Transposes through an intermediate and reverses the columns: uses every kind of view, a scope, names, an edge, a mark.
const GRAPH: &str = r#"
#include <tensortap.h>
#include <stdlib.h>
int orchestrate(tt_orch *o)
{
    uint64_t flat[] = { 32 }, wide[] = { 4, 8 };
    tt_tensor between = tt_tensor_new(o, TT_INT32, 1, flat);
    tt_tensor x = tt_arg(o, "x"), y = tt_arg(o, "y");
    BEFORE
    tt_begin(o, "copy");
    tt_name(o, "transpose %d", 1);
    tt_in(o, tt_transpose(o, x, 0, 1));
    tt_out(o, tt_reshape(o, between, 2, wide));
    tt_give_i32(o, 5);
    tt_dump(o, TT_ALL_ARGS);
    tt_task first = tt_submit(o);
    tt_scope_begin(o, "turn");
    for (uint32_t row = 0; row < tt_size(o, y, 0); row++) {
        tt_begin(o, "copy");
        tt_in(o, tt_slice_step(o, tt_select(o, tt_reshape(o, between, 2, wide), 0, row), 0, 7, 8, -1));
        tt_out(o, tt_select(o, y, 0, row));
        tt_give_i32(o, -7);
        tt_task turned = tt_add(o);
        tt_edge(o, first, turned);
        tt_publish(o, turned);
    }
    tt_scope_end(o);
    AFTER
    return 0;
}
"#;

fn write(shop: &WorkFolder, before: &str, after: &str) {
    shop.write("turn/graph.c", &GRAPH.replace("BEFORE", before).replace("AFTER", after));
}

fn turn() -> WorkFolder {
    let shop = WorkFolder::new();
    shop.write("turn/scene.toml", SCENE);
    shop.write("turn/copy.c", COPY);
    shop
}

#[test]
fn views_scopes_edges_and_marks_are_the_same_on_every_runtime() {
    if !has_compilers() {
        return;
    }
    let shop = turn();
    write(&shop, "", "");
    for runtime in tensortap::RUNTIMES.iter().map(|runtime| runtime.name()) {
        let out = format!("dump-{runtime}");
        let (code, said) =
            shop.json(&["run", "turn", "--runtime", runtime, "--dump-tensor=marked", "--out", &out]);
        assert_eq!((code, &said["golden"], &said["tasks"]), (Some(0), &"pass".into(), &5.into()), "{said}");
        assert_eq!((&said["dump"]["tensors"], &said["dump"]["scalars"]), (&2.into(), &1.into()), "{said}");
        let (code, said) =
            shop.json(&["list", &out, "--task", "transpose 1", "--stage", "before", "--kind", "tensor"]);
        let record = &said["records"][0];
        assert_eq!((code, &record["strides"]), (Some(0), &serde_json::json!([1, 4])), "{said}");
    }
}

/// Code before or after the tasks, and the expected reports if the host builds the graph and if the device does.
const WRONG: &[(&str, &str, &str, &str)] = &[
    ("tt_begin(o, \"move\"); tt_submit(o);", "", "has no kernel `move`", "has no kernel `move`"),
    ("tt_arg(o, \"z\");", "", "no argument `z`", "no argument `z`"),
    ("tt_param(o, \"n\");", "", "no parameter `n`", "no parameter `n`"),
    (
        "tt_begin(o, \"copy\"); tt_in(o, x); tt_in(o, y); tt_give_i32(o, 1); tt_submit(o);",
        "",
        "declared as an output but submitted as an input",
        "declared as an output but submitted as an input",
    ),
    ("tt_slice(o, x, 0, 6, 3);", "", "the orchestration failed", "the orchestration failed"),
    ("tt_in(o, x);", "", "call tt_begin first", "call tt_begin first"),
    ("tt_orch_fail(o, \"not today\");", "", "not today", "not today"),
    ("", "return 3;", "the orchestration returned 3", "the orchestration returned 3"),
    ("", "tt_scope_begin(o, \"open\");", "opened and not closed", "opened and not closed"),
    ("*(volatile int *)0 = 1;", "", "it crashed: its process ended by signal 11, SIGSEGV", "SIGSEGV"),
    ("exit(5);", "", "it called exit, with code 5", "it ended the device instead of returning, with code 5"),
];

#[test]
fn reports_and_contains_a_failing_orchestration() {
    if !has_compilers() {
        return;
    }
    let shop = turn();
    for (before, after, on_host, on_device) in WRONG {
        write(&shop, before, after);
        for (runtime, expected) in [("host_build_graph", on_host), ("aicpu_build_graph", on_device)] {
            let said = shop.call(&["run", "turn", "--runtime", runtime]);
            assert_eq!(said.code, Some(3), "{before}{after} on {runtime}: {said:?}");
            assert!(said.stderr.contains(expected), "{before}{after} on {runtime}: {}", said.stderr);
        }
    }
}
