use std::process::Stdio;

use crate::{assert_snapshot, command, outcome, tensortap};

#[test]
fn the_table_has_every_listed_scene_and_a_fixed_width() {
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
fn hidden_scenes_are_not_listed_but_can_be_described() {
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
fn describes_one_scene() {
    let outcome = tensortap("scenes bgemm");
    assert_eq!(outcome.code, Some(0));
    assert_snapshot("scenes_bgemm", &outcome.stdout);
}

#[test]
fn ignores_a_closed_pipe() {
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
