//! The help page about rules files: `tensortap help rules`.

use clap::Args;

use crate::error::Exit;
use crate::output::Output;

/// No arguments: the verb prints its page.
#[derive(Args)]
pub struct RulesArgs {}

/// Prints the page, for users who type `tensortap rules`.
pub fn run(output: Output) -> anyhow::Result<Exit> {
    output.text(PAGE)?;
    output.text("\n")?;
    Ok(Exit::Good)
}

/// The page. Its lines fit an 80-column terminal.
pub const PAGE: &str = "\
Rules say how much a record may differ from its golden. `diff` and `blame`
accept --rules FILE. The file is TOML, and the first matching rule applies.
Records without a matching rule are compared by --profile, --rtol and --atol, by
the tolerance that the kernel declares, or by that of its dtype.

  [[rule]]
  func = 'softmax|pv'      # long sums
  rtol = 2e-2
  atol = 1e-3

  [[rule]]
  task = '0x00000001.*'
  arg = '[23]'
  ulps = 2
  nan_equal = false

  [[rule]]
  profile = 'bitexact'     # everything else

Keys that choose records; a missing key matches everything:

  task       regular expression for the whole task id, as in the manifest
  func       regular expression for the name of a kernel of the task
  arg        regular expression for the index of the argument

Keys that set the tolerance, exactly one of:

  rtol, atol  |a - g| <= atol + rtol * |g|; a missing one is 0
  ulps        largest distance in representable values
  profile     default or bitexact

Optional keys:

  nan_equal  treat NaN in the same place as equal [default: true]
  small      no relative error is computed for goldens below this value

  tensortap diff A B --rules rules.toml
  tensortap blame A --golden B --rules rules.toml";

#[cfg(test)]
mod tests {
    use tensortap::judge::{Profile, Rules};

    #[test]
    fn the_example_on_the_page_is_a_valid_rules_file() {
        let (_, example) = super::PAGE.split_once("\n\n").expect("an example");
        let (example, _) = example.split_once("\n\nKeys").expect("its end");
        let example: Vec<&str> = example.lines().map(str::trim).collect();
        assert_eq!(example.iter().filter(|line| **line == "[[rule]]").count(), 3);
        Rules::parse(&example.join("\n"), Profile::Default).expect("a valid file");
        assert!(super::PAGE.lines().all(|line| line.chars().count() <= 80));
    }
}
