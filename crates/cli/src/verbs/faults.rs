//! The page about faults: `tensortap help faults`.

use clap::Args;
use tensortap::scene::FaultKind;

use crate::error::Exit;
use crate::output::Output;

/// Takes nothing: the verb is its page.
#[derive(Args)]
pub struct FaultsArgs {}

/// The page is also a verb of its own, for those who guess so.
pub fn run(output: Output) -> anyhow::Result<Exit> {
    output.text(&(page() + "\n"))?;
    Ok(Exit::Good)
}

/// What each kind does, a line each.
pub fn lines(kinds: impl IntoIterator<Item = FaultKind>) -> String {
    let line = |kind: FaultKind| format!("  {:8}  {}\n", kind.name(), kind.about());
    kinds.into_iter().map(line).collect()
}

/// The page, in lines that an 80-column terminal takes whole.
pub fn page() -> String {
    format!(
        "\
Faults: a kernel damaged on purpose, to see what a wrong answer looks like and
whether it is found. `run` and `replay` take --inject-fault KERNEL=KIND; every
task of that kernel then goes wrong.

{}
Not every kind shows in every kernel: `tensortap scenes SCENE` lists those that
do, and others are refused.

  tensortap run vector_example --dump-tensor --inject-fault mul=last
  tensortap blame --reference",
        lines(FaultKind::ALL)
    )
}
