//! What tables of several measurements say in the same words.

use super::spread::Spread;
use tensortap_query::number::significant;

/// What to keep in mind.
pub fn foot(notes: &[&str], load: Option<f64>) -> String {
    let notes = notes.iter().fold("\n".to_string(), |text, note| text + note + "\n");
    format!("{notes}{}", load_text(load, " at the end\n"))
}

/// How busy the machine is, if it says so.
pub fn load_text(load: Option<f64>, then: &str) -> String {
    load.map_or(String::new(), |load| format!("load average {load:.2}{then}"))
}

/// The least and the greatest measurement.
pub fn ends(spread: &Spread) -> String {
    format!("{} – {}", significant(spread.min, 3), significant(spread.max, 3))
}

/// What became of a target.
pub fn met_word(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}
