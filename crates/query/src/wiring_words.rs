//! How tasks are connected otherwise than in the golden, in words. The same on a terminal and on a page.

use tensortap::DType;
use tensortap::analysis::blame::{Blame, OtherBuffer, Rewired, TakenView, WiringDifference};
use tensortap::analysis::graph::{OutputRef, TaskGraph};
use tensortap::format::ScalarValue;

use crate::blame_words::name;
use crate::words::{arg_words, launch_text, scalar_text, sizes_text, step_task, task_words};

/// Lines that say how a task is connected otherwise than its partner in the golden.
#[must_use]
pub fn wiring_words(blame: &Blame, difference: &WiringDifference) -> Vec<String> {
    let Some(golden) = &blame.golden else { return Vec::new() };
    let task = blame.graph.task(difference.task);
    match &difference.what {
        Rewired::View { arg_index, dump, golden } => vec![
            format!("{} is another view:", arg_words(task, *arg_index)),
            format!("  in the dump    {}", view(dump)),
            format!("  in the golden  {}", view(golden)),
        ],
        Rewired::Source { arg_index, dump, golden: there } => vec![
            format!("{} came from elsewhere:", arg_words(task, *arg_index)),
            format!("  in the dump    {}", sources(&blame.graph, dump)),
            format!("  in the golden  {}", sources(golden, there)),
        ],
        Rewired::Buffer { arg_index, what } => {
            other_buffer((blame, golden), difference.task, *arg_index, what)
        }
        Rewired::Waits(on) => vec![format!("waits for {}, not so in the golden", name(blame, *on))],
        Rewired::DoesNotWait(on) => {
            let on = golden.task(*on);
            let task = format!("task {} ({}) of the golden", step_task(on.step, on.task_id), task_words(on));
            vec![format!("does not wait for {task}, as it does there")]
        }
        Rewired::LostOrder(on) => {
            vec![format!("nothing orders it behind {}, as the golden does", name(blame, *on))]
        }
        Rewired::Launch { dump, golden } => vec![
            "is launched in another size:".into(),
            format!("  in the dump    {}", launch_text(dump)),
            format!("  in the golden  {}", launch_text(golden)),
        ],
        Rewired::Scalar { arg_index, dump, golden } => {
            let dtype = task.argument(*arg_index).map_or(DType::UInt64, |arg| arg.dtype);
            let value = |bits: u64| scalar_text(ScalarValue::decode(dtype, bits));
            let argument = arg_words(task, *arg_index);
            vec![format!("{argument} is {}, {} in the golden", value(*dump), value(*golden))]
        }
        Rewired::Value { arg_index, first, dump, golden } => {
            let hex =
                |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
            let argument = arg_words(task, *arg_index);
            vec![
                format!("{argument}, passed by value, differs from byte {first} on, addresses left out:"),
                format!("  in the dump    {}", hex(dump)),
                format!("  in the golden  {}", hex(golden)),
            ]
        }
    }
}

/// An argument that is another buffer: which one, and who had either of them before.
fn other_buffer(
    (blame, golden): (&Blame, &TaskGraph),
    place: usize,
    arg_index: u16,
    what: &OtherBuffer,
) -> Vec<String> {
    let task = blame.graph.task(place);
    let swapped = what.as_arg.map(|as_arg| format!(": the one that is {} there", arg_words(task, as_arg)));
    let had = |graph: &TaskGraph, output: &Option<OutputRef>| match output {
        Some(output) => {
            let task = graph.task(output.task);
            let name = format!("task {} ({})", step_task(task.step, task.task_id), task_words(task));
            format!("last given to {name} as {}", arg_words(task, output.arg_index))
        }
        None => "given to no task before".into(),
    };
    vec![
        format!(
            "{} is another buffer than in the golden{}",
            arg_words(task, arg_index),
            swapped.unwrap_or_default()
        ),
        format!("  in the dump    {}", had(&blame.graph, &what.dump)),
        format!("  in the golden  {}", had(golden, &what.golden)),
    ]
}

/// `2x64 from element 128, strides 64, 1`.
fn view(view: &TakenView) -> String {
    let strides: Vec<String> = view.strides.iter().map(i64::to_string).collect();
    let strides =
        if strides.is_empty() { String::new() } else { format!(", strides {}", strides.join(", ")) };
    format!("{} from element {}{strides}", sizes_text(&view.shape), view.start_offset)
}

/// `task 0x1 (double), task 0x2 (double)`.
fn sources(graph: &TaskGraph, outputs: &[OutputRef]) -> String {
    let mut names: Vec<String> = outputs
        .iter()
        .map(|output| graph.task(output.task))
        .map(|task| format!("task {} ({})", step_task(task.step, task.task_id), task_words(task)))
        .collect();
    names.dedup();
    if names.is_empty() { "no task".into() } else { names.join(", ") }
}
