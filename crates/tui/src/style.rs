//! How things look, with colours and without. Whatever has a colour also says its word.

use ratatui::style::{Color, Modifier, Style};
use tensortap::analysis::labels::Label;
use tensortap_query::palette::{self, Colour};

/// With colours or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether colours may be used.
    pub colours: bool,
}

impl Look {
    pub(crate) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What is chosen stands out without any colour.
    pub(crate) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn quiet(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn label(self, label: Label) -> Style {
        let Colour { fill, ink } = palette::of_label(label);
        match (self.colours, rgb(fill), rgb(ink)) {
            (true, Some(fill), Some(ink)) => Style::new().bg(fill).fg(ink),
            _ if label.is_good() => Style::new(),
            _ => self.title(),
        }
    }

    /// A cell of a heat map: how far from zero, of the farthest, and on which side. The signs differ, too.
    pub(crate) fn heat(self, share: f64) -> (char, Style) {
        let above = [' ', '░', '▒', '▓', '█'];
        let below = [' ', '.', '-', '=', '#'];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 4")]
        let step = (share.abs() * 4.0).ceil().clamp(0.0, 4.0) as usize;
        let (sign, colour) =
            if share < 0.0 { (below[step], Color::LightBlue) } else { (above[step], Color::LightRed) };
        (sign, if self.colours { Style::new().fg(colour) } else { Style::new() })
    }
}

/// `#rrggbb` as a terminal has it.
fn rgb(text: &str) -> Option<Color> {
    let digits = text.strip_prefix('#')?;
    let part = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    Some(Color::Rgb(part(0)?, part(2)?, part(4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_has_a_colour_and_both_sides_of_zero_have_signs_of_their_own() {
        let look = Look { colours: true };
        assert!(Label::ALL.into_iter().all(|label| look.label(label).bg.is_some()));
        let plain = Look { colours: false };
        let signs = [-1.0, -0.3, 0.0, 0.3, 1.0].map(|share| plain.heat(share).0);
        assert_eq!(signs, ['#', '-', ' ', '▒', '█']);
        assert!(plain.heat(1.0).1.fg.is_none() && plain.label(Label::WrongHere).bg.is_none());
    }
}
