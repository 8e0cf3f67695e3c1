//! Texts for differences in how tasks are connected, shared by terminal and pages.

use tensortap::DType;
use tensortap::analysis::blame::{ArgView, Blame, BufferChange, WiringChange, WiringDifference};
use tensortap::analysis::graph::{OutputRef, TaskGraph};
use tensortap::format::ScalarValue;

use crate::blame_words::name;
use crate::words::{arg_words, launch_text, scalar_text, sizes_text, task_reference};

/// Lines that describe how a task is connected differently than its partner in the golden.
#[must_use]
pub fn wiring_words(blame: &Blame, difference: &WiringDifference) -> Vec<String> {
    let Some(golden) = &blame.golden else { return Vec::new() };
    let task = blame.graph.task(difference.task);
    match &difference.what {
        WiringChange::View { arg_index, dump, golden } => vec![
            format!("{} is a different view:", arg_words(task, *arg_index)),
            format!("  in the dump    {}", view(dump)),
            format!("  in the golden  {}", view(golden)),
        ],
        WiringChange::Source { arg_index, dump, golden: there } => vec![
            format!("{} has a different source:", arg_words(task, *arg_index)),
            format!("  in the dump    {}", sources(&blame.graph, dump)),
            format!("  in the golden  {}", sources(golden, there)),
        ],
        WiringChange::Buffer { arg_index, what } => {
            other_buffer((blame, golden), difference.task, *arg_index, what)
        }
        WiringChange::Waits(on) => {
            vec![format!("waits for {}; its partner in the golden does not", name(blame, *on))]
        }
        WiringChange::DoesNotWait(on) => {
            let on = golden.task(*on);
            let task = format!("{} of the golden", task_reference(on));
            vec![format!("does not wait for {task}, but its partner does")]
        }
        WiringChange::LostOrder(on) => {
            vec![format!("is not ordered after {}, as it is in the golden", name(blame, *on))]
        }
        WiringChange::Launch { dump, golden } => vec![
            "is launched with a different size:".into(),
            format!("  in the dump    {}", launch_text(dump)),
            format!("  in the golden  {}", launch_text(golden)),
        ],
        WiringChange::Scalar { arg_index, dump, golden } => {
            let dtype = task.argument(*arg_index).map_or(DType::UInt64, |arg| arg.dtype);
            let value = |bits: u64| scalar_text(ScalarValue::decode(dtype, bits));
            let argument = arg_words(task, *arg_index);
            vec![format!("{argument} is {}, but {} in the golden", value(*dump), value(*golden))]
        }
        WiringChange::Value { arg_index, first, dump, golden } => {
            let hex =
                |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
            let argument = arg_words(task, *arg_index);
            vec![
                format!("{argument}, passed by value, differs from byte {first} (addresses ignored):"),
                format!("  in the dump    {}", hex(dump)),
                format!("  in the golden  {}", hex(golden)),
            ]
        }
    }
}

/// Lines for an argument that is a different buffer: which one, and the last task that used either of them.
fn other_buffer(
    (blame, golden): (&Blame, &TaskGraph),
    place: usize,
    arg_index: u16,
    what: &BufferChange,
) -> Vec<String> {
    let task = blame.graph.task(place);
    let swapped = what.as_arg.map(|as_arg| format!(": there, this buffer is {}", arg_words(task, as_arg)));
    let had = |graph: &TaskGraph, output: &Option<OutputRef>| match output {
        Some(output) => {
            let task = graph.task(output.task);
            let name = task_reference(task);
            format!("last passed to {name} as {}", arg_words(task, output.arg_index))
        }
        None => "not passed to any earlier task".into(),
    };
    vec![
        format!(
            "{} is a different buffer than in the golden{}",
            arg_words(task, arg_index),
            swapped.unwrap_or_default()
        ),
        format!("  in the dump    {}", had(&blame.graph, &what.dump)),
        format!("  in the golden  {}", had(golden, &what.golden)),
    ]
}

/// `2x64 from element 128, strides 64, 1`.
fn view(view: &ArgView) -> String {
    let strides: Vec<String> = view.strides.iter().map(i64::to_string).collect();
    let strides =
        if strides.is_empty() { String::new() } else { format!(", strides {}", strides.join(", ")) };
    format!("{} from element {}{strides}", sizes_text(&view.shape), view.start_offset)
}

/// `task 0x1 (double), task 0x2 (double)`.
fn sources(graph: &TaskGraph, outputs: &[OutputRef]) -> String {
    let mut names: Vec<String> =
        outputs.iter().map(|output| graph.task(output.task)).map(task_reference).collect();
    names.dedup();
    if names.is_empty() { "no task".into() } else { names.join(", ") }
}
