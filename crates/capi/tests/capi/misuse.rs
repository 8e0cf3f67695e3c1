//! Programs that do what they should not, and are told so.

use crate::{
    compile::program,
    host::{Recorded, record},
};

/// Runs `misuse.c`, which finds every answer as it expects it; what it said, and what was recorded.
fn run(mode: &str, dies: bool) -> Option<(tempfile::TempDir, Vec<Recorded>, String)> {
    let built = tempfile::tempdir().unwrap();
    let (dir, output, recorded) = record(&program("misuse.c", built.path(), &[])?, &[mode], dies);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{:?}: {said}", output.status);
    Some((dir, recorded, said))
}

#[test]
fn handles_that_were_closed_say_so_ever_after() {
    let Some((_dir, recorded, said)) = run("closed", false) else { return };
    assert_eq!((said.as_str(), recorded.len()), ("", 1));
    assert!(recorded[0].said_goodbye);
    assert_eq!(recorded[0].dump().tasks().unwrap().iter().count(), 2);
}
