//! What a refusal says to do: the same in every verb, for names that are alike only, with this program's own name.

use std::fs;
use std::os::unix::process::CommandExt;

use crate::dumps::{Folder, vector_example};
use crate::json::document;
use crate::{Outcome, command, outcome};

/// A verb that is given a path at which there is nothing.
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
fn a_path_that_is_not_there_has_the_same_hint_in_every_verb() {
    let folder = vector_example();
    for line in MISSING {
        let refused = folder.tensortap(line);
        assert_eq!(refused.code, Some(2), "{line}: {refused:?}");
        assert!(refused.stderr.contains("nope: No such file or directory"), "{line}: {refused:?}");
        let hint = "hint: `tensortap run SCENE --dump-tensor` makes a dump";
        assert!(refused.stderr.contains(hint), "{line}: {refused:?}");
    }
    fs::create_dir(folder.path("outputs")).expect("a new folder");
    fs::rename(folder.path("d"), folder.path("outputs/d")).expect("moved");
    for line in MISSING {
        let refused = folder.tensortap(&line.replace(" d", " outputs/d"));
        assert!(refused.stderr.contains("hint: there are, newest first: outputs/d\n"), "{line}: {refused:?}");
    }
}

#[test]
fn a_scene_that_is_not_there_may_have_been_meant_as_a_folder() {
    let folder = Folder::new();
    fs::create_dir(folder.path("empty")).expect("a new folder");
    for (scene, hint) in [
        ("nosuchdir/", "no such scene folder, either; `tensortap new-scene nosuchdir` writes one that runs"),
        ("sub/dir/scene.toml", "`tensortap new-scene sub/dir` writes one that runs"),
        ("empty", "a file scene.toml, and `empty` has none; `tensortap new-scene DIR` writes one that runs"),
        (
            "xyzzy",
            "`tensortap scenes` tells more about them; `tensortap new-scene xyzzy` writes a scene folder",
        ),
    ] {
        let refused = folder.tensortap(&format!("run {scene}"));
        assert!(refused.code == Some(2) && refused.stderr.contains(hint), "{refused:?}");
    }
}

#[test]
fn only_a_name_that_is_alike_is_offered() {
    let folder = Folder::new();
    let refused = |name: &str| folder.tensortap(&format!("run vector_example --param {name}=1")).stderr;
    assert!(refused("seeed").contains("did you mean `seed`?"), "{}", refused("seeed"));
    let far = refused("nope");
    assert!(far.contains("there are: n, seed") && !far.contains("did you mean"), "{far}");
    let begun = folder.tensortap("run paged").stderr;
    assert!(begun.contains("did you mean `paged_attention`?"), "a beginning is enough: {begun}");
}

#[test]
fn help_about_nothing_names_the_topics() {
    let folder = Folder::new();
    let refused = folder.tensortap("help nope");
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("topics: selectors, faults, rules"), "{refused:?}");
    let refused = document(&folder.tensortap("help nope --json"));
    let hint = refused["error"]["hint"].as_str().expect("a hint");
    assert!(hint.contains("topics: selectors, faults, rules"), "{hint}");
}

/// Calls the binary as if it were another program.
fn mine(folder: &Folder, line: &str) -> Outcome {
    let mut command = command(&line.split_whitespace().collect::<Vec<_>>());
    command.arg0("/somewhere/mine").current_dir(folder.path(""));
    outcome(command)
}

#[test]
fn advice_names_the_program_that_was_started() {
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
