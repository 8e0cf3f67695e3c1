//! Finds tasks by id, kernel, name or scope path.

use tensortap::UnknownName;
use tensortap::format::{Task, Tasks, full_name, short_name};

use crate::QueryError;
use crate::ids::{parse_id, parse_task};
use crate::words::{printable, short_task};

/// Explains how to name a task.
pub const HOW: &str = "a task is its id (0x100000002, 1:2), its kernel or name (softmax), or its scopes and name (layer1/k_proj)";

/// Places of the tasks that match `text`, in the order of `tasks`: at least one.
///
/// # Errors
/// No task matches; the error lists possible ones.
pub fn find_tasks(tasks: &Tasks, text: &str) -> Result<Vec<usize>, QueryError> {
    let (step, rest) = step_of(text);
    let (id, path) = (parse_task(rest).ok(), scope_path(rest));
    let is_meant = |task: &Task<'_>| match id {
        Some(id) => task.task_id == id,
        None => leads_to(&path, *task),
    };
    let in_step = |task: &Task<'_>| step.is_none_or(|step| task.step == step);
    let meant: Vec<usize> =
        tasks.iter().filter(|task| in_step(task) && is_meant(task)).map(|task| task.place()).collect();
    if meant.is_empty() { Err(missing(tasks, text, rest)) } else { Ok(meant) }
}

/// Splits off the step before a task: `2@0x100000002`.
fn step_of(text: &str) -> (Option<u32>, &str) {
    let split =
        text.split_once('@').and_then(|(step, rest)| Some((u32::try_from(parse_id(step).ok()?).ok()?, rest)));
    split.map_or((None, text), |(step, rest)| (Some(step), rest))
}

/// The names of a scope path, normalized: case and spaces are ignored.
fn scope_path(text: &str) -> Vec<String> {
    text.split('/').map(plain).filter(|name| !name.is_empty()).collect()
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}

/// Whether the path matches the task.
fn leads_to(path: &[String], task: Task<'_>) -> bool {
    leads(path, task.scope(), task.task_name(), &task.kernel_names())
}

/// Whether a path matches a task: its last name is the task's name or kernel, and the others are scopes of it
/// in order.
fn leads(path: &[String], scope: Option<&str>, task_name: Option<&str>, kernels: &[String]) -> bool {
    let Some((last, before)) = path.split_last() else { return false };
    let is_called = |name: &str| plain(name) == *last;
    if !task_name.is_some_and(is_called)
        && !kernels
            .iter()
            .any(|name| is_called(name) || is_called(&short_name(name)) || is_called(&full_name(name)))
    {
        return false;
    }
    let mut scopes = scope_path(scope.unwrap_or_default()).into_iter();
    before.iter().all(|name| scopes.any(|scope| scope == *name))
}

/// Whether `text` is a scope path, `layer1/k_proj`, that matches a task with these names, as in
/// [`find_tasks`].
pub(crate) fn scope_path_fits(
    text: &str,
    scope: Option<&str>,
    task_name: Option<&str>,
    kernels: &[String],
) -> bool {
    text.contains('/') && leads(&scope_path(text), scope, task_name, kernels)
}

fn missing(tasks: &Tasks, text: &str, rest: &str) -> QueryError {
    let mut known: Vec<String> = Vec::new();
    for task in tasks.iter() {
        known.extend(task.task_name().map(String::from));
        known.extend(task.kernel_names().iter().map(|name| short_name(name).into_owned()));
    }
    known.sort_unstable();
    known.dedup();
    let last = rest.rsplit('/').next().unwrap_or(rest);
    let UnknownName { did_you_mean, .. } = UnknownName::new("task", last, known.iter().map(String::as_str));
    let near = did_you_mean.filter(|near| plain(near) != plain(last));
    let hint = near.map_or_else(|| HOW.into(), |near| format!("did you mean `{}`?", printable(&near)));
    let there_are = if parse_task(rest).is_ok() { ids_text(tasks) } else { names_text(&known) };
    QueryError::Record { message: format!("there is no task {}; {there_are}", printable(text)), hint }
}

/// Maximum number of names in a message.
const LISTED: usize = 20;

