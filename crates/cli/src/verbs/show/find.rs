//! Which record is meant: by index, by `TASK/STAGE/ARG`, or by selectors that leave one.

use std::path::{Path, PathBuf};

use tensortap::format::{Dump, Record};
use tensortap::{DumpStage, Unknown};

use crate::error::UsageError;
use tensortap_query::ids::{parse_id, parse_task};
use tensortap_query::number::grouped;
use tensortap_query::words::{kernel_label, printable, record_name, shape_text, short_task};
use tensortap_query::{Selection, stage_word};

/// As many of several candidates are named.
const NAMED: usize = 12;
const HOW: &str =
    "a record is its index (17) or TASK/STAGE/ARG (0x100000002/after/2), as `tensortap list` shows them";

/// A record as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordName {
    /// Its position in the dump.
    Index(u64),
    /// A number that no record has.
    Negative(String),
    /// Whose argument it is. What is left open must not matter.
    Place { task: TaskName, stage: Option<DumpStage>, arg: Option<u16> },
}

/// A task by number, or by what it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskName {
    Id(u64),
    Kernel(String),
}

/// What became of the search.
pub enum Found {
    /// The record.
    Record(Box<Record>),
    /// Selectors left nothing; the reason.
    Nothing(String),
}

/// Reads a record's name; `None` when it can only be a path.
fn parse(text: &str) -> Option<Result<RecordName, String>> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(parse_id(text).map(RecordName::Index).map_err(|reason| reason.to_string()));
    }
    if text.strip_prefix('-').is_some_and(|digits| digits.parse::<u64>().is_ok()) {
        return Some(Ok(RecordName::Negative(text.into())));
    }
    let (task, rest) = text.split_once('/').map_or((text, None), |(task, rest)| (task, Some(rest)));
    let id = parse_task(task).ok();
    let Some(rest) = rest else {
        return id.map(|id| Ok(RecordName::Place { task: TaskName::Id(id), stage: None, arg: None }));
    };
    let (stage, arg) = rest.split_once('/').map_or((rest, None), |(stage, arg)| (stage, Some(arg)));
    let stage = match stage {
        "before" | "before_dispatch" => DumpStage::BeforeDispatch,
        "after" | "after_completion" => DumpStage::AfterCompletion,
        // A path, unless it starts as no path does.
        _ => return id.map(|_| Err("a stage is before or after".into())),
    };
    let task = id.map_or_else(|| TaskName::Kernel(task.into()), TaskName::Id);
    let arg = match arg.map(|arg| arg.parse::<u16>()) {
        None => None,
        Some(Ok(arg)) => Some(arg),
        Some(Err(_)) => return Some(Err("an argument is a number: tensors first, then scalars".into())),
    };
    Some(Ok(RecordName::Place { task, stage: Some(stage), arg }))
}

/// Tells the dump and the record on a command line apart; either may be missing, and either may come first.
pub fn split(words: &[String]) -> Result<(Option<PathBuf>, Option<RecordName>), UsageError> {
    let (mut dump, mut name) = (None, None);
    let all_records = words.len() > 1 && words.iter().all(|word| parse(word).is_some());
    for (place, word) in words.iter().enumerate() {
        let meaning = match parse(word) {
            // Of two words that could both be records, the first is the dump.
            Some(_) if all_records && place == 0 => Meaning::Dump,
            Some(parsed) => Meaning::Record(parsed),
            None if !Path::new(word).exists() && nearest_stage(word).is_some() => {
                let near = nearest_stage(word).unwrap_or_default();
                return Err(UsageError {
                    message: format!("`{word}` names no record: a stage is before or after"),
                    hint: format!("did you mean `{near}`?"),
                });
            }
            None if dump.is_some() && !Path::new(word).exists() => {
                Meaning::Record(Ok(RecordName::of_kernel(word)))
            }
            None => Meaning::Dump,
        };
        let taken = match meaning {
            Meaning::Dump => dump.replace(PathBuf::from(word)).is_some(),
            Meaning::Record(parsed) => {
                let parsed = parsed.map_err(|reason| usage(format!("`{word}` names no record: {reason}")))?;
                name.replace(parsed).is_some()
            }
        };
        if taken {
            return Err(usage(format!("`{word}` is one too many: `show` takes one dump and one record")));
        }
    }
    Ok((dump, name))
}

