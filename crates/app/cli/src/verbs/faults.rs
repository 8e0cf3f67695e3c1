//! The help page about faults: `tensortap help faults`.

use clap::Args;
use tensortap::scene::FaultKind;

use crate::error::Exit;
use crate::output::Output;

/// No arguments: the verb prints its page.
#[derive(Args)]
pub struct FaultsArgs {}

/// Prints the page, for users who type `tensortap faults`.
pub fn run(output: Output) -> anyhow::Result<Exit> {
    output.text(&(page() + "\n"))?;
    Ok(Exit::Good)
}

/// One line for each kind of fault.
pub fn lines(kinds: impl IntoIterator<Item = FaultKind>) -> String {
    let line = |kind: FaultKind| format!("  {:8}  {}\n", kind.name(), kind.about());
    kinds.into_iter().map(line).collect()
}

/// The page. Its lines fit an 80-column terminal.
pub fn page() -> String {
    format!(
        "\
Faults damage a kernel on purpose, so that you can see what a wrong result looks
like and how it is found. `run`, `test` and `replay` accept --inject-fault
KERNEL=KIND. The fault affects every task of that kernel.

{}
Not every kind has an effect on every kernel. `tensortap scenes SCENE` lists the
valid ones; others are rejected.

  tensortap run vector_example --dump-tensor --inject-fault mul=last
  tensortap blame --reference",
        lines(FaultKind::ALL)
    )
}
