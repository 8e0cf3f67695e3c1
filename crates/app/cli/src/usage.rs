//! Parses the command line. Reports a wrong one as text, and with `--json` as a document, too.

use std::env;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, Parser};

use crate::error::{ErrorReport, Exit};
use crate::{output, program};

/// Parses the command line of this process. On `Err`, help or an error has been printed, and the process must end.
pub fn parse<T: Parser>() -> Result<T, Exit> {
    let mut command = taking_negative_numbers(program::named(T::command()));
    let matches = command.try_get_matches_from_mut(env::args_os());
    let parsed = matches.and_then(|found| T::from_arg_matches(&found).map_err(|e| e.format(&mut command)));
    parsed.map_err(|error| {
        refuse(&with_topics(with_task(with_equals_sign(error, &command), &command), &command))
    })
}

/// Adds a tip to an error about one word too many. `show` and `replay` take a task after the dump, and other verbs take
/// `--task`. `blame` and `report` compare with the dump of `--golden`.
fn with_task(mut error: clap::Error, command: &Command) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    let is_word = error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-');
    let verb = env::args().nth(1).and_then(|verb| command.find_subcommand(verb));
    let takes_task = verb.is_some_and(|verb| verb.get_arguments().any(|arg| arg.get_long() == Some("task")));
    let takes_golden =
        verb.is_some_and(|verb| verb.get_arguments().any(|arg| arg.get_long() == Some("golden")));
    let tip = match (takes_task, takes_golden) {
        (true, _) => {
            format!(
                "this verb reads one dump; choose a task with --task {word}, or a kernel with --func {word}"
            )
        }
        (false, true) => format!("this verb reads one dump; did you mean --golden {word}?"),
        (false, false) => return error,
    };
    if is_word {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Adds the help topics to an error about an unknown `help` word.
fn with_topics(mut error: clap::Error, command: &Command) -> clap::Error {
    let asks_for_help = env::args_os().skip(1).any(|word| word == "help");
    if error.kind() == ErrorKind::InvalidSubcommand && asks_for_help {
        let topics = command.get_subcommands().filter(|verb| verb.is_hide_set()).map(Command::get_name);
        let topics = topics.collect::<Vec<_>>().join(", ");
        let tip = format!("`{} help` lists the verbs; other topics: {topics}", program::program());
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Adds a tip if the value of an option that needs an equals sign was given as a separate word.
fn with_equals_sign(mut error: clap::Error, command: &Command) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    let words: Vec<String> = env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let is_option = |pair: &&[String]| pair[1] == *word && wants_equals_sign(command, &pair[0]);
    if let Some([option, value]) = words.windows(2).find(is_option) {
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

/// Lets options take `-1`, so that the error says what they accept. Otherwise clap would suggest `-- -1`.
fn taking_negative_numbers(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let takes_values = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        if arg.is_positional() || !takes_values {
            return arg;
        }
        let names = arg.get_value_names().unwrap_or_default();
        // Exponents, units and equals signs after the digits keep clap from recognizing a negative number.
        let is_mixed = names
            .iter()
            .any(|name| matches!(name.as_str(), "NUMBER" | "SIZE" | "TIME" | "LIST" | "SLOT=VALUE"));
        if is_mixed { arg.allow_hyphen_values(true) } else { arg.allow_negative_numbers(true) }
    });
    command.mut_subcommands(taking_negative_numbers)
}

fn refuse(error: &clap::Error) -> Exit {
    // The output may be closed.
    let _ = error.print();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Exit::Good;
    }
    if asks_for_json() {
        output::error_document(&report(error));
    }
    Exit::Usage
}

/// Whether `--json` is given, although the command line as a whole is wrong.
fn asks_for_json() -> bool {
    env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// Converts the error of clap to the form of other errors.
fn report(error: &clap::Error) -> ErrorReport {
    let text = error.render().to_string();
    let mut paragraphs =
        text.trim().split("\n\n").map(|lines| lines.split_whitespace().collect::<Vec<_>>().join(" "));
    let message = match error.kind() {
        // clap prints only the help for this error.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "the command is missing".into(),
        _ => paragraphs.next().unwrap_or_default(),
    };
    let hint = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: ").map(String::from));
    let message = message.strip_prefix("error: ").map(String::from).unwrap_or(message);
    ErrorReport { message, hint, exit: Exit::Usage }
}
