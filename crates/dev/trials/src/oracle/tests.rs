//! The oracle in cases made by hand, whose right answer is known.

use std::collections::HashMap;

use super::*;
use crate::answer::Labeled;
use crate::machine::{Unobserved, execute};
use crate::program::{
    Access, Action, Arg, Deviation, Element, Form, HostData, HostRead, HostWrite, Kernel, Launch, Overlap,
    Param, Plan, Program, View,
};

/// Elements of each block. A kernel uses all of them, unless a test says otherwise.
const ELEMENTS: usize = 16;

fn launch(id: usize, kernel: usize, blocks: [usize; 2]) -> Action {
    let arg = |block| Arg { view: View::dense(block, 0..ELEMENTS), used: 0..ELEMENTS, marked: false };
    let launch = Launch {
        kernel,
        args: blocks.map(arg).to_vec(),
        scalars: Vec::new(),
        lane: id % 2,
        step: 0,
        scope: None,
        name: Some(format!("task {id}")),
        waits: Vec::new(),
        feeds: Vec::new(),
        overlap: Overlap::None,
    };
    Action::Launch { id, launch }
}

/// Identity 0 is the host. 1 computes block 1 from block 0, 2 computes block 2 from block 1, 3 computes block 4
/// from block 3, which the host writes too.
fn program(element: Element, role_known: bool) -> Program {
    let param = |access| Param { element, access, role_known };
    let kernel = Kernel {
        name: "k".to_owned(),
        params: vec![param(Access::Read), param(Access::Write)],
        scalars: 0,
        garbage_scalar: false,
        salt: 5,
        form: Form::Mix,
    };
    let host = |block, seed| {
        let view = View::dense(block, 0..ELEMENTS);
        let data = HostData { view, element, seed, how: HostWrite::Unrecorded, lane: 0, read: None };
        Action::Host { id: 10 + block, data }
    };
    let mut actions: Vec<Action> = (0..5).map(|block| Action::Alloc { block }).collect();
    actions.extend([host(0, 1), host(3, 2)]);
    let unrecorded_prefix = actions.len();
    actions.extend([launch(1, 0, [0, 1]), launch(2, 0, [1, 2]), launch(3, 0, [3, 4])]);
    let style = Style {
        element_bytes: element.bytes(),
        lanes: 2,
        queues: false,
        edges: Edges::Complete,
        declares_feeds: false,
        shares: false,
        is_pool: false,
        records_allocations: false,
        declares_lane_order: true,
        explicit_ids: true,
        steps: 1,
        declares_args: true,
    };
    Program { style, blocks: vec![ELEMENTS; 5], kernels: vec![kernel], actions, unrecorded_prefix }
}

/// Two runs and the facts of their dumps.
struct Trial {
    fault: Fault,
    guilt: Guilt,
    plans: [Plan; 2],
    traces: [Vec<TaskTrace>; 2],
    facts: [Facts; 2],
    capture: Capture,
}

impl Trial {
    fn new(program: Program, fault: Fault, guilt: Guilt, change: impl FnOnce(&mut Plan)) -> Trial {
        let golden = Plan { program, deviations: Vec::new(), garbage: 1, padding: 0, noise: None };
        let mut actual = Plan { garbage: 2, ..golden.clone() };
        change(&mut actual);
        let plans = [actual, golden];
        let traces = plans.each_ref().map(|plan| execute(plan, &mut Unobserved));
        let facts = traces.each_ref().map(|traces| all_facts(traces, Content::Full));
        Trial { fault, guilt, plans, traces, facts, capture: Capture::FULL }
    }

    fn deviates(program: Program, fault: Fault, id: usize, deviation: Deviation) -> Trial {
        let guilt = Guilt { guilty: vec![id], race: None };
        Trial::new(program, fault, guilt, |plan| plan.deviations.push((id, deviation)))
    }

    fn at_hash_level(mut self) -> Trial {
        self.facts = self.traces.each_ref().map(|traces| all_facts(traces, Content::Hash));
        self
    }

