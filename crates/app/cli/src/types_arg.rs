//! `--types`: how to read arguments whose type is unknown.

use std::path::PathBuf;

use clap::Args;
use tensortap::format::{Dump, TypeRule};
use tensortap_query::DumpSet;
use tensortap_query::types::read_types;
use tensortap_query::words::printable;

use crate::output::Output;

/// The option `--types`.
#[derive(Args)]
pub struct TypesArg {
    /// TOML file with the types of arguments of unknown type. It has a table for each kernel (name or pattern). A line of a
    /// table states the type of an argument (position or name), such as 2 = "bfloat16[4,512,1024]"
    #[arg(long, value_name = "FILE")]
    types: Option<PathBuf>,
}

impl TypesArg {
    /// Applies the file to a dump. Prints a note about entries that match nothing.
    pub fn apply(&self, dump: &mut Dump, output: Output) -> anyhow::Result<()> {
        let Some(path) = &self.types else { return Ok(()) };
        let rules = read_types(path)?;
        dump.read_as(&rules);
        note_idle(&rules, &[dump], output);
        Ok(())
    }

    /// Applies the file to every dump of a set.
    pub fn apply_to_all(&self, set: &mut DumpSet, output: Output) -> anyhow::Result<()> {
        let Some(path) = &self.types else { return Ok(()) };
        let rules = read_types(path)?;
        set.read_as(&rules);
        let dumps: Vec<&Dump> = set.members().iter().map(|member| &member.dump).collect();
        note_idle(&rules, &dumps, output);
        Ok(())
    }
}

/// Prints a note about entries that match nothing in any dump. One file may serve several programs, so this is not an
/// error.
fn note_idle(rules: &[TypeRule], dumps: &[&Dump], output: Output) {
    for rule in rules {
        let idle: Option<Vec<String>> = dumps.iter().map(|dump| dump.idle_rule(rule)).collect();
        if let Some(why) = idle.as_ref().and_then(|idle| idle.first()) {
            output.note(format_args!("{}: {}", printable(&rule.said_in), printable(why)));
        }
    }
}
