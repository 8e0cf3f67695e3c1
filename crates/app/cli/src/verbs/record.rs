//! `tensortap record`: runs any program and writes a dump for each of its processes that attaches.

mod missing_kernels;
mod signals;
mod text;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use tensortap::abi::MAX_LANES;
use tensortap::{
    DumpCollect, DumpConfig, DumpLevel, Recording, RecordingConfig, RecordingEvent, RecordingLibrary,
    RecordingReport, UnknownName,
};
use tensortap_query::document::RecordingDocument;
use tensortap_query::words::printable;

use self::signals::Signals;
use crate::error::{Exit, UsageError};
use crate::output::{self, Output};
use crate::parse::{parse_size, whole};
use crate::recording_args::{RecordingArgs, parse_level};

/// The most ranks of a program.
const MAX_RANKS: u32 = 1 << 20;

/// The status if recording could not start, or failed although the program succeeded.
const FAILED: Exit = Exit::Program { status: 125 };

/// Runs the program and prints a summary of the recording.
pub fn run(args: &RecordArgs, output: Output) -> anyhow::Result<Exit> {
    let config = args.config()?;
    // From here on, the first Ctrl-C belongs to the program.
    let signals = match Signals::take_over() {
        Ok(signals) => signals,
        Err(error) => {
            output::error(&format!("cannot handle signals: {error}"), Some("the program was not started"));
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
    // If the result cannot be printed, the status of the program still counts.
    if let Err(error) = conclude(&report, args, &missing, output) {
        output::warning(&format!("{error:#}"));
    }
    Ok(Exit::Program { status: report.status() })
}

fn tell(event: &RecordingEvent<'_>, verbose: bool, output: Output) {
    match event {
        RecordingEvent::Attached(process) if verbose => {
            output.note(format_args!("recording {} into {}", process.words(), process.folder));
        }
        RecordingEvent::Left(process) if verbose => output.note(text::left(process)),
        RecordingEvent::TurnedAway { pid, why } => {
            output::warning(&format!(
                "process {pid} is not recorded: {why}; its further attempts are only counted"
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
    if let Some(warning) = missing_kernels::warning(report, args.how.funcs()) {
        output::warning(&warning);
    } else if let Some(words) = text::nothing_kept(report) {
        output::warning(&words);
    }
    if let Some(losses) = text::losses(report) {
        output::warning(&format!("the dumps are incomplete: {losses}"));
    }
    if output.json {
        return output.document(&RecordingDocument::of(report));
    }
    output.summary(&text::of(report, missing, &args.left_out()));
    Ok(())
}

/// Arguments of `tensortap record`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap record -- ./solver --steps 10\n  \
    tensortap record --out run1 --dump-tensor=hash -- python3 train.py\n  \
    tensortap record --dump-last 1000 -- mpirun -n 4 ./solver\n  \
    tensortap list outputs/record_20260415_101500 --rank 2\n\n\
    OpenCL and CUDA programs need no changes and no rebuild: every command is recorded. Other programs\n\
    record their tasks with tensortap_record.h. Each process that attaches gets its own dump in the\n\
    run folder. The program keeps the terminal, and the first Ctrl-C goes to the program; a second one\n\
    closes the dumps. With --json, the document follows the program's output.\n\n\
    Exit status: that of the program, or 128 plus the signal that ended it; 2 bad usage, 125 recording\n\
    could not start, or failed although the program succeeded, 126 not executable, 127 not found,\n\
    130 ended by a second Ctrl-C",
    // Records of a program are always collected while it runs.
    mut_arg("dump_collect", |arg| arg.hide(true)),
    mut_arg("dump_policy", |arg| arg.help("If the dump cannot keep up: block the program, or drop records and count them [default: block]")),
    mut_arg("dump_liveness", |arg| arg.help("Continue without a dump if tensortap does not respond for this time; 0 means never [default: 30s]")),
    mut_arg("dump_arena", |arg| arg.help("Buffer for content on its way to tensortap, per recording thread [default: 4MiB, grows while the program waits]")),
    mut_arg("dump_records", |arg| arg.help("Records per buffer [default: 256]"))
)]
pub struct RecordArgs {
    /// Program to record, and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,

    /// Print a note when a process attaches or detaches
    #[arg(long, short)]
    verbose: bool,

    /// Folder for the run, new or empty [default: outputs/record_DATE_TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Library that programs record with [default: libtensortap.so next to this executable or in ../lib]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// Do not record OpenCL commands
    #[arg(long)]
    no_opencl: bool,

    /// Do not record CUDA commands
    #[arg(long)]
    no_cuda: bool,

    /// Capture at most this much of the memory that a pointer argument of a CUDA kernel refers to [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Dump")]
    max_range: Option<u64>,

    /// Store these environment variables in run.json, in addition to those about ranks and devices
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    env: Vec<String>,

    /// Ranks of the program. One that never attaches is reported as missing [default: WORLD_SIZE, OMPI_COMM_WORLD_SIZE,
    /// PMI_SIZE or SLURM_NTASKS of the recorded processes]
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_RANKS))]
    ranks: Option<u32>,

    /// Identity of the run, the same on all of its hosts. Each host records into a folder of its own; all verbs read the
    /// folder that contains them as one run [default: SLURM_JOB_ID and SLURM_STEP_ID, if `record` runs in a step of Slurm]
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,

    /// What to record of every argument: marked, full, meta or hash, or their numbers 1 to 4 [default: full]
    #[arg(long, value_name = "LEVEL", num_args = 1, require_equals = true, value_parser = parse_level, help_heading = "Dump")]
    dump_tensor: Option<DumpLevel>,

    /// Threads of each process that can record at once [default: 256, fewer with a large --dump-arena]
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_LANES), help_heading = "Dump")]
    dump_threads: Option<u32>,

    #[command(flatten)]
    how: RecordingArgs,
}

