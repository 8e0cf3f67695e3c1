//! `--types`: what bytes of an unknown type are.

use std::path::PathBuf;

use clap::Args;
use tensortap::format::{Dump, TypeRule};
use tensortap_query::DumpSet;
use tensortap_query::types::read_types;
use tensortap_query::words::printable;

use crate::output::Output;

/// Where it is said what arguments of an unknown type are.
#[derive(Args)]
pub struct TypesArg {
    /// Read arguments whose type is not known as this file says: a table for each kernel (name or pattern), in it a line for each
    /// argument (place or name), such as 2 = "bfloat16[4,512,1024]"
    #[arg(long, value_name = "FILE")]
    types: Option<PathBuf>,
}

impl TypesArg {
    /// Lets a dump be read so; what the file says of nothing that is there is noted.
    pub fn apply(&self, dump: &mut Dump, output: Output) -> anyhow::Result<()> {
        let Some(path) = &self.types else { return Ok(()) };
        let rules = read_types(path)?;
        dump.read_as(&rules);
        note_idle(&rules, &[dump], output);
        Ok(())
    }

    /// The same of several.
    pub fn apply_to_all(&self, set: &mut DumpSet, output: Output) -> anyhow::Result<()> {
        let Some(path) = &self.types else { return Ok(()) };
        let rules = read_types(path)?;
        set.read_as(&rules);
        let dumps: Vec<&Dump> = set.members().iter().map(|member| &member.dump).collect();
        note_idle(&rules, &dumps, output);
        Ok(())
    }
}

/// Says which rules are about nothing in any of the dumps: one file may serve several programs, so that is no error.
fn note_idle(rules: &[TypeRule], dumps: &[&Dump], output: Output) {
    for rule in rules {
        let idle: Option<Vec<String>> = dumps.iter().map(|dump| dump.idle_rule(rule)).collect();
        if let Some(why) = idle.as_ref().and_then(|idle| idle.first()) {
            output.note(format_args!("{}: {}", printable(&rule.said_in), printable(why)));
        }
    }
}
