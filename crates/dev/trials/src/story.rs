//! Describes a trial for a person: what is true, what the dumps have, and what `blame` says.

use std::fmt::Write;

use crate::answer::Answer;
use crate::machine::TaskTrace;
use crate::oracle::{Case, Run};
use crate::program::{Access, Plan};
use crate::recording::Content;

pub fn tell(case: &Case<'_>, plan: &Plan, answer: Option<&Answer>) -> String {
    let mut text = String::new();
    let style = case.style;
    let _ = writeln!(
        text,
        "  {:?}, guilty {:?}, race {:?}, {} lanes (queues: {}, declared order: {}), edges {:?}, {} steps, allocations {}, names {}, explicit ids {}, noise {}, pool {}, shares {}",
        case.fault,
        named(case, &case.guilt.guilty),
        case.guilt.race.map(|(writer, reader)| named(case, &[writer, reader])),
        style.lanes,
        style.queues,
        style.declares_lane_order,
        style.edges,
        style.steps,
        style.records_allocations,
        case.has_names,
        style.explicit_ids,
        plan.noise.is_some(),
        style.is_pool,
        style.shares,
    );
    let sides = [("wrong", &case.actual), ("right", &case.golden)];
    for (name, run) in sides {
        let filter = &run.capture.filter;
        let _ = writeln!(
            text,
            "  {name}: level {:?}, {:?}, tasks {:?}, funcs {:x}, args {:x}, stages {:x}, first {}",
            run.capture.level,
            run.capture.policy,
            &filter.tasks[..usize::try_from(filter.task_ranges).unwrap_or(0)],
            filter.funcs[0],
            filter.args,
            filter.stages,
            filter.first_tasks,
        );
    }
    for trace in case.actual.traces {
        let _ = writeln!(text, "    {}", task(case, plan, trace, answer));
    }
    if let Some(answer) = answer {
        let _ = writeln!(text, "  blame: {}, first_wrong {:x?}", answer.verdict, answer.first_wrong);
    }
    text
}

/// Task ids of identities.
fn named(case: &Case<'_>, ids: &[usize]) -> Vec<String> {
    let id = |run: &Run<'_>, id: usize| run.facts.ids.iter().find(|(of, _)| *of == id).map(|(_, task)| *task);
    ids.iter()
        .map(|&of| match (id(&case.actual, of), id(&case.golden, of)) {
            (Some(task), _) => format!("{task:x}"),
            (None, Some(task)) => format!("golden {task:x}"),
            (None, None) => format!("identity {of}"),
        })
        .collect()
}

fn task(case: &Case<'_>, plan: &Plan, trace: &TaskTrace, answer: Option<&Answer>) -> String {
    let kernel = trace.kernel.map_or("host write", |kernel| plan.program.kernels[kernel].name.as_str());
    let dumped = case.actual.facts.ids.iter().find(|(of, _)| *of == trace.id).map_or(0, |(_, task)| *task);
    let label = answer.map_or("", |answer| answer.label(dumped));
    let mut text = format!("{dumped:x} {kernel:<12} {label:<10}");
    let golden = case.golden.task(trace.id);
    for (position, arg) in trace.args.iter().enumerate() {
        let access = match arg.access {
            Access::Read => "r",
            Access::Write => "w",
            Access::Update => "u",
        };
        let role = if arg.role_known { "" } else { "?" };
        let first = arg.places.first().copied().unwrap_or(0);
        let facts = |is_after| {
            let mark = |run: &Run<'_>| match run.facts.content(trace.id, position, is_after) {
                Content::None => '-',
                Content::Hash => 'h',
                Content::Full => 'f',
            };
            format!("{}{}", mark(&case.actual), mark(&case.golden))
        };
        let _ =
            write!(text, "  {access}{role} @{first:x}+{} {}/{}", arg.places.len(), facts(false), facts(true));
        if let Some(right) = golden.and_then(|golden| golden.args.get(position))
            && right.places.len() == arg.places.len()
        {
            let outside = |is_after: bool, counts: &dyn Fn(usize) -> bool| {
                let wrong = |&at: &usize| {
                    let (left, right) = match is_after {
                        true => (arg.after_of(at), right.after_of(at)),
                        false => (arg.before_of(at), right.before_of(at)),
                    };
                    counts(at) && arg.element.is_outside(left, right)
                };
                (0..arg.places.len()).filter(wrong).count()
            };
            let (read, written) = (&arg.read, &arg.written);
            let _ = write!(
                text,
                " [{}({} read)>{}({} written)]",
                outside(false, &|_| true),
                outside(false, &|at| read[at]),
                outside(true, &|_| true),
                outside(true, &|at| written[at] || right.written[at]),
            );
        }
    }
    text
}
