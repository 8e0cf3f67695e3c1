//! The picture as text that other programs draw: Graphviz's DOT, and Mermaid.

use std::fmt::Write;

use super::{Drawing, DrawnBox};
use crate::palette::{Colour, PLAIN, of_label};

impl Drawing {
    /// For Graphviz.
    #[must_use]
    pub fn dot(&self) -> String {
        let mut text = String::from("digraph tasks {\n");
        let _ = writeln!(text, "  label=\"{}\"; labelloc=t; rankdir=TB;", quoted(&self.title));
        text += "  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\"];\n";
        for (place, one) in self.boxes.iter().enumerate() {
            let Colour { fill, ink } = one.colour();
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

    /// For Mermaid, as web pages and documents draw it.
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
            let Colour { fill, ink } = one.colour();
            let _ = writeln!(text, "  style t{place} fill:{fill},stroke:{ink},color:{ink}");
        }
        text
    }
}

impl DrawnBox {
    pub(super) fn colour(&self) -> Colour {
        self.label.map_or(PLAIN, of_label)
    }

    /// Its lines: name, what stands below, and the word of its label.
    pub(super) fn words(&self) -> Vec<String> {
        let label = self.label.map(|label| label.name().to_owned());
        [self.name.clone()].into_iter().chain(self.below.iter().cloned()).chain(label).collect()
    }
}

/// Between double quotes of DOT and YAML.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Every character that could mean something, as an entity of Mermaid.
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
