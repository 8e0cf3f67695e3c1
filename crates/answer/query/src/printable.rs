//! Makes text from a dump safe to print. A name in a dump is untrusted: control characters in it could clear
//! the screen, change the terminal's title, or reorder a line.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

/// Characters of category Cf, which are invisible and change how their neighbors are shown, and the two line
/// separators. First and last of each range.
const INVISIBLE: [(char, char); 20] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
];

/// Whether a character is not simply visible: control characters of both sets, bidirectional marks, line
/// separators, and other invisible characters.
#[must_use]
pub fn acts(c: char) -> bool {
    match c {
        '\u{20}'..='\u{7e}' => false,
        c if c.is_control() => true,
        c => INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&c)),
    }
}

/// Escapes characters that a terminal would act upon, for example as `\u{1b}`.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, Newlines::Act, |c, out| out.extend(c.escape_unicode()))
}

/// The same for text of several lines. Newlines are kept.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, Newlines::Stay, |c, out| out.extend(c.escape_unicode()))
}

/// The same for a JSON document. Its meaning is unchanged, because such characters occur only in strings and
/// are written as JSON escapes.
#[must_use]
pub fn printable_json(text: &str) -> Cow<'_, str> {
    escaped(text, Newlines::Stay, |c, out| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

/// A path for messages. For commands use [`tensortap::format::quoted`].
#[must_use]
pub fn printable_path(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

/// Whether newlines are escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newlines {
    Stay,
    Act,
}

/// Whether the text is only printable ASCII, so that nothing needs escaping. It has no branch per byte,
/// because all output passes through here and nearly all of it is plain.
fn is_plain(text: &str, newlines: Newlines) -> bool {
    let stay = newlines == Newlines::Stay;
    let plain = |byte: u8| matches!(byte, b' '..=b'~') | ((byte == b'\n') & stay);
    text.bytes().fold(true, |all, byte| all & plain(byte))
}

/// Bytes checked together if a text is not completely plain, as in a table with some ellipses.
const TOGETHER: usize = 64;

/// Position of the first character that needs escaping. Plain stretches are skipped.
fn first_acting(text: &str, newlines: Newlines, acts: impl Fn(char) -> bool) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        let mut end = text.len().min(at + TOGETHER);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let stretch = &text[at..end];
        let first = if is_plain(stretch, newlines) { None } else { stretch.find(&acts) };
        if let Some(first) = first {
            return Some(at + first);
        }
        at = end;
    }
    None
}

fn escaped(text: &str, newlines: Newlines, spell: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if is_plain(text, newlines) {
        return text.into();
    }
    let acts = |c| acts(c) && (c != '\n' || newlines == Newlines::Act);
    let Some(first) = first_acting(text, newlines, acts) else { return text.into() };
    let mut out = String::with_capacity(text.len() + 16);
    out += &text[..first];
    for c in text[first..].chars() {
        if acts(c) {
            spell(c, &mut out);
        } else {
            out.push(c);
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_characters_that_a_terminal_acts_upon() {
        for plain in ["softmax", "größe", "层 1", "a\\b", "ﬁ", "🙂", ""] {
            assert_eq!(printable(plain), plain);
        }
        assert_eq!(printable("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\u{a}");
        assert_eq!(printable_lines("a\x1b[2Jb\nc\r"), "a\\u{1b}[2Jb\nc\\u{d}");
        for acts in [
            "\0",
            "\x07",
            "\x7f",
            "\u{80}",
            "\u{9b}",
            "\u{202a}",
            "\u{202e}",
            "\u{2066}",
            "\u{2069}",
            "\u{2028}",
            "\u{2029}",
            "\u{200f}",
            "\u{feff}",
            "\u{ad}",
            "\u{e0041}",
        ] {
            let shown = printable(acts);
            assert!(shown.is_ascii() && shown.starts_with("\\u{"), "{acts:?}: {shown}");
        }
    }

    #[test]
    fn finds_characters_to_escape_anywhere_in_a_long_text() {
        // Across borders of stretches, with characters of one, two and three bytes.
        for filling in ["x", "é", "…"] {
            for before in 0..3 * TOGETHER {
                let (head, tail) = (filling.repeat(before), filling.repeat(TOGETHER));
                let shown = printable_lines(&format!("{head}\u{202e}{tail}\n")).into_owned();
                assert_eq!(shown, format!("{head}\\u{{202e}}{tail}\n"));
                let plain = format!("{head}\n{tail}");
                assert_eq!(printable_lines(&plain), plain);
            }
        }
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({"a\u{202e}": "\u{9b}2J\u{e0041}\x1b\u{2028}é"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = printable_json(&text);
        assert!(shown.chars().all(|c| c == '\n' || !acts(c)), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
