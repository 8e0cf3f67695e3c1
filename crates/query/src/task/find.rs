//! Which task is meant: by id, by what it runs or is called, or by the way through its scopes.

use tensortap::Unknown;
use tensortap::format::{Task, Tasks};

use crate::QueryError;
use crate::ids::{parse_id, parse_task};
use crate::words::{printable, short_task};

/// How a task is named.
pub const HOW: &str = "a task is its id (0x100000002, 1:2), its kernel or name (softmax), or the way to it through its scopes \
                       (layer1/k_proj)";

/// The places of the tasks that `text` means, in the order of `tasks`: at least one.
///
/// # Errors
/// None is meant; the error names what may be.
pub fn find_tasks(tasks: &Tasks, text: &str) -> Result<Vec<usize>, QueryError> {
    let (step, rest) = step_of(text);
    let (id, way) = (parse_task(rest).ok(), way(rest));
    let is_meant = |task: &Task<'_>| match id {
        Some(id) => task.task_id == id,
        None => leads_to(&way, *task),
    };
    let in_step = |task: &Task<'_>| step.is_none_or(|step| task.step == step);
    let meant: Vec<usize> =
        tasks.iter().filter(|task| in_step(task) && is_meant(task)).map(|task| task.place()).collect();
    if meant.is_empty() { Err(missing(tasks, text, rest)) } else { Ok(meant) }
}

/// The step before a task, `2@0x100000002`, and what follows.
fn step_of(text: &str) -> (Option<u32>, &str) {
    let split =
        text.split_once('@').and_then(|(step, rest)| Some((u32::try_from(parse_id(step).ok()?).ok()?, rest)));
    split.map_or((None, text), |(step, rest)| (Some(step), rest))
}

/// The names along a way, as they are compared: case and spaces do not count.
fn way(text: &str) -> Vec<String> {
    text.split('/').map(plain).filter(|name| !name.is_empty()).collect()
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}

/// Whether the way ends at the task.
fn leads_to(way: &[String], task: Task<'_>) -> bool {
    leads(way, task.scope(), task.task_name(), &task.kernel_names())
}

/// Whether a way ends at a task, by its name or a kernel's, and passes through scopes of it in their order.
fn leads(way: &[String], scope: Option<&str>, task_name: Option<&str>, kernels: &[String]) -> bool {
    let Some((last, before)) = way.split_last() else { return false };
    let is_called = |name: &str| plain(name) == *last;
    if !task_name.is_some_and(is_called) && !kernels.iter().any(|name| is_called(name)) {
        return false;
    }
    let mut scopes = self::way(scope.unwrap_or_default()).into_iter();
    before.iter().all(|name| scopes.any(|scope| scope == *name))
}

/// Whether text that is a way through scopes, `layer1/k_proj`, leads to a task of these names: what [`find_tasks`] finds by it.
pub(crate) fn way_fits(text: &str, scope: Option<&str>, task_name: Option<&str>, kernels: &[String]) -> bool {
    text.contains('/') && leads(&way(text), scope, task_name, kernels)
}

fn missing(tasks: &Tasks, text: &str, rest: &str) -> QueryError {
    let mut known: Vec<String> = Vec::new();
    for task in tasks.iter() {
        known.extend(task.task_name().map(String::from));
        known.extend(task.kernel_names());
    }
    known.sort_unstable();
    known.dedup();
    let last = rest.rsplit('/').next().unwrap_or(rest);
    let Unknown { did_you_mean, .. } = Unknown::new("task", last, known.iter().map(String::as_str));
    let near = did_you_mean.filter(|near| plain(near) != plain(last));
    let hint = near.map_or_else(|| HOW.into(), |near| format!("did you mean `{}`?", printable(&near)));
    let there_are = if parse_task(rest).is_ok() { ids_text(tasks) } else { names_text(&known) };
    QueryError::Record { message: format!("there is no task {}; {there_are}", printable(text)), hint }
}

/// Names that a message lists.
const LISTED: usize = 20;

/// What tasks and kernels are called.
fn names_text(known: &[String]) -> String {
    let named: Vec<_> = known.iter().take(LISTED).map(|name| printable(name)).collect();
    match known.len().saturating_sub(LISTED) {
        0 if named.is_empty() => "the dump has no names".into(),
        0 => format!("there are: {}", named.join(", ")),
        more => format!("there are: {} and {more} more", named.join(", ")),
    }
}

/// The ids that tasks have.
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

/// As many ids are named one by one; of more, the first and the last.
const FEW: usize = 8;

#[cfg(test)]
mod tests {
    use tensortap::format::{Assembler, KernelInfo, Names, TaskFacts, TaskKey, TaskPart};

    use super::*;

    /// Tasks of kernel `proj` in two layers, one of which has a name, and `softmax` in step 2.
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
    fn a_task_is_found_by_id_name_kernel_and_the_way_through_its_scopes() {
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
    fn what_is_none_is_told_with_what_may_be_meant() {
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
            panic!("it is none")
        };
        assert_eq!(hint, "did you mean `softmax`?");
    }
}
