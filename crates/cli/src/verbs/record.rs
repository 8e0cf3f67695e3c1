//! `tensortap record`: any program, with a dump of every process of it that attaches.

mod signals;
mod text;
mod unmet;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use tensortap::abi::MAX_LANES;
use tensortap::{
    DumpCollect, DumpConfig, DumpLevel, Recording, RecordingConfig, RecordingEvent, RecordingLibrary,
    RecordingReport,
};
use tensortap_query::document::RecordingDocument;

use self::signals::Signals;
use crate::dump_args::{HowArgs, parse_level};
use crate::error::{Exit, UsageError};
use crate::output::{self, Output};
use crate::parse::{parse_size, whole};

/// Recording could not start, or failed although the program did not.
const FAILED: Exit = Exit::Program { status: 125 };

/// Runs the program and tells what was recorded of it.
pub fn run(args: &RecordArgs, output: Output) -> anyhow::Result<Exit> {
    let config = args.config()?;
    // From here on the first Ctrl-C is the program's.
    let signals = match Signals::take_over() {
        Ok(signals) => signals,
        Err(error) => {
            output::error(&format!("cannot take over signals: {error}"), Some("the program was not started"));
            return Ok(FAILED);
        }
    };
    let missing = config.missing_libraries();
    let recording = Recording::start(config)?;
    signals.serve(recording.control());
    output.note(format_args!("recording into {}", recording.dir().display()));
    if let Some(words) = text::missing(&missing) {
        output.note(words);
    }
    let report = recording.run(|event| tell(event, args.verbose, output));
    // A reader of the result that is gone changes nothing about the program.
    let told = conclude(&report, args, &missing, output);
    if let Err(error) = told {
        output::warning(&format!("{error:#}"));
    }
    Ok(Exit::Program { status: report.status() })
}

fn tell(event: &RecordingEvent<'_>, verbose: bool, output: Output) {
    match event {
        RecordingEvent::Attached(process) if verbose => {
            output.note(format_args!("{} is recorded into {}", process.words(), process.folder));
        }
        RecordingEvent::Left(process) if verbose => output.note(text::left(process)),
        RecordingEvent::TurnedAway { pid, why } => {
            output::warning(&format!(
                "process {pid} is not recorded: {why}; further calls of it are only counted"
            ));
        }
        RecordingEvent::Problem(what) => output::warning(what),
        RecordingEvent::Waiting(processes) => output.note(text::waiting(processes)),
        _ => {}
    }
}

fn conclude(
    report: &RecordingReport,
    args: &RecordArgs,
    missing: &[RecordingLibrary],
    output: Output,
) -> anyhow::Result<()> {
    if let Some(unmet) = unmet::words(report, args.how.funcs()) {
        output::warning(&unmet);
    } else if let Some(words) = text::nothing_kept(report) {
        output::warning(&words);
    }
    if let Some(losses) = text::losses(report) {
        output::warning(&format!("the dumps are not complete: {losses}"));
    }
    if output.json {
        return output.document(&RecordingDocument::of(report));
    }
    output.summary(&text::of(report, missing, &args.left_out()));
    Ok(())
}

/// What `tensortap record` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap record -- ./solver --steps 10\n  \
    tensortap record --out run1 --dump-tensor=hash -- python3 train.py\n  \
    tensortap record --dump-last 1000 -- mpirun -n 4 ./solver\n  \
    tensortap list outputs/record_20260415_101500 --rank 2\n\n\
    The program has the terminal to itself. What is recorded, it says by calls of tensortap_record.h;\n\
    of a program that uses OpenCL or CUDA every command is recorded as it is, without a change to it.\n\
    Every process that records has a dump of its own in the run folder. Ctrl-C is the\n\
    program's; a second one closes the dumps. With --json the document follows the program's output.\n\n\
    Exit status: the program's, 128 and the signal where one ended it; 2 bad usage, 125 recording\n\
    could not start, or failed although the program did not, 126 not executable, 127 not found,\n\
    130 ended by a second Ctrl-C",
    // It is always collected while it runs.
    mut_arg("dump_collect", |arg| arg.hide(true)),
    mut_arg("dump_policy", |arg| arg.help("When the dump cannot keep up: hold up the program, or drop and count [default: block]")),
    mut_arg("dump_liveness", |arg| arg.help("Silence of the recorder after which the program goes on without a dump; 0 is never [default: 30s]")),
    mut_arg("dump_arena", |arg| arg.help("Memory for content on its way to the recorder, per recording thread [default: 4MiB]")),
    mut_arg("dump_records", |arg| arg.help("Records per buffer [default: 256]"))
)]
pub struct RecordArgs {
    /// Program to record, and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,

