//! Where output goes: results to standard output, everything else to standard error.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ColorChoice};
use serde::Serialize;
use tensortap_query::document::{ErrorDocument, ErrorParts};
use tensortap_query::printable::{acts, printable_json, printable_lines};

use crate::error::Told;
use crate::program::in_advice;

const HEADING: &str = "Common options";
/// A long result leaves in pieces of this size.
const STREAM_BYTES: usize = 1 << 16;

/// Set once anything has been written to standard output.
static BEGUN: OnceLock<()> = OnceLock::new();

/// Options that mean the same everywhere.
#[derive(Args, Clone, Copy, Debug)]
pub struct CommonArgs {
    /// Print one JSON document on standard output and nothing else there
    #[arg(long, global = true, help_heading = HEADING)]
    json: bool,
    /// Leave out progress and notes on standard error
    #[arg(long, short, global = true, help_heading = HEADING)]
    quiet: bool,
    /// Colour verdicts; auto does on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        value_parser = PossibleValuesParser::new(["auto", "always", "never"]).map(|word| color_choice(&word)),
        help_heading = HEADING
    )]
    color: ColorChoice,
}

fn color_choice(word: &str) -> ColorChoice {
    match word {
        "always" => ColorChoice::Always,
        "never" => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

/// How a verb speaks.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Whether the result is a JSON document.
    pub json: bool,
    quiet: bool,
}

/// Whether what is drawn on standard output may have colours.
pub fn has_colours() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

impl Output {
    /// Takes over the common options; the choice of colour holds for the whole process.
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

    /// Prints part of a result for people. Style codes are removed where they are not wanted.
    pub fn text(self, text: &str) -> anyhow::Result<()> {
        BEGUN.get_or_init(|| ());
        write(anstream::stdout().lock(), &but_styles(&in_advice(text)))
    }

    /// Prints the result for machines.
    pub fn document(self, document: &impl Serialize) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(document).context("encoding the result")? + "\n";
        write(Noted(io::stdout().lock()), &printable_json(&in_advice(&text)))
    }

    /// Prints a result of any length as `fill` writes it. A reader that has seen enough ends it without an error.
    pub fn stream(self, fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let spell = if self.json { printable_json } else { printable_lines };
        stream(Printable { out: Noted(io::stdout().lock()), spell, cut: Vec::new() }, fill)
    }

    /// Tells something worth knowing, unless asked to be quiet.
    pub fn note(self, note: impl Display) {
        if !self.quiet {
            complain(format_args!("note: {note}"));
        }
    }

    /// Prints a summary where standard output is somebody else's, unless asked to be quiet.
    pub fn summary(self, text: &str) {
        if !self.quiet {
            // Nobody may be left to tell.
            let _ = write(anstream::stderr().lock(), &but_styles(&in_advice(text)));
        }
    }

    /// Whether progress is to be shown: to a person, who can see it move.
    pub fn shows_progress(self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }
}

/// Says what is not as it should be, though it went on.
pub fn warning(message: &str) {
    complain(format_args!("warning: {}", in_advice(message)));
}

/// What a sanitizer wrote, line by line.
pub fn report(text: &str) {
    text.lines().for_each(complain);
}

/// Says what went wrong, and what to do about it.
pub fn error(message: &str, hint: Option<&str>) {
    complain(format_args!("error: {}", in_advice(message)));
    if let Some(hint) = hint {
        complain(format_args!("hint: {}", in_advice(hint)));
    }
}

/// Whether any part of a result has left for standard output.
pub fn has_begun() -> bool {
    BEGUN.get().is_some()
}

/// Says on standard output, as the one document there, that there is no result and why.
pub fn error_document(told: &Told) {
    let Told { message, hint, exit } = told;
    let error = ErrorParts { message, hint: hint.as_deref(), exit_status: exit.code() };
    if let Ok(text) = serde_json::to_string_pretty(&ErrorDocument { error }) {
        // The exit status says it, too.
        let _ = write(io::stdout().lock(), &printable_json(&in_advice(&(text + "\n"))));
    }
}

/// Standard output that remembers whether anything was written to it.
struct Noted<W>(W);

impl<W: Write> Write for Noted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        BEGUN.get_or_init(|| ());
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Standard error may be closed; then there is nobody to tell. Further lines stand in from the first: none that a name brings
/// along passes for a message of its own.
fn complain(line: impl Display) {
    let line = line.to_string().trim_end().replace('\n', "\n  ");
    let _ = writeln!(io::stderr().lock(), "{}", printable_lines(&line));
}

