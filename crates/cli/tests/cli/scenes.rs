use std::process::Stdio;

use crate::{assert_snapshot, command, outcome, tensortap};

#[test]
fn the_table_shows_every_listed_scene_at_a_width_of_its_own() {
    let table = tensortap("scenes").stdout;
    assert_snapshot("scenes", &table);
    assert!(table.lines().all(|line| line.chars().count() <= 100 && line.trim_end() == line), "{table}");
    for columns in ["40", "200"] {
        let mut command = command(&["scenes"]);
        command.env("COLUMNS", columns);
        assert_eq!(outcome(command).stdout, table, "{columns} columns");
    }
}

#[test]
fn scenes_made_for_tests_are_not_listed_but_can_be_asked_about() {
    let table = tensortap("scenes").stdout;
    let registry = tensortap_cli::scenes();
    for scene in registry.scenes() {
        let row = table.lines().any(|line| line.split(' ').next() == Some(scene.name()));
        assert_eq!(row, !scene.hidden(), "{}", scene.name());
    }
    assert_eq!(tensortap("scenes hang").code, Some(0));
    let all = tensortap("scenes --all").stdout;
    for scene in registry.scenes() {
        assert!(all.lines().any(|line| line.split(' ').next() == Some(scene.name())), "{}", scene.name());
    }
}

#[test]
fn one_scene_is_told_in_full() {
    let outcome = tensortap("scenes bgemm");
    assert_eq!(outcome.code, Some(0));
    assert_snapshot("scenes_bgemm", &outcome.stdout);
}

#[test]
fn a_reader_that_has_gone_is_no_reason_to_complain() {
    for line in ["scenes", "scenes --json", "run vector_example", "run vector_example --json"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = command(&line.split(' ').collect::<Vec<_>>());
        command.stdout(Stdio::from(writer)).stderr(Stdio::piped());
        let output = command.spawn().and_then(|child| child.wait_with_output()).expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{line}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
    }
}
