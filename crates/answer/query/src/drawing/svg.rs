//! The picture as SVG, laid out in layers with producers above consumers.

use std::fmt::Write;

use rust_sugiyama::configure::{Config, CrossingMinimization, RankingType};
use serde::{Serialize, Serializer};
use tensortap::analysis::labels::Label;

use super::{Drawing, DrawnEdge};
use crate::palette::LabelColor;

/// Average width of a character, and height of a line of text, in pixels.
const CHARACTER: f64 = 7.2;
const LINE_HEIGHT: f64 = 16.0;
/// Pixels around text in a box, between boxes, and around the picture.
const PADDING: f64 = 10.0;
const SPACING: f64 = 28.0;
const MARGIN: f64 = 20.0;
/// Maximum characters of a line. Longer lines are cut; the box's title has the whole text.
const LONGEST: usize = 34;

/// Limit on boxes plus rows crossed by lines for the careful layout. It takes a good second at this limit,
/// and grows faster than the square.
const MOST_CROSSED: usize = 3_000;

/// Center and size of a box, in pixels.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct BoxGeometry {
    #[serde(serialize_with = "tenths")]
    x: f64,
    #[serde(serialize_with = "tenths")]
    y: f64,
    #[serde(serialize_with = "tenths")]
    width: f64,
    #[serde(serialize_with = "tenths")]
    height: f64,
}

/// A picture with positions, for pages that draw it themselves.
#[derive(Debug, Serialize)]
pub struct Layout {
    title: String,
    #[serde(serialize_with = "tenths")]
    width: f64,
    #[serde(serialize_with = "tenths")]
    height: f64,
    boxes: Vec<LaidBox>,
    lines: Vec<DrawnEdge>,
}

#[derive(Debug, Serialize)]
struct LaidBox {
    #[serde(flatten)]
    at: BoxGeometry,
    /// Lines of text; long ones are cut.
    lines: Vec<String>,
    /// The whole text.
    title: String,
    label: Option<&'static str>,
    /// The folded scope; null for a task.
    scope: Option<String>,
    /// Place of its first task in the graph.
    place: Option<usize>,
    tasks: usize,
}

impl Layout {
    /// Number of boxes.
    #[must_use]
    pub fn boxes(&self) -> usize {
        self.boxes.len()
    }
}

impl Drawing {
    /// Writes a self-contained SVG.
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
            let LabelColor { fill, ink } = one.color();
            let BoxGeometry { x, y, width, height } = *place;
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

    /// Computes the positions of everything.
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

    /// Computes the positions of boxes.
    fn places(&self) -> Vec<BoxGeometry> {
        let mut places: Vec<BoxGeometry> = self.boxes.iter().map(|one| size_of(&one.words())).collect();
        let rows = self.rows();
        let crossed: usize = self.lines.iter().map(|line| rows[line.to].abs_diff(rows[line.from])).sum();
        if places.len().saturating_add(crossed) <= MOST_CROSSED {
            self.lay_out(&mut places);
        } else {
            lay_in_rows(&mut places, &rows);
        }
        places
    }

    /// The row of each box: below all boxes that lead to it. Lines to an earlier box, which folding can
    /// create, are ignored.
    fn rows(&self) -> Vec<usize> {
        let mut rows = vec![0; self.boxes.len()];
        // Lines are sorted by their start, so the row of the start is already final.
        for line in self.lines.iter().filter(|line| line.from < line.to) {
            rows[line.to] = rows[line.to].max(rows[line.from] + 1);
        }
        rows
    }

    /// Layout with few crossing lines. Unconnected parts are placed side by side. Memory and time grow with
    /// every row that a line crosses.
    fn lay_out(&self, places: &mut [BoxGeometry]) {
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

/// Places every row from left to right, in linear time.
fn lay_in_rows(places: &mut [BoxGeometry], rows: &[usize]) {
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
fn extent(places: &[BoxGeometry]) -> (f64, f64) {
    let width = places.iter().map(|p| p.x + p.width / 2.0).fold(240.0, f64::max) + MARGIN;
    let height = places.iter().map(|p| p.y + p.height / 2.0).fold(0.0, f64::max) + MARGIN;
    (width, height)
}

/// A tenth of a pixel is precise enough.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn tenths<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value * 10.0).round() / 10.0)
}

/// The shown lines of a box.
fn lines_of(words: &[String]) -> Vec<String> {
    let cut = |word: &String| match word.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.clone(),
    };
    words.iter().map(cut).collect()
}

#[expect(clippy::cast_precision_loss, reason = "characters of a line")]
fn size_of(words: &[String]) -> BoxGeometry {
    let lines = lines_of(words);
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let (width, height) = (longest as f64 * CHARACTER, lines.len() as f64 * LINE_HEIGHT);
    BoxGeometry { width: width + 2.0 * PADDING, height: height + 2.0 * PADDING, ..BoxGeometry::default() }
}

fn write_line(text: &mut String, line: &DrawnEdge, places: &[BoxGeometry]) {
    let (from, to) = (places[line.from], places[line.to]);
    // A line that goes up leaves the box at the top, so that its arrowhead is visible.
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

/// Escapes text between tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::DrawnBox;
    use super::*;

    /// Boxes that are each connected with all earlier ones.
    fn dense(count: usize) -> Drawing {
        let one = |number: usize| DrawnBox {
            name: format!("box {number}"),
            below: Vec::new(),
            label: None,
            scope: None,
            places: vec![number],
        };
        let lines = (0..count).flat_map(|from| {
            (from + 1..count).map(move |to| DrawnEdge { from, to, carries: true, through: false })
        });
        Drawing { boxes: (0..count).map(one).collect(), lines: lines.collect(), title: String::new() }
    }

    /// The careful layout takes minutes for 100 such boxes, and for 600 more memory than there is.
    #[test]
    fn a_dense_graph_is_drawn_in_rows_without_overlap() {
        let drawing = dense(600);
        let places = drawing.places();
        assert!(places.is_sorted_by(|above, below| above.y + above.height < below.y), "one below the other");
        let mut wide = dense(0);
        wide.boxes = dense(5_000).boxes;
        let places = wide.places();
        assert!(places.is_sorted_by(|left, right| left.x + left.width / 2.0 < right.x - right.width / 2.0));
    }

    #[test]
    fn a_line_that_goes_up_ends_below_its_box() {
        let place = |y| BoxGeometry { x: 10.0, y, width: 10.0, height: 10.0 };
        let mut text = String::new();
        write_line(
            &mut text,
            &DrawnEdge { from: 0, to: 1, carries: true, through: false },
            &[place(100.0), place(20.0)],
        );
        assert!(text.contains("M10.0 95.0C") && text.contains("10.0 25.0\""), "{text}");
    }
}