    fn judge(&self, verdict: &str, labels: &[(usize, &str)], raced_with: Option<usize>) -> Judgment {
        let task = |id: usize| id as u64 + 1;
        let causes = labels.iter().filter(|(_, label)| ["wrong_here", "fed", "raced"].contains(label));
        let answer = Answer {
            verdict: verdict.to_owned(),
            first_wrong: causes.map(|(id, _)| task(*id)).collect(),
            tasks: labels
                .iter()
                .map(|&(id, label)| Labeled {
                    task: task(id),
                    label: label.to_owned(),
                    raced_with: raced_with.map(task),
                })
                .collect(),
            failure: String::new(),
            mentions: Vec::new(),
        };
        self.judge_answer(&answer)
    }

    fn judge_answer(&self, answer: &Answer) -> Judgment {
        let run =
            |side: usize| Run { traces: &self.traces[side], facts: &self.facts[side], capture: self.capture };
        let case = Case {
            fault: self.fault,
            guilt: &self.guilt,
            style: &self.plans[1].program.style,
            has_names: true,
            actual: run(0),
            golden: run(1),
        };
        case.judge(answer)
    }

    /// Whether an answer without labels is false if it mentions a task.
    fn is_false_mention(&self, id: usize, claim: Claim) -> bool {
        let mention =
            Mention { task: id as u64 + 1, claim, of_golden: claim == Claim::Missing, words: String::new() };
        let answer = Answer {
            verdict: "fail".to_owned(),
            tasks: Vec::new(),
            first_wrong: Vec::new(),
            failure: "outside".to_owned(),
            mentions: vec![mention],
        };
        !self.judge_answer(&answer).innocents.is_empty()
    }

    /// Whether a label accuses an innocent task.
    fn is_false(&self, id: usize, label: &str) -> bool {
        !self.judge("fail", &[(id, label)], None).innocents.is_empty()
    }
}

fn all_facts(traces: &[TaskTrace], content: Content) -> Facts {
    let mut all = HashMap::new();
    for trace in traces {
        for (arg, known) in trace.args.iter().enumerate() {
            if !known.role_known || known.access.reads() {
                all.insert((trace.id, arg, false), content);
            }
            if !known.role_known || known.access.writes() {
                all.insert((trace.id, arg, true), content);
            }
        }
    }
    let ids = traces.iter().map(|trace| (trace.id, trace.id as u64 + 1)).collect();
    Facts { ids, content: all, scalars: HashMap::new() }
}

const WRONG_VALUE: Deviation = Deviation::Value { element: 3, by: 0.5 };

#[test]
fn a_wrong_kernel_is_named_and_its_reader_is_not() {
    let trial = Trial::deviates(program(Element::I32, true), Fault::Value, 1, WRONG_VALUE);
    let right = trial.judge("fail", &[(1, "wrong_here"), (2, "inherited"), (3, "ok")], None);
    let expected = Judgment { is_decidable: true, named_first: true, named: true, ..Judgment::default() };
    assert_eq!(right, expected);
    assert!(trial.is_false(2, "wrong_here") && trial.is_false(2, "fed") && trial.is_false(3, "wrong_here"));
    assert!(trial.judge("fail", &[(1, "unknown")], None).undecided_needlessly());
    assert!(trial.judge("pass", &[(1, "unknown")], None).wrong_run_passed);
}

#[test]
fn an_innocent_task_before_the_culprit_takes_the_headline() {
    let trial = Trial::deviates(program(Element::I32, true), Fault::Value, 1, WRONG_VALUE);
    let judgment = trial.judge("fail", &[(3, "wrong_here"), (1, "wrong_here")], None);
    assert!(judgment.named && !judgment.named_first && judgment.is_violation());
}

#[test]
fn without_its_input_a_wrong_kernel_is_undecidable() {
    let mut trial = Trial::deviates(program(Element::I32, true), Fault::Value, 1, WRONG_VALUE);
    trial.facts[1].content.remove(&(1, 0, false));
    let judgment = trial.judge("fail", &[(1, "unknown")], None);
    assert!(!judgment.is_decidable && !judgment.undecided_needlessly());
    assert!(trial.judge("pass", &[], None).wrong_run_passed, "the output is still there");
    trial.facts[0].content.clear();
    assert!(!trial.judge("pass", &[], None).wrong_run_passed);
}

