//! Text in a limited number of terminal columns: its width and shortening.

use tensortap_query::wrap::columns;
pub use tensortap_query::wrap::wrap;

/// Where a text loses characters that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    End,
    Middle,
}

/// Columns that a text takes on a terminal. A character counts as one, a color sequence (`ESC [ … m`) as none.
pub fn width(text: &str) -> usize {
    // Nearly every cell is plain ASCII, and lists have millions of cells.
    let is_plain = text.is_ascii() && !text.contains('\u{1b}');
    if is_plain { text.len() } else { columns(text) }
}

/// Shortens the text from byte `start` on to `most` characters and marks the cut with `…`.
pub fn shorten(text: &mut String, start: usize, most: usize, cut: Cut) {
    let length = width(&text[start..]);
    if length <= most || most == 0 {
        return;
    }
    let tail = match cut {
        Cut::End => 0,
        Cut::Middle => (most - 1) / 2,
    };
    let cell = text.split_off(start);
    text.extend(cell.chars().take(most - 1 - tail).chain(['…']));
    text.extend(cell.chars().skip(length - tail));
}

/// Inserts spaces at byte `at`.
pub fn pad(text: &mut String, at: usize, spaces: usize) {
    if at == text.len() {
        text.extend(std::iter::repeat_n(' ', spaces));
    } else if spaces > 0 {
        text.insert_str(at, &" ".repeat(spaces));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_counts_characters_but_no_colors() {
        assert_eq!((width("größe"), width("")), (5, 0));
        assert_eq!(width("\u{1b}[1;32mPASS\u{1b}[0m: x"), 7);
    }

    #[test]
    fn shortens_at_the_end_or_in_the_middle() {
        let shortened = |text: &str, columns, cut| {
            let mut line = format!("> {text}");
            shorten(&mut line, 2, columns, cut);
            line
        };
        assert_eq!(shortened("online_update", 8, Cut::End), "> online_…");
        assert_eq!(shortened("1x2x3x4x5x6x7", 8, Cut::Middle), "> 1x2x…6x7");
        assert_eq!(shortened("1x2", 8, Cut::Middle), "> 1x2");
    }
}
