//! Tasks that an answer names without a label: in its headline, as a suspect, or as a likely race.
//!
//! A hedge such as `may be wrong` still sends a reader to that task, so the oracles judge it like a label. A task with a wrong
//! output whose origin is not known must have a wrong output. The text
//! of a headline is read as a person would read it: each sentence claims something about the tasks in it.

use serde_json::Value;

/// What an answer claims about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is or may be wrong.
    Wrong,
    /// Something that it wrote is wrong, and the error may have begun elsewhere.
    WrongOutput,
    /// It got a wrong input from no task, or from another task than in the golden.
    Fed,
    /// It is one of the two tasks of a race.
    Raced,
    /// It is only in this run.
    Extra,
    /// It is only in the golden.
    Missing,
    /// It never ended or failed.
    Stopped,
    /// Anything else.
    Other,
}

/// A task that is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    pub task: u64,
    pub claim: Claim,
    /// Whether it is a task of the golden.
    pub of_golden: bool,
    /// Where the answer names it.
    pub words: String,
}

/// Parts of sentences that name no cause. What follows them explains why.
const DECIDES_NOTHING: [&str; 9] = [
    "no task can be named",
    "cannot be judged",
    "could not be judged",
    "could be judged",
    "could be compared",
    "it is not known whether",
    "no task is wrong",
    "no judged task is wrong",
    " could decide:",
];

/// What the headline says about a task with a wrong output if the error may have begun elsewhere. The reason follows.
const UNKNOWN_ORIGIN: &str = "has a wrong output, but it is not known whether the error began there";

/// All tasks that the document of a dump names without a label.
pub fn all(document: &Value) -> Vec<Mention> {
    let mut mentions = Vec::new();
    let mut mention = |id: &Value, claim, of_golden, words: &str| {
        if let Some(task) = id.as_str().and_then(id_of) {
            mentions.push(Mention { task, claim, of_golden, words: words.to_owned() });
        }
    };
    mention(&document["suspect"], Claim::WrongOutput, false, "suspect");
    for stopped in document["stopped"].as_array().into_iter().flatten() {
        mention(&stopped["task_id"], Claim::Stopped, false, "stopped");
    }
    for task in document["tasks"].as_array().into_iter().flatten() {
        let race = &task["likely_race"];
        // Without an order in both recordings, the words claim nothing.
        let Some(words) = race["words"].as_str().filter(|words| words.contains("likely race")) else {
            continue;
        };
        let of_golden = race["side"] == "golden";
        if !of_golden {
            mention(&task["task_id"], Claim::Raced, false, words);
        }
        mention(&race["task_id"], Claim::Raced, of_golden, words);
    }
    mentions.extend(of_headline(document["headline"].as_str().unwrap_or_default()));
    mentions
}

/// The tasks that a headline names.
pub fn of_headline(headline: &str) -> Vec<Mention> {
    let mut mentions = Vec::new();
    for sentence in headline.split("; ") {
        if let Some((_, golden)) = sentence.split_once("the golden is ambiguous, because its ") {
            mentions.extend(claims(golden, true));
            break;
        }
        if sentence.contains(UNKNOWN_ORIGIN) {
            let (task, _) = sentence.split_once(UNKNOWN_ORIGIN).unwrap_or((sentence, ""));
            mentions.extend(claims(&format!("{task}{UNKNOWN_ORIGIN}"), false));
            break;
        }
        if DECIDES_NOTHING.iter().any(|words| sentence.contains(words)) {
            break;
        }
        mentions.extend(claims(sentence, false));
    }
    mentions
}