#[test]
fn hashes_decide_for_integers_only() {
    let integers = Trial::deviates(program(Element::I32, true), Fault::Value, 1, WRONG_VALUE).at_hash_level();
    assert!(integers.judge("fail", &[(1, "wrong_here")], None).is_decidable);
    assert!(integers.judge("pass", &[], None).wrong_run_passed);
    let floats = Trial::deviates(program(Element::F32, true), Fault::Value, 1, WRONG_VALUE).at_hash_level();
    assert!(!floats.judge("fail", &[(1, "unknown")], None).is_decidable);
    assert!(!floats.judge("pass", &[], None).wrong_run_passed);
}

#[test]
fn a_hash_of_fresh_memory_accuses_only_a_declared_output() {
    let declared = Trial::deviates(program(Element::I32, true), Fault::Value, 1, WRONG_VALUE).at_hash_level();
    let observed =
        Trial::deviates(program(Element::I32, false), Fault::Value, 1, WRONG_VALUE).at_hash_level();
    assert!(declared.judge("fail", &[], None).is_decidable);
    assert!(!observed.judge("fail", &[], None).is_decidable);
}

#[test]
fn a_kernel_that_did_not_write_is_visible_without_roles() {
    let trial = Trial::deviates(program(Element::F32, false), Fault::Stale, 2, Deviation::Stale);
    assert!(trial.judge("pass", &[(2, "masked")], None).wrong_run_passed);
    let fresh = trial.judge("fail", &[(2, "wrong_here")], None);
    assert!(fresh.named_first && !fresh.is_violation());
    assert!(!fresh.is_decidable, "the buffer that it did not write differs before it");
}

#[test]
fn an_error_within_the_tolerance_is_right() {
    let below = Deviation::Value { element: 3, by: 2e-6 };
    let guilt = Guilt::default();
    let program = program(Element::F32, true);
    let trial = Trial::new(program, Fault::Below, guilt, |plan| plan.deviations.push((1, below)));
    assert!(!trial.judge("pass", &[(1, "ok")], None).is_violation());
    assert!(trial.judge("fail", &[(1, "unknown")], None).right_run_failed);
    assert!(trial.is_false(1, "wrong_here"), "who is within the rule is innocent");
}

#[test]
fn a_right_run_may_fail_if_nothing_can_be_compared() {
    let mut trial = Trial::new(program(Element::I32, true), Fault::None, Guilt::default(), |_| {});
    assert!(trial.judge("fail", &[], None).right_run_failed);
    trial.facts[0].content.retain(|(_, _, is_after), _| !is_after);
    assert!(!trial.judge("fail", &[], None).right_run_failed);
}

#[test]
fn a_right_run_may_be_undecided_if_the_writer_of_a_difference_is_not_known() {
    let right = |program| Trial::new(program, Fault::None, Guilt::default(), |_| {});
    let only_after = |trial: &mut Trial| trial.facts[1].content.retain(|(_, _, is_after), _| *is_after);
    // 3 leaves the end of block 4 alone, which has different garbage in both runs.
    let mut slack = program(Element::I32, false);
    let Some(Action::Launch { launch, .. }) = slack.actions.last_mut() else { unreachable!("a launch") };
    launch.args[1].used = 0..ELEMENTS - 4;

    let mut trial = right(slack);
    let fails = |trial: &Trial, verdict| trial.judge(verdict, &[], None).right_run_failed;
    assert!(fails(&trial, "undecided"), "the content before the task shows what it wrote");
    only_after(&mut trial);
    assert!(!fails(&trial, "undecided"));
    assert!(fails(&trial, "fail"));

    let mut trial = right(program(Element::I32, false));
    only_after(&mut trial);
    assert!(fails(&trial, "undecided"), "nothing differs");
}

#[test]
fn uninitialized_memory_feeds_its_reader() {
    let remove = |plan: &mut Plan| {
        plan.program.actions.remove(5);
        plan.program.unrecorded_prefix -= 1;
    };
    let trial = Trial::new(program(Element::F32, true), Fault::Uninitialized, Guilt::default(), remove);
    assert!(!trial.is_false(1, "fed"));
    assert!(trial.is_false(1, "wrong_here"));
    assert!(trial.is_false(2, "fed"), "2 read what 1 wrote");
    assert!(trial.judge("fail", &[(1, "fed"), (2, "inherited")], None).is_decidable);
}

