//! Finds a record by index, by `TASK/STAGE/ARG`, or by selectors that match only one.

use std::fmt;

use tensortap::format::{Dump, Record};
use tensortap::{DumpStage, UnknownName};

use crate::ids::{parse_id, parse_task};
use crate::number::grouped;
use crate::words::{printable, record_kernels, record_name, shape_text, short_task};
use crate::{QueryError, SelectorError};
use crate::{Selection, parse_stage};

/// Maximum number of candidates that are listed.
const NAMED: usize = 12;
/// Explains how to name a record.
pub const HOW: &str = "a record is its index (17) or TASK/STAGE/ARG (0x100000002/after/2, mul/after/out), as `tensortap list` shows them";

/// The name of a record on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordName {
    /// Index in the dump.
    Index(u64),
    /// A negative number, which no record has.
    Negative(String),
    /// Task, stage and argument. Omitted parts must leave only one record.
    Argument {
        /// Step of the run, if the dump has several.
        step: Option<u32>,
        /// The task.
        task: TaskName,
        /// The stage.
        stage: Option<DumpStage>,
        /// The argument.
        arg: Option<ArgName>,
    },
}

/// An argument by index or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgName {
    /// Index of the argument.
    Place(u16),
    /// Its name.
    Name(String),
}

impl ArgName {
    /// Text that starts with a digit is an index.
    fn parse(text: &str) -> Result<ArgName, SelectorError> {
        if text.is_empty() || text.contains('/') || text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        {
            return text.parse().map(ArgName::Place).map_err(|_| SelectorError::NoArgument);
        }
        Ok(ArgName::Name(text.into()))
    }

    fn means(&self, record: &Record, dump: &Dump) -> bool {
        match self {
            ArgName::Place(place) => record.arg_index == *place,
            ArgName::Name(name) => dump.names(record).arg_name == Some(name),
        }
    }
}

impl fmt::Display for ArgName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgName::Place(place) => write!(f, "{place}"),
            ArgName::Name(name) => f.write_str(&printable(name)),
        }
    }
}

/// A task by id, or by kernel or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskName {
    /// Its id.
    Id(u64),
    /// The name of one of its kernels, or of the task.
    Kernel(String),
}

/// The result of a search.
pub enum SearchResult {
    /// The record.
    Record(Box<Record>),
    /// No record matches the selectors; the reason.
    Nothing(String),
}

impl RecordName {
    /// Parses a record's name; `None` if the text can only be a path.
    #[must_use]
    pub fn parse(text: &str) -> Option<Result<RecordName, SelectorError>> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(parse_id(text).map(RecordName::Index));
        }
        if text.strip_prefix('-').is_some_and(|digits| digits.parse::<u64>().is_ok()) {
            return Some(Ok(RecordName::Negative(text.into())));
        }
        let (step, text) = step_of(text);
        let (task, rest) = text.split_once('/').map_or((text, None), |(task, rest)| (task, Some(rest)));
        let id = parse_task(task).ok();
        let Some(rest) = rest else {
            return id
                .map(|id| Ok(RecordName::Argument { step, task: TaskName::Id(id), stage: None, arg: None }));
        };
        let (stage, arg) = rest.split_once('/').map_or((rest, None), |(stage, arg)| (stage, Some(arg)));
        let stage = match parse_stage(stage) {
            Ok(stage) => stage,
            // Treat it as a path, unless it starts with a task id.
            Err(error) => return id.map(|_| Err(error)),
        };
        let task = id.map_or_else(|| TaskName::Kernel(task.into()), TaskName::Id);
        let arg = match arg.map(ArgName::parse).transpose() {
            Ok(arg) => arg,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(RecordName::Argument { step, task, stage: Some(stage), arg }))
    }

    /// Adds an argument that is given as a separate word; `None` if there is one already, or if this is not a
    /// task.
    #[must_use]
    pub fn with_arg(&self, word: &str) -> Option<RecordName> {
        match self {
            RecordName::Argument { step, task, stage, arg: None } => {
                let arg = Some(ArgName::parse(word).ok()?);
                Some(RecordName::Argument { step: *step, task: task.clone(), stage: *stage, arg })
            }
            _ => None,
        }
    }
}

/// Splits off the step before a task: `2@0x100000002`.
fn step_of(text: &str) -> (Option<u32>, &str) {
    let split =
        text.split_once('@').and_then(|(step, rest)| Some((parse_id(step).ok()?.try_into().ok()?, rest)));
    split.map_or((None, text), |(step, rest)| (Some(step), rest))
}

fn usage(message: String) -> QueryError {
    QueryError::Record { message, hint: HOW.into() }
}

