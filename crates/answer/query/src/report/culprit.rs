//! The first wrong tasks, with pictures of their outputs.

use tensortap::analysis::blame::{UnwrittenMemory, UnwrittenShare};
use tensortap::format::quoted;
use tensortap::judge::{Detail, WorstElement};

use super::labeled::LabeledTasks;
use crate::blame::{Culprit, NextStep, OutsideRecord};
use crate::blame_words::{input_sources, why};
use crate::compare_words::{detail_lines, rule_text, unwritten_lines, value_text};
use crate::document::{AxisReport, CommandDocument, CulpritReport, LinkReport, OutsideReport, WorstReport};
use crate::kind_words::KindDocument;
use crate::number::{counted, significant};
use crate::picture::{Frame, PictureInput, Profile, Source, Spread, Tile};
use crate::words::{
    arg_words, kernels_text, record_name, short_task, sizes_text, stage_phrase, step_option, step_task,
    task_title, task_words,
};
use crate::{QueryError, Slice};

/// Records per task that have pictures.
const PICTURED: usize = 2;
/// Cells of a difference picture, and of a tensor picture.
const DIFFERENCE: Frame = Frame { rows: 64, columns: 96 };
const TENSOR: Frame = Frame { rows: 32, columns: 64 };
/// Number of ranges of a histogram, and of an axis.
const BINS: usize = 40;
const AXIS_BINS: usize = 64;
/// Tasks of an error path that are listed.
const LINKS: usize = 24;
/// Digits of an error.
const DIGITS: usize = 4;

pub fn culprits(labeled: &LabeledTasks<'_>) -> Result<Vec<CulpritReport>, QueryError> {
    labeled.found.culprits.iter().map(|culprit| one(labeled, culprit)).collect()
}

fn one(labeled: &LabeledTasks<'_>, culprit: &Culprit) -> Result<CulpritReport, QueryError> {
    let blame = labeled.found.blame;
    let task = blame.graph.task(culprit.place);
    let (counted, ignored): (Vec<_>, Vec<_>) = culprit.outside.iter().partition(|outside| outside.counts);
    let pictured = counted.into_iter().chain(ignored).take(PICTURED);
    Ok(CulpritReport {
        kernels: kernels_text(&task.kernel_names()),
        title: task_title(task.scope(), task.task_name()),
        task: step_task(task.step, task.task_id),
        label: blame.findings[culprit.place].label.name(),
        why: why(blame, culprit.place),
        wrong_kernels: blame.identified_kernels(culprit.place).map(kernels_text),
        records: pictured.map(|outside| record(labeled, culprit, outside)).collect::<Result<_, _>>()?,
        more_records: culprit.outside.len().saturating_sub(PICTURED),
        given: input_sources(blame, culprit.place),
        chain: chain(labeled, culprit),
        commands: commands(labeled, culprit),
    })
}

fn chain(labeled: &LabeledTasks<'_>, culprit: &Culprit) -> Vec<LinkReport> {
    let blame = labeled.found.blame;
    let link = |&place: &usize| {
        let task = blame.graph.task(place);
        LinkReport {
            task: step_task(task.step, task.task_id),
            words: task_words(task),
            label: Some(blame.findings[place].label.name()),
        }
    };
    let mut links: Vec<LinkReport> = culprit.chain.iter().map(link).collect();
    if links.len() > LINKS {
        let words = counted((links.len() - LINKS) as u64, "further task");
        let between = LinkReport { task: String::new(), words, label: None };
        links.splice(LINKS / 2..links.len() - LINKS / 2, [between]);
    }
    links
}

fn commands(labeled: &LabeledTasks<'_>, culprit: &Culprit) -> Vec<CommandDocument> {
    let blame = labeled.found.blame;
    let task = blame.graph.task(culprit.place);
    let (program, dump, against) =
        (labeled.found.program, quoted(labeled.found.dump.dir()), labeled.against_option());
    let (id, step) = (short_task(task.task_id), step_option(blame.graph.tasks().steps(), task.step));
    let named = step_task(task.step, task.task_id);
    let command = |about: &str, command: String| CommandDocument {
        about: about.into(),
        command: format!("{program} {command}"),
    };
    let mut commands = vec![command("Show the whole task", format!("show {dump} {named}{against}"))];
    if let Some(outside) = culprit.outside.first() {
        let record = task
            .argument(outside.compared.arg_index)
            .and_then(|arg| arg.captured(outside.compared.stage).copied());
        if let Some(record) = record.and_then(|captured| labeled.found.dump.record(captured.record).ok()) {
            commands.push(command("Show its values", format!("show {dump} {}", record_name(&record))));
        }
    }
    if let NextStep::Replay(again) = labeled.found.next(culprit.place) {
        commands.push(CommandDocument { about: "Replay this task".into(), command: again });
        commands.push(command(
            "Extract it into a self-contained case",
            format!("extract {dump}{step} --task {id} --out case"),
        ));
    }
    commands.push(command(
        "Draw its neighborhood in the graph",
        format!("graph {dump}{against} --around {named} -o near.svg"),
    ));
    commands
}