#[test]
fn garbage_that_a_kernel_does_not_read_is_no_source() {
    let mut program = program(Element::I32, false);
    // 2 receives all of block 4, which is not written yet, and reads only block 1 through its first argument.
    let Some(Action::Launch { launch, .. }) =
        program.actions.iter_mut().find(|action| action.id() == Some(2))
    else {
        panic!("there is a launch");
    };
    launch.args[1] = Arg { view: View::dense(4, 0..ELEMENTS), used: 0..4, marked: false };
    let trial = Trial::new(program, Fault::None, Guilt::default(), |_| {});
    assert!(trial.is_false(2, "fed") && trial.is_false(2, "wrong_here"));
    assert!(!trial.judge("pass", &[(2, "masked")], None).is_violation());
}

#[test]
fn readers_of_a_missing_task_are_fed() {
    let guilt = Guilt { guilty: vec![1], race: None };
    let remove = |plan: &mut Plan| plan.program.actions.retain(|action| action.id() != Some(1));
    let trial = Trial::new(program(Element::I32, true), Fault::Missing, guilt, remove);
    assert!(!trial.is_false(2, "fed") && trial.is_false(2, "wrong_here") && trial.is_false(3, "fed"));
    assert!(trial.judge("fail", &[(2, "fed")], None).named_first);
}

#[test]
fn a_stray_write_feeds_the_reader_and_accuses_no_writer() {
    // 16 elements of 4 bytes fill a region, so block 3 follows block 2, which 2 writes.
    let stray = Deviation::OutOfBounds { elements: 4 };
    let trial = Trial::deviates(program(Element::I32, true), Fault::OutOfBounds, 2, stray);
    assert!(!trial.is_false(3, "fed") && !trial.is_false(2, "wrong_here"));
    assert!(trial.is_false(3, "wrong_here") && trial.is_false(3, "raced") && trial.is_false(1, "raced"));
}

#[test]
fn both_tasks_of_a_race_are_named_as_a_pair() {
    let guilt = Guilt { guilty: Vec::new(), race: Some((1, 2)) };
    let swap = |plan: &mut Plan| {
        let at = plan.program.unrecorded_prefix;
        plan.program.actions.swap(at, at + 1);
    };
    let trial = Trial::new(program(Element::I32, true), Fault::Race, guilt, swap);
    let judgment = trial.judge("fail", &[(2, "raced")], Some(1));
    assert!(judgment.named_first && judgment.is_decidable && !judgment.is_violation());
    assert!(trial.judge("fail", &[(2, "raced")], Some(3)).is_violation());
    assert!(trial.judge("fail", &[(3, "raced")], Some(1)).is_violation());
    assert!(trial.is_false(2, "wrong_here"));
}

#[test]
fn a_launch_with_another_buffer_is_guilty() {
    let guilt = Guilt { guilty: vec![2], race: None };
    let replace = |plan: &mut Plan| {
        let at = plan.program.unrecorded_prefix + 1;
        plan.program.actions[at] = launch(2, 0, [3, 2]);
    };
    let trial = Trial::new(program(Element::I32, true), Fault::WrongBuffer, guilt, replace);
    assert!(trial.judge("fail", &[(2, "fed")], None).named_first);
    assert!(trial.is_false(1, "wrong_here") && trial.is_false(3, "fed"));
}

#[test]
fn a_reader_is_fed_if_its_input_came_from_another_launch() {
    let mut program = program(Element::I32, true);
    // 4 writes block 1 again, before 2 reads it. Without 4, 2 reads what 1 wrote.
    program.actions.insert(program.unrecorded_prefix + 1, launch(4, 0, [3, 1]));
    let guilt = Guilt { guilty: vec![4], race: None };
    let remove = |plan: &mut Plan| plan.program.actions.retain(|action| action.id() != Some(4));
    let trial = Trial::new(program, Fault::Missing, guilt, remove);
    assert!(!trial.is_false(2, "fed") && trial.is_false(1, "fed") && trial.is_false(2, "wrong_here"));
}