/// Finds the only record that matches name and selection.
pub fn find(
    dump: &Dump,
    name: Option<&RecordName>,
    selection: &Selection,
) -> Result<SearchResult, QueryError> {
    if let (Some(RecordName::Index(index)), true) = (name, selection.is_all()) {
        if *index >= dump.len() {
            return Err(usage(format!("there is no record {index}; {}", indices(dump))));
        }
        return Ok(SearchResult::Record(Box::new(dump.record(*index)?)));
    }
    if let Some(RecordName::Negative(text)) = name {
        return Err(usage(format!("there is no record {text}; {}", indices(dump))));
    }
    let mut candidates: Vec<Record> = Vec::new();
    let mut count = 0;
    for record in selection.records(dump) {
        let record = record?;
        if name.is_none_or(|name| name.means(&record, dump)) {
            count += 1;
            if candidates.len() < NAMED {
                candidates.push(record);
            }
        }
    }
    match (candidates.as_slice(), name) {
        ([one], _) => Ok(SearchResult::Record(Box::new(*one))),
        ([], Some(name)) => Err(missing(dump, name, selection)?),
        ([], None) => Ok(SearchResult::Nothing(selection.why_empty(dump)?)),
        (several, _) => Err(ambiguous(dump, several, count)),
    }
}

/// The valid indexes of records.
fn indices(dump: &Dump) -> String {
    match dump.len() {
        0 => "the dump has none".into(),
        count => format!("records are 0 to {}", count - 1),
    }
}

impl RecordName {
    /// A record name with only a kernel.
    #[must_use]
    pub fn of_kernel(name: &str) -> RecordName {
        RecordName::Argument { step: None, task: TaskName::Kernel(name.into()), stage: None, arg: None }
    }

    /// The word, if it could be a task or a file.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        match self {
            RecordName::Argument { step: None, task: TaskName::Kernel(word), stage: None, arg: None } => {
                Some(word)
            }
            _ => None,
        }
    }

    /// The name of the task, if no stage and argument are given.
    #[must_use]
    pub fn whole_task(&self) -> Option<String> {
        matches!(self, RecordName::Argument { stage: None, arg: None, .. }).then(|| self.text())
    }

    fn means(&self, record: &Record, dump: &Dump) -> bool {
        match self {
            RecordName::Index(index) => record.index == *index,
            RecordName::Negative(_) => false,
            RecordName::Argument { step, task, stage, arg } => {
                step.is_none_or(|step| step == record.step)
                    && stage.is_none_or(|stage| stage == record.stage)
                    && task.means(record, dump)
                    && arg.as_ref().is_none_or(|arg| arg.means(record, dump))
            }
        }
    }

    fn text(&self) -> String {
        match self {
            RecordName::Index(index) => index.to_string(),
            RecordName::Negative(text) => text.clone(),
            RecordName::Argument { step, task, stage, arg } => {
                let step = step.map(|step| format!("{step}@")).unwrap_or_default();
                let task = match task {
                    TaskName::Id(id) => short_task(*id),
                    TaskName::Kernel(name) => name.clone(),
                };
                let stage = stage.map(|stage| format!("/{}", stage.word())).unwrap_or_default();
                let arg = arg.as_ref().map(|arg| format!("/{arg}")).unwrap_or_default();
                step + &task + &stage + &arg
            }
        }
    }
}

impl TaskName {
    fn means(&self, record: &Record, dump: &Dump) -> bool {
        match self {
            TaskName::Id(id) => record.task_id == *id,
            TaskName::Kernel(name) => {
                record.func_ids().any(|func| dump.info().kernel_name(func) == *name)
                    || dump.names(record).task_name == Some(name)
            }
        }
    }
}

/// The error for a missing record: lists the task's records, or the range of tasks.
fn missing(dump: &Dump, name: &RecordName, selection: &Selection) -> Result<QueryError, QueryError> {
    let text = name.text();
    let RecordName::Argument { task, stage, arg, .. } = name else {
        return Ok(usage(format!("the selectors exclude record {text}")));
    };
    let (mut has, mut first, mut last): (Vec<String>, Option<u64>, Option<u64>) = (Vec::new(), None, None);
    let mut arguments: Vec<String> = Vec::new();
    for record in selection.records(dump) {
        let record = record?;
        first = Some(first.map_or(record.task_id, |id: u64| id.min(record.task_id)));
        last = Some(last.map_or(record.task_id, |id: u64| id.max(record.task_id)));
        if task.means(&record, dump) && has.len() < NAMED {
            has.push(record_name(&record));
        }
        if let Some(known) = dump.names(&record).arg_name.filter(|_| task.means(&record, dump)) {
            let known = printable(known).into_owned();
            if !arguments.contains(&known) && arguments.len() < NAMED {
                arguments.push(known);
            }
        }
    }
    if let (None, Some(wanted @ ArgName::Name(_)), false) = (stage, arg, arguments.is_empty()) {
        let task = match task {
            TaskName::Id(id) => format!("task {}", short_task(*id)),
            TaskName::Kernel(name) => printable(name).into_owned(),
        };
        let known = arguments.join(", ");
        return Ok(usage(format!("{task} has no argument `{wanted}`; it has {known}")));
    }
    if let (true, TaskName::Kernel(kernel)) = (has.is_empty(), task) {
        return Ok(no_such_kernel(dump, &text, kernel));
    }
    let there_is = match (first, last) {
        _ if !has.is_empty() => format!("the task has {}", has.join(", ")),
        (Some(first), Some(last)) => format!("tasks are {} … {}", short_task(first), short_task(last)),
        _ => "there are no records to choose from".into(),
    };
    Ok(usage(format!("there is no record {text}; {there_is}")))
}

