//! The name of this program in the commands that it suggests. A program with its own scenes has its own name.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;

use clap::Command;

const TENSORTAP: &str = "tensortap";

static NAME: OnceLock<String> = OnceLock::new();

/// Names the program after the first word of its command line.
pub fn started_as(first_word: Option<&OsStr>) {
    let name = first_word.and_then(|path| Path::new(path).file_name());
    NAME.get_or_init(|| name.map_or(TENSORTAP.into(), |name| name.to_string_lossy().into_owned()));
}

/// The name of this program.
pub fn program() -> &'static str {
    NAME.get().map_or(TENSORTAP, String::as_str)
}

/// Whether this is the `tensortap` binary, not a program with its own scenes.
pub fn is_tensortap() -> bool {
    program() == TENSORTAP
}

/// Replaces `tensortap` by the name of this program in the commands of a text. Libraries only know `tensortap`.
pub fn in_advice(text: &str) -> Cow<'_, str> {
    in_advice_of(program(), text)
}

fn in_advice_of<'a>(name: &str, text: &'a str) -> Cow<'a, str> {
    // The text may be JSON, where quotes and backslashes in a name would break it.
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || "-_.+".contains(c));
    if name == TENSORTAP || !is_plain {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(&format!("`{TENSORTAP} "), &format!("`{name} ")))
}

/// Puts the name of this program into all help texts.
pub fn named(command: Command) -> Command {
    let name = program();
    if name == TENSORTAP {
        return command;
    }
    // Unlike other verbs, `show` states its usage in full.
    let usage = format!("{name} show [OPTIONS] [DUMP] [RECORD]");
    renamed(command.name(name), name).mut_subcommand("show", |show| show.override_usage(usage))
}

fn renamed(mut command: Command, name: &str) -> Command {
    let texts = [command.get_about(), command.get_after_help()];
    let [about, after] = texts.map(|text| text.map(|text| in_examples(&text.to_string(), name)));
    command = about.into_iter().fold(command, Command::about);
    command = after.into_iter().fold(command, Command::after_help);
    command.mut_subcommands(|verb| renamed(verb, name))
}

/// Replaces `tensortap` at the beginning of lines and of quoted commands.
fn in_examples(text: &str, name: &str) -> String {
    let text = text.replace(&format!("`{TENSORTAP} "), &format!("`{name} "));
    let lines = text.split('\n').map(|line| match line.trim_start().strip_prefix("tensortap ") {
        Some(rest) => format!("{}{name} {rest}", &line[..line.len() - line.trim_start().len()]),
        None => line.into(),
    });
    lines.collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_name_in_examples_but_not_in_sentences() {
        let text = "Examples:\n  tensortap list\n\nfiles of tensortap; `tensortap show 3` shows one";
        let named = "Examples:\n  mine list\n\nfiles of tensortap; `mine show 3` shows one";
        assert_eq!(in_examples(text, "mine"), named);
    }

    #[test]
    fn replaces_the_name_in_the_help_of_verbs() {
        let verb = Command::new("list").after_help("Examples:\n  tensortap list");
        let command = renamed(Command::new("x").subcommand(verb), "mine");
        let list = command.find_subcommand("list").and_then(Command::get_after_help);
        assert_eq!(list.map(ToString::to_string).as_deref(), Some("Examples:\n  mine list"));
    }
}
