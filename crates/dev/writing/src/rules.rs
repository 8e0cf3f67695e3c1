//! The rules: phrases that this project does not use, and sizes that make prose hard to read.

use crate::extract::{Passage, Shape};

/// Phrases to avoid, each with what to write in its place. Lowercase; matched at word boundaries.
pub const PHRASES: &[(&str, &str)] = &[
    ("behind", "after, following"),
    ("held against", "compared with"),
    ("nobody", "name the actor"),
    ("whoever", "name the actor"),
    ("of ours", "our, tensortap's"),
    ("is told", "is reported, is shown"),
    ("are told", "are reported, are shown"),
    ("is said", "is reported, is documented"),
    ("are said", "are reported, are documented"),
    ("says so", "reports it"),
    ("stands", "is in, is next to, follows"),
    ("longest way", "critical path"),
    ("when what ran", "timeline"),
    ("come closer", "zoom in"),
    ("draw anew", "redraw"),
    ("that there is not", "that does not exist"),
    ("is another", "is different"),
    ("what it was", "name the thing"),
    ("what lay there", "uninitialized memory"),
    ("where there is none", "without it"),
    ("where that cannot be", "if that is not available"),
    ("makes again", "reproduces"),
    ("comes out again", "reproduces"),
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
        let spaced = format!(" {} ", words.join(" ").to_lowercase());
        for &(phrase, instead) in PHRASES {
            if spaced.contains(&format!(" {phrase} ")) {
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

/// The sentences of a passage. A table cell counts as one. Clauses after a semicolon count as sentences.
#[must_use]
pub fn sentences(passage: &Passage) -> Vec<String> {
    if passage.shape == Shape::Cell {
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
        previous = if letter == '`' || letter == ')' || letter == '"' { 'x' } else { letter };
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
