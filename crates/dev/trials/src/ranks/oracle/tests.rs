//! The oracle in cases made by hand, whose right answer is known.

use super::super::answer::Labeled;
use super::super::machine::{Damage, Plan, execute};
use super::super::program::{Buffer, Exchange, Initial, Job, Kernel, Recorded, Style};
use super::*;
use crate::mentions::Mention;
use crate::program::Element;

const RANKS: usize = 3;
const WEIGHTS: usize = 0;
const GRADIENT: usize = 2;
const SUM: usize = 3;

const BACKWARD: usize = 0;
const COLLECTIVE: usize = 1;
const OPTIMIZER: usize = 2;

/// `backward` computes a gradient, a collective sums it, and the optimizer updates the weights.
fn program() -> Program {
    use Access::{Read, Update, Write};
    let buffer = |initial| Buffer { elements: 6, initial };
    let job = |phase, kernel, args: &[(usize, Access)]| Job {
        phase,
        kernel: Some(kernel),
        args: args.to_vec(),
        step: 0,
        layer: 0,
        name: None,
    };
    let kernel = |name: &str| Kernel { name: name.to_owned(), salt: 5, gain: 1.0 };
    let style = Style {
        roles_known: true,
        declares_args: true,
        queues: false,
        scopes: false,
        patterns: None,
        recorded: Recorded::All,
    };
    Program {
        ranks: RANKS,
        groups: vec![0; RANKS],
        is_local: vec![false],
        steps: 1,
        element: Element::F32,
        is_mean: false,
        style,
        buffers: vec![
            buffer(Initial::Weights),
            buffer(Initial::Samples),
            buffer(Initial::Garbage),
            buffer(Initial::Garbage),
        ],
        kernels: vec![kernel("a"), kernel("all_reduce"), kernel("c")],
        jobs: vec![
            job(Phase::Backward, 0, &[(WEIGHTS, Read), (1, Read), (GRADIENT, Write)]),
            job(Phase::Collective(Exchange::AllReduce), 1, &[(GRADIENT, Read), (SUM, Write)]),
            job(Phase::Optimizer, 2, &[(SUM, Read), (WEIGHTS, Update)]),
        ],
    }
}

/// Two runs and the facts of their dumps.
struct Trial {
    fault: RankFault,
    guilty: Vec<Place>,
    program: Program,
    traces: [Traces; 2],
    facts: [Vec<Facts>; 2],
    captures: [Vec<Capture>; 2],
    absence: Option<Absence>,
}

impl Trial {
    /// A run in which these tasks are wrong, fully captured.
    fn new(fault: RankFault, guilty: &[(usize, usize)]) -> Trial {
        let guilty: Vec<Place> = guilty.iter().map(|&(rank, job)| Place { job, rank }).collect();
        Trial::of(program(), fault, guilty, Vec::new())
    }

    fn of(program: Program, fault: RankFault, guilty: Vec<Place>, others: Vec<(usize, usize)>) -> Trial {
        let golden =
            Plan { program, seed: 3, garbage: 1, noise: None, damages: Vec::new(), others: Vec::new() };
        let damages = guilty.iter().map(|&place| (place, Damage::All)).collect();
        let actual = Plan { damages, others, ..golden.clone() };
        let traces = [execute(&actual), execute(&golden)];
        let facts = [(); 2].map(|()| vec![facts(&golden.program, Content::Full); RANKS]);
        let captures = [(); 2].map(|()| vec![Capture::FULL; RANKS]);
        Trial { fault, guilty, program: golden.program, traces, facts, captures, absence: None }
    }

    fn without(mut self, absence: Absence) -> Trial {
        self.absence = Some(absence);
        self
    }

    /// Both dumps of a rank have only this of an argument.
    fn captured(mut self, rank: usize, key: (usize, usize, bool), content: Content) -> Trial {
        self.facts.iter_mut().for_each(|facts| {
            facts[rank].content.insert(key, content);
        });
        self
    }

