//! What is said of launches that are not plain.

use std::process::{Command, Output};

use tensortap::DType;

use crate::{Bench, common, succeeded};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn call(bench: &Bench, args: &[&str]) -> String {
    let output: Output =
        Command::new(common::executable()).args(args).current_dir(bench.path("")).output().unwrap();
    succeeded(&output);
    text(&output.stdout)
}

#[test]
fn vectors_local_memory_and_forked_children_have_words() {
    let Some(bench) = Bench::new() else { return };
    let output = bench.program(Some(("run", "")), "odd.py").output().unwrap();
    succeeded(&output);
    let told = text(&output.stderr);
    assert!(told.contains("are not recorded: it was forked from one that is"), "{told}");

    let dump = bench.dump("run");
    let launched = dump.tasks().unwrap().iter().find(|task| task.kernel_names() == ["turned"]).unwrap().key();
    let of_launch = |arg: u16| {
        let mut records = dump.records().map(Result::unwrap);
        let record = records.find(|record| record.task_id == launched.task_id && record.arg_index == arg);
        record.unwrap_or_else(|| panic!("argument {arg}"))
    };
    let (memory, by, c) = (of_launch(0), of_launch(1), of_launch(2));
    assert_eq!((memory.dtype, memory.shape()), (DType::Float32, &[32, 2][..]));
    assert_eq!((by.dtype, by.shape()), (DType::Float32, &[2][..]));
    assert_eq!(dump.payload(&by).unwrap(), [1_f32, 2.0].map(f32::to_le_bytes).concat());
    assert_eq!((c.dtype, c.shape()), (DType::Float32, &[4][..]), "three have room for four");
    assert_eq!(dump.payload(&c).unwrap()[..12], [3_f32, 4.0, 5.0].map(f32::to_le_bytes).concat());
    assert_eq!((of_launch(4).dtype, of_launch(4).scalar_bits), (DType::Int8, Some(7)));

    let shown = call(&bench, &["show", "run", &format!("{:#x}", launched.task_id)]);
    assert!(shown.contains("argument 3 (room), local memory of 96 bytes"), "{shown}");
    let listed = call(&bench, &["list", "run"]);
    assert!(listed.contains(" local ") && listed.contains("96 bytes"), "{listed}");
    let tasks = dump.tasks().unwrap();
    assert_eq!(tasks.iter().filter(|task| task.kernel_names() == ["turned"]).count(), 1, "one was refused");
}

#[test]
fn kernels_that_were_asked_for_and_are_not_there_are_said() {
    let Some(bench) = Bench::new() else { return };
    let told = |funcs: &str, run: &str| {
        let options = format!("--dump-func {funcs}");
        let output = bench.program(Some((run, &options)), "odd.py").output().unwrap();
        succeeded(&output);
        text(&output.stderr)
    };
    let missing = told("turned,nosuch,tw*", "missing");
    let said = "the program has no kernel `nosuch`, `tw*` (--dump-func): it has turned";
    assert!(missing.contains(said), "{missing}");
    assert!(!told("tu*", "there").contains("has no kernel"));
}