#[test]
fn a_program_that_reads_uninitialized_memory_in_both_runs_is_fed() {
    let mut program = program(Element::I32, true);
    program.actions.remove(5);
    program.unrecorded_prefix -= 1;
    let trial = Trial::new(program, Fault::Uninitialized, Guilt::default(), |_| {});
    assert!(!trial.is_false(1, "fed") && trial.is_false(1, "wrong_here") && trial.is_false(2, "fed"));
}

#[test]
fn an_argument_that_is_shorter_in_the_golden_run_is_compared_as_far_as_both_have_it() {
    let wrong = Deviation::Value { element: 0, by: 1.0 };
    let mut trial = Trial::deviates(program(Element::F32, true), Fault::Value, 2, wrong);
    let judgment = trial.judge("fail", &[(2, "wrong_here")], None);
    assert!(judgment.is_decidable, "{judgment:?}");
    for arg in trial.traces[1].iter_mut().filter_map(|trace| trace.args.first_mut()) {
        arg.places.truncate(5);
        arg.before.truncate(20);
        arg.after.truncate(20);
        arg.sources.truncate(5);
        arg.read.truncate(5);
        arg.written.truncate(5);
    }
    let judgment = trial.judge("fail", &[(3, "wrong_here")], None);
    assert_eq!(judgment.innocents.len(), 1, "{judgment:?}");
    assert!(!judgment.is_decidable, "the rest of the input is unknown");
}

#[test]
fn a_hedge_about_an_innocent_task_is_an_accusation() {
    let trial = Trial::deviates(program(Element::I32, true), Fault::Value, 1, WRONG_VALUE);
    for claim in [Claim::Wrong, Claim::Fed, Claim::Other] {
        assert!(!trial.is_false_mention(1, claim), "{claim:?}");
        assert!(trial.is_false_mention(2, claim) && trial.is_false_mention(3, claim), "{claim:?}");
    }
    for claim in [Claim::Raced, Claim::Extra, Claim::Missing, Claim::Stopped] {
        assert!(trial.is_false_mention(1, claim), "{claim:?}");
    }
    // 2 read what 1 wrote, and 3 did not.
    assert!(!trial.is_false_mention(2, Claim::WrongOutput) && trial.is_false_mention(3, Claim::WrongOutput));
}

#[test]
fn a_task_that_is_said_to_be_missing_or_too_many_must_be() {
    let guilt = Guilt { guilty: vec![1], race: None };
    let remove = |plan: &mut Plan| plan.program.actions.retain(|action| action.id() != Some(1));
    let trial = Trial::new(program(Element::I32, true), Fault::Missing, guilt.clone(), remove);
    assert!(!trial.is_false_mention(1, Claim::Missing) && trial.is_false_mention(2, Claim::Missing));
    let mut longer = program(Element::I32, true);
    longer.actions.push(launch(4, 0, [0, 2]));
    let shorten = |plan: &mut Plan| drop(plan.program.actions.pop());
    let mut trial = Trial::new(longer, Fault::Extra, guilt, shorten);
    trial.traces.swap(0, 1);
    trial.facts.swap(0, 1);
    assert!(!trial.is_false_mention(4, Claim::Extra) && trial.is_false_mention(3, Claim::Extra));
}

#[test]
fn a_likely_race_is_a_race() {
    let guilt = Guilt { guilty: Vec::new(), race: Some((1, 2)) };
    let trial = Trial::new(program(Element::I32, true), Fault::Race, guilt, |_| {});
    assert!(!trial.is_false_mention(1, Claim::Raced) && !trial.is_false_mention(2, Claim::Raced));
    assert!(trial.is_false_mention(3, Claim::Raced) && trial.is_false_mention(2, Claim::Wrong));
}