    fn judge(&self, answer: &Answer) -> Judgment {
        let run = |side: usize| Run {
            traces: &self.traces[side],
            facts: &self.facts[side],
            captures: &self.captures[side],
        };
        let case = Case {
            program: &self.program,
            fault: self.fault,
            guilty: &self.guilty,
            actual: run(0),
            golden: run(1),
            absence: self.absence,
        };
        case.judge(answer)
    }
}

fn facts(program: &Program, content: Content) -> Facts {
    let mut facts = Facts::default();
    for (number, job) in program.jobs.iter().enumerate() {
        facts.ids.push(number as u64 + 1);
        for (arg, (_, access)) in job.args.iter().enumerate() {
            for (is_after, is_captured) in [(false, access.reads()), (true, access.writes())] {
                if is_captured {
                    facts.content.insert((number, arg, is_after), content);
                }
            }
        }
    }
    facts
}

fn task(rank: usize, job: usize) -> Task {
    Task { rank, id: job as u64 + 1 }
}

/// An answer with this verdict that labels some tasks. Causes are also the first wrong tasks.
fn answer(verdict: &str, labels: &[(usize, usize, &str)]) -> Answer {
    let labeled = |&(rank, job, label): &(usize, usize, &str)| Labeled {
        task: task(rank, job),
        label: label.to_owned(),
        from: None,
    };
    let tasks: Vec<Labeled> = labels.iter().map(labeled).collect();
    let first = tasks.iter().filter(|labeled| is_cause(&labeled.label));
    let first_wrong = first.map(|labeled| (labeled.task, labeled.label.clone())).collect();
    Answer { verdict: verdict.to_owned(), tasks, first_wrong, ..Answer::default() }
}

fn is_accepted(judgment: &Judgment) -> bool {
    judgment.named_first && judgment.named && !judgment.is_violation()
}

const MISSING: Absence =
    Absence { rank: 0, in_run: true, in_golden: false, is_listed: false, is_allowed: false };

#[test]
fn accepts_the_guilty_task_of_every_fault() {
    for (fault, job) in [
        (RankFault::Backward, BACKWARD),
        (RankFault::Collective, COLLECTIVE),
        (RankFault::Optimizer, OPTIMIZER),
    ] {
        let trial = Trial::new(fault, &[(1, job)]);
        let judgment = trial.judge(&answer("fail", &[(1, job, "wrong_here")]));
        assert!(is_accepted(&judgment) && judgment.is_decidable, "{fault:?}: {judgment:?}");
    }
}

#[test]
fn refuses_innocent_tasks_whatever_their_label() {
    let trial = Trial::new(RankFault::Backward, &[(1, BACKWARD)]);
    for innocent in [
        // The same task of another rank, tasks that inherit the error, and a race that did not happen.
        (0, BACKWARD, "wrong_here"),
        (0, COLLECTIVE, "wrong_here"),
        (1, COLLECTIVE, "wrong_here"),
        (2, OPTIMIZER, "fed"),
        (1, BACKWARD, "raced"),
    ] {
        let judgment = trial.judge(&answer("fail", &[innocent]));
        assert!(!judgment.innocents.is_empty() && !judgment.named_first, "{innocent:?}");
    }
    let mut unknown = answer("fail", &[]);
    unknown.first_wrong = vec![(task(2, COLLECTIVE), "unknown".to_owned())];
    assert_eq!(trial.judge(&unknown).innocents.len(), 1);
    unknown.first_wrong = vec![(task(2, 7), "wrong_here".to_owned())];
    assert_eq!(trial.judge(&unknown).innocents.len(), 1);
}