/// What one sentence claims about the tasks in it.
fn claims(sentence: &str, of_golden: bool) -> Vec<Mention> {
    let claim = [
        (UNKNOWN_ORIGIN, Claim::WrongOutput),
        ("likely race", Claim::Raced),
        (" raced with ", Claim::Raced),
        ("was fed a wrong input", Claim::Fed),
        ("is wrong here", Claim::Wrong),
        ("may be wrong", Claim::Wrong),
        ("probably", Claim::Wrong),
        ("never ended", Claim::Stopped),
        ("was refused", Claim::Stopped),
        ("failed when it ran again", Claim::Stopped),
    ];
    let claim =
        claim.iter().find(|(words, _)| sentence.contains(words)).map_or(Claim::Other, |(_, claim)| *claim);
    // The source of an inherited error is judged by the label of its reader.
    if sentence.contains("inherited an error from") {
        return Vec::new();
    }
    // Where the golden's content comes from is a fact about the golden, unless that task is missing here.
    let is_of_golden = sentence.starts_with("in the golden it comes from");
    let is_missing = sentence.contains("which is missing here");
    if is_of_golden && !is_missing {
        return Vec::new();
    }
    let parts: Vec<&str> = sentence.split("task ").collect();
    let named = parts.iter().skip(1).filter_map(|part| {
        let task = id_of(
            part.split_once('@').filter(|(step, _)| step.parse::<u32>().is_ok()).map_or(part, |of| of.1),
        )?;
        // What a task left there is the wrong input of another one. That does not say that it is wrong.
        if is_source(part) && !part.contains("the golden does not have") {
            return None;
        }
        let (claim, of_golden) = match part {
            _ if part.contains(" of the golden is missing") || is_of_golden => (Claim::Missing, true),
            _ if part.contains(" is not in the golden") || part.contains("the golden does not have") => {
                (Claim::Extra, false)
            }
            _ => (claim, of_golden),
        };
        Some(Mention { task, claim, of_golden, words: format!("headline: {sentence}") })
    });
    named.collect()
}

/// Whether a text says what a task left somewhere. Example: `0x7 (k) left there, and no recorded task changed that since`.
fn is_source(text: &str) -> bool {
    let after_id = text.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '@');
    let after_name = match after_id.strip_prefix(" (") {
        Some(name) => name.split_once(") ").map_or("", |(_, rest)| rest),
        None => after_id.trim_start(),
    };
    after_name.starts_with("left")
}

/// The id that a text begins with.
fn id_of(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    let end = digits.find(|digit: char| !digit.is_ascii_hexdigit()).unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], 16).ok()
}