#[test]
fn a_right_run_must_not_fail_for_what_is_outside_a_rule() {
    let mut trial = Trial::new(program(Element::I32, true), Fault::None, Guilt::default(), |_| {});
    trial.facts[0].content.clear();
    let mut answer = Answer {
        verdict: "fail".to_owned(),
        tasks: Vec::new(),
        first_wrong: Vec::new(),
        failure: "nothing_judged".to_owned(),
        mentions: Vec::new(),
    };
    assert!(!trial.judge_answer(&answer).right_run_failed);
    answer.failure = "outside".to_owned();
    assert!(trial.judge_answer(&answer).right_run_failed);
}

#[test]
fn the_first_reader_of_other_external_content_is_fed_and_not_wrong() {
    let change = |plan: &mut Plan| {
        if let Action::Host { data, .. } = &mut plan.program.actions[5] {
            data.seed += 1;
        }
    };
    let mut trial = Trial::new(program(Element::I32, true), Fault::External, Guilt::default(), change);
    for is_captured in [true, false] {
        assert!(!trial.is_false(1, "fed") && !trial.is_false_mention(1, Claim::Fed));
        assert!(trial.is_false(1, "wrong_here") && trial.is_false_mention(1, Claim::Wrong));
        assert!(trial.is_false(2, "fed") && trial.is_false(3, "fed"));
        let judgment = trial.judge("fail", &[(1, "fed")], None);
        assert_eq!(judgment.is_decidable, is_captured, "only outputs were captured: {}", !is_captured);
        trial.facts.iter_mut().for_each(|facts| facts.content.retain(|(_, _, is_after), _| *is_after));
        trial.capture.filter.stages = 1 << 2;
    }
}

#[test]
fn a_task_that_amplifies_an_error_within_the_rule_is_innocent() {
    let mut program = program(Element::F32, true);
    let amplifier = Kernel { form: Form::Amplify, ..program.kernels[0].clone() };
    program.kernels.push(amplifier);
    let prefix = program.unrecorded_prefix;
    let Action::Launch { launch, .. } = &mut program.actions[prefix + 1] else { unreachable!("a launch") };
    launch.kernel = 1;
    let slightly = Deviation::Value { element: 3, by: 4e-6 };
    let trial = Trial::deviates(program, Fault::Amplified, 1, slightly);
    assert!(trial.judge("pass", &[], None).wrong_run_passed, "2 left something wrong");
    assert!(
        trial.is_false(2, "wrong_here")
            && trial.is_false(2, "fed")
            && trial.is_false_mention(2, Claim::Wrong)
    );
    let named = trial.judge("fail", &[(1, "wrong_here"), (2, "inherited")], None);
    assert!(named.named_first && !named.is_violation() && !named.is_decidable);
}

/// 1 computes block 1 from block 0. The host reads block 1 and writes block 3, which 3 reads.
fn program_with_a_host_that_reads(is_recorded: bool) -> Program {
    let mut program = program(Element::I32, true);
    let view = |block| View::dense(block, 0..ELEMENTS);
    let read = HostRead { id: 20, view: view(1), element: Element::I32, is_recorded };
    let how = HostWrite::Recorded;
    let data = HostData { view: view(3), element: Element::I32, seed: 4, how, lane: 0, read: Some(read) };
    program.actions.insert(program.unrecorded_prefix + 1, Action::Host { id: 21, data });
    program
}

#[test]
fn a_host_that_computes_from_a_wrong_result_is_innocent() {
    for is_recorded in [true, false] {
        let program = program_with_a_host_that_reads(is_recorded);
        let trial = Trial::deviates(program, Fault::Value, 1, WRONG_VALUE);
        assert_eq!(trial.traces[0].iter().any(|trace| trace.id == 20), is_recorded);
        let [actual, golden] = trial.traces.each_ref().map(|traces| {
            traces.iter().find(|trace| trace.id == 21).expect("a host write").args[0].after.clone()
        });
        assert_ne!(actual, golden, "what the host writes depends on what it read");
        for label in ["fed", "wrong_here"] {
            assert!(trial.is_false(21, label) && trial.is_false(3, label), "{label}");
        }
        assert!(trial.is_false_mention(21, Claim::Wrong) && !trial.is_false(1, "wrong_here"));
    }
}

