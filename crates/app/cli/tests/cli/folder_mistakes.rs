//! A mistake in a scene folder is reported with file, line, problem and remedy before anything runs.

use crate::folders::{SCENE, WEIGH, WorkFolder, halves, has_compilers};

/// A mistake: a replacement in the description, the text whose line is reported, and parts of the message.
struct Case {
    from: &'static str,
    to: &'static str,
    at: &'static str,
    problem: &'static str,
    remedy: &'static str,
}

const CASES: &[Case] = &[
    Case {
        from: "about =",
        to: "abuot =",
        at: "abuot",
        problem: "unknown field `abuot`",
        remedy: "remove the key",
    },
    Case {
        from: "reference = \"weigh_reference\"",
        to: "refrence = \"weigh_reference\"",
        at: "refrence",
        problem: "unknown field `refrence`",
        remedy: "remove the key",
    },
    Case {
        from: "dtype = \"float32\"\nshape = [\"n\"]\nrole = \"temp\"",
        to: "dtype = \"float31\"\nshape = [\"n\"]\nrole = \"temp\"",
        at: "float31",
        problem: "unknown dtype `float31`",
        remedy: "write one of float64, float32",
    },
    Case {
        from: "source = \"halve.cpp\"",
        to: "source = \"half.cpp\"",
        at: "symbol = \"halve\"",
        problem: "kernel `halve` is in half.cpp, but the folder has no such file",
        remedy: "add the file, or change the path",
    },
    Case {
        from: "source = \"weigh.c\"\nargs",
        to: "func_id = 1\nsource = \"weigh.c\"\nargs",
        at: "[[kernel]]\nname = \"halve\"",
        problem: "kernels `weigh` and `halve` both have func_id 1",
        remedy: "give each kernel its own func_id",
    },
    Case {
        from: "symbol = \"halve\"",
        to: "symbol = \"halves\"",
        at: "symbol = \"halves\"",
        problem: "kernel `halve` is the function `halves`, which halve.cpp does not export",
        remedy: "it exports halve",
    },
    Case {
        from: "args = [\"sum\", \"z\"]",
        to: "args = [\"sum\", \"z\", \"x\"]",
        at: "args = [\"sum\", \"z\", \"x\"]",
        problem: "passes to kernel `halve` 3 arguments, but the kernel takes 2",
        remedy: "pass, in this order: sum, z",
    },
    Case {
        from: "args = [\"sum\", \"z\"]",
        to: "args = [\"sum\", \"x\"]",
        at: "args = [\"sum\", \"x\"]",
        problem: "writes `z`, but tensor `x` is an input",
        remedy: "change the tensor's role to `inout`",
    },
    Case {
        from: "args = [\"sum\", \"z\"]",
        to: "args = [2, \"z\"]",
        at: "args = [2, \"z\"]",
        problem: "takes a tensor as `sum`, but the task passes 2",
        remedy: "pass one of the tensors: x, y, z, sum",
    },
    Case {
        from: "args = [\"x\", \"y\", \"sum\", 2.0, \"n\"]",
        to: "args = [\"x\", \"y\", \"sum\", 2.0, \"n - 300\"]",
        at: "\"n - 300\"",
        problem: "-43 does not fit in uint32",
        remedy: "write a value of type uint32",
    },
    Case {
        from: "\"out z\"]",
        to: "\"out z: float16\"]",
        at: "args = [\"sum\", \"z\"]",
        problem: "takes float16 as `z`, but tensor `z` is float32",
        remedy: "pass a tensor of that dtype",
    },
    Case {
        from: "shape = [\"n\"]\nrole = \"out\"",
        to: "shape = [\"n - n\"]\nrole = \"out\"",
        at: "shape = [\"n - n\"]",
        problem: "tensor `z` has no valid shape with the default parameters: `(n - n)` is 0",
        remedy: "whole numbers of at least 1",
    },
    Case {
        from: "shape = [\"n\"]\nrole = \"out\"",
        to: "shape = [\"m\"]\nrole = \"out\"",
        at: "shape = [\"m\"]",
        problem: "unknown whole-number parameter `m`",
        remedy: "use parameters under [params]",
    },
    Case {
        from: "default = 257, min = 2",
        to: "default = 1, min = 2",
        at: "default = 1",
        problem: "invalid default `1` of parameter `n`",
        remedy: "from 2 to",
    },
    Case {
        from: "fill = { constant = 3.0 }",
        to: "fill = { constant = 3.0, file = \"y.npy\" }",
        at: "y.npy",
        problem: "a fill must have exactly one key",
        remedy: "write one of uniform",
    },
    Case {
        from: "fill = { constant = 3.0 }",
        to: "fill = { file = \"y.npy\" }",
        at: "shape = [\"n\"]\nrole = \"in\"\nfill = { file",
        problem: "tensor `y` is in y.npy, but the folder has no such file",
        remedy: "add the file",
    },
    Case {
        from: "about =",
        to: "runtimes = [\"ringbuffer\"]\nabout =",
        at: "runtimes",
        problem: "unknown runtime `ringbuffer`",
        remedy: "tensormap_and_ringbuffer",
    },
    Case {
        from: "\"in sum\", \"out z\"",
        to: "\"in sum\", \"output z\"",
        at: "output z",
        problem: "has the invalid argument `output z`",
        remedy: "`out y`",
    },
    Case {
        from: "kernel = \"halve\"",
        to: "kernel = \"half\"",
        at: "kernel = \"half\"",
        problem: "unknown kernel `half`",
        remedy: "choose from: weigh, halve",
    },
    Case {
        from: "name = \"weighted sum\"\nargs",
        to: "scope = 3\nargs",
        at: "scope = 3",
        problem: "invalid type: integer",
        remedy: "docs/reference/scene-toml.md",
    },
];

