//! Writes trials as JUnit XML for continuous integration: a `testsuite` for each scene, a `testcase` for each
//! trial.

use std::io::{self, Write};

use quick_xml::Writer;
use quick_xml::events::BytesText;
use tensortap::suite::TrialReport;

use crate::printable::printable_lines;
use crate::suite::{RAN_ONLY, TrialVerdict, what_is_wrong, where_it_began};

/// Writes the document. `wall_s` is the total time. `commands` returns the next commands for a trial.
///
/// # Errors
/// The file cannot be written.
pub fn write_junit(
    out: impl Write,
    reports: &[TrialReport],
    wall_s: f64,
    commands: impl Fn(&TrialReport) -> Vec<String>,
) -> io::Result<()> {
    let mut writer = Writer::new_with_indent(out, b' ', 2);
    writer.get_mut().write_all(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")?;
    let totals = counts(reports.iter());
    let all = writer.create_element("testsuites").with_attribute(("name", "tensortap"));
    let all =
        totals.iter().fold(all, |element, (name, count)| element.with_attribute((*name, count.as_str())));
    all.with_attribute(("time", seconds(wall_s).as_str())).write_inner_content(|writer| {
        scenes(reports).into_iter().try_for_each(|scene| suite(writer, scene, reports, &commands))
    })?;
    writer.get_mut().write_all(b"\n")
}

/// Names of scenes in order of first appearance.
fn scenes(reports: &[TrialReport]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for name in reports.iter().map(|report| report.trial.scene.name()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn counts<'a>(reports: impl Iterator<Item = &'a TrialReport>) -> [(&'static str, String); 4] {
    let mut counted = [0_usize; 4];
    for report in reports {
        counted[0] += 1;
        match TrialVerdict::of(report) {
            TrialVerdict::Pass => {}
            TrialVerdict::Fail => counted[1] += 1,
            TrialVerdict::Error => counted[2] += 1,
            TrialVerdict::Skipped => counted[3] += 1,
        }
    }
    let [tests, failures, errors, skipped] = counted.map(|count| count.to_string());
    [("tests", tests), ("failures", failures), ("errors", errors), ("skipped", skipped)]
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.3}")
}

fn suite<W: Write>(
    writer: &mut Writer<W>,
    scene: &str,
    reports: &[TrialReport],
    commands: &impl Fn(&TrialReport) -> Vec<String>,
) -> io::Result<()> {
    let own = || reports.iter().filter(|report| report.trial.scene.name() == scene);
    let took: f64 = own().map(|report| report.wall.as_secs_f64()).sum();
    let name = printable_lines(scene);
    let element = writer.create_element("testsuite").with_attribute(("name", name.as_ref()));
    let totals = counts(own());
    let element =
        totals.iter().fold(element, |element, (name, count)| element.with_attribute((*name, count.as_str())));
    element
        .with_attribute(("time", seconds(took).as_str()))
        .write_inner_content(|writer| own().try_for_each(|report| case(writer, report, commands(report))))?;
    Ok(())
}

fn case<W: Write>(writer: &mut Writer<W>, report: &TrialReport, commands: Vec<String>) -> io::Result<()> {
    let trial = &report.trial;
    let name = format!("{} on {}, {}", trial.case.name, trial.platform, trial.runtime);
    let element = writer
        .create_element("testcase")
        .with_attribute(("name", printable_lines(&name).as_ref()))
        .with_attribute(("classname", printable_lines(trial.scene.name()).as_ref()))
        .with_attribute(("time", seconds(report.wall.as_secs_f64()).as_str()));
    let kind = match TrialVerdict::of(report) {
        TrialVerdict::Pass if report.ran_only() => {
            return element
                .write_inner_content(|writer| {
                    let out = writer.create_element("system-out");
                    out.write_text_content(BytesText::new(RAN_ONLY)).map(|_| ())
                })
                .map(|_| ());
        }
        TrialVerdict::Pass => return element.write_empty().map(|_| ()),
        TrialVerdict::Skipped => {
            return element
                .write_inner_content(|writer| writer.create_element("skipped").write_empty().map(|_| ()))
                .map(|_| ());
        }
        TrialVerdict::Fail => "failure",
        TrialVerdict::Error => "error",
    };
    let message = what_is_wrong(report).unwrap_or_default();
    let status = report.run().map_or("not_started", |run| run.status());
    let kind_of = if kind == "failure" { "golden" } else { status };
    let lines: Vec<String> = where_it_began(report).into_iter().chain(commands).collect();
    let text = printable_lines(&lines.join("\n")).into_owned();
    element
        .write_inner_content(|writer| {
            writer
                .create_element(kind)
                .with_attribute(("message", printable_lines(&message).as_ref()))
                .with_attribute(("type", kind_of))
                .write_text_content(BytesText::new(&text))
                .map(|_| ())
        })
        .map(|_| ())
}
