//! The mutants of `scripts/mutants` still fit the code that they change.

use std::path::Path;
use std::process::Command;

#[test]
fn every_mutant_applies_to_the_tree_without_guessing() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tree = crate_dir.ancestors().nth(3).expect("the crate is in crates/dev");
    let mut count = 0;
    for entry in crate_dir.join("mutants").read_dir().expect("a folder of mutants") {
        let patch = entry.expect("an entry").path();
        let mut command = Command::new("patch");
        command.args(["--dry-run", "--strip", "1", "--fuzz", "0", "--directory"]).arg(tree);
        let output = command.arg("--input").arg(&patch).output().expect("`patch` is installed");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{} does not apply: {said}", patch.display());
        count += 1;
    }
    assert!(count >= 7, "{count} mutants");
}