#[test]
fn tasks_may_be_fed_only_with_content_that_no_task_wrote() {
    let trial = Trial::of(program(), RankFault::Weights, Vec::new(), vec![(2, WEIGHTS)]);
    let judgment = trial.judge(&answer("fail", &[(2, BACKWARD, "fed")]));
    assert!(is_accepted(&judgment) && judgment.is_decidable, "{judgment:?}");
    // The optimizer updates these weights, so that it reads them, too.
    assert!(is_accepted(&trial.judge(&answer("fail", &[(2, OPTIMIZER, "fed")]))));
    for innocent in
        [(2, BACKWARD, "wrong_here"), (1, BACKWARD, "fed"), (2, COLLECTIVE, "fed"), (1, OPTIMIZER, "fed")]
    {
        assert_eq!(trial.judge(&answer("fail", &[innocent])).innocents.len(), 2, "{innocent:?}");
    }
}

#[test]
fn the_source_of_an_inherited_error_must_carry_an_error() {
    let trial = Trial::new(RankFault::Backward, &[(1, BACKWARD)]);
    let mut inherited = answer("fail", &[(0, COLLECTIVE, "inherited")]);
    for (from, is_right) in [((1, BACKWARD), true), ((1, COLLECTIVE), true), ((2, BACKWARD), false)] {
        inherited.tasks[0].from = Some(task(from.0, from.1));
        assert_eq!(trial.judge(&inherited).innocents.is_empty(), is_right, "{from:?}");
    }
}

#[test]
fn a_whole_collective_is_wrong_only_on_its_guilty_ranks() {
    let trial = Trial::new(RankFault::Whole, &[(0, COLLECTIVE), (1, COLLECTIVE)]);
    let labels = [(0, COLLECTIVE, "wrong_here"), (1, COLLECTIVE, "wrong_here")];
    let mut whole = Answer { collective: vec![0, 1], ..answer("fail", &labels) };
    assert!(is_accepted(&trial.judge(&whole)));
    whole.collective.push(2);
    assert_eq!(trial.judge(&whole).innocents.len(), 1);
}

#[test]
fn only_a_missing_rank_could_decide() {
    let trial = Trial::new(RankFault::Backward, &[(0, BACKWARD)]).without(MISSING);
    for (rank, is_right) in [(0, true), (1, false)] {
        let undecided = Answer { undecided: vec![rank], ..answer("undecided", &[]) };
        let judgment = trial.judge(&undecided);
        assert_eq!((judgment.innocents.is_empty(), judgment.is_decidable), (is_right, false), "{rank}");
    }
}

#[test]
fn a_right_run_must_pass() {
    let trial = Trial::new(RankFault::None, &[]);
    assert!(!trial.judge(&answer("pass", &[])).is_violation());
    for verdict in ["fail", "undecided"] {
        assert!(trial.judge(&answer(verdict, &[])).right_run_failed);
    }
    assert_eq!(trial.judge(&answer("fail", &[(0, BACKWARD, "wrong_here")])).innocents.len(), 2);
    // Nothing proves that rank 1 is right.
    let mut filtered = Trial::new(RankFault::None, &[]);
    filtered.facts[0][1].content.clear();
    assert!(!filtered.judge(&answer("fail", &[])).right_run_failed);
}

#[test]
fn a_right_run_with_a_missing_rank_is_undecided() {
    let verdicts = |absence: Absence| {
        let trial = Trial::new(RankFault::None, &[]).without(absence);
        ["pass", "fail", "undecided"].map(|verdict| !trial.judge(&answer(verdict, &[])).is_violation())
    };
    assert_eq!(verdicts(MISSING), [false, false, true]);
    assert_eq!(verdicts(Absence { is_allowed: true, ..MISSING }), [true, false, false]);
    // Without a list of ranks, nothing shows that a rank exists that both runs lack.
    let unknown = Absence { in_golden: true, ..MISSING };
    assert_eq!(verdicts(unknown), [true, false, false]);
    assert_eq!(verdicts(Absence { is_listed: true, ..unknown }), [false, false, true]);
}