/// The record that may be meant by a name whose stage is misspelled.
fn nearest_stage(text: &str) -> Option<String> {
    let (task, rest) = text.split_once('/')?;
    let (stage, arg) = rest.split_once('/').map_or((rest, None), |(stage, arg)| (stage, Some(arg)));
    if arg.is_some_and(|arg| arg.parse::<u16>().is_err()) {
        return None;
    }
    let near = Unknown::new("stage", stage, ["before", "after"]).did_you_mean?;
    Some(format!("{task}/{near}{}", arg.map(|arg| format!("/{arg}")).unwrap_or_default()))
}

/// What a word on the command line stands for.
enum Meaning {
    Dump,
    Record(Result<RecordName, String>),
}

fn usage(message: String) -> UsageError {
    UsageError { message, hint: HOW.into() }
}

/// The one record that name and selection leave.
pub fn find(dump: &Dump, name: Option<&RecordName>, selection: &Selection) -> anyhow::Result<Found> {
    if let (Some(RecordName::Index(index)), true) = (name, selection.is_all()) {
        return Ok(Found::Record(Box::new(dump.record(*index)?)));
    }
    if let Some(RecordName::Negative(text)) = name {
        return Err(usage(format!("there is no record {text}; {}", indices(dump))).into());
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
        ([one], _) => Ok(Found::Record(Box::new(*one))),
        ([], Some(name)) => Err(missing(dump, name, selection)?.into()),
        ([], None) => Ok(Found::Nothing(selection.why_empty(dump)?)),
        (several, _) => Err(ambiguous(dump, several, count).into()),
    }
}

/// The numbers that records have.
fn indices(dump: &Dump) -> String {
    match dump.len() {
        0 => "the dump has none".into(),
        count => format!("records are 0 to {}", count - 1),
    }
}

impl RecordName {
    /// Any record of a kernel that runs once.
    fn of_kernel(name: &str) -> RecordName {
        RecordName::Place { task: TaskName::Kernel(name.into()), stage: None, arg: None }
    }

    fn means(&self, record: &Record, dump: &Dump) -> bool {
        match self {
            RecordName::Index(index) => record.index == *index,
            RecordName::Negative(_) => false,
            RecordName::Place { task, stage, arg } => {
                stage.is_none_or(|stage| stage == record.stage)
                    && arg.is_none_or(|arg| arg == record.arg_index)
                    && task.means(record, dump)
            }
        }
    }

    fn text(&self) -> String {
        match self {
            RecordName::Index(index) => index.to_string(),
            RecordName::Negative(text) => text.clone(),
            RecordName::Place { task, stage, arg } => {
                let task = match task {
                    TaskName::Id(id) => short_task(*id),
                    TaskName::Kernel(name) => name.clone(),
                };
                let stage = stage.map(|stage| format!("/{}", stage_word(stage))).unwrap_or_default();
                task + &stage + &arg.map(|arg| format!("/{arg}")).unwrap_or_default()
            }
        }
    }
}

impl TaskName {
    fn means(&self, record: &Record, dump: &Dump) -> bool {
        match self {
            TaskName::Id(id) => record.task_id == *id,
            TaskName::Kernel(name) => record.func_ids().any(|func| dump.info().kernel_name(func) == *name),
        }
    }
}

