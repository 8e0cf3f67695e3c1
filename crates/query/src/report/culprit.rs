//! The first wrong tasks, with pictures of what they wrote.

use tensortap::DumpStage;
use tensortap::format::quoted;
use tensortap::judge::{Detail, Worst};

use super::labelled::Labelled;
use crate::blame::{Culprit, Next, Outside};
use crate::blame_words::{given, why};
use crate::compare_words::{detail_lines, evidence_written, rule_text, unwritten_lines, value_text};
use crate::document::{AxisReport, CommandDocument, CulpritReport, LinkReport, OutsideReport, WorstReport};
use crate::kind_words::KindDocument;
use crate::number::{counted, significant};
use crate::picture::{Frame, Profile, Source, Spread, Subject, Tile};
use crate::words::{
    arg_words, kernels_text, record_name, short_task, sizes_text, step_option, step_task, task_title,
    task_words,
};
use crate::{QueryError, Slice};

/// Records of a task that are pictured.
const PICTURED: usize = 2;
/// Cells of the picture of a difference, and of the tensors themselves.
const DIFFERENCE: Frame = Frame { rows: 64, columns: 96 };
const TENSOR: Frame = Frame { rows: 32, columns: 64 };
/// Ranges of a histogram, and of an axis.
const BINS: usize = 40;
const AXIS_BINS: usize = 64;
/// Tasks of a way that are named.
const LINKS: usize = 24;
/// Digits of an error.
const DIGITS: usize = 4;

pub fn culprits(labelled: &Labelled<'_>) -> Result<Vec<CulpritReport>, QueryError> {
    labelled.found.culprits.iter().map(|culprit| one(labelled, culprit)).collect()
}

fn one(labelled: &Labelled<'_>, culprit: &Culprit) -> Result<CulpritReport, QueryError> {
    let blame = labelled.found.blame;
    let task = blame.graph.task(culprit.place);
    let pictured = culprit.outside.iter().take(PICTURED);
    Ok(CulpritReport {
        kernels: kernels_text(&task.kernel_names()),
        title: task_title(task.scope(), task.task_name()),
        task: step_task(task.step, task.task_id),
        label: blame.findings[culprit.place].label.name(),
        why: why(blame, culprit.place),
        wrong_kernels: blame.told_kernels(culprit.place).map(kernels_text),
        records: pictured.map(|outside| record(labelled, culprit, outside)).collect::<Result<_, _>>()?,
        more_records: culprit.outside.len().saturating_sub(PICTURED),
        given: given(blame, culprit.place),
        chain: chain(labelled, culprit),
        commands: commands(labelled, culprit),
    })
}

fn chain(labelled: &Labelled<'_>, culprit: &Culprit) -> Vec<LinkReport> {
    let blame = labelled.found.blame;
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

fn commands(labelled: &Labelled<'_>, culprit: &Culprit) -> Vec<CommandDocument> {
    let blame = labelled.found.blame;
    let task = blame.graph.task(culprit.place);
    let (program, dump, against) =
        (labelled.found.program, quoted(labelled.found.dump.dir()), labelled.against_option());
    let (id, step) = (short_task(task.task_id), step_option(blame.graph.tasks().steps(), task.step));
    let named = step_task(task.step, task.task_id);
    let command = |about: &str, command: String| CommandDocument {
        about: about.into(),
        command: format!("{program} {command}"),
    };
    let mut commands = vec![command("See all of it", format!("show {dump} {named}{against}"))];
    if let Some(outside) = culprit.outside.first() {
        let record = task
            .argument(outside.compared.arg_index)
            .and_then(|arg| arg.captured(outside.compared.stage).copied());
        if let Some(record) = record.and_then(|captured| labelled.found.dump.record(captured.record).ok()) {
            commands.push(command("See its values", format!("show {dump} {}", record_name(&record))));
        }
    }
    if let Next::Replay(again) = labelled.found.next(culprit.place) {
        commands.push(CommandDocument { about: "Run it again, alone".into(), command: again });
        commands.push(command(
            "Cut it out, to send it to others",
            format!("extract {dump}{step} --task {id} --out case"),
        ));
    }
    commands
        .push(command("Draw what is near it", format!("graph {dump}{against} --around {named} -o near.svg")));
    commands
}

fn record(
    labelled: &Labelled<'_>,
    culprit: &Culprit,
    outside: &Outside,
) -> Result<OutsideReport, QueryError> {
    let Outside { compared, detail, kind, unwritten } = outside;
    let blame = labelled.found.blame;
    let task = blame.graph.task(culprit.place);
    let arg = task.argument(compared.arg_index);
    let tensor = arg.map_or(String::new(), |arg| format!("{} {}", arg.dtype, sizes_text(arg.shape())));
    let captured = arg.and_then(|arg| arg.captured(compared.stage).copied());
    let name = match captured {
        Some(captured) => record_name(&labelled.found.dump.record(captured.record)?),
        None => String::new(),
    };
    let mut report = OutsideReport {
        argument: arg_words(task, compared.arg_index),
        name,
        record: captured.map(|captured| captured.record),
        when: match compared.stage {
            DumpStage::BeforeDispatch => "before the task",
            DumpStage::AfterCompletion => "after the task",
        },
        tensor,
        kind: kind.as_ref().map(|kind| KindDocument::of(&blame.graph, kind)),
        evidence: evidence_written(&compared.outcome, unwritten),
        rule: rule_text(&compared.rule),
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
    let against = labelled.labelling.against(labelled.found.dump)?;
    if let Some((ours, golden)) = blame.sides(labelled.found.dump, &against, culprit.place, compared)? {
        let (ours, golden) = (Source::of_side(ours), Source::of_side(golden));
        // What cannot be pictured, such as tensors of different shapes, is told in words.
        match paint(&mut report, &ours, &golden, detail.as_ref()) {
            Ok(()) | Err(QueryError::Record { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(report)
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
    let difference = Subject::difference(ours, golden)?;
    report.difference = Some(Tile::of(difference, &part, (None, None), DIFFERENCE)?);
    report.dump = Some(Tile::of(Subject::tensor(ours), &part, (None, None), TENSOR)?);
    report.golden = Some(Tile::of(Subject::tensor(golden), &part, (None, None), TENSOR)?);
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

/// The part of a tensor of more than two axes that holds its worst element, in the last two.
fn through(shape: &[u64], worst: Option<&Worst>) -> Option<String> {
    let fixed = shape.len().checked_sub(2).filter(|fixed| *fixed > 0)?;
    let at = |axis: usize| worst.and_then(|worst| worst.coordinate.get(axis).copied()).unwrap_or(0);
    let terms: Vec<String> = (0..fixed).map(|axis| at(axis).to_string()).collect();
    Some(format!("{},:,:", terms.join(",")))
}

fn worst(worst: &Worst) -> WorstReport {
    WorstReport {
        at: format!("{:?}", worst.coordinate),
        dump: value_text(worst.dump),
        golden: value_text(worst.golden),
        error: worst.error.map_or(String::new(), |error| significant(error, DIGITS)),
    }
}