#[test]
fn a_visibly_wrong_run_must_not_pass() {
    let passes = answer("pass", &[]);
    let trial = Trial::new(RankFault::Optimizer, &[(1, OPTIMIZER)]);
    assert!(trial.judge(&passes).wrong_run_passed);
    // The content was not captured, the hash of a float does not tell, the whole rank is missing.
    for content in [Content::None, Content::Hash] {
        let trial = Trial::new(RankFault::Optimizer, &[(1, OPTIMIZER)]);
        let judgment = trial.captured(1, (OPTIMIZER, 1, true), content).judge(&passes);
        assert!(!judgment.wrong_run_passed && !judgment.is_decidable, "{content:?}");
    }
    let absence = Absence { rank: 1, is_allowed: true, ..MISSING };
    let trial = Trial::new(RankFault::Optimizer, &[(1, OPTIMIZER)]).without(absence);
    assert!(!trial.judge(&passes).wrong_run_passed);
}

#[test]
fn hashes_of_integers_show_errors() {
    let program = Program { element: Element::I32, ..program() };
    let guilty = vec![Place { job: BACKWARD, rank: 1 }];
    let mut trial = Trial::of(program, RankFault::Backward, guilty, Vec::new());
    trial.facts = [(); 2].map(|()| vec![facts(&trial.program, Content::Hash); RANKS]);
    let level = Capture { level: DumpLevel::Hash, ..Capture::FULL };
    trial.captures = [(); 2].map(|()| vec![level; RANKS]);
    let judgment = trial.judge(&answer("pass", &[]));
    assert!(judgment.wrong_run_passed && judgment.undecided_needlessly());
    assert!(is_accepted(&trial.judge(&answer("fail", &[(1, BACKWARD, "wrong_here")]))));
}

#[test]
fn a_collective_is_decidable_only_with_the_inputs_of_all_ranks() {
    let wrong = || Trial::new(RankFault::Collective, &[(1, COLLECTIVE)]);
    let is_needless = |trial: Trial| trial.judge(&answer("fail", &[])).undecided_needlessly();
    assert!(is_needless(wrong()));
    assert!(!is_needless(wrong().captured(2, (COLLECTIVE, 0, false), Content::None)));
    assert!(!is_needless(wrong().without(MISSING)));
    // Other tasks have no inputs on other ranks.
    let backward = || Trial::new(RankFault::Backward, &[(1, BACKWARD)]);
    assert!(is_needless(backward().captured(2, (COLLECTIVE, 0, false), Content::None)));
    assert!(is_needless(backward().without(MISSING)));
    assert!(!is_needless(backward().captured(1, (BACKWARD, 0, false), Content::None)));
}

#[test]
fn filters_of_tasks_decide_nothing() {
    let mut trial = Trial::new(RankFault::Backward, &[(1, BACKWARD)]);
    trial.captures[0][2].filter.first_tasks = 2;
    assert!(!trial.judge(&answer("fail", &[])).is_decidable);
    trial.captures[0][1].filter.first_tasks = 2;
    assert!(trial.judge(&answer("pass", &[])).wrong_run_passed, "rank 0 shows a wrong sum");
}

#[test]
fn a_task_that_amplifies_a_hidden_error_may_be_named_only_without_evidence_of_its_source() {
    let mut program = program();
    (program.is_mean, program.kernels[2].gain) = (true, 1e4);
    let guilty = vec![Place { job: BACKWARD, rank: 1 }];
    let mut trial = Trial::of(program, RankFault::Slight, guilty.clone(), Vec::new());
    let golden = Plan {
        program: trial.program.clone(),
        seed: 3,
        garbage: 1,
        noise: None,
        damages: Vec::new(),
        others: Vec::new(),
    };
    let damages = vec![(guilty[0], Damage::Value { element: 2, by: 2e-5 })];
    trial.traces[0] = execute(&Plan { damages, ..golden });
    let named = answer("fail", &[(0, OPTIMIZER, "wrong_here")]);
    assert_eq!(trial.judge(&named).innocents.len(), 2);
    trial.captures[1][1].filter.first_tasks = 1;
    assert!(trial.judge(&named).innocents.is_empty());
    // The collective amplifies nothing.
    assert_eq!(trial.judge(&answer("fail", &[(0, COLLECTIVE, "wrong_here")])).innocents.len(), 2);
}

