//! `tensortap serve`: serves dumps to the browser.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use tensortap::scene::Registry;
use tensortap_web::server::{ServeConfig, ServeError, Server};

use crate::dump_path::existing;
use crate::error::Exit;
use crate::interrupt::{GRACE, Interrupt};
use crate::output::Output;
use crate::parse::whole;
use crate::program::program;

/// Arguments of `tensortap serve`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap serve                                 the newest dump under outputs/, in the browser\n  \
    tensortap serve my_dump --golden right          compare with a correct run\n  \
    tensortap serve monday tuesday                  two dumps to compare\n  \
    tensortap serve outputs/running --no-open       follow a running recording; only print the address\n\n\
    The server listens on 127.0.0.1. The printed address contains a token, without which the server shows nothing. To view \
    from another machine, use --port 8123 and `ssh -L 8123:127.0.0.1:8123 HOST`. Pages cannot run or write anything \
    without --allow-actions. Ctrl-C ends the server with status 0.")]
pub struct ServeArgs {
    /// Dumps: manifests, folders, or run folders with several dumps [default: the newest under outputs/]
    #[arg(value_name = "DUMP")]
    dumps: Vec<PathBuf>,

    /// Golden to compare the dumps with: the dump of a correct run, or array files
    #[arg(long, value_name = "DUMP")]
    golden: Option<PathBuf>,

    /// Port to listen on [default: any free port]
    #[arg(long, value_name = "N", value_parser = whole(1..=65_535_u16))]
    port: Option<u16>,

    /// Do not open a browser
    #[arg(long)]
    no_open: bool,

    /// Allow pages to replay tasks and export records, which runs kernels and writes files next to the dump
    #[arg(long)]
    allow_actions: bool,
}

/// The JSON document, printed before the server starts.
#[derive(Serialize)]
struct ServeDocument<'a> {
    address: &'a str,
    dumps: usize,
    allow_actions: bool,
}

/// Serves until a signal ends it.
pub fn run(args: &ServeArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let dumps = match args.dumps.as_slice() {
        [] => vec![existing(None)?],
        named => named.iter().map(|path| existing(Some(path.clone()))).collect::<Result<_, _>>()?,
    };
    let interrupt = Interrupt::install(GRACE).context("cannot handle signals")?;
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
        // Errors of opening a dump are reported as by every other verb.
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

/// Opens the browser, or prints a note why that failed.
fn open(address: &str, output: Output) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = [Stdio::null(), Stdio::null(), Stdio::null()];
    let [input, out, error] = quiet;
    match Command::new(opener).arg(address).stdin(input).stdout(out).stderr(error).spawn() {
        Ok(mut child) => {
            // The opener ends after it has started the browser.
            std::thread::spawn(move || drop(child.wait()));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            output.note(format_args!(
                "cannot open a browser: {opener} is not installed; open the address yourself"
            ));
        }
        Err(error) => {
            output.note(format_args!("cannot open a browser ({opener}: {error}); open the address yourself"))
        }
    }
}
