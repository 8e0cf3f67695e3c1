//! Generated trials are sound: right programs are right, and the oracle accepts the best answer to each trial.

use super::*;
use crate::answer::{Answer, Labeled};
use crate::recording::{Content, Facts};

pub fn all_facts(traces: &[TaskTrace]) -> Facts {
    let mut facts = Facts::default();
    for trace in traces {
        facts.ids.push((trace.id, trace.id as u64));
        for arg in 0..trace.args.len() {
            facts.content.insert((trace.id, arg, false), Content::Full);
            facts.content.insert((trace.id, arg, true), Content::Full);
        }
    }
    facts
}

#[test]
fn right_programs_read_nothing_that_is_uninitialized() {
    for seed in 0..150 {
        let program = generate::program(&mut fastrand::Rng::with_seed(seed));
        let plan = Plan { program, deviations: Vec::new(), garbage: 1, padding: 0, noise: None };
        for trace in execute(&plan, &mut Unobserved) {
            for arg in &trace.args {
                let read = arg.sources.iter().zip(&arg.read).filter(|(_, is_read)| **is_read);
                let is_defined = read.into_iter().all(|(source, _)| *source != Source::Garbage);
                assert!(is_defined, "seed {seed}, identity {}", trace.id);
            }
        }
    }
}

#[test]
fn right_programs_do_not_depend_on_garbage_addresses_and_interleaving() {
    for seed in 0..80 {
        let program = generate::program(&mut fastrand::Rng::with_seed(seed));
        let golden = Plan { program, deviations: Vec::new(), garbage: 1, padding: 0, noise: None };
        let mut other = Plan { garbage: 2, padding: 128, ..golden.clone() };
        crate::waits::interleave(&mut other.program, &mut fastrand::Rng::with_seed(seed));
        let [left, right] = [&golden, &other].map(|plan| execute(plan, &mut Unobserved));
        assert_eq!(left.len(), right.len(), "seed {seed}");
        for left in &left {
            let right = right.iter().find(|right| right.id == left.id).expect("the same launches");
            for (left, right) in left.args.iter().zip(&right.args) {
                let written = (0..left.places.len()).filter(|&at| left.written[at]);
                assert!(written.into_iter().all(|at| left.after_of(at) == right.after_of(at)), "seed {seed}");
            }
        }
    }
}

/// The best answer: what each task really is, as far as the rule of judgment allows to name it.
pub fn best_answer(case: &Case<'_>) -> Answer {
    let mut answer = Answer {
        verdict: "fail".to_owned(),
        tasks: Vec::new(),
        first_wrong: Vec::new(),
        failure: String::new(),
        mentions: Vec::new(),
    };
    if case.fault.is_right() {
        answer.verdict = "pass".to_owned();
    }
    for trace in case.actual.traces {
        let task = trace.id as u64;
        let mut label = Labeled { task, label: "unknown".to_owned(), raced_with: None };
        if let Some((writer, reader)) = case.guilt.race
            && reader == trace.id
        {
            label = Labeled { task, label: "raced".to_owned(), raced_with: Some(writer as u64) };
        } else if case.guilt.guilty.contains(&trace.id) {
            label.label = "wrong_here".to_owned();
        } else if case.reads_from_elsewhere(trace.id) {
            label.label = "fed".to_owned();
        }
        if label.label != "unknown" {
            answer.first_wrong.push(task);
        }
        answer.tasks.push(label);
    }
    answer
}

#[test]
fn the_best_answer_breaks_no_rule_and_decides_all_that_is_decidable() {
    let mut decidable = 0;
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let fault = *random.choice(Fault::ALL).unwrap();
        let runs = plan(&mut random, fault);
        let [actual, golden] = [&runs.actual, &runs.golden].map(|plan| execute(plan, &mut Unobserved));
        let [actual_facts, golden_facts] = [&actual, &golden].map(|traces| all_facts(traces));
        let case = Case {
            fault: runs.fault,
            guilt: &runs.guilt,
            style: &runs.golden.program.style,
            has_names: true,
            actual: Run { traces: &actual, facts: &actual_facts, capture: Capture::FULL },
            golden: Run { traces: &golden, facts: &golden_facts, capture: Capture::FULL },
        };
        let judgment = case.judge(&best_answer(&case));
        assert!(!judgment.is_violation(), "seed {seed}, {:?}: {judgment:?}", runs.fault);
        assert!(
            !judgment.is_decidable || judgment.named_first,
            "seed {seed}, {:?}: {judgment:?}",
            runs.fault
        );
        decidable += u64::from(judgment.is_decidable);
    }
    assert!(decidable > 30, "{decidable} of 200 trials are decidable");
}