/// Text for people with our own styles in it, and nothing else that a terminal would act upon. Names are spelled where they are
/// put into the text; this is for the one that was forgotten.
fn but_styles(text: &str) -> Cow<'_, str> {
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

/// Bytes of the sequence that a text begins with, if it chooses a style: `ESC [ 1 ; 32 m`.
fn style_bytes(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\x1b[") else { return 0 };
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(parameters.len());
    if parameters[end..].starts_with('m') { 2 + end + 1 } else { 0 }
}

/// A result on its way out, without what a terminal would act upon.
struct Printable<W> {
    out: W,
    spell: fn(&str) -> Cow<'_, str>,
    /// The beginning of a character whose end has not come yet.
    cut: Vec<u8>,
}

impl<W: Write> Write for Printable<W> {
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
            // Results are text.
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

/// A reader that has seen enough (`tensortap scenes | head -1`) is no error.
fn write(mut to: impl Write, text: &str) -> anyhow::Result<()> {
    let written = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("writing to standard output"),
    }
}

fn stream(to: impl Write, fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut to = BufWriter::with_capacity(STREAM_BYTES, to);
    let filled = fill(&mut to).and_then(|()| Ok(to.flush()?));
    // What could not be written now cannot be written when the buffer goes either.
    let (_, _unwritten) = to.into_parts();
    match filled {
        Err(error) => match error.downcast::<io::Error>() {
            Ok(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Ok(error) => Err(error).context("writing to standard output"),
            Err(error) => Err(error),
        },
        Ok(()) => Ok(()),
    }
}

/// Characters in a line of the terminal that standard output is; `None` when it is none.
pub fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// Lines of the terminal that standard output is; `None` when it is none.
pub fn terminal_height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0).then(|| usize::from(size.ws_row))
}

/// A word that says whether something is right.
pub fn verdict(word: &str, good: bool) -> String {
    let color = if good { AnsiColor::Green } else { AnsiColor::Red };
    let style = Style::new().fg_color(Some(color.into())).bold();
    format!("{style}{word}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_result_leaves_without_what_a_terminal_acts_upon_however_it_is_cut() {
        let text = "größe\u{9b}2J\u{202e}x\n";
        for piece in 1..text.len() {
            let mut out = Vec::new();
            let mut printable = Printable { out: &mut out, spell: printable_lines, cut: Vec::new() };
            text.as_bytes().chunks(piece).for_each(|part| printable.write_all(part).expect("memory"));
            assert_eq!(String::from_utf8(out).unwrap(), "größe\\u{9b}2J\\u{202e}x\n");
        }
        let styled = verdict("PASS", true);
        assert_eq!(
            but_styles(&format!("{styled} \x1b]0;title\x07 \x1b[2J\n")),
            format!("{styled} \\u{{1b}}]0;title\\u{{7}} \\u{{1b}}[2J\n")
        );
    }

    #[test]
    fn a_reader_that_left_is_no_error_and_a_full_disk_is() {
        assert!(write(Broken(ErrorKind::BrokenPipe), "x").is_ok());
        let full = write(Broken(ErrorKind::StorageFull), "x").unwrap_err();
        assert!(format!("{full:#}").starts_with("writing to standard output: "), "{full:#}");
    }

    #[test]
    fn a_stream_ends_where_its_reader_left_and_passes_other_errors_on() {
        let mut rows = 0;
        let outcome = stream(Broken(ErrorKind::BrokenPipe), |out| {
            for _ in 0..STREAM_BYTES {
                out.write_all(b"row\n")?;
                rows += 1;
            }
            Ok(())
        });
        assert!(outcome.is_ok() && rows < STREAM_BYTES / 2, "{outcome:?} after {rows} rows");
        let full = stream(Broken(ErrorKind::StorageFull), |out| Ok(out.write_all(b"x")?)).unwrap_err();
        assert!(format!("{full:#}").starts_with("writing to standard output: "), "{full:#}");
        let other = stream(Broken(ErrorKind::BrokenPipe), |_| anyhow::bail!("the dump is damaged"));
        assert_eq!(other.unwrap_err().to_string(), "the dump is damaged");
    }
}
