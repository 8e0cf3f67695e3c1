//! A scrolling list with one selected row.

use ratatui::crossterm::event::KeyCode;

/// Selected row and scroll position of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The selected row.
    pub at: usize,
    /// The first visible row.
    pub top: usize,
}

impl Cursor {
    /// Moves the cursor. Returns false if the key is not a movement.
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

    /// The visible rows when `rows` fit. Scrolls so that the selected row is among them.
    pub fn visible(&mut self, len: usize, rows: usize) -> std::ops::Range<usize> {
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
    fn the_selected_row_is_always_visible_and_never_past_the_end() {
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
            let seen = cursor.visible(1000, 10);
            assert!(seen.contains(&at) && seen.len() == 10, "{seen:?}");
        }
        assert!(!cursor.key(KeyCode::Enter, 1000, 10));
        // A shorter list, a larger window, a window without rows.
        cursor.at = 700;
        assert_eq!(cursor.visible(5, 10), 0..5);
        assert_eq!((cursor.at, cursor.visible(0, 10), cursor.visible(3, 0)), (4, 0..0, 0..0));
    }
}
