//! Selection of tasks, scopes and arguments by name. Names are resolved once, in one walk over the records;
//! afterwards, records are compared by numbers.

use std::collections::{BTreeSet, HashMap, HashSet};

use tensortap::UnknownName;
use tensortap::abi::{NO_KERNEL, SLOTS_PER_TASK};
use tensortap::format::{
    Dump, FormatError, Names, Record, TaskKey, func_ids, is_pattern, kernel_fits, scope_fits, short_name,
    task_fits, word_fits,
};

use super::text::{KEYS, NAN};
use crate::QueryError;
use crate::ids::{ArgChoice, IdRange, holds};
use crate::task::scope_path_fits;
use crate::words::printable;

/// Maximum number of names in a message.
const LISTED: usize = 20;
/// Maximum number of names that are searched for a suggestion.
const MANY: usize = 10_000;

/// Tasks that match a name: of the task, a kernel, a scope, or a scope path.
#[derive(Default)]
pub struct NamedTasks {
    /// Kernels.
    pub funcs: Vec<u32>,
    tasks: HashSet<TaskKey>,
}

impl NamedTasks {
    /// Adds the tasks that match a word. Returns whether there are any.
    pub fn add(&mut self, word: &str, dump: &Dump) -> Result<bool, FormatError> {
        let funcs = func_ids(&dump.info().kernels, word);
        let tasks = tasks_where(dump, |names, kernels| {
            let (scope, name) = (names.scope, names.task_name);
            task_fits(word, scope, name, kernels) || scope_path_fits(word, scope, name, kernels)
        })?;
        let known = !funcs.is_empty() || !tasks.is_empty();
        self.funcs.extend(funcs);
        self.tasks.extend(tasks);
        Ok(known)
    }

    /// Whether a task with these kernels matches.
    pub fn holds(&self, task: TaskKey, kernels: &[u32]) -> bool {
        kernels.iter().any(|id| self.funcs.contains(id)) || self.tasks.contains(&task)
    }
}

/// Tasks in the requested scopes and in scopes below them.
pub fn in_scopes(words: &[String], dump: &Dump) -> Result<HashSet<TaskKey>, QueryError> {
    for word in words.iter().filter(|word| !is_pattern(word)) {
        if !dump.all_task_names().any(|names| names.scope.is_some_and(|path| scope_fits(word, path))) {
            return Err(unknown("scope", word, dump.all_task_names().filter_map(|names| names.scope)));
        }
    }
    let fits = |path: &str| words.iter().any(|word| scope_fits(word, path));
    Ok(tasks_where(dump, |names, _| names.scope.is_some_and(fits))?)
}

/// The tasks whose names and kernels match. Each combination of names is checked once.
fn tasks_where(
    dump: &Dump,
    fits: impl Fn(&Names<'_>, &[String]) -> bool,
) -> Result<HashSet<TaskKey>, FormatError> {
    let mut tasks = HashSet::new();
    if !dump.has_names() {
        return Ok(tasks);
    }
    let mut answers = HashMap::new();
    let mut see = |task: TaskKey, func_id: [u32; SLOTS_PER_TASK]| {
        let names = dump.task_names(task);
        let fits = *answers.entry((names.scope, names.task_name, func_id)).or_insert_with(|| {
            let active = func_id.iter().filter(|id| **id != NO_KERNEL);
            let kernels: Vec<String> = active.map(|id| dump.info().kernel_name(*id)).collect();
            fits(&names, &kernels)
        });
        if fits {
            tasks.insert(task);
        }
    };
    for record in dump.records() {
        let record = record?;
        see(record.task_key(), record.func_id);
    }
    // Tasks without arguments, such as regions.
    if dump.info().is_of_program() {
        dump.details()?.without_arguments().for_each(|task| see(task, dump.task_kernels(task)));
    }
    Ok(tasks)
}

/// The error for an unknown task, with suggestions.
pub fn unknown_task(name: &str, dump: &Dump) -> QueryError {
    // `size:3` is an unknown selector and not an unknown task.
    if let Some((key, value)) = name.split_once(':')
        && !key.is_empty()
        && !value.starts_with(':')
        && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    {
        return QueryError::Unknown(UnknownName::new("selector", key, KEYS.into_iter().chain([NAN])));
    }
    let kernels: Vec<_> = dump.info().kernels.iter().map(|kernel| short_name(&kernel.name)).collect();
    let tasks = dump.all_task_names().filter_map(|names| names.task_name);
    unknown("task or kernel", name, kernels.iter().map(AsRef::as_ref).chain(tasks))
}

/// The error for an unknown name, with a suggestion and the first known names.
fn unknown<'n>(kind: &'static str, name: &str, known: impl Iterator<Item = &'n str>) -> QueryError {
    let known: BTreeSet<_> = known.filter(|known| !known.is_empty()).map(printable).collect();
    // Part of a name with a comma: a list is split there unless the name is quoted.
    let is_half = |known: &str| {
        let (name, mut parts) = (name.trim(), known.split(','));
        known.contains(',') && !name.is_empty() && parts.any(|part| part.trim() == name)
    };
    if let Some(whole) = known.iter().find(|known| is_half(known)) {
        let unknown = UnknownName::new(kind, name, known.iter().map(AsRef::as_ref).take(LISTED));
        return QueryError::Unknown(UnknownName { did_you_mean: Some(format!("\"{whole}\"")), ..unknown });
    }
    let near = UnknownName::new(kind, name, known.iter().map(AsRef::as_ref)).did_you_mean;
    let mut listed: Vec<&str> = known.iter().map(AsRef::as_ref).take(LISTED).collect();
    listed.extend(near.as_deref().filter(|near| !listed.contains(near)));
    QueryError::Unknown(UnknownName::new(kind, name, listed))
}

