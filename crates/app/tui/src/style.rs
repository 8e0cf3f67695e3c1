//! Text styles, with or without colors. Color is never the only sign: colored text also says its meaning.

use ratatui::style::{Color, Modifier, Style};
use tensortap::analysis::labels::Label;
use tensortap_query::palette::{self, LabelColor};

/// The style settings of the viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Whether colors may be used.
    pub colors: bool,
}

impl Theme {
    pub(crate) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The selected row is visible without colors.
    pub(crate) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn quiet(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn label(self, label: Label) -> Style {
        let LabelColor { fill, ink } = palette::of_label(label);
        match (self.colors, rgb(fill), rgb(ink)) {
            (true, Some(fill), Some(ink)) => Style::new().bg(fill).fg(ink),
            _ if label.is_good() => Style::new(),
            _ => self.title(),
        }
    }

    /// A cell of a heat map. `share` is the value relative to the largest magnitude. Positive and negative
    /// values differ in character, too.
    pub(crate) fn heat(self, share: f64) -> (char, Style) {
        let above = [' ', '░', '▒', '▓', '█'];
        let below = [' ', '.', '-', '=', '#'];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 4")]
        let step = (share.abs() * 4.0).ceil().clamp(0.0, 4.0) as usize;
        let (sign, color) =
            if share < 0.0 { (below[step], Color::LightBlue) } else { (above[step], Color::LightRed) };
        (sign, if self.colors { Style::new().fg(color) } else { Style::new() })
    }
}

/// Parses `#rrggbb`.
fn rgb(text: &str) -> Option<Color> {
    let digits = text.strip_prefix('#')?;
    let part = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    Some(Color::Rgb(part(0)?, part(2)?, part(4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_has_a_color_and_signs_differ_without_color() {
        let theme = Theme { colors: true };
        assert!(Label::ALL.into_iter().all(|label| theme.label(label).bg.is_some()));
        let plain = Theme { colors: false };
        let signs = [-1.0, -0.3, 0.0, 0.3, 1.0].map(|share| plain.heat(share).0);
        assert_eq!(signs, ['#', '-', ' ', '▒', '█']);
        assert!(plain.heat(1.0).1.fg.is_none() && plain.label(Label::WrongHere).bg.is_none());
    }
}
