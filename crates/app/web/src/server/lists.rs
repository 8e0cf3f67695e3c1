//! Lists of records and tasks, a page of rows at a time.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::TaskGraph;
use tensortap::analysis::labels::Label;
use tensortap::format::Task;
use tensortap_query::blame::rank;
use tensortap_query::fields::{Cells, Field, LIST, LIST_DISPATCHES, Row};
use tensortap_query::number::{grouped, time};
use tensortap_query::words::{kernels_text, printable, step_task};
use tensortap_query::{Rows, Selectors, SortKey, Times};

use super::State;
use super::answer::{Answer, Params, Problem};
use super::open_dumps::{Graph, OpenDump};
use super::search::{Page, SearchHits};

/// Maximum rows of one answer.
const MOST_ROWS: usize = 500;
/// Places handed over at a time during a search.
const BATCH: usize = 4096;
/// How long a task list waits for the graph.
const FOR_GRAPH: Duration = Duration::from_millis(60);

/// Some rows of a list.
#[derive(Serialize)]
struct ListDocument {
    columns: Vec<Column>,
    /// Rows that match the search, as far as known.
    total: u64,
    /// All rows.
    of: u64,
    /// Whether the search has finished.
    complete: bool,
    /// Whether there are more matches than are kept.
    cut: bool,
    from: usize,
    rows: Vec<ListRow>,
    generation: u64,
}

#[derive(Serialize)]
struct Column {
    key: &'static str,
    title: String,
    end: bool,
    sortable: bool,
}

#[derive(Serialize)]
struct ListRow {
    /// The task, as requests name it.
    task: String,
    /// The record; missing in task lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<u64>,
    cells: Vec<String>,
}

struct ListQuery {
    search: String,
    sort: Option<String>,
    from: usize,
    count: usize,
}

impl ListQuery {
    fn of(params: &Params) -> Result<ListQuery, Problem> {
        Ok(ListQuery {
            search: params.get("q").unwrap_or_default().trim().to_owned(),
            sort: params.get("sort").map(String::from),
            from: params.number("from")?.unwrap_or(0),
            count: params.number("count")?.unwrap_or(100).min(MOST_ROWS),
        })
    }
}

/// Records of a dump.
pub(crate) fn records(state: &State, params: &Params) -> Result<Answer, Problem> {
    let opened = state.open_dumps.dump(params)?;
    let asked = ListQuery::of(params)?;
    let page = record_places(&opened, &asked)?;
    let dump = &opened.dump;
    let of_dispatches = dump.totals().total_tensors == 0 && !dump.is_empty();
    let keys = if of_dispatches { &LIST_DISPATCHES[..] } else { &LIST };
    let fields: Vec<&'static Field> = keys.iter().filter_map(|key| Field::named(key)).collect();
    let mut cells = Cells::new(dump);
    let mut rows = Vec::with_capacity(page.places.len());
    for &place in &page.places {
        let record = dump.record(place)?;
        let row = Row::of(&record);
        rows.push(ListRow {
            task: step_task(record.step, record.task_id),
            record: Some(place),
            cells: fields.iter().map(|field| cells.text(field, &row)).collect(),
        });
    }
    let column = |field: &&'static Field| Column {
        key: field.key,
        title: sentence(field.heading),
        end: field.is_number,
        sortable: field.is_sortable(),
    };
    let columns = fields.iter().map(column).collect();
    Ok(Answer::document(&document(columns, &page, dump.len(), asked.from, rows, &opened)))
}

fn document(
    columns: Vec<Column>,
    page: &Page,
    of: u64,
    from: usize,
    rows: Vec<ListRow>,
    opened: &OpenDump,
) -> ListDocument {
    let Page { total, complete, cut, .. } = *page;
    ListDocument { columns, total, of, complete, cut, from, rows, generation: opened.generation }
}

/// `TASK` as `Task`.
fn sentence(heading: &str) -> String {
    let mut chars = heading.chars();
    let first = chars.next().map(String::from).unwrap_or_default();
    first + &chars.as_str().to_lowercase()
}

