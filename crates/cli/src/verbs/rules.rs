//! The page about rules files: `tensortap help rules`.

use clap::Args;

use crate::error::Exit;
use crate::output::Output;

/// Takes nothing: the verb is its page.
#[derive(Args)]
pub struct RulesArgs {}

/// The page is also a verb of its own, for those who guess so.
pub fn run(output: Output) -> anyhow::Result<Exit> {
    output.text(PAGE)?;
    output.text("\n")?;
    Ok(Exit::Good)
}

/// The page, in lines that an 80-column terminal takes whole.
pub const PAGE: &str = "\
Rules: how far a record may be from its golden. `diff` and `blame` take
--rules FILE. The file is TOML; its rules are tried in order, and the first that
matches decides. What none matches is judged by --profile, --rtol and --atol, by
what the kernel declares, or by the dtype.

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

Which records a rule is for; what is left out matches everything:

  task       regular expression over the whole task id, as the manifest has it
  func       one over the name of a kernel of the task
  arg        one over the argument's index

What it asks, exactly one of:

  rtol, atol  |a - g| <= atol + rtol * |g|; one alone leaves the other 0
  ulps        so many representable values between them
  profile     default or bitexact

and with it:

  nan_equal  whether NaN in the same place is the same [default: true]
  small      goldens below it have no relative error

  tensortap diff A B --rules rules.toml
  tensortap blame A --golden B --rules rules.toml";

#[cfg(test)]
mod tests {
    use tensortap::judge::{Profile, Rules};

    #[test]
    fn the_example_of_the_page_is_a_rules_file() {
        let (_, example) = super::PAGE.split_once("\n\n").expect("an example");
        let (example, _) = example.split_once("\n\nWhich").expect("its end");
        let example: Vec<&str> = example.lines().map(str::trim).collect();
        assert_eq!(example.iter().filter(|line| **line == "[[rule]]").count(), 3);
        Rules::parse(&example.join("\n"), Profile::Default).expect("it is read");
        assert!(super::PAGE.lines().all(|line| line.chars().count() <= 80));
    }
}