/// Compares the first sentence of the answer for people with the headline of the document.
pub fn compare_text(text: &str, document: &Value) -> Result<(), String> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let headline = words(document["headline"].as_str().unwrap_or_default());
    let text = words(text);
    match text.split_once(": ").is_some_and(|(_, sentence)| sentence.starts_with(&headline)) {
        true => Ok(()),
        false => Err(format!(
            "the text is `{}`, the headline is `{headline}`",
            text.chars().take(300).collect::<String>()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(headline: &str) -> Vec<(u64, Claim, bool)> {
        of_headline(headline).into_iter().map(|of| (of.task, of.claim, of.of_golden)).collect()
    }

    #[test]
    fn headlines_name_tasks_with_and_without_hedges() {
        for (headline, expected) in [
            (
                "task 3@0x17 (kaxe9: kaxe) is wrong here; in all, 2 tasks are wrong here: kaxe 1, neruvo 1",
                vec![(0x17, Claim::Wrong, false)],
            ),
            (
                "task 0xd (mizuti) may be wrong: its known inputs are right, but an output is not",
                vec![(0xd, Claim::Wrong, false)],
            ),
            (
                "task 0x6 (k) raced with task 1@0x7 (part 1 / m)",
                vec![(6, Claim::Raced, false), (7, Claim::Raced, false)],
            ),
            (
                "task 0x5 (z) and task 0x1 (q) likely race for argument 0: nothing orders the two, here or in the golden",
                vec![(5, Claim::Raced, false), (1, Claim::Raced, false)],
            ),
            (
                "task 0x9 (k) was fed a wrong input: task 0x8 (k) before it is not in the golden",
                vec![(9, Claim::Fed, false), (8, Claim::Extra, false)],
            ),
            (
                "task 0x9 (k) was fed a wrong input: task 0x7 (k) of the golden is missing before it",
                vec![(9, Claim::Fed, false), (7, Claim::Missing, true)],
            ),
            (
                "task 0x9 (k) cannot be judged: the golden is ambiguous, because its task 0x1 (k) and its task 0x2 (k) likely race for memory (nothing orders the two)",
                vec![(1, Claim::Raced, true), (2, Claim::Raced, true)],
            ),
            (
                "task 0x9 (k) was fed a wrong input: argument 0 is what task 0x7 (k) left; in the golden it comes from task 0x8 (k)",
                vec![(9, Claim::Fed, false)],
            ),
            (
                "task 0x9 (-) was fed a wrong input: argument 0 is an unattributed change: bytes 0 to 7 are not what task 0x2 left there, and no recorded task changed that since. Task 0x3, which ran in between, used the memory right next to it",
                vec![(9, Claim::Fed, false)],
            ),
            (
                "task 0x9 (k) was fed a wrong input: argument 0 is memory that no earlier recorded task wrote; in the golden it comes from task 0x8 (k), which is missing here",
                vec![(9, Claim::Fed, false), (8, Claim::Missing, true)],
            ),
            (
                "rank 2: task 0x7 (k) is wrong here; 1 more task has no wrong task before it",
                vec![(7, Claim::Wrong, false)],
            ),
            ("task 0x7 (k) looks odd", vec![(7, Claim::Other, false)]),
            (
                "task 1@0x5 (k) has a wrong output, but it is not known whether the error began there: argument 0 came from task 0x4",
                vec![(5, Claim::WrongOutput, false)],
            ),
        ] {
            assert_eq!(named(headline), expected, "{headline}");
        }
    }

    #[test]
    fn sentences_that_decide_nothing_name_no_task() {
        for headline in [
            "argument 2 of task 0x5 (k) is outside its rule after the task, but no task can be named as the cause: argument 1 is what task 0x2 left there",
            "argument 0 of task 0x4 (k) differs after the task, but content before tasks was not recorded, so it is not known whether the task wrote it; record both runs",
            "no task could be judged: task 0x2 (k): argument 1 after the task: the golden did not capture this argument",
            "no judged task is wrong; judged 9 of 18 tasks",
            "task 0x3 (k) cannot be judged: in both recordings, nothing orders it with task 0x4 (k), which changed the same memory",
            "inherited an error from rank 2: task 0x7 (k), through task 0x3 (q)",
        ] {
            assert_eq!(named(headline), [], "{headline}");
        }
    }

    #[test]
    fn documents_name_tasks_next_to_their_headline() {
        let document = serde_json::json!({
            "headline": "no task is wrong", "suspect": "0x5", "stopped": [{"task_id": "0x6"}],
            "tasks": [{"task_id": "0x7", "likely_race": {"task_id": "0x8", "side": "dump", "words": "7 and 8 likely race"}},
                      {"task_id": "0x9", "likely_race": {"task_id": "0xa", "side": "golden", "words": "9 and 10 likely race"}},
                      {"task_id": "0xb", "likely_race": null},
                      {"task_id": "0xc", "likely_race": {"task_id": "0xd", "side": "dump", "words": "nothing orders it"}}],
        });
        let named: Vec<_> = all(&document).into_iter().map(|of| (of.task, of.claim, of.of_golden)).collect();
        let raced = [(7, Claim::Raced, false), (8, Claim::Raced, false), (10, Claim::Raced, true)];
        assert_eq!(named[..2], [(5, Claim::WrongOutput, false), (6, Claim::Stopped, false)]);
        assert_eq!(named[2..], raced);
    }

    #[test]
    fn the_text_begins_with_the_headline() {
        let document = serde_json::json!({"headline": "task 0x5 (k) is wrong here"});
        assert_eq!(compare_text("FAIL: task 0x5 (k)\n  is wrong here\n  compared 2 of 3", &document), Ok(()));
        assert!(compare_text("FAIL: task 0x6 (k) is wrong here", &document).is_err());
    }
}