fn record_places(opened: &Arc<OpenDump>, asked: &ListQuery) -> Result<Page, Problem> {
    let ListQuery { search, sort, from, count } = asked;
    if search.is_empty() && sort.is_none() {
        let total = opened.dump.len();
        let first = (*from as u64).min(total);
        let places = (first..total.min(first.saturating_add(*count as u64))).collect();
        return Ok(Page { places, total, complete: true, cut: false });
    }
    let selectors: Selectors = search.parse()?;
    let key = sort.as_deref().map(SortKey::parse).transpose()?;
    // The parsed form, so that spellings do not matter.
    let name = format!("records {selectors:?} by {key:?}");
    let mine = Arc::clone(opened);
    let work = move |found: &SearchHits| {
        let selection = selectors.selection(&mine.dump, &|_, _| found.go_on_or_unwind())?;
        found.go_on()?;
        if let Some(key) = key {
            let rows = Rows::of(&mine.dump, &selection, &[key], None)?;
            found.push(&rows.positions());
            return Ok(());
        }
        let mut batch = Vec::with_capacity(BATCH);
        for record in mine.dump.records() {
            found.go_on()?;
            let record = record?;
            if !selection.holds(&record) {
                continue;
            }
            batch.push(record.index);
            // Publish the first matches early.
            if batch.len() == BATCH || batch.len() == 64 {
                if !found.push(&batch) {
                    return Ok(());
                }
                batch.clear();
            }
        }
        found.push(&batch);
        Ok(())
    };
    opened.searches.get(name, work)?.page(*from, *count)
}

/// Columns of task lists: key, title, and whether it is right-aligned. All are sortable.
const TASK_COLUMNS: [(&str, &str, bool); 8] = [
    ("task", "Task", false),
    ("label", "Label", false),
    ("kernels", "Kernels", false),
    ("name", "Name", false),
    ("scope", "Scope", false),
    ("started", "Started", true),
    ("took", "Took", true),
    ("arguments", "Arguments", true),
];

/// Tasks of a dump.
pub(crate) fn tasks(state: &State, params: &Params) -> Result<Answer, Problem> {
    let opened = state.open_dumps.dump(params)?;
    let asked = ListQuery::of(params)?;
    let column = |&(key, title, end): &(&'static str, &str, bool)| Column {
        key,
        title: title.into(),
        end,
        sortable: true,
    };
    let golden = params.get("golden");
    // Labels exist only with a golden.
    let is_shown = |key: &str| golden.is_some() || key != "label";
    let columns = TASK_COLUMNS.iter().filter(|(key, ..)| is_shown(key)).map(column).collect();
    let Some(graph) = opened.graph_within(FOR_GRAPH)? else {
        let page = Page { places: Vec::new(), total: 0, complete: false, cut: false };
        return Ok(Answer::document(&document(columns, &page, 0, asked.from, Vec::new(), &opened)));
    };
    let blame = opened.blame(golden);
    let page = task_places(&opened, &graph, blame.as_ref(), golden, &asked)?;
    let first = graph.index.first_start.unwrap_or(0);
    let row = |&place: &u64| {
        let task = graph.task(usize::try_from(place).unwrap_or(0));
        ListRow {
            task: step_task(task.step, task.task_id),
            record: None,
            cells: task_cells(task, first, golden.is_some().then_some(blame.as_deref())),
        }
    };
    let rows = page.places.iter().map(row).collect();
    Ok(Answer::document(&document(columns, &page, graph.len() as u64, asked.from, rows, &opened)))
}

/// The cells of a task. `labels` is `Some` if there is a label column; its inner value is `None` until labels
/// are known.
fn task_cells(task: Task<'_>, first: u64, labels: Option<Option<&Blame>>) -> Vec<String> {
    let name = |text: Option<&str>| text.map(|text| printable(text).into_owned()).unwrap_or_default();
    let started = task.start_time().map(|at| Duration::from_nanos(at.saturating_sub(first)));
    let label = |blame| label_of(task, blame).map(|label| label.name().to_owned()).unwrap_or_default();
    let head = [step_task(task.step, task.task_id)].into_iter().chain(labels.map(label));
    let rest = [
        kernels_text(&task.kernel_names()),
        name(task.task_name()),
        name(task.scope()),
        started.map(time).unwrap_or_default(),
        Times::since(None, task).took.map(time).unwrap_or_default(),
        grouped(task.arguments().count() as u64),
    ];
    head.chain(rest).collect()
}

/// The label of a task, if labels are known.
pub(crate) fn label_of(task: Task<'_>, blame: Option<&Blame>) -> Option<Label> {
    let blame = blame?;
    Some(blame.findings.get(blame.graph.position(task.key())?)?.label)
}