#[test]
fn a_host_that_writes_other_data_is_guilty_although_it_reads() {
    let guilt = Guilt { guilty: vec![21], race: None };
    let change = |plan: &mut Plan| {
        if let Some(Action::Host { data, .. }) =
            plan.program.actions.iter_mut().find(|action| action.id() == Some(21))
        {
            data.seed += 1;
        }
    };
    let trial = Trial::new(program_with_a_host_that_reads(true), Fault::Host, guilt, change);
    assert!(!trial.is_false(21, "fed") && trial.is_false(20, "fed") && !trial.is_false(3, "fed"));
}

#[test]
fn a_host_that_computes_from_other_external_content_is_fed() {
    let change = |plan: &mut Plan| {
        let Action::Host { data, .. } = &mut plan.program.actions[5] else { unreachable!("a host write") };
        data.seed += 1;
    };
    let mut program = program_with_a_host_that_reads(false);
    let at = program.unrecorded_prefix + 1;
    let Action::Host { data, .. } = &mut program.actions[at] else { unreachable!("a host write") };
    data.read.as_mut().expect("a read").view.block = 0;
    let trial = Trial::new(program, Fault::External, Guilt::default(), change);
    assert!(!trial.is_false(21, "fed") && trial.is_false(21, "wrong_here") && trial.is_false(3, "fed"));
}

/// Lanes 0 and 1 update both halves of block 3 at the same time, after 1 and 2.
fn program_that_shares() -> Program {
    let mut program = program(Element::I32, true);
    let Param { element, role_known, .. } = program.kernels[0].params[0];
    let params = vec![Param { element, access: Access::Update, role_known }];
    program.kernels.push(Kernel { params, ..program.kernels[0].clone() });
    for (id, used, overlap) in
        [(4, 0..ELEMENTS / 2, Overlap::None), (5, ELEMENTS / 2..ELEMENTS, Overlap::Shares)]
    {
        let Action::Launch { mut launch, .. } = launch(id, 1, [3, 3]) else { unreachable!("a launch") };
        launch.args.truncate(1);
        (launch.args[0].used, launch.overlap) = (used, overlap);
        program.actions.push(Action::Launch { id, launch });
    }
    program
}

#[test]
fn of_two_launches_that_share_an_argument_one_is_innocent() {
    let (mut seen_before, mut seen_after) = (0, 0);
    for garbage in 0..30 {
        let guilt = Guilt { guilty: vec![5], race: None };
        let trial = Trial::new(program_that_shares(), Fault::Value, guilt, |plan| {
            plan.garbage = garbage;
            plan.deviations.push((5, WRONG_VALUE));
        });
        let find =
            |side: usize, id: usize| trial.traces[side].iter().find(|trace| trace.id == id).expect("it ran");
        assert_eq!((find(0, 4).overlaps, find(0, 5).overlaps), (Some(5), Some(4)));
        let differs = |is_after: bool, id| {
            let content = |side| {
                let arg = &find(side, id).args[0];
                if is_after { arg.after.clone() } else { arg.before.clone() }
            };
            content(0) != content(1)
        };
        seen_after += usize::from(differs(true, 4));
        seen_before += usize::from(differs(false, 5));
        for label in ["wrong_here", "fed", "raced"] {
            assert!(trial.is_false(4, label), "{label}");
        }
        assert!(!trial.is_false(5, "wrong_here") && trial.is_false_mention(4, Claim::Raced));
        let judgment = trial.judge("pass", &[], None);
        assert!(judgment.wrong_run_passed && !judgment.is_decidable);
    }
    assert!(seen_after > 5 && seen_before > 5, "{seen_after}, {seen_before}");
}

#[test]
fn a_right_run_may_be_undecided_about_what_another_launch_wrote_at_the_same_time() {
    let mut judged = Vec::new();
    for garbage in 0..12 {
        let change = |plan: &mut Plan| plan.garbage = garbage;
        let trial = Trial::new(program_that_shares(), Fault::None, Guilt::default(), change);
        assert!(!trial.judge("pass", &[], None).right_run_failed);
        judged.push(trial.judge("undecided", &[], None).right_run_failed);
    }
    assert!(judged.contains(&true) && judged.contains(&false), "{judged:?}");
}
