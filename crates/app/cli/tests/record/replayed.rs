//! Tasks of recorded programs, replayed with kernels from a library.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::examples::{good, root, tensortap};

/// The functions that program and library share.
const FUNCTIONS: &str = r"
#include <stddef.h>
#include <stdint.h>
static void axpy(uint64_t n, float a, const float *x, float *y)
{
    for (uint64_t at = 0; at < n; at++)
        y[at] = a * x[at] + y[at];
}
static void column_sums(const float *m, float *sums, size_t rows, size_t columns, size_t pitch)
{
    for (size_t c = 0; c < columns; c++) {
        sums[c] = 0;
        for (size_t r = 0; r < rows; r++)
            sums[c] += m[r * pitch + c];
    }
}
";

/// A program whose argument order equals that of its functions, scalars first. Its matrix is a part of a
/// larger one.
const PROGRAM: &str = r#"
#include <tensortap_record.h>
#include <stdio.h>
#include "functions.h"

int main(void)
{
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {.5f, .25f, 8, 0, -1, 7}, m[4][5], sums[3];
    for (int at = 0; at < 20; at++)
        m[at / 5][at % 5] = 0.125f * (float)(at * at);
    const uint64_t six[1] = {6}, three[1] = {3}, part[2] = {3, 3};
    tt_session *session = tt_attach();
    tt_recorder *r = tt_thread(session);
    tt_recorded_task task;
    for (int step = 0; step < 2; step++) {
        tt_task_info info = tt_task_of(tt_kernel_id(r, "axpy"));
        tt_view given = tt_dense(2, TT_IN, x, TT_FLOAT32, 1, six);
        tt_view both = tt_dense(3, TT_INOUT, y, TT_FLOAT32, 1, six);
        tt_task_begin(r, &task, &info);
        tt_record_scalar(r, &task, 0, TT_UINT64, 6, 0);
        tt_record_f32(r, &task, 1, 0.5f, 0);
        tt_record_before(r, &task, &given);
        tt_record_before(r, &task, &both);
        axpy(6, 0.5f, x, y);
        tt_record_after(r, &task, &both);
        tt_task_end(r, &task);
    }
    tt_task_info info = tt_task_of(tt_kernel_id(r, "column_sums"));
    tt_view matrix = tt_dense(0, TT_IN, m, TT_FLOAT32, 2, part);
    matrix.bytes = sizeof m;
    matrix.start = 6;
    matrix.strides[0] = 5;
    tt_view made = tt_dense(1, TT_OUT, sums, TT_FLOAT32, 1, three);
    tt_task_begin(r, &task, &info);
    tt_record_before(r, &task, &matrix);
    column_sums(&m[1][1], sums, 3, 3, 5);
    tt_record_after(r, &task, &made);
    tt_task_end(r, &task);
    tt_wrote(r, x, sizeof x, 0);
    tt_close(session);
    printf("%g %g\n", sums[0], y[5]);
    return 0;
}
"#;

/// The same functions as kernels: with data addresses, with descriptors, and one that is wrong.
const KERNELS: &str = r#"
#include <tensortap.h>
#include <string.h>
#include "functions.h"

void axpy_raw(uint64_t *args)
{
    float a;
    memcpy(&a, &args[3], 4);
    axpy(args[2], a, (const float *)args[0], (float *)args[1]);
}
void axpy_wrong(uint64_t *args)
{
    axpy_raw(args);
    ((float *)args[1])[4] += 1;
}
void sums_raw(uint64_t *args) { column_sums((const float *)args[0], (float *)args[1], 3, 3, 5); }
void kernel_entry(uint64_t *args)
{
    const tt_tensor_desc *m = tt_tensor_at(args, 0);
    column_sums(tt_f32(args, 0), tt_f32(args, 1), m->shape[0], m->shape[1], (size_t)m->strides[0]);
}
"#;

/// A recording of the program in `run`, with the library next to it.
fn recorded() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in [("functions.h", FUNCTIONS), ("program.c", PROGRAM), ("kernels.c", KERNELS)] {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    let compile = |words: &str| {
        let mut cc = Command::new("cc");
        cc.current_dir(folder.path()).args(["-std=c11", "-O1", "-ffp-contract=off", "-I"]);
        good(cc.arg(root().join("include")).args(words.split(' ')));
    };
    compile("program.c -o program");
    compile("-shared -fPIC kernels.c -o kernels.so");
    let recorded = good(&mut tensortap(folder.path(), "record --quiet --out run -- ./program"));
    assert_eq!(recorded, good(&mut Command::new(folder.path().join("program"))));
    folder
}