/// The error for an unknown kernel: lists the known ones and suggests the same record of a similar one.
fn no_such_kernel(dump: &Dump, record: &str, kernel: &str) -> QueryError {
    let known: Vec<_> = dump.info().kernels.iter().map(|kernel| printable(&kernel.name)).collect();
    let UnknownName { valid, did_you_mean, .. } =
        UnknownName::new("kernel", kernel, known.iter().map(AsRef::as_ref));
    let kernels = if valid.is_empty() { "the dump names none".into() } else { valid.join(", ") };
    let message =
        format!("there is no record {record}, as no task has a kernel `{kernel}`; kernels: {kernels}");
    let near = did_you_mean.map(|near| format!("{near}{}", record.strip_prefix(kernel).unwrap_or_default()));
    let hint = near.filter(|near| near != record).map(|near| format!("did you mean `{near}`?"));
    QueryError::Record { message, hint: hint.unwrap_or_else(|| HOW.into()) }
}

fn ambiguous(dump: &Dump, several: &[Record], count: u64) -> QueryError {
    let mut message = format!("{} records match; `show` shows one:", grouped(count));
    for record in several {
        let (mut name, kernel) = (record_name(record), record_kernels(record, dump.info()));
        if let Some(arg) = dump.names(record).arg_name {
            name += &format!(" {}", printable(arg));
        }
        message +=
            &format!("\n  {:>6}  {name}  {kernel}  {} {}", record.index, record.dtype, shape_text(record));
    }
    if count > several.len() as u64 {
        message += "\n     ...";
    }
    let mut steps: Vec<u32> = several.iter().map(|record| record.step).collect();
    steps.dedup();
    match steps.len() {
        1 => usage(message),
        _ => QueryError::Record {
            message,
            hint: "they belong to several steps; choose one with --step N".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(
        task: TaskName,
        stage: Option<DumpStage>,
        arg: Option<u16>,
    ) -> Option<Result<RecordName, SelectorError>> {
        let arg = arg.map(ArgName::Place);
        Some(Ok(RecordName::Argument { step: None, task, stage, arg }))
    }

    #[test]
    fn parses_record_names_and_recognizes_paths() {
        let id = TaskName::Id((1 << 32) + 2);
        let (before, after) = (Some(DumpStage::BeforeDispatch), Some(DumpStage::AfterCompletion));
        assert_eq!(RecordName::parse("17"), Some(Ok(RecordName::Index(17))));
        assert_eq!(RecordName::parse("0x100000002/before/1"), place(id.clone(), before, Some(1)));
        assert_eq!(RecordName::parse("1:2/after"), place(id.clone(), after, None));
        assert_eq!(RecordName::parse("0x100000002"), place(id, None, None));
        assert_eq!(
            RecordName::parse("mul/after_completion/2"),
            place(TaskName::Kernel("mul".into()), after, Some(2))
        );
        for path in ["d", "outputs/tensor_dump_1", "./17", "../d", "", "tensor_dump.json"] {
            assert_eq!(RecordName::parse(path), None, "{path}");
        }
        for wrong in ["0x1/during/1", "3/1", "0x1/before/1x", "0x1/before/1/2", "0x1/before/"] {
            assert!(matches!(RecordName::parse(wrong), Some(Err(_))), "{wrong}");
        }
        let scores = Some(ArgName::Name("scores".into()));
        let named = RecordName::Argument { step: Some(7), task: TaskName::Id(1), stage: before, arg: scores };
        assert_eq!(RecordName::parse("7@0x1/before/scores"), Some(Ok(named.clone())));
        assert_eq!(named.text(), "7@0x1/before/scores");
        let of_task = RecordName::parse("7@0x1").unwrap().unwrap();
        let with = of_task.with_arg("scores").unwrap();
        assert_eq!(with.text(), "7@0x1/scores");
        assert_eq!(with.with_arg("scores"), None, "it already has one");
    }

    proptest! {
        #[test]
        fn a_record_name_parses_back(step: Option<u32>, task: u64, after: bool, arg: u16) {
            let stage = if after { DumpStage::AfterCompletion } else { DumpStage::BeforeDispatch };
            let (task, arg) = (TaskName::Id(task), Some(ArgName::Place(arg)));
            let name = RecordName::Argument { step, task, stage: Some(stage), arg };
            prop_assert_eq!(RecordName::parse(&name.text()), Some(Ok(name)));
        }

        #[test]
        fn never_panics(text in "\\PC{0,24}") {
            let _ = RecordName::parse(&text);
        }
    }
}
