//! A list of any length of which one row is chosen and as many are seen as fit.

use ratatui::crossterm::event::KeyCode;

/// Where one is in a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The chosen row.
    pub at: usize,
    /// The first that is seen.
    pub top: usize,
}

impl Cursor {
    /// Moves by a key; whether it was one that moves.
    pub fn key(&mut self, key: KeyCode, len: usize, page: usize) -> bool {
        let page = page.max(1);
        self.at = match key {
            KeyCode::Up | KeyCode::Char('k') => self.at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.at.saturating_add(1),
            KeyCode::PageUp => self.at.saturating_sub(page),
            KeyCode::PageDown => self.at.saturating_add(page),
            KeyCode::Home => 0,
            KeyCode::End => usize::MAX,
            _ => return false,
        }
        .min(len.saturating_sub(1));
        true
    }

    /// The rows that are seen when so many fit: the chosen one is among them.
    pub fn seen(&mut self, len: usize, rows: usize) -> std::ops::Range<usize> {
        self.at = self.at.min(len.saturating_sub(1));
        if self.at < self.top {
            self.top = self.at;
        }
        if self.at >= self.top + rows.max(1) {
            self.top = self.at + 1 - rows.max(1);
        }
        self.top = self.top.min(len.saturating_sub(rows.max(1)));
        self.top..len.min(self.top + rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_row_is_always_seen_and_never_past_the_end() {
        let mut cursor = Cursor::default();
        for (key, at) in [
            (KeyCode::End, 999),
            (KeyCode::Down, 999),
            (KeyCode::PageUp, 989),
            (KeyCode::Up, 988),
            (KeyCode::Home, 0),
            (KeyCode::Up, 0),
        ] {
            assert!(cursor.key(key, 1000, 10));
            assert_eq!(cursor.at, at);
            let seen = cursor.seen(1000, 10);
            assert!(seen.contains(&at) && seen.len() == 10, "{seen:?}");
        }
        assert!(!cursor.key(KeyCode::Enter, 1000, 10));
        // A list that became shorter, a window that became larger or has no room.
        cursor.at = 700;
        assert_eq!(cursor.seen(5, 10), 0..5);
        assert_eq!((cursor.at, cursor.seen(0, 10), cursor.seen(3, 0)), (4, 0..0, 0..0));
    }
}