#[test]
fn a_rank_must_not_suspect_an_innocent_task() {
    let trial = Trial::new(RankFault::Backward, &[(1, BACKWARD)]);
    let suspects = |rank: usize, job: usize, claim| {
        let mention = Mention { task: job as u64 + 1, claim, of_golden: false, words: "suspect".to_owned() };
        trial.judge(&Answer { mentions: vec![(rank, mention)], ..answer("fail", &[]) }).innocents.len()
    };
    assert_eq!(suspects(1, BACKWARD, Claim::Wrong), 0);
    assert_eq!(suspects(0, OPTIMIZER, Claim::WrongOutput), 0, "it inherits");
    for (rank, job, claim) in [
        (0, BACKWARD, Claim::Wrong),
        (1, COLLECTIVE, Claim::Wrong),
        (0, OPTIMIZER, Claim::Fed),
        (0, BACKWARD, Claim::WrongOutput),
        (1, BACKWARD, Claim::Raced),
        (1, BACKWARD, Claim::Stopped),
    ] {
        assert_eq!(suspects(rank, job, claim), 1, "{rank}, {job}, {claim:?}");
    }
}

/// Rank 0 is alone, ranks 1 and 2 are a group.
fn program_with_groups() -> Program {
    Program { groups: vec![0, 1, 1], is_local: vec![true], ..program() }
}

#[test]
fn an_error_is_not_inherited_from_another_group() {
    let guilty = [0, 1].map(|rank| Place { job: BACKWARD, rank }).to_vec();
    let trial = Trial::of(program_with_groups(), RankFault::Both, guilty, Vec::new());
    for (to, from, is_right) in [(2, 1, true), (2, 0, false), (1, 0, false), (0, 0, true)] {
        let mut inherited = answer("fail", &[(to, COLLECTIVE, "inherited")]);
        inherited.tasks[0].from = Some(task(from, BACKWARD));
        assert_eq!(trial.judge(&inherited).innocents.is_empty(), is_right, "{to} from {from}");
        inherited.tasks[0].task = task(to, OPTIMIZER);
        assert_eq!(trial.judge(&inherited).innocents.is_empty(), is_right, "{to} from {from}");
    }
    let both = answer("fail", &[(0, BACKWARD, "wrong_here"), (1, BACKWARD, "wrong_here")]);
    assert!(is_accepted(&trial.judge(&both)));
}

#[test]
fn the_collective_of_a_subgroup_is_decidable_only_if_its_group_is_recorded() {
    let guilty = vec![Place { job: COLLECTIVE, rank: 1 }];
    for (recorded, is_decidable) in
        [(Recorded::All, true), (Recorded::Subgroups, true), (Recorded::None, false)]
    {
        let mut program = program_with_groups();
        program.style.recorded = recorded;
        let trial = Trial::of(program, RankFault::Collective, guilty.clone(), Vec::new());
        // The inputs of other groups do not matter.
        let trial = trial.captured(0, (COLLECTIVE, 0, false), Content::None);
        assert_eq!(trial.judge(&answer("fail", &[])).is_decidable, is_decidable, "{recorded:?}");
    }
}

#[test]
fn members_of_a_group_sum_only_their_own_inputs() {
    let trial = Trial::of(program_with_groups(), RankFault::None, Vec::new(), Vec::new());
    let sums: Vec<&Vec<u8>> = (0..RANKS).map(|rank| &trial.traces[1][rank][COLLECTIVE][1].after).collect();
    assert!(sums[1] == sums[2] && sums[0] != sums[1]);
    assert_eq!(sums[0], &trial.traces[1][0][COLLECTIVE][0].before);
}