/// The job and the step of Slurm that this process is in.
fn slurm_step() -> Option<String> {
    let [job, step] = ["SLURM_JOB_ID", "SLURM_STEP_ID"].map(|name| std::env::var(name).ok());
    job.zip(step).map(|(job, step)| format!("slurm {job}.{step}"))
}

impl RecordArgs {
    /// The configuration for the library.
    fn config(&self) -> Result<RecordingConfig, UsageError> {
        self.check_command()?;
        if self.max_range == Some(0) {
            let (message, hint) = (
                "--max-range 0 captures nothing",
                "choose a larger limit, or record with --dump-tensor=meta",
            );
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
        config.ranks = self.ranks;
        config.run_id = self.run_id.clone().or_else(slurm_step);
        Ok(config)
    }

    /// Rejects a command that starts with a mistyped option, or with a word that is not a program although a `--`
    /// follows. clap treats both as the start of the command.
    fn check_command(&self) -> Result<(), UsageError> {
        let Some(first) = self.command.first() else { return Ok(()) };
        let word = printable(&first.to_string_lossy()).into_owned();
        if word.starts_with('-') {
            let option = word.split('=').next().unwrap_or_default();
            let known = RecordArgs::augment_args(Command::new("record"));
            let known: Vec<String> =
                known.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
            let nearest = UnknownName::new("option", option, known.iter().map(String::as_str)).did_you_mean;
            let nearest = nearest.map_or_else(String::new, |nearest| format!("did you mean {nearest}? "));
            return Err(UsageError::new(
                format!("unknown option {option}"),
                format!("{nearest}The command follows --"),
            ));
        }
        // `record cargo test -- --nocapture` is valid.
        if self.command.iter().skip(1).any(|word| word == "--") && !is_program(Path::new(first)) {
            return Err(UsageError::new(
                format!("unexpected word {word} before --"),
                "remove it. The command follows --",
            ));
        }
        Ok(())
    }

    /// The backends that options turn off.
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
                "choose another level, or run the program without tensortap",
            );
        }
        if dump.collect == DumpCollect::Batch {
            return refused("--dump-collect batch does not work for programs", "remove --dump-collect");
        }
        Ok(dump)
    }
}

/// Whether the first word of a command names a file, as a path or in PATH.
fn is_program(word: &Path) -> bool {
    let is_path = word.components().count() > 1;
    let path = env::var_os("PATH").unwrap_or_default();
    if is_path { word.exists() } else { env::split_paths(&path).any(|folder| folder.join(word).is_file()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct RecordLine {
        #[command(flatten)]
        record: RecordArgs,
    }

    fn parse(line: &str) -> RecordArgs {
        RecordLine::try_parse_from(["record"].into_iter().chain(line.split_whitespace())).expect(line).record
    }

    #[test]
    fn options_after_the_program_belong_to_the_program() {
        for line in ["--out here -- prog --out there -v", "--out here prog --out there -v"] {
            let config = parse(line).config().unwrap();
            assert_eq!(config.command, ["prog", "--out", "there", "-v"], "{line}");
            assert_eq!(config.out, Some("here".into()), "{line}");
        }
        assert!(RecordLine::try_parse_from(["record", "--out", "here"]).is_err(), "no program");
    }

    #[test]
    fn rejects_unknown_options_and_words_before_the_dashes() {
        let refused = |line: &str| parse(line).config().err().map(|error| (error.message, error.hint));
        let hint = "did you mean --out? The command follows --";
        assert_eq!(refused("--oot x -- prog"), Some(("unknown option --oot".into(), hint.into())));
        assert_eq!(refused("--oot=x prog").map(|said| said.0), Some("unknown option --oot".into()));
        let said = refused("--out a no-such-program -- prog").map(|said| said.0);
        assert_eq!(said, Some("unexpected word no-such-program before --".into()));
        for line in ["sh -- -c true", "-- sh -- -c true", "no-such-program"] {
            assert_eq!(refused(line), None, "{line}");
        }
    }

    #[test]
    fn records_everything_by_default_and_rejects_recording_nothing() {
        assert_eq!(parse("-- prog").dump().unwrap(), RecordingConfig::dump(DumpLevel::Full));
        let chosen = parse("--dump-tensor=hash --dump-arena 1MiB --env A,B -- prog");
        assert_eq!(chosen.config().unwrap().environment, ["A", "B"]);
        let dump = chosen.dump().unwrap();
        assert_eq!((dump.level, dump.arena_bytes), (DumpLevel::Hash, 1 << 20));
        assert!(parse("--dump-tensor=off -- prog").dump().is_err());
        assert!(parse("--dump-collect batch -- prog").dump().is_err());
    }
}