/// Lists the names of tasks and kernels.
fn names_text(known: &[String]) -> String {
    let named: Vec<_> = known.iter().take(LISTED).map(|name| printable(name)).collect();
    match known.len().saturating_sub(LISTED) {
        0 if named.is_empty() => "the dump has no names".into(),
        0 => format!("there are: {}", named.join(", ")),
        more => format!("there are: {} and {more} more", named.join(", ")),
    }
}

/// Lists the ids of tasks.
fn ids_text(tasks: &Tasks) -> String {
    let mut ids: Vec<u64> = tasks.iter().map(|task| task.task_id).collect();
    ids.sort_unstable();
    ids.dedup();
    match ids.as_slice() {
        [] => "the dump has none".into(),
        [first, .., last] if ids.len() > FEW => {
            format!("tasks are {} … {}", short_task(*first), short_task(*last))
        }
        few => format!("tasks are {}", few.iter().map(|&id| short_task(id)).collect::<Vec<_>>().join(", ")),
    }
}

/// Maximum number of ids that are listed. Of more, only the first and the last are named.
const FEW: usize = 8;

#[cfg(test)]
mod tests {
    use tensortap::format::{Assembler, KernelInfo, Names, TaskFacts, TaskKey, TaskPart};

    use super::*;

    /// Tasks of kernel `proj` in two layers, one with a name, and `softmax` in step 2.
    fn tasks() -> Tasks {
        let mut assembler = Assembler::default();
        for (step, task_id, func_id) in [(1, 1, 0), (1, 2, 0), (2, 3, 1)] {
            let facts = TaskFacts::unknown(TaskKey { step, task_id });
            assembler.take(TaskPart::Task(TaskFacts { func_id: [func_id, u32::MAX, u32::MAX], ..facts }));
        }
        let kernel = |func_id, name: &str| KernelInfo { func_id, name: name.into(), ..KernelInfo::default() };
        let mut tasks = assembler.finish(&[kernel(0, "proj"), kernel(1, "softmax")]);
        tasks.give_names(|key| match key.task_id {
            1 => Names { task_name: Some("k_proj"), scope: Some("token 3 / layer 1"), ..Names::default() },
            2 => Names { scope: Some("token 3 / layer 2"), ..Names::default() },
            _ => Names::default(),
        });
        tasks
    }

    fn found(text: &str) -> Result<Vec<u64>, String> {
        let tasks = tasks();
        let ids = |places: Vec<usize>| places.iter().map(|&place| tasks.at(place).task_id).collect();
        find_tasks(&tasks, text).map(ids).map_err(|error| error.to_string())
    }

    #[test]
    fn finds_tasks_by_id_name_kernel_and_scope_path() {
        for (text, ids) in [
            ("0x1", &[1][..]),
            ("0:2", &[2]),
            ("1@0x2", &[2]),
            ("k_proj", &[1]),
            ("K_Proj", &[1]),
            ("layer1/k_proj", &[1]),
            ("layer 1 / k_proj", &[1]),
            ("token3/layer1/k_proj", &[1]),
            ("token3/proj", &[1, 2]),
            ("proj", &[1, 2]),
            ("layer2/proj", &[2]),
            ("softmax", &[3]),
            ("2@softmax", &[3]),
        ] {
            assert_eq!(found(text).as_deref(), Ok(ids), "{text}");
        }
    }

    const NAMES: &str = "there are: k_proj, proj, softmax";
    const IDS: &str = "tasks are 0x1, 0x2, 0x3";

    #[test]
    fn lists_possible_tasks_if_none_matches() {
        for (none, there_are) in [
            ("layer3/k_proj", NAMES),
            ("layer1/token3/k_proj", NAMES),
            ("", NAMES),
            ("/", NAMES),
            ("9@0x1", IDS),
            ("0x9", IDS),
            ("1@softmax", NAMES),
        ] {
            assert_eq!(found(none), Err(format!("there is no task {none}; {there_are}")));
        }
        let Err(QueryError::Record { hint, .. }) = find_tasks(&tasks(), "sofmax") else {
            panic!("no such task")
        };
        assert_eq!(hint, "did you mean `softmax`?");
    }
}
