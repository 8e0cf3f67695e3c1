//! Pictures of tensors: any slice of a record, of its golden, or of their difference.

use std::sync::Arc;

use serde::Serialize;
use tensortap::analysis::compare::{record_side, with_kernels_of};
use tensortap::analysis::diff::DiffOptions;
use tensortap::format::Record;
use tensortap::judge::RuleBook;
use tensortap_query::Slice;
use tensortap_query::document::{KernelNames, RecordDocument};
use tensortap_query::fields::Row;
use tensortap_query::number::significant;
use tensortap_query::picture::{Frame, PictureInput, Profile, Source, Spread, Tile};
use tensortap_query::words::{record_name, shape_text};

use super::State;
use super::answer::{Answer, Params, Problem};
use super::open_dumps::{Baseline, OpenDump};

/// Default number of cells along each side.
const CELLS: usize = 128;
/// Default number of ranges of a histogram and of an axis.
const BINS: usize = 64;
/// Digits of the ends of a scale.
const DIGITS: usize = 4;

/// The parsed parameters of a request.
struct PictureQuery<'s> {
    opened: Arc<OpenDump>,
    record: Record,
    baseline: Option<Baseline<'s>>,
    golden: String,
    slice: Slice,
}

impl<'s> PictureQuery<'s> {
    fn of(state: &'s State, params: &Params) -> Result<PictureQuery<'s>, Problem> {
        let opened = state.open_dumps.dump(params)?;
        let index = params.number("record")?.ok_or_else(|| Problem::new("the request names no record"))?;
        let record = opened.dump.record(index)?;
        let slice = params.get("slice").map(Slice::parse).transpose()?.unwrap_or_default();
        let golden = params.get("golden").unwrap_or_default().to_owned();
        Ok(PictureQuery { opened, record, baseline: state.open_dumps.baseline(params)?, golden, slice })
    }

    fn no_golden() -> Problem {
        Problem::with_hint("the golden has no matching record", "view the record by itself")
    }

    /// Calls `draw` with the record and its golden, if there is one.
    fn with_sources<T>(
        &self,
        draw: impl FnOnce(&Source<'_>, Option<&Source<'_>>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let ours = Source::of_record(&self.opened.dump, &self.record);
        match &self.baseline {
            Some(Baseline::Dump(golden)) => {
                let partner = self.opened.partner(golden, &self.golden, &self.record)?;
                let theirs = partner.map(|partner| Source::of_record(&golden.dump, &partner));
                draw(&ours, theirs.as_ref())
            }
            Some(Baseline::Files(_, files)) => {
                let rules = with_kernels_of(RuleBook::default(), self.opened.dump.info());
                let options = DiffOptions { rules, ..DiffOptions::default() };
                let records = std::slice::from_ref(&self.record);
                let diff =
                    tensortap::analysis::diff::diff_arrays(&self.opened.dump, files, records, &options)?;
                let side = diff.arrays.as_ref().map(|arrays| arrays.side(files, &self.record)).transpose()?;
                let theirs = side.flatten().map(|(_, side)| Source::of_side(side));
                draw(&ours, theirs.as_ref())
            }
            Some(Baseline::Reference) | None => draw(&ours, None),
        }
    }
}

/// A tile with the texts of its scale.
#[derive(Serialize)]
struct TileDocument {
    #[serde(flatten)]
    tile: Tile,
    low_text: Option<String>,
    high_text: Option<String>,
}

/// A slice as cells: of the record (`of=tensor`), its golden, the difference, or the difference from another
/// record.
pub(crate) fn tile(state: &State, params: &Params) -> Result<Answer, Problem> {
    let asked = PictureQuery::of(state, params)?;
    let frame = Frame {
        rows: params.number("rows")?.unwrap_or(CELLS),
        columns: params.number("columns")?.unwrap_or(CELLS),
    };
    let axes = (params.number("row_axis")?, params.number("column_axis")?);
    let corner = params.get("corner").is_some();
    let draw = |subject: PictureInput<'_>| {
        let tile = if corner { Tile::corner } else { Tile::of };
        Ok::<_, Problem>(tile(subject, &asked.slice, axes, frame)?)
    };
    let tile = match (params.get("of").unwrap_or("tensor"), params.number::<u64>("minus")?) {
        ("tensor", None) => {
            draw(PictureInput::tensor(&Source::of_record(&asked.opened.dump, &asked.record)))?
        }
        ("difference", Some(other)) => {
            let other = asked.opened.dump.record(other)?;
            let ours = Source::of_record(&asked.opened.dump, &asked.record);
            let theirs = Source::of_side(record_side(&asked.opened.dump, &other));
            draw(PictureInput::difference(&ours, &theirs)?)?
        }
        ("golden", None) => asked.with_sources(|_, theirs| {
            draw(PictureInput::tensor(theirs.ok_or_else(PictureQuery::no_golden)?))
        })?,
        ("difference", None) => asked.with_sources(|ours, theirs| {
            draw(PictureInput::difference(ours, theirs.ok_or_else(PictureQuery::no_golden)?)?)
        })?,
        _ => return Err(Problem::new("`of` must be tensor, golden or difference")),
    };
    let text = |value: Option<f64>| value.map(|value| significant(value, DIGITS));
    let (low_text, high_text) = (text(tile.min), text(tile.max));
    Ok(Answer::document(&TileDocument { tile, low_text, high_text }))
}

#[derive(Serialize)]
struct SpreadDocument {
    #[serde(flatten)]
    spread: Spread,
    low_text: Option<String>,
    high_text: Option<String>,
    /// The name of each series.
    names: Vec<&'static str>,
}

/// The distribution of a record and of its golden, counted in the same ranges.
pub(crate) fn spread(state: &State, params: &Params) -> Result<Answer, Problem> {
    let asked = PictureQuery::of(state, params)?;
    let bins = params.number("bins")?.unwrap_or(BINS);
    let document = asked.with_sources(|ours, theirs| {
        let sources: Vec<&Source<'_>> = [Some(ours), theirs].into_iter().flatten().collect();
        let names = ["dump", "golden"][..sources.len()].to_vec();
        let spread = Spread::of(&sources, &asked.slice, bins)?;
        let text = |value: Option<f64>| value.map(|value| significant(value, DIGITS));
        let (low_text, high_text) = (text(spread.min), text(spread.max));
        Ok(SpreadDocument { spread, low_text, high_text, names })
    })?;
    Ok(Answer::document(&document))
}

/// Where along the axes a record differs from its golden.
pub(crate) fn profile(state: &State, params: &Params) -> Result<Answer, Problem> {
    let asked = PictureQuery::of(state, params)?;
    let bins = params.number("bins")?.unwrap_or(BINS);
    let profile = asked.with_sources(|ours, theirs| {
        let theirs = theirs.ok_or_else(PictureQuery::no_golden)?;
        Ok(Profile::of(PictureInput::difference(ours, theirs)?, &asked.slice, bins)?)
    })?;
    Ok(Answer::document(&profile))
}

#[derive(Serialize)]
struct RecordAnswer<'a> {
    name: String,
    shape_text: String,
    task: String,
    record: RecordDocument<'a>,
    /// The same argument at the other stage.
    other_stage: Option<u64>,
    golden: bool,
}

/// One record, without its content.
pub(crate) fn record(state: &State, params: &Params) -> Result<Answer, Problem> {
    let asked = PictureQuery::of(state, params)?;
    let (dump, record) = (&asked.opened.dump, &asked.record);
    let mut kernels = KernelNames::new(dump.info());
    let other = asked.opened.graph()?;
    let arg = other
        .position(record.task_key())
        .and_then(|place| other.task(place).arguments().find(|arg| arg.arg_index == record.arg_index));
    let other_stage = arg.and_then(|arg| match record.stage {
        tensortap::DumpStage::BeforeDispatch => arg.after,
        tensortap::DumpStage::AfterCompletion => arg.before,
    });
    let golden = asked.with_sources(|_, theirs| Ok(theirs.is_some()))?;
    Ok(Answer::document(&RecordAnswer {
        name: record_name(record),
        shape_text: shape_text(record),
        task: tensortap_query::words::step_task(record.step, record.task_id),
        record: RecordDocument::of(dump, &Row::of(record), kernels.of(record), None)
            .with_observations(dump, record),
        other_stage: other_stage.map(|captured| captured.record),
        golden,
    }))
}
