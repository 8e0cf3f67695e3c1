//! `tensortap man`: man pages for the command and each verb.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::Man;
use serde::Serialize;

use crate::error::Exit;
use crate::output::Output;

/// Arguments of `tensortap man`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap man | man -l -                        read the page of tensortap\n  \
    tensortap man ~/.local/share/man/man1           install the pages of tensortap and of each verb")]
pub struct ManArgs {
    /// Folder for the pages of tensortap and of each verb, created if missing [default: print the page of tensortap]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The JSON document: the written files, or the page.
#[derive(Serialize)]
struct ManDocument {
    files: Vec<PathBuf>,
    page: Option<String>,
}

/// Prints the page of the command, or writes every page.
pub fn run(args: &ManArgs, output: Output) -> anyhow::Result<Exit> {
    let mut command = crate::command();
    command.build();
    let document = match &args.dir {
        None => ManDocument { files: Vec::new(), page: Some(String::from_utf8(page(&command)?)?) },
        Some(dir) => ManDocument { files: write_pages(&command, dir)?, page: None },
    };
    match (&document.page, &args.dir) {
        _ if output.json => output.document(&document)?,
        (Some(page), _) => output.text(page)?,
        (None, dir) => {
            let dir = dir.as_deref().unwrap_or(Path::new(".")).display();
            output.text(&format!("{} pages in {dir}\n", document.files.len()))?;
        }
    }
    Ok(Exit::Good)
}

fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page).context("cannot write a man page")?;
    Ok(page)
}

/// Writes the pages of a command and its verbs: `tensortap.1`, `tensortap-bench-dump.1`.
fn write_pages(command: &Command, dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create the folder {}", dir.display()))?;
    let mut files = Vec::new();
    write_page(command, command.get_name(), dir, &mut files)?;
    Ok(files)
}

fn write_page(command: &Command, name: &str, dir: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let path = dir.join(format!("{name}.1"));
    let named = command.clone().display_name(name.to_owned());
    fs::write(&path, page(&named)?).with_context(|| format!("cannot write {}", path.display()))?;
    files.push(path);
    // Help topics and `help` have no man page.
    let verbs = command.get_subcommands().filter(|verb| verb.get_name() != "help" && !verb.is_hide_set());
    for verb in verbs {
        write_page(verb, &format!("{name}-{}", verb.get_name()), dir, files)?;
    }
    Ok(())
}
