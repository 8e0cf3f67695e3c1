//! Describes a trial for a person: what is true, what the dumps keep, and what `blame` says.

use std::fmt::Write;

use super::Runs;
use super::answer::{Answer, Task};
use super::machine::Place;
use super::recording::Facts;
use crate::recording::Capture;

/// `facts` are those of the run that `blame` judges, by rank.
pub fn tell(runs: &Runs, facts: &[Facts], options: &[String], answer: Option<&Answer>) -> String {
    let (plan, program) = (&runs.plans[0], &runs.plans[0].program);
    let mut text = format!(
        "  {:?}, {} ranks, {:?}, mean {}, noise {}, others {:?}, {:?}, options {options:?}\n  {:?}\n",
        runs.fault,
        program.ranks,
        program.element,
        program.is_mean,
        plan.noise.is_some(),
        plan.others,
        runs.absence,
        program.style,
    );
    for (side, captures) in ["wrong", "right"].iter().zip(&runs.captures) {
        for (rank, capture) in captures.iter().enumerate() {
            text += &format!("  {side} rank {rank}: {}\n", captured(capture));
        }
    }
    for (number, job) in program.jobs.iter().enumerate() {
        let kernel = job.kernel.map_or("host write", |kernel| &program.kernels[kernel].name);
        let _ = write!(text, "    {}@{number} {:?} {kernel} {:?}:", job.step, job.phase, job.args);
        for (rank, facts) in facts.iter().enumerate() {
            text += &task(runs, facts, Place { job: number, rank }, answer);
        }
        text.push('\n');
    }
    if let Some(Answer { verdict, first_wrong, collective, undecided, .. }) = answer {
        let named = format!("collective {collective:?}, undecided {undecided:?}");
        let _ = writeln!(text, "  blame: {verdict}, first_wrong {first_wrong:x?}, {named}");
    }
    text
}

fn captured(capture: &Capture) -> String {
    let filter = &capture.filter;
    format!(
        "{:?}, tasks {:?}, funcs {:x}, args {:x}, stages {:x}, first {}",
        capture.level,
        &filter.tasks[..usize::try_from(filter.task_ranges).unwrap_or(0)],
        filter.funcs[0],
        filter.args,
        filter.stages,
        filter.first_tasks,
    )
}

/// `2/b![0>3]wrong_here`: rank, task id, whether it is guilty, wrong elements before and after it, its label.
fn task(runs: &Runs, facts: &Facts, at: Place, answer: Option<&Answer>) -> String {
    let args = runs.traces[0][at.rank][at.job].iter().zip(&runs.traces[1][at.rank][at.job]);
    let count = |is_after: bool| -> usize {
        args.clone().map(|(left, right)| left.outside(right, is_after).count()).sum()
    };
    let id = facts.ids[at.job];
    let label = answer.map_or("", |answer| answer.label(Task { rank: at.rank, id }));
    let guilty = if runs.guilty.contains(&at) { "!" } else { "" };
    format!(" {}/{id:x}{guilty}[{}>{}]{label}", at.rank, count(false), count(true))
}
