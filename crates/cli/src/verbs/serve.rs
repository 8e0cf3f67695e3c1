//! `tensortap serve`: dumps in the browser.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use tensortap::scene::Registry;
use tensortap_web::server::{ServeConfig, ServeError, Server};

use crate::dump_arg::existing;
use crate::error::Exit;
use crate::interrupt::{GRACE, Interrupt};
use crate::output::Output;
use crate::program::program;

/// What `tensortap serve` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap serve                                 the newest dump under outputs/, in the browser\n  \
    tensortap serve my_dump --golden right          held against a run that was right\n  \
    tensortap serve monday tuesday                  two dumps, to be compared\n  \
    tensortap serve outputs/running --no-open       follow a run that is still being written; print the address only\n\n\
    It listens on 127.0.0.1, and the address that it prints has a token without which nothing is shown. From another machine: \
    `ssh -L 8123:127.0.0.1:8123 HOST`, with --port 8123. Nothing is run or written from a page unless --allow-actions says so. \
    Ctrl-C ends it, with status 0.")]
pub struct ServeArgs {
    /// Dumps: manifests, folders, or run folders that hold several [default: the newest under outputs/]
    #[arg(value_name = "DUMP")]
    dumps: Vec<PathBuf>,

    /// What the dumps are held against: the dump of a run that was right, or arrays in files
    #[arg(long, value_name = "DUMP")]
    golden: Option<PathBuf>,

    /// Port to listen on [default: any that is free]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// Do not open a browser
    #[arg(long)]
    no_open: bool,

    /// Let pages replay tasks and export records: they run kernels and write files beside the dump
    #[arg(long)]
    allow_actions: bool,
}

/// What `--json` prints, before anything is served.
#[derive(Serialize)]
struct ServeDocument<'a> {
    address: &'a str,
    dumps: usize,
    allow_actions: bool,
}

/// Serves until it is interrupted.
pub fn run(args: &ServeArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let dumps = match args.dumps.as_slice() {
        [] => vec![existing(None)?],
        named => named.iter().map(|path| existing(Some(path.clone()))).collect::<Result<_, _>>()?,
    };
    let interrupt = Interrupt::install(GRACE).context("taking over signals")?;
    let served = dumps.len();
    let server = Server::bind(ServeConfig {
        dumps,
        golden: args.golden.clone().map(|path| existing(Some(path))).transpose()?,
        port: args.port,
        allow_actions: args.allow_actions,
        registry: registry.clone(),
        program: program().to_owned(),
    })
    .map_err(|error| match error {
        // What keeps a dump from being opened is told as by every other verb.
        ServeError::Query(error) => error.into(),
        error => anyhow::Error::from(error),
    })?;
    let address = server.address();
    if output.json {
        let document = ServeDocument { address: &address, dumps: served, allow_actions: args.allow_actions };
        output.document(&document)?;
    } else {
        output.text(&format!("{address}\n"))?;
    }
    if !args.no_open {
        open(&address, output);
    }
    server.run(|| interrupt.requested())?;
    Ok(Exit::Good)
}

/// Opens the browser, or says why it does not.
fn open(address: &str, output: Output) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = [Stdio::null(), Stdio::null(), Stdio::null()];
    let [input, out, error] = quiet;
    match Command::new(opener).arg(address).stdin(input).stdout(out).stderr(error).spawn() {
        Ok(mut child) => {
            // It ends when the browser has been told; nobody waits for that.
            std::thread::spawn(move || drop(child.wait()));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            output.note(format_args!(
                "no browser is opened, as there is no {opener}: open the address yourself"
            ));
        }
        Err(error) => {
            output.note(format_args!("no browser is opened ({opener}: {error}): open the address yourself"))
        }
    }
}
