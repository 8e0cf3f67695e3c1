//! `tensortap new-scene`: a scene folder to start from.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tensortap_query::words::printable_path;

use crate::dump_path::quoted;
use crate::error::{Exit, UsageError};
use crate::output::Output;
use crate::program::program;

/// Arguments of `tensortap new-scene`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap new-scene demo                  write a scene with two kernels in C\n  \
    tensortap run demo --dump-tensor          compile it, run it, record every task\n  \
    tensortap new-scene other --cpp           the same in C++")]
pub struct NewSceneArgs {
    /// Folder to write; must be new or empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Write kernels in C++ instead of C
    #[arg(long)]
    cpp: bool,
}

/// The JSON document.
#[derive(Serialize)]
struct Document {
    dir: PathBuf,
    files: Vec<PathBuf>,
}

/// Writes the folder and prints the next command.
pub fn run(args: &NewSceneArgs, output: Output) -> anyhow::Result<Exit> {
    if args.dir.is_file() {
        let message = format!("{} is a file, but new-scene writes a folder", printable_path(&args.dir));
        return Err(UsageError::new(message, "name a new or empty folder").into());
    }
    let files = tensortap::new_scene(&args.dir, args.cpp)?;
    if output.json {
        output.document(&Document { dir: args.dir.clone(), files })?;
        return Ok(Exit::Good);
    }
    let mut text = String::new();
    for file in &files {
        text += &format!("wrote {}\n", file.display());
    }
    text += &format!("next: {} run {} --dump-tensor\n", program(), quoted(&args.dir));
    output.text(&text)?;
    Ok(Exit::Good)
}
