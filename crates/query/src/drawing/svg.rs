//! The picture as SVG, laid out in layers: what is given stands above what takes it.

use std::fmt::Write;

use rust_sugiyama::configure::{Config, CrossingMinimization, RankingType};
use serde::{Serialize, Serializer};
use tensortap::analysis::labels::Label;

use super::{Drawing, Line};
use crate::palette::Colour;

/// Pixels of a character, on average, and of a line of text.
const CHARACTER: f64 = 7.2;
const LINE_HEIGHT: f64 = 16.0;
/// Pixels around text in a box, between boxes, and around the picture.
const PADDING: f64 = 10.0;
const SPACING: f64 = 28.0;
const MARGIN: f64 = 20.0;
/// Characters of a line; longer ones are cut, and whole in the box's title.
const LONGEST: usize = 34;

/// Boxes, and rows that lines cross, of a picture that is laid out with care: what lays it out takes a good second for them, and more
/// than their square for more.
const MOST_CROSSED: usize = 3_000;

/// Where a box lies: its middle and its size, in pixels.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Place {
    #[serde(serialize_with = "tenths")]
    x: f64,
    #[serde(serialize_with = "tenths")]
    y: f64,
    #[serde(serialize_with = "tenths")]
    width: f64,
    #[serde(serialize_with = "tenths")]
    height: f64,
}

/// A picture with a place for everything, for pages that draw it themselves.
#[derive(Debug, Serialize)]
pub struct Layout {
    title: String,
    #[serde(serialize_with = "tenths")]
    width: f64,
    #[serde(serialize_with = "tenths")]
    height: f64,
    boxes: Vec<LaidBox>,
    lines: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct LaidBox {
    #[serde(flatten)]
    at: Place,
    /// Lines of text, long ones cut.
    lines: Vec<String>,
    /// All of it.
    title: String,
    label: Option<&'static str>,
    /// The scope that it stands for; null of a task.
    scope: Option<String>,
    /// The first of its tasks, by its place in the graph, and how many there are.
    place: Option<usize>,
    tasks: usize,
}

impl Layout {
    /// How many boxes there are.
    #[must_use]
    pub fn boxes(&self) -> usize {
        self.boxes.len()
    }
}

impl Drawing {
    /// As a picture of its own, which needs no other file.
    #[must_use]
    pub fn svg(&self) -> String {
        let places = self.places();
        let (width, height) = extent(&places);
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#64748b\"/></marker></defs>\n"
        );
        let _ = writeln!(
            text,
            "<text x=\"{MARGIN}\" y=\"{MARGIN}\" fill=\"#64748b\">{}</text>",
            escaped(&self.title)
        );
        for line in &self.lines {
            write_line(&mut text, line, &places);
        }
        for (one, place) in self.boxes.iter().zip(&places) {
            let Colour { fill, ink } = one.colour();
            let Place { x, y, width, height } = *place;
            let words = one.words();
            let _ = write!(
                text,
                "<g><title>{}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"6\" \
                 fill=\"{fill}\" stroke=\"{ink}\"/>",
                escaped(&words.join("\n")),
                x - width / 2.0,
                y - height / 2.0
            );
            for (number, word) in lines_of(&words).iter().enumerate() {
                #[expect(clippy::cast_precision_loss, reason = "few lines")]
                let at = y - height / 2.0 + PADDING + LINE_HEIGHT * (number as f64 + 0.75);
                let weight = if number == 0 { " font-weight=\"bold\"" } else { "" };
                let _ = write!(
                    text,
                    "<text x=\"{x:.1}\" y=\"{at:.1}\" text-anchor=\"middle\" fill=\"{ink}\"{weight}>{}</text>",
                    escaped(word)
                );
            }
            text += "</g>\n";
        }
        text + "</svg>\n"
    }

    /// Where everything stands.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let places = self.places();
        let (width, height) = extent(&places);
        let boxes = self.boxes.iter().zip(&places).map(|(one, place)| {
            let words = one.words();
            let (lines, title) = (lines_of(&words), words.join("\n"));
            LaidBox {
                at: *place,
                lines,
                title,
                label: one.label.map(Label::name),
                scope: one.scope.clone(),
                place: one.places.first().copied(),
                tasks: one.places.len(),
            }
        });
        Layout { title: self.title.clone(), width, height, boxes: boxes.collect(), lines: self.lines.clone() }
    }

    /// Where the boxes lie.
    fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self.boxes.iter().map(|one| size_of(&one.words())).collect();
        let rows = self.rows();
        let crossed: usize = self.lines.iter().map(|line| rows[line.to].abs_diff(rows[line.from])).sum();
        if places.len().saturating_add(crossed) <= MOST_CROSSED {
            self.lay_out(&mut places);
        } else {
            lay_in_rows(&mut places, &rows);
        }
        places
    }

    /// The row of each box: below all that it is given from. Lines to a box before their own, which folding may make, count for
    /// nothing.
    fn rows(&self) -> Vec<usize> {
        let mut rows = vec![0; self.boxes.len()];
        // In the order of the boxes they leave, so that those have their row already.
        for line in self.lines.iter().filter(|line| line.from < line.to) {
            rows[line.to] = rows[line.to].max(rows[line.from] + 1);
        }
        rows
    }

    /// With few lines that cross; what nothing joins stands side by side. Takes memory and time for every row that a line crosses.
    fn lay_out(&self, places: &mut [Place]) {
        let vertices: Vec<(u32, (f64, f64))> =
            (0..).zip(&*places).map(|(number, place)| (number, (place.width, place.height))).collect();
        let number = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        let edges: Vec<(u32, u32)> =
            self.lines.iter().map(|line| (number(line.from), number(line.to))).collect();
        let config = Config {
            vertex_spacing: SPACING,
            ranking_type: RankingType::Up,
            c_minimization: CrossingMinimization::Barycenter,
            transpose: self.boxes.len() < 100,
            ..Config::default()
        };
        let top = MARGIN + LINE_HEIGHT;
        let mut left = MARGIN;
        for (layout, ..) in rust_sugiyama::from_vertices_and_edges(&vertices, &edges, &config) {
            let start =
                layout.iter().map(|&(at, (x, _))| x - places[at].width / 2.0).fold(f64::MAX, f64::min);
            let first =
                layout.iter().map(|&(at, (_, y))| y - places[at].height / 2.0).fold(f64::MAX, f64::min);
            for &(at, (x, y)) in &layout {
                (places[at].x, places[at].y) = (x - start + left, y - first + top);
            }
            left = layout.iter().map(|&(at, _)| places[at].x + places[at].width / 2.0).fold(left, f64::max)
                + SPACING;
        }
    }
}