    /// Tell of every process that comes and goes
    #[arg(long, short)]
    verbose: bool,

    /// Folder for the run, new or empty [default: outputs/record_DATE_TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Library that programs record with [default: libtensortap.so beside this program or in ../lib]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// Record nothing of what the program does with OpenCL
    #[arg(long)]
    no_opencl: bool,

    /// Record nothing of what the program does with CUDA
    #[arg(long)]
    no_cuda: bool,

    /// Bytes captured at most of memory that a CUDA kernel is given by a pointer [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Dump")]
    max_range: Option<u64>,

    /// Keep the values of these variables in run.json, beside those that say ranks and devices
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    env: Vec<String>,

    /// How much of every argument: marked, full, meta or hash, or their numbers 1 to 4 [default: full]
    #[arg(long, value_name = "LEVEL", num_args = 1, require_equals = true, value_parser = parse_level, help_heading = "Dump")]
    dump_tensor: Option<DumpLevel>,

    /// Threads of each process that can record at the same time [default: 256, fewer with a large --dump-arena]
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_LANES), help_heading = "Dump")]
    dump_threads: Option<u32>,

    #[command(flatten)]
    how: HowArgs,
}

impl RecordArgs {
    /// The same for the library.
    fn config(&self) -> Result<RecordingConfig, UsageError> {
        if self.max_range == Some(0) {
            let (message, hint) =
                ("--max-range 0 captures nothing", "give more, or record with --dump-tensor=meta");
            return Err(UsageError { message: message.into(), hint: hint.into() });
        }
        let mut config = RecordingConfig::new(&self.command);
        config.dump = self.dump()?;
        config.out.clone_from(&self.out);
        config.library.clone_from(&self.library);
        config.opencl = !self.no_opencl;
        config.cuda = !self.no_cuda;
        config.max_range = self.max_range;
        config.environment.clone_from(&self.env);
        Ok(config)
    }

    /// What it is told not to record.
    fn left_out(&self) -> Vec<&'static str> {
        let options = [(self.no_opencl, "OpenCL (--no-opencl)"), (self.no_cuda, "CUDA (--no-cuda)")];
        options.into_iter().filter_map(|(is_left_out, words)| is_left_out.then_some(words)).collect()
    }

    fn dump(&self) -> Result<DumpConfig, UsageError> {
        let mut dump = RecordingConfig::dump(self.dump_tensor.unwrap_or(DumpLevel::Full));
        dump.program_threads = self.dump_threads;
        self.how.set(&mut dump);
        let refused =
            |message: &str, hint: &str| Err(UsageError { message: message.into(), hint: hint.into() });
        if dump.level == DumpLevel::Off {
            return refused(
                "level off records nothing",
                "name another, or run the program without tensortap",
            );
        }
        if dump.collect == DumpCollect::Batch {
            return refused("a program cannot be collected in a batch", "leave --dump-collect out");
        }
        Ok(dump)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        record: RecordArgs,
    }

    fn parse(line: &str) -> RecordArgs {
        Line::try_parse_from(["record"].into_iter().chain(line.split_whitespace())).expect(line).record
    }

    #[test]
    fn what_stands_behind_the_program_is_the_programs() {
        for line in ["--out here -- prog --out there -v", "--out here prog --out there -v"] {
            let config = parse(line).config().unwrap();
            assert_eq!(config.command, ["prog", "--out", "there", "-v"], "{line}");
            assert_eq!(config.out, Some("here".into()), "{line}");
        }
        assert!(Line::try_parse_from(["record", "--out", "here"]).is_err(), "no program");
    }

    #[test]
    fn everything_is_recorded_unless_told_otherwise_and_nothing_never() {
        assert_eq!(parse("-- prog").dump().unwrap(), RecordingConfig::dump(DumpLevel::Full));
        let chosen = parse("--dump-tensor=hash --dump-arena 1MiB --env A,B -- prog");
        assert_eq!(chosen.config().unwrap().environment, ["A", "B"]);
        let dump = chosen.dump().unwrap();
        assert_eq!((dump.level, dump.arena_bytes), (DumpLevel::Hash, 1 << 20));
        assert!(parse("--dump-tensor=off -- prog").dump().is_err());
        assert!(parse("--dump-collect batch -- prog").dump().is_err());
    }
}