fn task_places(
    opened: &Arc<OpenDump>,
    graph: &Arc<Graph>,
    blame: Option<&Arc<Blame>>,
    golden: Option<&str>,
    asked: &ListQuery,
) -> Result<Page, Problem> {
    let ListQuery { search, sort, from, count } = asked;
    // Wrong tasks come first by default.
    let sort =
        sort.as_deref().or_else(|| blame.filter(|blame| !blame.first_wrong.is_empty()).map(|_| "label"));
    if search.is_empty() && sort.is_none() {
        let total = graph.len();
        let places =
            ((*from).min(total)..total.min(from.saturating_add(*count))).map(|place| place as u64).collect();
        return Ok(Page { places, total: total as u64, complete: true, cut: false });
    }
    let (label, search) = label_word(search)?;
    let selectors: Selectors = search.parse()?;
    let by = sort.map(TaskOrder::parse).transpose()?;
    let labeled = blame.map_or(0, |blame| Arc::as_ptr(blame).addr());
    let order = by.as_ref().map(|by| (by.key, by.descending));
    let name = format!("tasks {label:?} {selectors:?} by {order:?} {golden:?} {labeled}");
    let (mine, graph, blame) = (Arc::clone(opened), Arc::clone(graph), blame.cloned());
    let work = move |found: &SearchHits| {
        let mut places = meant(&mine, &graph, &selectors, found)?;
        if let Some(label) = label {
            places.retain(|&place| label_of(graph.task(place), blame.as_deref()) == Some(label));
        }
        found.go_on()?;
        if let Some(by) = by {
            // Ties keep the order of reports.
            graph.sort(&mut places);
            by.sort(&mut places, &graph, blame.as_deref());
        }
        let places: Vec<u64> = places.into_iter().map(|place| place as u64).collect();
        found.push(&places);
        Ok(())
    };
    opened.searches.get(name, work)?.page(*from, *count)
}

/// Splits a search into its label, `label:wrong_here`, and the other selectors.
fn label_word(search: &str) -> Result<(Option<Label>, String), Problem> {
    let mut label = None;
    let mut rest = Vec::new();
    for word in search.split(' ') {
        match word.strip_prefix("label:") {
            None => rest.push(word),
            Some(name) => {
                let known = Label::from_name(name);
                let hint = || format!("labels are {}", Label::ALL.map(Label::name).join(", "));
                label = Some(
                    known.ok_or_else(|| Problem::with_hint(format!("there is no label `{name}`"), hint()))?,
                );
            }
        }
    }
    Ok((label, rest.join(" ")))
}

/// Tasks with a record that matches the selectors, in graph order.
fn meant(
    opened: &OpenDump,
    graph: &TaskGraph,
    selectors: &Selectors,
    found: &SearchHits,
) -> Result<Vec<usize>, Problem> {
    let selection = selectors.selection(&opened.dump, &|_, _| found.go_on_or_unwind())?;
    if selection.is_all() {
        return Ok((0..graph.len()).collect());
    }
    let mut is_meant = vec![false; graph.len()];
    for record in opened.dump.records() {
        found.go_on()?;
        let record = record?;
        if selection.holds(&record)
            && let Some(place) = graph.position(record.task_key())
        {
            is_meant[place] = true;
        }
    }
    Ok((0..graph.len()).filter(|&place| is_meant[place]).collect())
}

/// Sort order of a task list.
struct TaskOrder {
    key: &'static str,
    descending: bool,
}

impl TaskOrder {
    fn parse(text: &str) -> Result<TaskOrder, Problem> {
        let (name, descending) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
        let known = TASK_COLUMNS.iter().find(|(key, ..)| *key == name);
        let hint = || format!("tasks are sorted by {}", TASK_COLUMNS.map(|(key, ..)| key).join(", "));
        let no_key = || Problem::with_hint(format!("there is no column `{name}`"), hint());
        known.map(|&(key, ..)| TaskOrder { key, descending }).ok_or_else(no_key)
    }

    /// Sorts stably. Tasks without a value come last in both directions.
    fn sort(&self, places: &mut [usize], graph: &TaskGraph, blame: Option<&Blame>) {
        let number = |place: usize| {
            let task = graph.task(place);
            match self.key {
                "started" => task.start_time(),
                "took" => Times::since(None, task).took.and_then(|took| u64::try_from(took.as_nanos()).ok()),
                "arguments" => Some(task.arguments().count() as u64),
                "label" => {
                    blame.and_then(|blame| Some(rank(blame, blame.graph.position(task.key())?) as u64))
                }
                _ => None,
            }
        };
        let text = |place: usize| {
            let task = graph.task(place);
            match self.key {
                "name" => task.task_name().map(String::from),
                "scope" => task.scope().map(String::from),
                "kernels" => Some(kernels_text(&task.kernel_names())),
                _ => None,
            }
        };
        let id = |place: usize| (graph.task(place).step, graph.task(place).task_id);
        match self.key {
            "task" => self.by(places, |place| Some(id(place))),
            "started" | "took" | "arguments" | "label" => self.by(places, number),
            _ => self.by(places, text),
        }
    }

    fn by<K: Ord>(&self, places: &mut [usize], key: impl Fn(usize) -> Option<K>) {
        places.sort_by_cached_key(|&place| {
            let key = key(place);
            (key.is_none(), if self.descending { Ok(std::cmp::Reverse(key)) } else { Err(key) })
        });
    }
}
