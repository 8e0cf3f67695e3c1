//! The picture as text for other programs: Graphviz DOT, and Mermaid.

use std::fmt::Write;

use super::{Drawing, DrawnBox};
use crate::palette::{LabelColor, PLAIN, of_label};

impl Drawing {
    /// Writes Graphviz DOT.
    #[must_use]
    pub fn dot(&self) -> String {
        let mut text = String::from("digraph tasks {\n");
        let _ = writeln!(text, "  label=\"{}\"; labelloc=t; rankdir=TB;", quoted(&self.title));
        text += "  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\"];\n";
        for (place, one) in self.boxes.iter().enumerate() {
            let LabelColor { fill, ink } = one.color();
            let words = one.words().iter().map(|word| quoted(word)).collect::<Vec<_>>().join("\\n");
            let _ = writeln!(
                text,
                "  t{place} [label=\"{words}\", fillcolor=\"{fill}\", color=\"{ink}\", fontcolor=\"{ink}\"];"
            );
        }
        for line in &self.lines {
            let style = match (line.carries, line.through) {
                (_, true) => " [style=dotted]",
                (true, false) => "",
                (false, false) => " [style=dashed]",
            };
            let _ = writeln!(text, "  t{} -> t{}{style};", line.from, line.to);
        }
        text + "}\n"
    }

    /// Writes Mermaid.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut text = format!("---\ntitle: \"{}\"\n---\nflowchart TD\n", entities(&self.title));
        for (place, one) in self.boxes.iter().enumerate() {
            let words: Vec<String> = one.words().iter().map(|word| entities(word)).collect();
            let _ = writeln!(text, "  t{place}[\"{}\"]", words.join("<br/>"));
        }
        for line in &self.lines {
            let arrow = match (line.carries, line.through) {
                (_, true) => "-. through others .->",
                (true, false) => "-->",
                (false, false) => "-.->",
            };
            let _ = writeln!(text, "  t{} {arrow} t{}", line.from, line.to);
        }
        for (place, one) in self.boxes.iter().enumerate() {
            let LabelColor { fill, ink } = one.color();
            let _ = writeln!(text, "  style t{place} fill:{fill},stroke:{ink},color:{ink}");
        }
        text
    }
}

impl DrawnBox {
    pub(super) fn color(&self) -> LabelColor {
        self.label.map_or(PLAIN, of_label)
    }

    /// The lines of a box: name, lines below, and label.
    pub(super) fn words(&self) -> Vec<String> {
        let label = self.label.map(|label| label.name().to_owned());
        [self.name.clone()].into_iter().chain(self.below.iter().cloned()).chain(label).collect()
    }
}

/// Escapes text between double quotes of DOT and YAML.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Escapes special characters as Mermaid entities.
fn entities(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() || " _-./:+,".contains(c) {
            out.push(c);
        } else {
            let _ = write!(out, "#{};", u32::from(c));
        }
    }
    out
}
