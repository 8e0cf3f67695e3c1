//! Wrapping and shortening of lines, shared by the command line and the terminal viewer.

/// Wraps a line at spaces so that no row has more than `width` columns. Rows after the first start with `indent`
/// spaces. A word that is too long has a row of its own. Spaces between words are kept, so columns of a list stay
/// aligned, and a sparkline between two `|` is never broken.
///
/// ```
/// use tensortap_query::wrap::wrap;
/// assert_eq!(wrap("a mean of 1.5", 9, 2), ["a mean of", "  1.5"]);
/// assert_eq!(wrap("mean 1.5  |█    █|", 12, 2), ["mean 1.5", "  |█    █|"]);
/// ```
#[must_use]
pub fn wrap(line: &str, width: usize, indent: usize) -> Vec<String> {
    // A single bar is text and starts no sparkline.
    let has_pairs = line.matches('|').count().is_multiple_of(2);
    let mut in_sparkline = false;
    let ends_word = |c: char| {
        in_sparkline ^= c == '|' && has_pairs;
        c == ' ' && !in_sparkline
    };
    let mut rows = Vec::new();
    let mut row = String::new();
    for word in line.split_inclusive(ends_word) {
        let has_text = !row.trim().is_empty() && !word.trim().is_empty();
        if has_text && columns(&row) + columns(word.trim_end()) > width {
            rows.push(row.trim_end().to_owned());
            row = " ".repeat(indent);
        }
        row += word;
    }
    rows.push(row.trim_end().to_owned());
    rows
}

/// Number of columns of a text on a terminal. Color codes take none.
#[must_use]
pub fn columns(text: &str) -> usize {
    let mut in_code = false;
    let is_visible = |c: char| {
        let is_visible = !in_code && c != '\u{1b}';
        in_code = c == '\u{1b}' || in_code && c != 'm';
        is_visible
    };
    text.chars().map(is_visible).filter(|is_visible| *is_visible).count()
}

/// A text of at most `width` characters. A longer one is cut and ends with `…`.
///
/// ```
/// use tensortap_query::wrap::shorten;
/// assert_eq!((shorten("softmax", 7), shorten("softmax", 4)), ("softmax".into(), "sof…".into()));
/// ```
#[must_use]
pub fn shorten(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some(_) => text.chars().take(width.saturating_sub(1)).chain((width > 0).then_some('…')).collect(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_at_spaces_and_keeps_sparklines_and_long_words_whole() {
        let rows = wrap("  before  min -1.865  max 1.877  mean -0.1098", 24, 10);
        assert_eq!(rows, ["  before  min -1.865", "          max 1.877", "          mean -0.1098"]);
        let sparkline = wrap("  after  mean 1.000  |█      █|  to 0x2", 24, 10);
        assert_eq!(sparkline, ["  after  mean 1.000", "          |█      █|  to", "          0x2"]);
        assert_eq!(wrap("", 10, 2), [""]);
        assert_eq!(wrap("a_word_that_is_long", 5, 2), ["a_word_that_is_long"]);
        assert_eq!(wrap("one | bar is text", 9, 0), ["one | bar", "is text"]);
    }

    #[test]
    fn color_codes_take_no_columns() {
        assert_eq!(columns("\u{1b}[1;31mFAIL\u{1b}[0m: x"), 7);
        assert_eq!(wrap("\u{1b}[1;31mFAIL\u{1b}[0m: x y", 7, 0), ["\u{1b}[1;31mFAIL\u{1b}[0m: x", "y"]);
    }
}
