//! What this program is called in the commands that it advises: a program with scenes of its own is not `tensortap`.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;

use clap::Command;

const TENSORTAP: &str = "tensortap";

static NAME: OnceLock<String> = OnceLock::new();

/// The program is called as it was started.
pub fn started_as(first_word: Option<&OsStr>) {
    let name = first_word.and_then(|path| Path::new(path).file_name());
    NAME.get_or_init(|| name.map_or(TENSORTAP.into(), |name| name.to_string_lossy().into_owned()));
}

/// Its name.
pub fn program() -> &'static str {
    NAME.get().map_or(TENSORTAP, String::as_str)
}

/// A text of a library, which knows the `tensortap` binary only, with this program's name in the commands that it advises.
pub fn in_advice(text: &str) -> Cow<'_, str> {
    in_advice_of(program(), text)
}

fn in_advice_of<'a>(name: &str, text: &'a str) -> Cow<'a, str> {
    // Texts may be in a document, where some characters have a meaning.
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || "-_.+".contains(c));
    if name == TENSORTAP || !is_plain {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(&format!("`{TENSORTAP} "), &format!("`{name} ")))
}

/// A command line whose help names the program.
pub fn named(command: Command) -> Command {
    let name = program();
    if name == TENSORTAP {
        return command;
    }
    // Its usage is given in full, as that of no other verb.
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

/// The name where a line or a quotation begins with it.
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
    fn examples_name_the_program_and_sentences_do_not() {
        let text = "Examples:\n  tensortap list\n\nwhat tensortap made; `tensortap show 3` shows it";
        let named = "Examples:\n  mine list\n\nwhat tensortap made; `mine show 3` shows it";
        assert_eq!(in_examples(text, "mine"), named);
    }

    #[test]
    fn verbs_are_renamed_too() {
        let verb = Command::new("list").after_help("Examples:\n  tensortap list");
        let command = renamed(Command::new("x").subcommand(verb), "mine");
        let list = command.find_subcommand("list").and_then(Command::get_after_help);
        assert_eq!(list.map(ToString::to_string).as_deref(), Some("Examples:\n  mine list"));
    }
}
