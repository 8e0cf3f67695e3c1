//! The rules: phrases that this project does not use, and sizes that make prose hard to read.

use crate::extract::{Passage, Shape};

/// Phrases to avoid, each with what to write in its place. Lowercase; matched at word boundaries. `|` in a phrase is the end
/// of a clause: a comma, a colon, a parenthesis, or the end of the sentence.
pub const PHRASES: &[(&str, &str)] = &[
    ("behind", "after, following"),
    ("held against", "compared with"),
    ("hold against", "compare with"),
    ("holds against", "compares with"),
    ("nobody", "name the actor"),
    ("whoever", "name the actor"),
    ("of ours", "our, tensortap's"),
    ("of theirs", "their"),
    ("of the program's |", "the program's"),
    ("of the program's that", "the program's"),
    ("of the program's which", "the program's"),
    ("of the program's is", "the program's"),
    ("of the program's are", "the program's"),
    ("of the program's may", "the program's"),
    ("told", "reported, shown, documented"),
    ("is said", "is reported, is documented"),
    ("are said", "are reported, are documented"),
    ("was said", "was reported, was documented"),
    ("says so", "reports it"),
    ("say so", "report it"),
    ("said so", "reported it"),
    ("heard no more", "disconnected"),
    ("makes no sense", "is a protocol error, is invalid"),
    ("stands", "is in, is next to, follows"),
    ("stand in", "be in"),
    ("stand beside", "be next to"),
    ("lies at", "is at"),
    ("lie at", "are at"),
    ("lay at", "was at"),
    ("looked at", "examined, read, checked"),
    ("given up", "canceled, released"),
    ("alone", "only"),
    ("door", "a capture backend, by its name"),
    ("doors", "capture backends, by their names"),
    ("cannot be |", "is invalid, is not available"),
    ("longest way", "critical path"),
    ("when what ran", "timeline"),
    ("come closer", "zoom in"),
    ("draw anew", "redraw"),
    ("drawn anew", "redrawn"),
    ("that there is not", "that does not exist"),
    ("that there are not", "that do not exist"),
    ("is another |", "is different"),
    ("what it was", "name the thing"),
    ("what lay there", "uninitialized memory"),
    ("where there is none", "without it"),
    ("where that cannot be", "if that is not available"),
    ("nothing wrong is before", "although the inputs are right"),
    ("is not that of the golden", "tasks are connected differently than in the golden run"),
    ("makes again", "reproduces"),
    ("makes it again", "reproduces it"),
    ("comes out again", "reproduces"),
    ("come out again", "reproduce"),
    ("reached the end", "how the error spread"),
    ("dump less golden", "dump minus golden"),
    ("colour", "color"),
    ("colours", "colors"),
    ("behaviour", "behavior"),
    ("uninitialised", "uninitialized"),
    ("initialised", "initialized"),
    ("synchronise", "synchronize"),
    ("optimised", "optimized"),
    ("neighbour", "neighbor"),
    ("cancelled", "canceled"),
];

/// Phrases that contain a listed one in another meaning.
const ALLOWED: &[&str] = &[
    "stands for",
    "left alone",
    "leave alone",
    "leaves alone",
    "left it alone",
    "leave it alone",
    "leaves it alone",
    "left them alone",
    "leave them alone",
    "left the rest alone",
    "leaves the rest alone",
];

/// A sentence with more words than this is reported.
pub const MAX_SENTENCE_WORDS: usize = 30;
/// A table cell with more words than this is reported.
pub const MAX_CELL_WORDS: usize = 20;

/// What is wrong with a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A listed phrase, and what to write in its place.
    Phrase(&'static str, &'static str),
    /// A sentence of so many words.
    LongSentence(usize),
    /// A table cell of so many words.
    CrowdedCell(usize),
}

/// A problem with the text it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub problem: Problem,
    /// The sentence or cell.
    pub text: String,
}

/// Checks one passage.
///
/// ```
/// use tensortap_writing::{Problem, check, passages};
///
/// let page = passages("page.md", "The kernel stands behind the copy.\n").remove(0);
/// let problems: Vec<_> = check(&page).into_iter().map(|finding| finding.problem).collect();
/// assert!(matches!(problems[..], [Problem::Phrase("behind", _), Problem::Phrase("stands", _)]));
/// ```
#[must_use]
pub fn check(passage: &Passage) -> Vec<Finding> {
    let mut findings = Vec::new();
    for sentence in sentences(passage) {
        let words = words(&sentence);
        let (plain, clauses) = (searchable(&words.join(" ")), searchable(&with_clause_ends(&sentence)));
        for &(phrase, instead) in PHRASES {
            let searched = if phrase.contains('|') { &clauses } else { &plain };
            if searched.contains(&format!(" {phrase} ")) {
                findings.push(Finding { problem: Problem::Phrase(phrase, instead), text: sentence.clone() });
            }
        }
        let problem = match passage.shape {
            Shape::Cell if words.len() > MAX_CELL_WORDS => Problem::CrowdedCell(words.len()),
            Shape::Prose if words.len() > MAX_SENTENCE_WORDS => Problem::LongSentence(words.len()),
            _ => continue,
        };
        findings.push(Finding { problem, text: sentence });
    }
    findings
}

/// Words in the form in which phrases are searched: in lowercase, between spaces, without the allowed phrases.
fn searchable(words: &str) -> String {
    let spaced = format!(" {} ", words.to_lowercase());
    ALLOWED.iter().fold(spaced, |text, allowed| text.replace(&format!(" {allowed} "), " "))
}

/// The words of a sentence, with `|` after the last word of each clause.
fn with_clause_ends(sentence: &str) -> String {
    let mut text = String::with_capacity(sentence.len() + 8);
    for word in sentence.split_whitespace() {
        let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        text.push_str(bare);
        text.push_str(if word.ends_with([',', ':', ';', '.', ')', '?', '!']) { " | " } else { " " });
    }
    text.push('|');
    text
}

/// The sentences of a passage. A table cell or a line of output counts as one. Clauses after a semicolon count as sentences.
#[must_use]
pub fn sentences(passage: &Passage) -> Vec<String> {
    if passage.shape != Shape::Prose {
        return vec![passage.text.clone()];
    }
    let mut sentences = Vec::new();
    let mut rest = passage.text.as_str();
    while let Some(end) = sentence_end(rest) {
        let (sentence, after) = rest.split_at(end);
        sentences.push(sentence.trim().to_string());
        rest = after;
    }
    sentences.push(rest.trim().to_string());
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// Where the first sentence of a text ends, if more text follows.
fn sentence_end(text: &str) -> Option<usize> {
    let mut previous = ' ';
    for (at, letter) in text.char_indices() {
        let follows = text[at + letter.len_utf8()..].chars().next();
        let ends =
            matches!(letter, '.' | '?' | '!' | ';') && previous.is_alphanumeric() && follows == Some(' ');
        // "e.g. x", "i.e. x" and the like are not ends.
        let abbreviation =
            text[..at].ends_with("e.g") || text[..at].ends_with("i.e") || text[..at].ends_with("vs");
        if ends && !abbreviation {
            return Some(at + 1);
        }
        previous = if matches!(letter, '`' | ')' | ']' | '"' | '%') { 'x' } else { letter };
    }
    None
}

/// The words of a text, without punctuation around them.
fn words(text: &str) -> Vec<&str> {
    let inside = |word: &str| word.chars().any(char::is_alphanumeric);
    text.split_whitespace()
        .map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()))
        .filter(|word| inside(word))
        .collect()
}