#[test]
fn every_mistake_is_reported_with_line_and_remedy_and_nothing_runs() {
    if !has_compilers() {
        return;
    }
    let shop = halves();
    for Case { from, to, at, problem, remedy } in CASES {
        assert_eq!(SCENE.matches(from).count(), 1, "{from}");
        let text = SCENE.replace(from, to);
        let place = text.find(at).unwrap_or_else(|| panic!("{at}"));
        let line = 1 + text[..place].matches('\n').count();
        shop.write("halves/scene.toml", &text);
        let said = shop.call(&["run", "halves", "--dump-tensor", "--out", "dump"]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{to}: {said:?}");
        assert!(said.stderr.contains(&format!("scene.toml:{line}: ")), "{to}: line {line}: {}", said.stderr);
        assert!(said.stderr.contains(problem) && said.stderr.contains(remedy), "{to}: {}", said.stderr);
        assert!(!shop.path("dump").exists(), "{to}");
    }
}

#[test]
fn compiler_errors_are_shown_and_a_source_is_compiled_once() {
    if !has_compilers() {
        return;
    }
    let shop = halves();
    shop.write("halves/weigh.c", &WEIGH.replace("float factor =", "float factor"));
    let said = shop.call(&["run", "halves"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(
        said.stderr.contains("weigh.c does not compile") && said.stderr.contains("error:"),
        "{}",
        said.stderr
    );
    shop.write("halves/weigh.c", WEIGH);
    assert_eq!(shop.call(&["run", "halves"]).code, Some(0));
    let built = || {
        let folders = std::fs::read_dir(shop.path("cache/build")).expect("a cache").flatten();
        let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).expect("readable").flatten());
        let libraries = files.filter(|file| file.path().extension().is_some_and(|ending| ending == "so"));
        libraries.map(|file| file.metadata().and_then(|data| data.modified()).expect("a time")).max()
    };
    let before = built();
    assert_eq!(shop.call(&["run", "halves"]).code, Some(0));
    assert_eq!(built(), before, "nothing was compiled again");
    shop.write("halves/weigh.c", &format!("{WEIGH}/* another */\n"));
    assert_eq!(shop.call(&["run", "halves"]).code, Some(0));
    assert!(built() > before, "a changed source was compiled again");
}

#[test]
fn rejects_a_library_of_a_different_header_version() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    let description =
        SCENE.replace("source = \"halve.cpp\"\nsymbol = \"halve\"", "library = \"libhalve.so\"");
    shop.write("halves/scene.toml", &description);
    shop.write("halves/weigh.c", WEIGH);
    shop.write(
        "other.c",
        "unsigned tensortap_abi_7 = 7;\nvoid kernel_entry(unsigned long *args) { (void)args; }\n",
    );
    let made = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o", "halves/libhalve.so", "other.c"])
        .current_dir(shop.folder.path())
        .status();
    assert!(made.expect("a compiler").success());
    let said = shop.call(&["run", "halves"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let expected = "compiled with version 7 of tensortap.h, but this is version 1";
    assert!(said.stderr.contains(expected) && said.stderr.contains("libhalve.so"), "{}", said.stderr);
}

#[test]
fn the_text_of_a_kernel_that_fails_is_in_every_report_about_its_dump() {
    if !has_compilers() {
        return;
    }
    let shop = halves();
    let failing = WEIGH.replacen(
        "float factor = tt_scalar_f32(args, 3);",
        "float factor = tt_scalar_f32(args, 3);\n    tt_fail(\"the factor %d is odd\", 41);",
        1,
    );
    shop.write("halves/weigh.c", &failing);
    let ran = shop.call(&["run", "halves", "--dump-tensor", "--out", "dump"]);
    assert!(ran.code == Some(3) && ran.stderr.contains("failure in kernel `weigh`"), "{ran:?}");
    for line in ["list dump", "summary dump", "show dump weigh", "blame dump --reference"] {
        let words: Vec<&str> = line.split(' ').collect();
        let text = crate::common::unwrapped(&shop.call(&words).stdout);
        assert!(text.contains("the factor 41 is odd"), "{line}: {text}");
    }
    let document = shop.json(&["list", "dump"]).1;
    assert!(document["message"].as_str().unwrap().ends_with("the factor 41 is odd"), "{document}");
    let document = shop.json(&["show", "dump", "weigh"]).1;
    assert!(document["run_end"].as_str().unwrap().ends_with("the factor 41 is odd"), "{document}");
}

#[test]
fn a_golden_that_ended_early_is_reported_and_no_wrong_task_is_searched() {
    if !has_compilers() {
        return;
    }
    let shop = halves();
    assert_eq!(shop.call(&["run", "halves", "--dump-tensor", "--out", "right"]).code, Some(0));
    let failing = WEIGH.replacen("float factor", "tt_fail(\"the factor is odd\");\n    float factor", 1);
    shop.write("halves/weigh.c", &failing);
    assert_eq!(shop.call(&["run", "halves", "--dump-tensor", "--out", "early"]).code, Some(3));
    for line in ["diff right early", "blame right --golden early"] {
        let words: Vec<&str> = line.split(' ').collect();
        let text = crate::common::unwrapped(&shop.call(&words).stdout);
        let end = "in the golden, the run ended early, with the status crashed: failure in kernel `weigh`";
        assert!(text.contains(end), "{line}: {text}");
        assert!(!text.contains("to find the wrong task"), "{line}: {text}");
    }
    let text = shop.call(&["diff", "early", "--scene-golden"]).stdout;
    assert!(text.starts_with("FAIL: ") && !text.contains("to find the wrong task"), "{text}");
}