/// Every row from left to right, in the order of the boxes: takes no more time than there are boxes.
fn lay_in_rows(places: &mut [Place], rows: &[usize]) {
    let count = rows.iter().max().map_or(0, |last| last + 1);
    let mut heights = vec![0.0_f64; count];
    for (place, &row) in places.iter().zip(rows) {
        heights[row] = heights[row].max(place.height);
    }
    let mut top = MARGIN + LINE_HEIGHT;
    let middles: Vec<f64> = heights
        .iter()
        .map(|height| {
            let middle = top + height / 2.0;
            top += height + 2.0 * SPACING;
            middle
        })
        .collect();
    let mut lefts = vec![MARGIN; count];
    for (place, &row) in places.iter_mut().zip(rows) {
        (place.x, place.y) = (lefts[row] + place.width / 2.0, middles[row]);
        lefts[row] += place.width + SPACING;
    }
}

/// Width and height of a picture.
fn extent(places: &[Place]) -> (f64, f64) {
    let width = places.iter().map(|p| p.x + p.width / 2.0).fold(240.0, f64::max) + MARGIN;
    let height = places.iter().map(|p| p.y + p.height / 2.0).fold(0.0, f64::max) + MARGIN;
    (width, height)
}

/// A tenth of a pixel is as much as anybody sees.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn tenths<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value * 10.0).round() / 10.0)
}

/// The lines that are shown of what a box says.
fn lines_of(words: &[String]) -> Vec<String> {
    let cut = |word: &String| match word.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.clone(),
    };
    words.iter().map(cut).collect()
}

#[expect(clippy::cast_precision_loss, reason = "characters of a line")]
fn size_of(words: &[String]) -> Place {
    let lines = lines_of(words);
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let (width, height) = (longest as f64 * CHARACTER, lines.len() as f64 * LINE_HEIGHT);
    Place { width: width + 2.0 * PADDING, height: height + 2.0 * PADDING, ..Place::default() }
}

fn write_line(text: &mut String, line: &Line, places: &[Place]) {
    let (from, to) = (places[line.from], places[line.to]);
    // One that leads up leaves at the top, so that its head is seen.
    let (start, end) = if to.y < from.y {
        (from.y - from.height / 2.0, to.y + to.height / 2.0)
    } else {
        (from.y + from.height / 2.0, to.y - to.height / 2.0)
    };
    let middle = f64::midpoint(start, end);
    let dashes = match (line.carries, line.through) {
        (_, true) => " stroke-dasharray=\"1 3\" stroke-linecap=\"round\"",
        (true, false) => "",
        (false, false) => " stroke-dasharray=\"4 3\"",
    };
    let _ = writeln!(
        text,
        "<path d=\"M{:.1} {start:.1}C{:.1} {middle:.1} {:.1} {middle:.1} {:.1} {end:.1}\" fill=\"none\" \
         stroke=\"#64748b\"{dashes} marker-end=\"url(#arrow)\"/>",
        from.x, from.x, to.x, to.x
    );
}

/// Text between tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::DrawnBox;
    use super::*;

    /// Boxes of which each is joined with all before it.
    fn dense(count: usize) -> Drawing {
        let one = |number: usize| DrawnBox {
            name: format!("box {number}"),
            below: Vec::new(),
            label: None,
            scope: None,
            places: vec![number],
        };
        let lines = (0..count).flat_map(|from| {
            (from + 1..count).map(move |to| Line { from, to, carries: true, through: false })
        });
        Drawing { boxes: (0..count).map(one).collect(), lines: lines.collect(), title: String::new() }
    }

    /// With care 100 such boxes take minutes, and 600 more memory than there is.
    #[test]
    fn a_dense_graph_is_drawn_in_rows_and_no_two_boxes_overlap() {
        let drawing = dense(600);
        let places = drawing.places();
        assert!(places.is_sorted_by(|above, below| above.y + above.height < below.y), "one below the other");
        let mut wide = dense(0);
        wide.boxes = dense(5_000).boxes;
        let places = wide.places();
        assert!(places.is_sorted_by(|left, right| left.x + left.width / 2.0 < right.x - right.width / 2.0));
    }

    #[test]
    fn a_line_that_leads_up_ends_below_its_box() {
        let place = |y| Place { x: 10.0, y, width: 10.0, height: 10.0 };
        let mut text = String::new();
        write_line(
            &mut text,
            &Line { from: 0, to: 1, carries: true, through: false },
            &[place(100.0), place(20.0)],
        );
        assert!(text.contains("M10.0 95.0C") && text.contains("10.0 25.0\""), "{text}");
    }
}
