//! The table of all scenes. Its width is the same on every terminal, so that scripts and documents can show it.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use tensortap::scene::Scene;

/// Columns between which nothing stands but space.
const GAP: u16 = 2;
/// Widths of the columns without the gap: name, about, runtimes, parameters.
const WIDTHS: [u16; 4] = [19, 27, 24, 24];

/// Name, about, runtimes and parameters with defaults of each scene.
pub fn of(scenes: &[&dyn Scene]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.add_row(["SCENE", "ABOUT", "RUNTIMES", "PARAMETERS"]);
    for scene in scenes {
        table.add_row([""]);
        table.add_row([
            scene.name().to_string(),
            scene.about().to_string(),
            tensortap::runtimes_of(*scene).join("\n"),
            params(*scene),
        ]);
    }
    for (column, width) in table.column_iter_mut().zip(WIDTHS) {
        column.set_padding((0, GAP)).set_constraint(ColumnConstraint::Absolute(Width::Fixed(width + GAP)));
    }
    format!(
        "{}\n\nThe first runtime is the default. More about one: tensortap scenes SCENE\n",
        table.trim_fmt()
    )
}

fn params(scene: &dyn Scene) -> String {
    scene
        .params()
        .iter()
        .map(|param| format!("{}={}", param.name, param.default))
        .collect::<Vec<_>>()
        .join(" ")
}
