//! Kernels of scene folders with sanitizers: findings are reported with their task.

use std::process::Command;

use crate::common;
use crate::folder_memory::{ADD, Leaves, past, sums, write};
use crate::folders::{WorkFolder, has_compilers};

/// Whether the C compiler has the libraries of its sanitizers.
fn has_sanitizers() -> bool {
    let asked = Command::new("cc").arg("-print-file-name=libasan.so").output();
    let has = has_compilers() && asked.is_ok_and(|said| said.stdout.starts_with(b"/"));
    if !has {
        eprintln!("skipped: the compiler has no sanitizers");
    }
    has
}

/// The words of a text, without line breaks.
fn words(text: &str) -> String {
    common::unwrapped(text)
}

#[test]
fn reports_an_out_of_bounds_write_with_task_argument_distance_and_line() {
    if !has_sanitizers() {
        return;
    }
    let shop = sums(Leaves::default(), Leaves::default());
    // The golden is also compiled with sanitizers, and computed in a process that has them.
    let both = ["run", "sums", "-p", "n=65", "--sanitize", "address,undefined"];
    let (code, said) = shop.json(&both);
    assert_eq!((code, &said["golden"]), (Some(0), &"pass".into()), "{said}");
    for (leaves, where_to, runtime) in [
        (past(1), "0 bytes past the end of argument 2 (`z`)", "tensormap_and_ringbuffer"),
        (Leaves { before: 1, past: 0 }, "4 bytes before the start of argument 2 (`z`)", "aicpu_build_graph"),
        (past(20), "0 bytes past the end of argument 2 (`z`)", "host_build_graph"),
    ] {
        write(&shop, "add.c", ADD, leaves);
        let (code, said) = shop.json(&[&both[..], &["--runtime", runtime]].concat());
        let failure = &said["failure"];
        assert_eq!((code, &failure["kernel"]), (Some(3), &"add".into()), "{said}");
        let message = failure["message"].as_str().expect("a message");
        assert!(message.starts_with("sanitizer report in kernel `add`, task 0x"), "{message}");
        assert!(
            message.contains("AddressSanitizer: use-after-poison") && message.contains("add.c:7"),
            "{message}"
        );
        assert!(message.ends_with(where_to), "{message}");
        assert!(
            failure["report"].as_str().is_some_and(|report| report.contains("WRITE of size 4")),
            "{said}"
        );
    }
    // In text, the report precedes the error, and the dump stores its headline.
    let output = shop.call(&[&both[..], &["--dump-tensor", "--out", "dump"]].concat());
    let (report, error) = output.stderr.split_once("\nerror: ").expect("an error");
    assert!(
        report.contains("WRITE of size 4") && error.starts_with("sanitizer report in kernel `add`"),
        "{output:?}"
    );
    let manifest = std::fs::read_to_string(shop.path("dump/tensor_dump.json")).expect("a manifest");
    assert!(manifest.contains("AddressSanitizer: use-after-poison"), "{manifest}");
    // Without sanitizers, the library is a different one.
    assert_eq!(shop.call(&["run", "sums", "-p", "n=65"]).code, Some(0));
}

#[test]
fn reports_undefined_behavior_with_its_values() {
    if !has_sanitizers() {
        return;
    }
    let shop = sums(Leaves::default(), Leaves::default());
    let overflows = ADD.replace(
        "    int64_t n",
        "    volatile int32_t most = 2147483647;\n    most = most + 1;\n    int64_t n",
    );
    write(&shop, "add.c", &overflows, Leaves::default());
    for sanitize in ["undefined", "undefined,address"] {
        let said = shop.call(&["run", "sums", "--sanitize", sanitize]);
        assert_eq!(said.code, Some(3), "{said:?}");
        for part in [
            "sanitizer report in kernel `add`, task 0x",
            "add.c:6",
            "runtime error: signed integer overflow: 2147483647 + 1",
        ] {
            assert!(said.stderr.contains(part), "{sanitize}: no `{part}` in {}", said.stderr);
        }
    }
}