fn record(
    labeled: &LabeledTasks<'_>,
    culprit: &Culprit,
    outside: &OutsideRecord,
) -> Result<OutsideReport, QueryError> {
    let OutsideRecord { compared, detail, kind, unwritten, counts, .. } = outside;
    let blame = labeled.found.blame;
    let task = blame.graph.task(culprit.place);
    let arg = task.argument(compared.arg_index);
    let tensor = arg.map_or(String::new(), |arg| format!("{} {}", arg.dtype, sizes_text(arg.shape())));
    let captured = arg.and_then(|arg| arg.captured(compared.stage).copied());
    let name = match captured {
        Some(captured) => record_name(&labeled.found.dump.record(captured.record)?),
        None => String::new(),
    };
    let mut report = OutsideReport {
        argument: arg_words(task, compared.arg_index),
        name,
        record: captured.map(|captured| captured.record),
        when: stage_phrase(compared.stage),
        tensor,
        kind: kind.as_ref().map(|kind| KindDocument::of(&blame.graph, kind)),
        evidence: outside.evidence(),
        rule: counts.then(|| rule_text(&compared.rule)),
        detail: unwritten_lines(unwritten).into_iter().chain(detail.iter().flat_map(detail_lines)).collect(),
        worst: detail
            .iter()
            .flat_map(|detail| detail.worst.iter().filter(|worst| worst.fails))
            .map(worst)
            .collect(),
        slice: None,
        difference: None,
        dump: None,
        golden: None,
        spread: None,
        ends: (String::new(), String::new()),
        axes: Vec::new(),
    };
    // Values that do not count, or that no task wrote, have no picture.
    if !counts || detail.is_none() && kind.is_none() && is_unwritten(unwritten) {
        return Ok(report);
    }
    let against = labeled.label_source.against(labeled.found.dump)?;
    if let Some((ours, golden)) = blame.sides(labeled.found.dump, &against, culprit.place, compared)? {
        let (ours, golden) = (Source::of_side(ours), Source::of_side(golden));
        // Tensors that cannot be subtracted, such as those of different shapes, have only text.
        match paint(&mut report, &ours, &golden, detail.as_ref()) {
            Ok(()) | Err(QueryError::Record { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(report)
}

/// Whether no task wrote the memory, here or in the golden.
fn is_unwritten(unwritten: &UnwrittenMemory) -> bool {
    unwritten.here || unwritten.in_golden || matches!(unwritten.in_both, UnwrittenShare::All)
}

fn paint(
    report: &mut OutsideReport,
    ours: &Source<'_>,
    golden: &Source<'_>,
    detail: Option<&Detail>,
) -> Result<(), QueryError> {
    let whole = Slice::parse("...")?;
    let worst = detail.and_then(|detail| detail.worst.first());
    let slice = through(ours.shape(), worst);
    report.slice = slice.clone();
    let part = slice.map_or(Ok(whole.clone()), |text| Slice::parse(&text))?;
    let difference = PictureInput::difference(ours, golden)?;
    report.difference = Some(Tile::of(difference, &part, (None, None), DIFFERENCE)?);
    report.dump = Some(Tile::of(PictureInput::tensor(ours), &part, (None, None), TENSOR)?);
    report.golden = Some(Tile::of(PictureInput::tensor(golden), &part, (None, None), TENSOR)?);
    let spread = Spread::of(&[ours, golden], &whole, BINS)?;
    let end = |value: Option<f64>| value.map_or("no number".into(), |value| significant(value, DIGITS));
    report.ends = (end(spread.min), end(spread.max));
    report.spread = Some(spread);
    let profile = Profile::of(difference, &whole, AXIS_BINS)?;
    let words = |axis: usize, extent: u64| format!("Axis {axis}, {}", counted(extent, "position"));
    report.axes = profile
        .axes
        .into_iter()
        .filter(|axis| axis.count > 1)
        .map(|bins| AxisReport { words: words(bins.axis, bins.count), bins })
        .collect();
    Ok(())
}

/// For a tensor of more than two axes: the slice of the last two axes that contains the worst element.
fn through(shape: &[u64], worst: Option<&WorstElement>) -> Option<String> {
    let fixed = shape.len().checked_sub(2).filter(|fixed| *fixed > 0)?;
    let at = |axis: usize| worst.and_then(|worst| worst.coordinate.get(axis).copied()).unwrap_or(0);
    let terms: Vec<String> = (0..fixed).map(|axis| at(axis).to_string()).collect();
    Some(format!("{},:,:", terms.join(",")))
}

fn worst(worst: &WorstElement) -> WorstReport {
    WorstReport {
        at: format!("{:?}", worst.coordinate),
        dump: value_text(worst.dump),
        golden: value_text(worst.golden),
        error: worst.error.map_or(String::new(), |error| significant(error, DIGITS)),
    }
}
