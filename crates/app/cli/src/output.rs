//! Output: results go to standard output, everything else to standard error.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use anyhow::Context;
use clap::{Args, ColorChoice};
use serde::Serialize;
use tensortap_query::document::{ErrorDocument, ErrorParts};
use tensortap_query::printable::{acts, printable_json, printable_lines};

use crate::error::ErrorReport;
use crate::parse::choice;
use crate::program::in_advice;

const HEADING: &str = "Common options";
/// Long results are written in pieces of this size.
const STREAM_BYTES: usize = 1 << 16;

/// Set after anything has been written to standard output.
static WROTE_STDOUT: OnceLock<()> = OnceLock::new();

/// Options that every verb has.
#[derive(Args, Clone, Copy, Debug)]
pub struct CommonArgs {
    /// Print the result as one JSON document
    #[arg(long, global = true, help_heading = HEADING)]
    json: bool,
    /// Do not print progress and notes
    #[arg(long, short, global = true, help_heading = HEADING)]
    quiet: bool,
    /// Color verdicts; auto: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        value_parser = choice([
            ("auto", ColorChoice::Auto),
            ("always", ColorChoice::Always),
            ("never", ColorChoice::Never),
        ]),
        help_heading = HEADING
    )]
    color: ColorChoice,
}

/// How a verb prints its result and notes.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Whether the result is printed as JSON.
    pub json: bool,
    quiet: bool,
}

/// Whether colors may be used on standard output.
#[cfg(feature = "tui")]
pub fn has_colors() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

impl Output {
    /// Applies the common options. The choice of color applies to the whole process.
    pub fn new(common: &CommonArgs) -> Output {
        let &CommonArgs { json, quiet, color } = common;
        let choice = match color {
            ColorChoice::Auto => anstream::ColorChoice::Auto,
            ColorChoice::Always => anstream::ColorChoice::Always,
            ColorChoice::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
        Output { json, quiet }
    }

    /// Prints part of a result for people. Removes color codes if colors are off.
    pub fn text(self, text: &str) -> anyhow::Result<()> {
        WROTE_STDOUT.get_or_init(|| ());
        write(anstream::stdout().lock(), &keep_own_styles(&in_advice(text)))
    }

    /// Prints the result as JSON.
    pub fn document(self, document: &impl Serialize) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(document).context("cannot encode the result")? + "\n";
        write(TrackedStdout(io::stdout().lock()), &printable_json(&in_advice(&text)))
    }

    /// Prints a result of any length while `fill` writes it. A closed pipe ends it without an error.
    pub fn stream(self, fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let spell = if self.json { printable_json } else { printable_lines };
        stream(PrintableWriter { out: TrackedStdout(io::stdout().lock()), spell, cut: Vec::new() }, fill)
    }

    /// Prints a note, except with `--quiet`.
    pub fn note(self, note: impl Display) {
        if !self.quiet {
            print_line(format_args!("note: {note}"));
        }
    }

    /// Prints a summary on standard error, except with `--quiet`. For verbs whose standard output belongs to a program.
    pub fn summary(self, text: &str) {
        if !self.quiet {
            // Standard error may be closed.
            let _ = write(anstream::stderr().lock(), &keep_own_styles(&in_advice(text)));
        }
    }

    /// Whether to show progress: only on a terminal, and not with `--quiet`.
    pub fn shows_progress(self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }
}

/// Prints a warning.
pub fn warning(message: &str) {
    print_line(format_args!("warning: {}", in_advice(message)));
}

/// Prints the report of a sanitizer.
pub fn report(text: &str) {
    text.lines().for_each(print_line);
}

/// Prints an error and a hint about what to do.
pub fn error(message: &str, hint: Option<&str>) {
    print_line(format_args!("error: {}", in_advice(message)));
    if let Some(hint) = hint {
        print_line(format_args!("hint: {}", in_advice(hint)));
    }
}

/// Whether any part of a result has been written to standard output.
pub fn has_written() -> bool {
    WROTE_STDOUT.get().is_some()
}

/// Prints an error as the JSON document on standard output.
pub fn error_document(report: &ErrorReport) {
    let ErrorReport { message, hint, exit } = report;
    let error = ErrorParts { message, hint: hint.as_deref(), exit_status: exit.code() };
    if let Ok(text) = serde_json::to_string_pretty(&ErrorDocument { error }) {
        // If this fails, the exit status still reports the error.
        let _ = write(io::stdout().lock(), &printable_json(&in_advice(&(text + "\n"))));
    }
}

/// A writer to standard output that records that something was written.
struct TrackedStdout<W>(W);

impl<W: Write> Write for TrackedStdout<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        WROTE_STDOUT.get_or_init(|| ());
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes to standard error, which may be closed. Further lines are indented, so that a line break in a name cannot
/// fake a message.
fn print_line(line: impl Display) {
    let line = line.to_string().trim_end().replace('\n', "\n  ");
    let _ = writeln!(io::stderr().lock(), "{}", printable_lines(&line));
}

