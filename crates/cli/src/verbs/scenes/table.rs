//! The table of all scenes. In a pipe or a file its width is always the same, so that documents can show it.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use tensortap::scene::Scene;

use crate::fit::{GAP, left_out_line, total};

const NAMES: [&str; 4] = ["SCENE", "ABOUT", "RUNTIMES", "PARAMETERS"];
/// Widths of the columns without the gap.
const WIDTHS: [usize; 4] = [19, 27, 24, 24];
/// The column of sentences, which takes what others leave.
const ABOUT: usize = 1;

/// Name, about, runtimes and parameters with defaults of each scene. A narrow terminal goes without the last columns.
pub fn of(scenes: &[&dyn Scene], width: Option<usize>) -> String {
    let widths = fitting(width);
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.add_row(&NAMES[..widths.len()]);
    for scene in scenes {
        table.add_row([""]);
        let cells = [
            scene.name().to_string(),
            scene.about().to_string(),
            tensortap::runtimes_of(*scene).join("\n"),
            params(*scene),
        ];
        table.add_row(&cells[..widths.len()]);
    }
    let gap = u16::try_from(GAP).unwrap_or(u16::MAX);
    for (column, width) in table.column_iter_mut().zip(&widths) {
        let width = u16::try_from(*width).unwrap_or(u16::MAX).saturating_add(gap);
        column.set_padding((0, gap)).set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
    }
    let left_out = left_out_line(&NAMES[widths.len()..], width, "`tensortap scenes SCENE` has them");
    format!(
        "{}\n\nThe first runtime is the default. More about one: tensortap scenes SCENE\n{}",
        table.trim_fmt(),
        left_out.map_or(String::new(), |line| line + "\n")
    )
}

/// The widths of as many columns as there is room for.
fn fitting(width: Option<usize>) -> Vec<usize> {
    let mut widths = WIDTHS.to_vec();
    let Some(width) = width else { return widths };
    while widths.len() > ABOUT + 1 && total(widths.iter().copied()) > width {
        widths.pop();
    }
    if widths.len() < WIDTHS.len() {
        let others = total(widths.iter().copied()) - widths[ABOUT];
        widths[ABOUT] = width.saturating_sub(others).max(WIDTHS[0]);
    }
    widths
}

fn params(scene: &dyn Scene) -> String {
    scene
        .params()
        .iter()
        .map(|param| format!("{}={}", param.name, param.default))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_columns_go_first_and_sentences_take_the_room() {
        assert_eq!(fitting(None), WIDTHS);
        assert_eq!(fitting(Some(100)), WIDTHS);
        assert_eq!(fitting(Some(80)), [19, 33, 24]);
        assert_eq!(fitting(Some(60)), [19, 39]);
        assert_eq!(fitting(Some(10)), [19, 19]);
    }
}
