//! The memory of a task's arguments: which allocation it belongs to, and which tasks wrote it since.

use std::fmt::Write;

use serde::Serialize;
use tensortap::TaskId;
use tensortap::analysis::generations::{Generation, Generations};
use tensortap::analysis::graph::TaskGraph;
use tensortap::format::{AllocationEvent, Argument, Task};

use super::tasks_text;
use crate::number::{bytes, counted};
use crate::words::{printable, step_task};

/// Neighboring bytes of an argument that belong to one generation.
#[derive(Serialize)]
pub struct MemoryDocument {
    arg_index: u16,
    address: String,
    bytes: u64,
    /// Number of recorded allocations of these bytes up to the task; null if that is not known.
    generation: Option<u64>,
    /// The last of them; null without any.
    allocated: Option<EventDocument>,
    /// The release after it; null if the memory was allocated when the task used it.
    freed: Option<EventDocument>,
    /// The tasks that wrote some of these bytes since the allocation, the newest first.
    writers: Vec<String>,
    /// Number of further writers.
    more_writers: u64,
}

/// An allocation or a release, with the keys of `graph.json`.
#[derive(Serialize)]
struct EventDocument {
    at_ns: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_task: Option<String>,
}

impl EventDocument {
    fn of(graph: &TaskGraph, event: &AllocationEvent) -> EventDocument {
        let some = |number: u64| (number != 0).then(|| TaskId(number).to_string());
        EventDocument {
            at_ns: event.at_ns.to_string(),
            storage: some(event.storage),
            pool: graph.tasks().text(event.pool).map(str::to_owned),
            queue: (event.queue != 0).then_some(event.queue),
            after_task: some(event.after_task),
        }
    }
}

/// The arguments of a task that have memory, with its generations if they are known.
fn arguments<'g>(
    graph: &'g TaskGraph,
    task: Task<'g>,
) -> impl Iterator<Item = (Argument<'g>, Option<Vec<Generation<'g>>>)> {
    let parts = move |argument: Argument<'g>| {
        argument.memory()?;
        Some((argument, Generations::of(graph).parts(task, argument)))
    };
    task.arguments().filter_map(parts)
}

/// The documents of the memory of a task's arguments.
#[must_use]
pub fn memory_documents(graph: &TaskGraph, task: Task<'_>) -> Vec<MemoryDocument> {
    let task = graph.task(task.place());
    let mut documents = Vec::new();
    for (argument, parts) in arguments(graph, task) {
        let arg_index = argument.arg_index;
        let Some(parts) = parts else {
            let memory = argument.memory().unwrap_or_default();
            documents.push(MemoryDocument {
                arg_index,
                address: TaskId(memory.start).to_string(),
                bytes: memory.end - memory.start,
                generation: None,
                allocated: None,
                freed: None,
                writers: Vec::new(),
                more_writers: 0,
            });
            continue;
        };
        documents.extend(parts.into_iter().map(|part| {
            let Generation { addresses, number, allocated, freed, writers, more_writers } = part;
            let writer = |place: usize| step_task(graph.task(place).step, graph.task(place).task_id);
            MemoryDocument {
                arg_index,
                address: TaskId(addresses.start).to_string(),
                bytes: addresses.end - addresses.start,
                generation: Some(number),
                allocated: allocated.map(|event| EventDocument::of(graph, event)),
                freed: freed.map(|event| EventDocument::of(graph, event)),
                writers: writers.iter().map(|output| writer(output.task)).collect(),
                more_writers,
            }
        }));
    }
    documents
}

/// The same as text, one line for each part.
#[must_use]
pub fn memory_text(graph: &TaskGraph, task: Task<'_>) -> String {
    let task = graph.task(task.place());
    let mut text = String::new();
    for (argument, parts) in arguments(graph, task) {
        let name = task.arg_name(argument.arg_index).map(|name| format!(" ({})", printable(name)));
        let _ = writeln!(text, "memory of argument {}{}", argument.arg_index, name.unwrap_or_default());
        let Some(parts) = parts else {
            let _ = writeln!(
                text,
                "  not known: the dump has no allocations of it, no times to compare them with, or too many tasks"
            );
            continue;
        };
        for part in &parts {
            let size = bytes(part.addresses.end - part.addresses.start);
            let _ =
                writeln!(text, "  {size} at {:#x}: {}", part.addresses.start, generation_words(graph, part));
        }
    }
    text
}

/// `generation 2, allocated from cache after task 0x4 (storage 0x8); written since by 0x7, 0x5`
fn generation_words(graph: &TaskGraph, part: &Generation<'_>) -> String {
    let place = |event: &AllocationEvent| {
        let pool = graph.tasks().text(event.pool).map(|pool| format!(" from {}", printable(pool)));
        let after = (event.after_task != 0).then(|| format!(" after task {:#x}", event.after_task));
        let storage = (event.storage != 0).then(|| format!(" (storage {:#x})", event.storage));
        [pool, after, storage].into_iter().flatten().collect::<String>()
    };
    let mut words = match part.allocated {
        Some(event) => format!("generation {}, allocated{}", part.number, place(event)),
        None => "no recorded allocation before the task".to_owned(),
    };
    if let Some(event) = part.freed {
        let after = (event.after_task != 0).then(|| format!(" after task {:#x}", event.after_task));
        let _ =
            write!(words, "; freed{} and not allocated again before this task", after.unwrap_or_default());
    }
    let mut writers: Vec<usize> = part.writers.iter().map(|output| output.task).collect();
    writers.dedup();
    let _ = match (writers.is_empty(), part.more_writers) {
        (true, _) => write!(words, "; no recorded task wrote it since"),
        (false, 0) => write!(words, "; written since by {}", tasks_text(graph, &writers)),
        (false, more) => {
            let more = counted(more, "more write");
            write!(words, "; written since by {} and {more}", tasks_text(graph, &writers))
        }
    };
    words
}