#[test]
fn filters_combine_all_conditions() {
    let mut random = fastrand::Rng::with_seed(1);
    let filters: Vec<Vec<&str>> = (0..400).map(|_| filter(&mut random, 9).names().collect()).collect();
    assert!(filters.iter().all(|names| (1..=3).contains(&names.len())));
    for first in ["task", "func", "arg", "stage", "first"] {
        for second in ["task", "func", "arg", "stage", "first"] {
            let has_both = |names: &&Vec<&str>| names.contains(&first) && names.contains(&second);
            assert!(filters.iter().filter(has_both).count() > 3, "{first} and {second}");
        }
    }
}

#[test]
fn trials_of_external_content_often_lack_it_on_one_side() {
    let is_outputs = |capture: &Capture| capture.filter.stages == AFTER;
    let (mut one, mut both) = (0, 0);
    for seed in 0..60 {
        let runs = plan(&mut fastrand::Rng::with_seed(seed), Fault::External);
        match runs.captures.iter().filter(|capture| is_outputs(capture)).count() {
            1 => one += 1,
            2 => both += 1,
            _ => {}
        }
        assert!(runs.guilt.guilty.is_empty());
    }
    assert!(one > 5 && both > 5, "{one}, {both}");
}

/// Programs of some seeds.
fn programs(count: u64) -> impl Iterator<Item = crate::program::Program> {
    (0..count).map(|seed| generate::program(&mut fastrand::Rng::with_seed(seed)))
}

#[test]
fn hosts_read_what_launches_wrote_before_they_write() {
    let reads = |program: &crate::program::Program| {
        let of_host = program.actions.iter().filter_map(|action| match action {
            Action::Host { data, .. } => data.read.as_ref().map(|read| read.is_recorded),
            _ => None,
        });
        of_host.collect::<Vec<_>>()
    };
    let all: Vec<bool> = programs(200).flat_map(|program| reads(&program)).collect();
    let recorded = all.iter().filter(|is_recorded| **is_recorded).count();
    assert!(recorded > 20 && all.len() - recorded > 20, "{recorded} of {}", all.len());
}

#[test]
fn programs_declare_all_or_some_of_what_they_read() {
    let (mut complete, mut partial) = (0, 0);
    for program in programs(200).filter(|program| program.style.declares_feeds) {
        let mut all = program.clone();
        waits::declare_all_feeds(&mut all);
        let feeds = |program: &crate::program::Program| {
            let of_launch = program.actions.iter().map(|action| match action {
                Action::Launch { launch, .. } => launch.feeds.len(),
                _ => 0,
            });
            of_launch.sum::<usize>()
        };
        assert!(feeds(&program) <= feeds(&all));
        if feeds(&program) == feeds(&all) { complete += 1 } else { partial += 1 }
    }
    assert!(complete > 8 && partial > 8, "{complete}, {partial}");
}

#[test]
fn launches_begin_early_share_arguments_and_move_between_threads() {
    let (mut early, mut sharing, mut moved) = (0, 0, 0);
    for seed in 0..150 {
        let runs = plan(&mut fastrand::Rng::with_seed(seed), Fault::None);
        let traces = execute(&runs.actual, &mut Unobserved);
        let overlaps = |id: usize| traces.iter().any(|trace| trace.id == id && trace.overlaps.is_some());
        let lanes = |plan: &Plan| {
            let of_launch = plan.program.actions.iter().filter_map(|action| match action {
                Action::Launch { id, launch } => Some((*id, (launch.lane, launch.overlap))),
                _ => None,
            });
            of_launch.collect::<std::collections::BTreeMap<_, _>>()
        };
        let (here, there) = (lanes(&runs.actual), lanes(&runs.golden));
        let count = |of: crate::program::Overlap| {
            here.iter().filter(|(id, (_, overlap))| *overlap == of && overlaps(**id)).count()
        };
        early += count(crate::program::Overlap::Begins);
        sharing += count(crate::program::Overlap::Shares);
        moved += usize::from(here != there);
    }
    assert!(early > 10 && sharing > 5 && moved > 5, "{early}, {sharing}, {moved}");
}
