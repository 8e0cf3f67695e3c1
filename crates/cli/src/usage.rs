//! Reads the command line, and refuses one that makes no sense: for people, and with `--json` for machines, too.

use std::env;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, Parser};

use crate::error::{Exit, Told};
use crate::{output, program};

/// What the words of this process ask for. Without it, all has been said, and the process ends like this.
pub fn parse<T: Parser>() -> Result<T, Exit> {
    let mut command = taking_negative_numbers(program::named(T::command()));
    let matches = command.try_get_matches_from_mut(env::args_os());
    let parsed = matches.and_then(|found| T::from_arg_matches(&found).map_err(|e| e.format(&mut command)));
    parsed.map_err(|error| {
        refuse(&with_topics(with_task(with_equals_sign(error, &command), &command), &command))
    })
}

/// Where a word is too much for a verb that takes a dump, says how a task is chosen there: `show` and `replay` take one behind the dump.
fn with_task(mut error: clap::Error, command: &Command) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    let is_word = error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-');
    let verb = env::args().nth(1).and_then(|verb| command.find_subcommand(verb));
    let takes_task = verb.is_some_and(|verb| verb.get_arguments().any(|arg| arg.get_long() == Some("task")));
    if is_word && takes_task {
        let tip = format!("it reads one dump; --task {word} chooses a task of it, --func {word} a kernel");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Where help is asked for about nothing that there is, names what it has pages about beside the verbs.
fn with_topics(mut error: clap::Error, command: &Command) -> clap::Error {
    let asks_for_help = env::args_os().skip(1).any(|word| word == "help");
    if error.kind() == ErrorKind::InvalidSubcommand && asks_for_help {
        let topics = command.get_subcommands().filter(|verb| verb.is_hide_set()).map(Command::get_name);
        let topics = topics.collect::<Vec<_>>().join(", ");
        let tip = format!("`{} help` lists the verbs; topics: {topics}", program::program());
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Where a word stands behind an option that takes its value with an equals sign only, says so.
fn with_equals_sign(mut error: clap::Error, command: &Command) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    let words: Vec<String> = env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let behind = |pair: &&[String]| pair[1] == *word && wants_equals_sign(command, &pair[0]);
    if let Some([option, value]) = words.windows(2).find(behind) {
        let tip = format!("the value of {option} needs an equals sign: {option}={value}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn wants_equals_sign(command: &Command, option: &str) -> bool {
    let name = option.strip_prefix("--");
    let own = || command.get_arguments().any(|arg| arg.get_long() == name && arg.is_require_equals_set());
    name.is_some() && (own() || command.get_subcommands().any(|verb| wants_equals_sign(verb, option)))
}

/// Lets options take `-1`, so that the refusal says what they accept; else it would advise to write `-- -1`.
fn taking_negative_numbers(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let takes_values = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        if arg.is_positional() || !takes_values {
            return arg;
        }
        let names = arg.get_value_names().unwrap_or_default();
        // What is behind their number keeps it from being one for clap: an exponent, a unit, an equals sign.
        let is_mixed = names
            .iter()
            .any(|name| matches!(name.as_str(), "NUMBER" | "SIZE" | "TIME" | "LIST" | "SLOT=VALUE"));
        if is_mixed { arg.allow_hyphen_values(true) } else { arg.allow_negative_numbers(true) }
    });
    command.mut_subcommands(taking_negative_numbers)
}

fn refuse(error: &clap::Error) -> Exit {
    // A reader that is gone has no use for it.
    let _ = error.print();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Exit::Good;
    }
    if asks_for_json() {
        output::error_document(&told(error));
    }
    Exit::Usage
}

/// Whether a document is expected, although the command line cannot be understood as a whole.
fn asks_for_json() -> bool {
    env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// The same in the parts that other errors have.
fn told(error: &clap::Error) -> Told {
    let text = error.render().to_string();
    let mut paragraphs =
        text.trim().split("\n\n").map(|lines| lines.split_whitespace().collect::<Vec<_>>().join(" "));
    let message = match error.kind() {
        // Only help is printed.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing".into(),
        _ => paragraphs.next().unwrap_or_default(),
    };
    let hint = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: ").map(String::from));
    let message = message.strip_prefix("error: ").map(String::from).unwrap_or(message);
    Told { message, hint, exit: Exit::Usage }
}
