//! Tasks, scopes and arguments that are asked for by name. What a name means in a dump is found once, in one walk over its
//! records; after that records are told by numbers alone.

use std::collections::{HashMap, HashSet};

use tensortap::Unknown;
use tensortap::format::{Dump, FormatError, Names, Record, func_ids, scope_fits, task_fits, word_fits};

use crate::QueryError;
use crate::ids::{ArgChoice, IdRange, holds};
use crate::words::printable;

/// Names that a message lists.
const LISTED: usize = 20;

/// Tasks that are meant by a name: of the task, of a kernel, of a scope, or of scope and task together.
#[derive(Default)]
pub struct NamedTasks {
    /// Kernels.
    pub funcs: Vec<u32>,
    tasks: HashSet<u64>,
}

impl NamedTasks {
    /// Adds what a word means in a dump; whether it means anything there.
    pub fn add(&mut self, word: &str, dump: &Dump) -> Result<bool, FormatError> {
        let funcs = func_ids(&dump.info().kernels, word);
        let tasks =
            tasks_where(dump, |names, kernels| task_fits(word, names.scope, names.task_name, kernels))?;
        let known = !funcs.is_empty() || !tasks.is_empty();
        self.funcs.extend(funcs);
        self.tasks.extend(tasks);
        Ok(known)
    }

    /// Whether a record is of such a task.
    pub fn holds(&self, record: &Record) -> bool {
        record.func_ids().any(|id| self.funcs.contains(&id)) || self.tasks.contains(&record.task_id)
    }
}

/// Tasks in the scopes that are asked for, and in scopes below them.
pub fn in_scopes(words: &[String], dump: &Dump) -> Result<HashSet<u64>, FormatError> {
    let fits = |path: &str| words.iter().any(|word| scope_fits(word, path));
    tasks_where(dump, |names, _| names.scope.is_some_and(fits))
}

/// The tasks whose names and kernels fit. Names are looked at once each, however many tasks have them.
fn tasks_where(
    dump: &Dump,
    fits: impl Fn(&Names<'_>, &[String]) -> bool,
) -> Result<HashSet<u64>, FormatError> {
    let mut tasks = HashSet::new();
    if !dump.has_names() {
        return Ok(tasks);
    }
    let mut answers = HashMap::new();
    for record in dump.records() {
        let record = record?;
        let names = dump.task_names(record.task_id);
        let fits = *answers.entry((names.scope, names.task_name, record.func_id)).or_insert_with(|| {
            let kernels: Vec<String> = record.func_ids().map(|id| dump.info().kernel_name(id)).collect();
            fits(&names, &kernels)
        });
        if fits {
            tasks.insert(record.task_id);
        }
    }
    Ok(tasks)
}

/// What a task could have been called instead.
pub fn unknown_task(name: &str, dump: &Dump) -> Result<QueryError, FormatError> {
    let mut known: HashSet<&str> = dump.info().kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    for record in dump.records() {
        known.extend(dump.task_names(record?.task_id).task_name);
        if known.len() > LISTED {
            break;
        }
    }
    let mut known: Vec<_> = known.into_iter().map(printable).collect();
    known.sort();
    let unknown = Unknown::new("task or kernel", name, known.iter().map(AsRef::as_ref));
    Ok(QueryError::Unknown(unknown))
}

/// Arguments that are meant by place or by name.
pub struct NamedArgs {
    places: Vec<IdRange>,
    named: HashSet<(u64, u16)>,
    /// As asked for.
    pub given: Vec<String>,
    /// Whether any is asked for by name.
    pub by_name: bool,
}

impl NamedArgs {
    /// What the choices mean in a dump.
    pub fn of(choices: &[ArgChoice], dump: &Dump) -> Result<NamedArgs, FormatError> {
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
            for record in dump.records() {
                let record = record?;
                let name = dump.names(&record).arg_name;
                if name.is_some_and(|name| words.iter().any(|word| arg_fits(word, name, &record, dump))) {
                    named.insert((record.task_id, record.arg_index));
                }
            }
        }
        Ok(NamedArgs { places, named, given, by_name: !words.is_empty() })
    }

    /// Whether a record is meant.
    pub fn holds(&self, record: &Record) -> bool {
        (!self.places.is_empty() && holds(&self.places, record.arg_index.into()))
            || self.named.contains(&(record.task_id, record.arg_index))
    }
}

/// `scores`, `softmax.scores`, patterns of either.
fn arg_fits(word: &str, name: &str, record: &Record, dump: &Dump) -> bool {
    let runs = |kernel: &str| record.func_ids().any(|id| word_fits(kernel, &dump.info().kernel_name(id)));
    word_fits(word, name)
        || word.rsplit_once('.').is_some_and(|(kernel, arg)| word_fits(arg, name) && runs(kernel))
}