#[test]
fn sanitizers_work_in_confined_replays_and_in_suites() {
    if !has_sanitizers() {
        return;
    }
    let shop = sums(Leaves::default(), past(1));
    assert_eq!(shop.call(&["run", "sums", "-p", "n=65", "--dump-tensor", "--out", "bad"]).code, Some(0));
    let replay = ["replay", "bad", "--all", "--sanitize", "address"];
    let (code, said) = shop.json(&replay);
    let failed = said["failed"].as_array().map(Vec::len);
    assert_eq!((code, failed, &said["bitexact"]), (Some(1), Some(2), &1.into()), "{said}");
    let reports =
        said["results"].as_array().expect("results").iter().filter_map(|task| task["report"].as_str());
    assert_eq!(reports.filter(|report| report.contains("WRITE of size 4")).count(), 2, "{said}");
    let confinement = serde_json::json!({"no_new_privileges": true, "system_calls": true, "limits": false});
    assert_eq!(said["confinement"], confinement, "{said}");
    let output = shop.call(&replay);
    let line = words(&output.stdout);
    assert!(
        line.contains("AddressSanitizer: use-after-poison")
            && line.contains("0 bytes past the end of argument 2"),
        "{line}"
    );
    assert!(
        output.stderr.contains("WRITE of size 4") && output.stderr.contains("memory is not limited"),
        "{output:?}"
    );
    let suite = shop.call(&[
        "test",
        "sums",
        "-p",
        "n=65",
        "--sanitize",
        "address",
        "--runtime",
        "host_build_graph",
        "--platform",
        "a5sim",
    ]);
    assert_eq!(suite.code, Some(1), "{suite:?}");
    assert!(words(&suite.stdout).contains("AddressSanitizer: use-after-poison"), "{suite:?}");
}

/// An invalid request with its environment, and the expected message.
const REFUSED: &[(&[&str], Option<&str>, &str)] = &[
    (
        &["run", "sums", "--sanitize", "thread"],
        None,
        "there is no sanitizer `thread`; there are: address, undefined",
    ),
    (
        &["run", "sums", "--sanitize", "address", "--device-mode", "thread"],
        None,
        "a sanitizer must be loaded when a process starts",
    ),
    (&["run", "bgemm", "--sanitize", "address"], None, "is written in Rust"),
    (&["test", "bgemm", "--sanitize", "address"], None, "is written in Rust"),
    (&["replay", "rust", "--all", "--sanitize", "address"], None, "does not come from a scene folder"),
    (
        &["replay", "dump", "--all", "--sanitize", "address", "--device-mode", "thread", "--trust"],
        None,
        "a sanitizer must be loaded when a process starts",
    ),
    (&["run", "sums", "--sanitize", "address"], Some("true"), "it is neither gcc nor clang"),
    (&["run", "sums", "--sanitize", "undefined"], Some("no-such-compiler"), "cannot start the compiler"),
    (&["run", "library", "--sanitize", "address"], None, "has no sources, only libraries"),
];

/// The scene with a prebuilt library instead of its kernel source.
fn write_library_scene(shop: &WorkFolder) {
    let built = walk(&shop.path("cache/build"))
        .into_iter()
        .find(|path| path.ends_with(".so") && path.contains("add-"));
    std::fs::create_dir(shop.path("library")).expect("created");
    std::fs::copy(built.expect("a library"), shop.path("library/add.so")).expect("copied");
    let scene = "name = \"library\"\n[[tensor]]\nname = \"x\"\ndtype = \"float32\"\nshape = [8]\nrole = \"in\"\n\
                 [[tensor]]\nname = \"z\"\ndtype = \"float32\"\nshape = [8]\nrole = \"out\"\n\
                 [[kernel]]\nname = \"add\"\nlibrary = \"add.so\"\nargs = [\"in a\", \"in b\", \"out z\"]\n\
                 [[task]]\nkernel = \"add\"\nargs = [\"x\", \"x\", \"z\"]\n";
    shop.write("library/scene.toml", scene);
    assert_eq!(shop.call(&["run", "library", "--guard"]).code, Some(0));
}

fn walk(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let below = |path: std::path::PathBuf| match path.is_dir() {
        true => walk(&path),
        false => vec![path.display().to_string()],
    };
    entries.flat_map(below).collect()
}

#[test]
fn rejects_what_sanitizers_cannot_check() {
    if !has_sanitizers() {
        return;
    }
    let shop = sums(Leaves::default(), Leaves::default());
    assert_eq!(shop.call(&["run", "sums", "--dump-tensor", "--out", "dump"]).code, Some(0));
    assert_eq!(shop.call(&["run", "vector_example", "--dump-tensor", "--out", "rust"]).code, Some(0));
    write_library_scene(&shop);
    for (call, compiler, expected) in REFUSED {
        let mut command = crate::command(call);
        command.current_dir(shop.folder.path()).env("TENSORTAP_CACHE", shop.path("cache"));
        if let Some(compiler) = compiler {
            command.env("CC", compiler);
        }
        let said = crate::outcome(command);
        assert_eq!(said.code, Some(2), "{call:?}: {said:?}");
        assert!(words(&said.stderr).contains(expected), "{call:?}: no `{expected}` in {}", said.stderr);
    }
}