/// Exit status and JSON output of a command line.
fn asked(folder: &Path, line: &str) -> (Option<i32>, Value) {
    let output = tensortap(folder, &format!("{line} --json")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let document =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: {error}: {said}"));
    (output.status.code(), document)
}

const AXPY: &str = "--abi raw --kernel axpy=kernels.so:axpy_raw";

#[test]
fn tasks_of_a_program_are_replayed_with_the_named_kernels() {
    let folder = recorded();
    let at = |line: &str| asked(folder.path(), line);
    let (code, said) = at(&format!("replay run {AXPY}"));
    assert_eq!((code, &said["tasks"], &said["bitexact"]), (Some(0), &2.into(), &2.into()), "{said}");
    assert!(said["notes"].to_string().contains("recorded arguments 2, 3, 0, 1"), "{said}");
    let (code, said) = at(&format!("replay run {AXPY} --kernel column_sums=kernels.so:sums_raw"));
    assert_eq!((code, &said["tasks"], &said["bitexact"]), (Some(0), &3.into(), &3.into()), "{said}");
    // A strided view, passed by its descriptor, on the platform that copies.
    let (code, said) = at("replay run --kernel column_sums=kernels.so --platform a5sim");
    assert_eq!((code, &said["tasks"], &said["bitexact"]), (Some(0), &1.into(), &1.into()), "{said}");
    assert!(!said["notes"].to_string().contains("axpy"), "only a kernel that runs has a note: {said}");

    let (code, said) = at("replay run --abi raw --kernel axpy=kernels.so:axpy_wrong");
    assert_eq!(
        (code, &said["bitexact"], said["failed"].as_array().unwrap().len()),
        (Some(1), &0.into(), 2),
        "{said}"
    );
    // The result of the wrong kernel: 0.5 * 5 - 1 + 1, while 1.5 was captured.
    assert!(said["failed"][0]["reason"].to_string().contains("argument 1: 1 of 6 elements"), "{said}");
    assert!(said["failed"][0]["reason"].to_string().contains("2.5"), "{said}");
    // With `--all`, tasks without a library are rejected by name, and so are tasks without a kernel.
    let (code, said) = at(&format!("replay run --all {AXPY}"));
    let refused = said["refused"].to_string();
    assert_eq!((code, &said["bitexact"]), (Some(1), &2.into()), "{said}");
    assert!(
        refused.contains("--kernel column_sums=LIB") && refused.contains("it does not run a kernel"),
        "{said}"
    );
}

#[test]
fn a_program_without_kernels_is_rejected_with_the_reason() {
    let folder = recorded();
    for (line, reason) in [
        ("replay run --all", "pass a kernel of your own with --kernel NAME=LIB[:SYMBOL]"),
        (
            "extract run --task column_sums --out case",
            "pass a kernel of your own with --kernel NAME=LIB[:SYMBOL]",
        ),
        ("replay run --kernel axpi=kernels.so:axpy_raw", "no kernel `axpi`; there are: axpy, column_sums"),
        ("replay run --kernel axpy=kernels.so:nothing", "does not export"),
        ("replay run --kernel axpy=program.c", "program.c"),
    ] {
        let output = tensortap(folder.path(), line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(reason), "{line}: {said}");
    }
}

#[test]
fn a_task_of_a_program_becomes_a_case_and_blame_runs_it_again() {
    let folder = recorded();
    let at = |line: &str| asked(folder.path(), line);
    let both = format!("{AXPY} --kernel column_sums=kernels.so:sums_raw");
    let (code, said) = at(&format!("blame run --rerun {both}"));
    let labels = |said: &Value| {
        let mut tasks = said["tasks"].as_array().unwrap().clone();
        tasks.sort_by_key(|task| task["task_id"].to_string());
        tasks.iter().map(|task| task["label"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((code, &labels(&said)[..3]), (Some(0), &["ok", "ok", "ok"].map(String::from)[..]), "{said}");
    // The library computes the right results: both tasks differ, each starting from its captured inputs.
    let wrong = both.replace("axpy_raw", "axpy_wrong");
    let (code, said) = at(&format!("blame run --rerun {wrong}"));
    let expected = ["wrong_here", "wrong_here", "ok"].map(String::from);
    assert_eq!((code, &labels(&said)[..3]), (Some(1), &expected[..]), "{said}");
    assert_eq!(
        said["first_wrong"].as_array().unwrap().len(),
        1,
        "the second continues from the first: {said}"
    );

    let (code, said) = at(&format!("extract run --task 1 {AXPY} --out case"));
    assert_eq!(code, Some(0), "{said}");
    for gone in ["kernels.so", "program"] {
        std::fs::remove_file(folder.path().join(gone)).unwrap();
    }
    std::fs::remove_dir_all(folder.path().join("run")).unwrap();
    let (code, said) = at("replay case");
    assert_eq!((code, &said["tasks"], &said["bitexact"]), (Some(0), &1.into(), &1.into()), "{said}");
}