/// Arguments that match by index or by name.
pub struct NamedArgs {
    places: Vec<IdRange>,
    named: HashSet<(TaskKey, u16)>,
    /// The requested values, as text.
    pub given: Vec<String>,
    /// Whether any is requested by name.
    pub by_name: bool,
}

impl NamedArgs {
    /// Resolves the choices in a dump.
    pub fn of(choices: &[ArgChoice], dump: &Dump) -> Result<NamedArgs, QueryError> {
        let (mut places, mut words, mut given) = (Vec::new(), Vec::new(), Vec::new());
        for choice in choices {
            match choice {
                ArgChoice::Places(first, last) => {
                    places.push((*first, *last));
                    given.push(if first == last { first.to_string() } else { format!("{first}-{last}") });
                }
                ArgChoice::Named(word) => {
                    words.push(word.as_str());
                    given.push(word.clone());
                }
            }
        }
        let mut named = HashSet::new();
        if !words.is_empty() {
            let mut means_something: Vec<bool> =
                words.iter().map(|word| is_pattern(word) || is_declared(word, dump)).collect();
            for record in dump.records() {
                let record = record?;
                let Some(name) = dump.names(&record).arg_name else { continue };
                for (word, means_something) in words.iter().zip(&mut means_something) {
                    if arg_fits(word, name, &record, dump) {
                        *means_something = true;
                        named.insert((record.task_key(), record.arg_index));
                    }
                }
            }
            if let Some(place) = means_something.iter().position(|known| !known) {
                return Err(unknown_arg(words[place], dump)?);
            }
        }
        Ok(NamedArgs { places, named, given, by_name: !words.is_empty() })
    }

    /// Whether a record matches.
    pub fn holds(&self, record: &Record) -> bool {
        (!self.places.is_empty() && holds(&self.places, record.arg_index.into()))
            || self.named.contains(&(record.task_key(), record.arg_index))
    }
}

/// Whether a kernel of the run declares such an argument, captured or not.
fn is_declared(word: &str, dump: &Dump) -> bool {
    dump.info().kernels.iter().any(|kernel| {
        let has = |arg: &str| kernel.arg_names.iter().any(|name| !name.is_empty() && word_fits(arg, name));
        has(word) || word.rsplit_once('.').is_some_and(|(of, arg)| kernel_fits(of, &kernel.name) && has(arg))
    })
}

/// The error for an unknown argument, with suggestions.
fn unknown_arg(name: &str, dump: &Dump) -> Result<QueryError, FormatError> {
    let mut own: BTreeSet<&str> = BTreeSet::new();
    for record in dump.records() {
        own.extend(dump.names(&record?).arg_name);
        if own.len() > MANY {
            break;
        }
    }
    let declared = dump.info().kernels.iter().flat_map(|kernel| &kernel.arg_names);
    Ok(unknown("argument", name, declared.map(String::as_str).chain(own)))
}

/// Whether a word matches an argument: `scores`, `softmax.scores`, or patterns of either.
fn arg_fits(word: &str, name: &str, record: &Record, dump: &Dump) -> bool {
    let runs = |kernel: &str| record.func_ids().any(|id| kernel_fits(kernel, &dump.info().kernel_name(id)));
    word_fits(word, name)
        || word.rsplit_once('.').is_some_and(|(kernel, arg)| word_fits(arg, name) && runs(kernel))
}
