//! Hints of errors: the same in every verb, only for similar names, and with the name of the program.

use std::fs;
use std::os::unix::process::CommandExt;

use crate::dumps::{Folder, vector_example};
use crate::json::document;
use crate::{Outcome, command, outcome};

/// A call of a verb with a missing path.
const MISSING: [&str; 13] = [
    "list nope",
    "stats nope",
    "show nope 3",
    "export nope --format npy --out e",
    "verify nope",
    "repair nope",
    "replay nope",
    "extract nope --task 0 --out c",
    "diff nope d",
    "diff d nope",
    "diff --repeat-check d nope",
    "blame nope --reference",
    "blame d --golden nope",
];

#[test]
fn every_verb_has_the_same_hint_for_a_missing_path() {
    let folder = vector_example();
    for line in MISSING {
        let refused = folder.tensortap(line);
        assert_eq!(refused.code, Some(2), "{line}: {refused:?}");
        assert!(refused.stderr.contains("nope: No such file or directory"), "{line}: {refused:?}");
        let hint =
            "hint: check the path; `tensortap record` and `tensortap run SCENE --dump-tensor` write dumps";
        assert!(refused.stderr.contains(hint), "{line}: {refused:?}");
    }
    fs::create_dir(folder.path("outputs")).expect("a new folder");
    fs::rename(folder.path("d"), folder.path("outputs/d")).expect("moved");
    for line in MISSING {
        let refused = folder.tensortap(&line.replace(" d", " outputs/d"));
        assert!(
            refused.stderr.contains("hint: existing dumps, newest first: outputs/d\n"),
            "{line}: {refused:?}"
        );
    }
}

#[test]
fn an_unknown_scene_may_be_a_missing_folder() {
    let folder = Folder::new();
    fs::create_dir(folder.path("empty")).expect("a new folder");
    for (scene, hint) in [
        ("nosuchdir/", "no scene folder of this name either; `tensortap new-scene nosuchdir` creates one"),
        ("sub/dir/scene.toml", "`tensortap new-scene sub/dir` creates one"),
        ("empty", "a file scene.toml, which `empty` does not have; `tensortap new-scene DIR` creates one"),
        ("xyzzy", "`tensortap scenes` describes them; `tensortap new-scene xyzzy` creates a scene folder"),
    ] {
        let refused = folder.tensortap(&format!("run {scene}"));
        assert!(refused.code == Some(2) && refused.stderr.contains(hint), "{refused:?}");
    }
}

#[test]
fn suggests_only_similar_names() {
    let folder = Folder::new();
    let refused = |name: &str| folder.tensortap(&format!("run vector_example --param {name}=1")).stderr;
    assert!(refused("seeed").contains("did you mean `seed`?"), "{}", refused("seeed"));
    let far = refused("nope");
    assert!(far.contains("there are: n, seed") && !far.contains("did you mean"), "{far}");
    let begun = folder.tensortap("run paged").stderr;
    assert!(begun.contains("did you mean `paged_attention`?"), "a beginning is enough: {begun}");
}

#[test]
fn help_for_an_unknown_word_lists_the_topics() {
    let folder = Folder::new();
    let refused = folder.tensortap("help nope");
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("topics: selectors, faults, rules"), "{refused:?}");
    let refused = document(&folder.tensortap("help nope --json"));
    let hint = refused["error"]["hint"].as_str().expect("a hint");
    assert!(hint.contains("topics: selectors, faults, rules"), "{hint}");
}

/// Calls the binary under a different name.
fn mine(folder: &Folder, line: &str) -> Outcome {
    let mut command = command(&line.split_whitespace().collect::<Vec<_>>());
    command.arg0("/somewhere/mine").current_dir(folder.path(""));
    outcome(command)
}

#[test]
fn hints_use_the_name_of_the_program() {
    let folder = vector_example();
    fs::remove_file(folder.path("d/graph.json")).expect("removed");
    fs::create_dir(folder.path("empty")).expect("a new folder");
    let lines = [
        ("verify d", "`mine repair d`"),
        ("verify d --json", "`mine repair d`"),
        ("list empty", "`mine run SCENE --dump-tensor`"),
        ("list empty --json", "`mine run SCENE --dump-tensor`"),
        ("show d 99", "`mine list`"),
        ("diff d d d", "`mine diff --repeat-check`"),
        ("show d 0 --delta", "`mine list --role inout`"),
    ];
    for (line, advice) in lines {
        let said = mine(&folder, line);
        let said = said.stdout + &said.stderr;
        assert!(said.contains(advice) && !said.contains("`tensortap "), "{line}: {said}");
    }
    let run = mine(&folder, "run vector_example --dump-tensor --out wrong --inject-fault mul=last");
    assert_eq!(run.code, Some(1), "{run:?}");
    let blamed = document(&mine(&folder, "blame wrong --reference --json"));
    let replay = blamed["culprits"][0]["replay"].as_str().expect("a command");
    assert!(replay.starts_with("mine replay wrong "), "{replay}");
}

#[test]
fn errors_about_wrong_input_name_the_file_and_the_next_step() {
    let folder = vector_example();
    fs::write(folder.path("notes"), "[mul\n").expect("written");
    fs::create_dir(folder.path("cut")).expect("a new folder");
    fs::write(folder.path("cut/tensor_dump.json"), "{\"schema_version\": 1,").expect("written");
    for (line, parts) in [
        ("list d --task nope", ["d has no task or kernel `nope`; there are: add, ", "`tensortap list d`"]),
        ("stats d --scope nope", ["d has no scope `nope`; there are: inner", "`tensortap list d`"]),
        ("list d --rank 3", ["d is one dump, not a run folder with several", "remove --rank"]),
        ("list d --pid 3", ["d is one dump, not a run folder with several", "remove --pid"]),
        ("summary d --step 9", ["d has none of the steps in --step", "its steps are 0"]),
        ("graph d --step 9", ["d has none of the steps in --step", "its steps are 0"]),
        ("replay d --task 99", ["d has no task 0x63; it has 5 tasks, such as 0x0", "`tensortap list`"]),
        ("diff d notes", ["notes is neither a dump nor a file of arrays", ".npy, .npz or .safetensors"]),
        (
            "list cut",
            ["cut/tensor_dump.json cannot be read as a manifest", "the file ends too early, at line 1"],
        ),
        (
            "list d --types nope",
            ["types file nope: cannot be read: No such file", "--types needs a TOML file"],
        ),
        ("list d --types notes", ["types file notes, line 1: ", "a types file has a table for each kernel"]),
        ("show d 17 --bins many", ["--bins", "expected a whole number from 0 to 200"]),
        ("serve d --port 99999", ["--port", "expected a whole number from 1 to 65535"]),
        ("run vector_example --device-memory 1", ["bytes needed 196608, available 1", "--param"]),
        ("show d mul --slice 0,0 --arg product", ["2 terms, but the tensor has 1 axis", "shape 16384"]),
    ] {
        let refused = folder.tensortap(line);
        assert_eq!(refused.code, Some(2), "{line}: {refused:?}");
        for part in parts {
            assert!(refused.stderr.contains(part), "{line}: {part}: {refused:?}");
        }
    }
}
