//! `tensortap new-scene`: a scene folder to begin with.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::dump_arg::quoted;
use crate::error::Exit;
use crate::output::Output;
use crate::program::program;

/// What `tensortap new-scene` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap new-scene demo                  write a scene with two kernels in C\n  \
    tensortap run demo --dump-tensor          compile it, run it, record every task\n  \
    tensortap new-scene other --cpp           the same in C++")]
pub struct NewSceneArgs {
    /// Folder to write, which must not exist or be empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Kernels in C++ instead of C
    #[arg(long)]
    cpp: bool,
}

/// What was written, for machines.
#[derive(Serialize)]
struct Document {
    dir: PathBuf,
    files: Vec<PathBuf>,
}

/// Writes the folder and says what to do next.
pub fn run(args: &NewSceneArgs, output: Output) -> anyhow::Result<Exit> {
    let files = tensortap::new_scene(&args.dir, args.cpp)?;
    if output.json {
        output.document(&Document { dir: args.dir.clone(), files })?;
        return Ok(Exit::Good);
    }
    let mut text = String::new();
    for file in &files {
        text += &format!("wrote {}\n", file.display());
    }
    // A name without a slash could be that of a built-in scene; the folder is meant.
    text += &format!("next: {} run {} --dump-tensor\n", program(), quoted(&args.dir));
    output.text(&text)?;
    Ok(Exit::Good)
}