/// Keeps color codes and escapes all other control sequences. Names are escaped where they are inserted into a text;
/// this catches the ones that were not.
fn keep_own_styles(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| c != '\n' && acts(c)) {
        return text.into();
    }
    let mut spelled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        spelled += &printable_lines(&rest[..at]);
        let style = style_bytes(&rest[at..]);
        spelled += if style > 0 { &rest[at..at + style] } else { "\\u{1b}" };
        rest = &rest[at + style.max(1)..];
    }
    (spelled + &printable_lines(rest)).into()
}

/// Length in bytes of the color sequence (`ESC [ 1 ; 32 m`) that the text starts with, or 0.
fn style_bytes(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\x1b[") else { return 0 };
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(parameters.len());
    if parameters[end..].starts_with('m') { 2 + end + 1 } else { 0 }
}

/// A writer that escapes control sequences.
struct PrintableWriter<W> {
    out: W,
    spell: fn(&str) -> Cow<'_, str>,
    /// The first bytes of a character that is not complete yet.
    cut: Vec<u8>,
}

impl<W: Write> Write for PrintableWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let whole;
        let text = if self.cut.is_empty() {
            bytes
        } else {
            whole = [&std::mem::take(&mut self.cut), bytes].concat();
            &whole
        };
        let (text, rest) = match str::from_utf8(text) {
            Ok(text) => (text, &[][..]),
            Err(error) if error.error_len().is_none() => {
                let (text, rest) = text.split_at(error.valid_up_to());
                (str::from_utf8(text).unwrap_or_default(), rest)
            }
            // Results are always text.
            Err(_) => return Err(ErrorKind::InvalidData.into()),
        };
        self.out.write_all((self.spell)(text).as_bytes())?;
        self.cut = rest.to_vec();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Ignores a closed pipe (`tensortap scenes | head -1`).
fn write(mut to: impl Write, text: &str) -> anyhow::Result<()> {
    let written = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

fn stream(to: impl Write, fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut to = BufWriter::with_capacity(STREAM_BYTES, to);
    let filled = fill(&mut to).and_then(|()| Ok(to.flush()?));
    // Discards the rest of the buffer: writing it again would fail again.
    let (_, _unwritten) = to.into_parts();
    match filled {
        Err(error) => match error.downcast::<io::Error>() {
            Ok(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Ok(error) => Err(error).context("cannot write to standard output"),
            Err(error) => Err(error),
        },
        Ok(()) => Ok(()),
    }
}

/// Columns of the terminal on standard output; `None` if it is not a terminal.
pub fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// Rows of the terminal on standard output; `None` if it is not a terminal.
pub fn terminal_height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0).then(|| usize::from(size.ws_row))
}

/// A verdict, green or red.
pub fn verdict(word: &str, good: bool) -> String {
    let color = if good { AnsiColor::Green } else { AnsiColor::Red };
    let style = Style::new().fg_color(Some(color.into())).bold();
    format!("{style}{word}{style:#}")
}

/// `PASS` or `FAIL`.
pub fn pass_or_fail(passes: bool) -> String {
    verdict(if passes { "PASS" } else { "FAIL" }, passes)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct FailingWriter(ErrorKind);

    impl Write for FailingWriter {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn escapes_control_sequences_however_the_output_is_split() {
        let text = "größe\u{9b}2J\u{202e}x\n";
        for piece in 1..text.len() {
            let mut out = Vec::new();
            let mut printable = PrintableWriter { out: &mut out, spell: printable_lines, cut: Vec::new() };
            text.as_bytes().chunks(piece).for_each(|part| printable.write_all(part).expect("memory"));
            assert_eq!(String::from_utf8(out).unwrap(), "größe\\u{9b}2J\\u{202e}x\n");
        }
        let styled = verdict("PASS", true);
        assert_eq!(
            keep_own_styles(&format!("{styled} \x1b]0;title\x07 \x1b[2J\n")),
            format!("{styled} \\u{{1b}}]0;title\\u{{7}} \\u{{1b}}[2J\n")
        );
    }

    #[test]
    fn ignores_a_closed_pipe_but_not_a_full_disk() {
        assert!(write(FailingWriter(ErrorKind::BrokenPipe), "x").is_ok());
        let full = write(FailingWriter(ErrorKind::StorageFull), "x").unwrap_err();
        assert!(format!("{full:#}").starts_with("cannot write to standard output: "), "{full:#}");
    }

    #[test]
    fn a_stream_ends_at_a_closed_pipe_and_returns_other_errors() {
        let mut rows = 0;
        let outcome = stream(FailingWriter(ErrorKind::BrokenPipe), |out| {
            for _ in 0..STREAM_BYTES {
                out.write_all(b"row\n")?;
                rows += 1;
            }
            Ok(())
        });
        assert!(outcome.is_ok() && rows < STREAM_BYTES / 2, "{outcome:?} after {rows} rows");
        let full = stream(FailingWriter(ErrorKind::StorageFull), |out| Ok(out.write_all(b"x")?)).unwrap_err();
        assert!(format!("{full:#}").starts_with("cannot write to standard output: "), "{full:#}");
        let other = stream(FailingWriter(ErrorKind::BrokenPipe), |_| anyhow::bail!("the dump is damaged"));
        assert_eq!(other.unwrap_err().to_string(), "the dump is damaged");
    }
}
