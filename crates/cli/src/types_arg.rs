//! `--types`: what bytes of an unknown type are.

use std::path::PathBuf;

use clap::Args;
use tensortap::format::Dump;
use tensortap_query::DumpSet;
use tensortap_query::types::read_types;

/// Where it is said what arguments of an unknown type are.
#[derive(Args)]
pub struct TypesArg {
    /// Read arguments whose type is not known as this file says: a table for each kernel (name or pattern), in it a line for each
    /// argument (place or name), such as 2 = "bfloat16[4,512,1024]"
    #[arg(long, value_name = "FILE")]
    types: Option<PathBuf>,
}

impl TypesArg {
    /// Lets a dump be read so.
    pub fn apply(&self, dump: &mut Dump) -> anyhow::Result<()> {
        if let Some(path) = &self.types {
            dump.read_as(&read_types(path)?);
        }
        Ok(())
    }

    /// The same of several.
    pub fn apply_to_all(&self, set: &mut DumpSet) -> anyhow::Result<()> {
        if let Some(path) = &self.types {
            set.read_as(&read_types(path)?);
        }
        Ok(())
    }
}