/// Says what the task has, or which tasks there are.
fn missing(dump: &Dump, name: &RecordName, selection: &Selection) -> anyhow::Result<UsageError> {
    let text = name.text();
    let RecordName::Place { task, .. } = name else {
        return Ok(usage(format!("the selectors leave out record {text}")));
    };
    let (mut has, mut first, mut last): (Vec<String>, Option<u64>, Option<u64>) = (Vec::new(), None, None);
    for record in selection.records(dump) {
        let record = record?;
        first = Some(first.map_or(record.task_id, |id: u64| id.min(record.task_id)));
        last = Some(last.map_or(record.task_id, |id: u64| id.max(record.task_id)));
        if task.means(&record, dump) && has.len() < NAMED {
            has.push(record_name(&record));
        }
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

/// Says which kernels there are, and the same record of the one that may be meant.
fn no_such_kernel(dump: &Dump, record: &str, kernel: &str) -> UsageError {
    let known: Vec<_> = dump.info().kernels.iter().map(|kernel| printable(&kernel.name)).collect();
    let Unknown { valid, did_you_mean, .. } = Unknown::new("kernel", kernel, known.iter().map(AsRef::as_ref));
    let kernels = if valid.is_empty() { "the dump names none".into() } else { valid.join(", ") };
    let message =
        format!("there is no record {record}, as no task has a kernel `{kernel}`; kernels: {kernels}");
    let near = did_you_mean.map(|near| format!("{near}{}", record.strip_prefix(kernel).unwrap_or_default()));
    let hint = near.filter(|near| near != record).map(|near| format!("did you mean `{near}`?"));
    UsageError { message, hint: hint.unwrap_or_else(|| HOW.into()) }
}

fn ambiguous(dump: &Dump, several: &[Record], count: u64) -> UsageError {
    let mut message = format!("{} records are meant, `show` shows one:", grouped(count));
    for record in several {
        let (name, kernel) = (record_name(record), kernel_label(record, dump.info()));
        message +=
            &format!("\n  {:>6}  {name}  {kernel}  {} {}", record.index, record.dtype, shape_text(record));
    }
    if count > several.len() as u64 {
        message += "\n     ...";
    }
    usage(message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(
        task: TaskName,
        stage: Option<DumpStage>,
        arg: Option<u16>,
    ) -> Option<Result<RecordName, String>> {
        Some(Ok(RecordName::Place { task, stage, arg }))
    }

    #[test]
    fn records_are_named_by_index_or_place_and_paths_are_neither() {
        let id = TaskName::Id((1 << 32) + 2);
        let (before, after) = (Some(DumpStage::BeforeDispatch), Some(DumpStage::AfterCompletion));
        assert_eq!(parse("17"), Some(Ok(RecordName::Index(17))));
        assert_eq!(parse("0x100000002/before/1"), place(id.clone(), before, Some(1)));
        assert_eq!(parse("1:2/after"), place(id.clone(), after, None));
        assert_eq!(parse("0x100000002"), place(id, None, None));
        assert_eq!(parse("mul/after_completion/2"), place(TaskName::Kernel("mul".into()), after, Some(2)));
        for path in ["d", "outputs/tensor_dump_1", "./17", "../d", "", "tensor_dump.json"] {
            assert_eq!(parse(path), None, "{path}");
        }
        for wrong in ["0x1/during/1", "3/1", "0x1/before/x", "0x1/before/1/2"] {
            assert!(matches!(parse(wrong), Some(Err(_))), "{wrong}");
        }
    }

    #[test]
    fn dump_and_record_come_in_either_order() {
        let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
        let expected = (Some(PathBuf::from("d")), Some(RecordName::Index(3)));
        assert_eq!(split(&words("d 3")).unwrap(), expected);
        assert_eq!(split(&words("3 d")).unwrap(), expected);
        assert_eq!(split(&words("3")).unwrap(), (None, expected.1));
        assert_eq!(split(&words("17 3")).unwrap(), (Some("17".into()), Some(RecordName::Index(3))));
        let kernel = RecordName::of_kernel("mul");
        assert_eq!(split(&words("d mul")).unwrap(), (Some("d".into()), Some(kernel)));
        for wrong in ["0x1/then/3", "3 d e", "d /"] {
            assert!(split(&words(wrong)).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn the_name_of_a_place_reads_back(task: u64, after: bool, arg: u16) {
            let stage = if after { DumpStage::AfterCompletion } else { DumpStage::BeforeDispatch };
            let name = RecordName::Place { task: TaskName::Id(task), stage: Some(stage), arg: Some(arg) };
            prop_assert_eq!(parse(&name.text()), Some(Ok(name)));
        }

        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,24}") {
            let _ = split(&[text]);
        }
    }
}
