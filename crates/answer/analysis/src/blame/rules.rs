//! Looks up the comparison rule of each record of a graph.

use std::collections::HashMap;

use tensortap_abi::{DType, DumpStage, SLOTS_PER_TASK, TaskId};
use tensortap_format::Argument;
use tensortap_judge::{Predicate, Rule, RuleBook, RuleSubject};

use crate::graph::TaskGraph;

/// The rules of a book for the tasks of a graph. Tasks with the same kernels share their rules unless the
/// book distinguishes tasks, so each rule is looked up once. This matters because an input may have thousands
/// of producers.
pub(crate) struct RuleTable<'a> {
    book: &'a RuleBook,
    graph: &'a TaskGraph,
    /// By task: the position of the first task with the same rules.
    kinds: Vec<usize>,
    /// Rules by kind, argument and dtype, for every argument of the graph.
    known: HashMap<(usize, u16, DType), Rule>,
}

impl<'a> RuleTable<'a> {
    pub fn of(book: &'a RuleBook, graph: &'a TaskGraph) -> RuleTable<'a> {
        let mut first_of: HashMap<[u32; SLOTS_PER_TASK], usize> = HashMap::new();
        let kind = |task: tensortap_format::Task<'_>| match book.rules.distinguishes_tasks() {
            true => task.place(),
            false => *first_of.entry(task.func_id).or_insert(task.place()),
        };
        let kinds = graph.tasks().iter().map(kind).collect();
        let mut table = RuleTable { book, graph, kinds, known: HashMap::new() };
        for task in graph.tasks().iter() {
            for arg in task.arguments() {
                let key = (table.kinds[task.place()], arg.arg_index, arg.dtype);
                if !table.known.contains_key(&key) {
                    table.known.insert(key, table.look_up(key));
                }
            }
        }
        table
    }

    /// The rule of a record. An input has the rule of the output that it came from, or the strictest of
    /// several. So bytes that passed as an output never fail as an input.
    pub fn rule(&self, task: usize, arg: Argument<'_>, stage: DumpStage) -> Rule {
        let own = (self.kinds[task], arg.arg_index);
        let outputs = self.graph.producers_of(arg);
        if stage == DumpStage::AfterCompletion || outputs.is_empty() {
            return self.of_kind(own, arg.dtype);
        }
        let (mut strictest, mut last): (Option<Rule>, _) = (None, None);
        for output in outputs {
            let kind = (self.kinds[output.task], output.arg_index);
            if last.replace(kind) == Some(kind) {
                continue;
            }
            let rule = self.of_kind(kind, arg.dtype);
            if strictest.is_none_or(|found| strictness(&rule) < strictness(&found)) {
                strictest = Some(rule);
            }
        }
        strictest.unwrap_or_else(|| self.of_kind(own, arg.dtype))
    }

    /// The rule for an argument of a kind of task, applied to a dtype.
    fn of_kind(&self, (kind, arg_index): (usize, u16), dtype: DType) -> Rule {
        let key = (kind, arg_index, dtype);
        self.known.get(&key).copied().unwrap_or_else(|| self.look_up(key))
    }

    fn look_up(&self, (kind, arg_index, dtype): (usize, u16, DType)) -> Rule {
        let task = self.graph.task(kind);
        let (task_id, names) = (TaskId(task.task_id).to_string(), task.kernel_names());
        let kernels: Vec<&str> = names.iter().map(String::as_str).collect();
        self.book.rule(&RuleSubject {
            task_id: &task_id,
            kernels: &kernels,
            arg_index: arg_index.into(),
            dtype,
        })
    }
}

fn strictness(rule: &Rule) -> f64 {
    match rule.predicate {
        Predicate::BitExact => -1.0,
        Predicate::Ulps(_) => 0.0,
        Predicate::Close { rtol, atol } => rtol + atol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{TaskBuilder, graph_of};
    use tensortap_judge::{Profile, Rules, Tolerance};

    /// Two `make` tasks and `other` write what `use` reads.
    fn graph() -> TaskGraph {
        let tasks = vec![
            TaskBuilder::new(0, "make").output(0x1000, "p").at(10),
            TaskBuilder::new(1, "make").output(0x2000, "q").at(20),
            TaskBuilder::new(2, "other").output(0x3000, "r").at(30),
            TaskBuilder::new(3, "use")
                .input(0x1000, "p")
                .input(0x3000, "r")
                .input(0x9000, "x")
                .output(0x4000, "y")
                .at(40),
        ];
        graph_of(tasks, &[], None)
    }

    fn predicates(book: &RuleBook) -> Vec<Predicate> {
        let graph = graph();
        let table = RuleTable::of(book, &graph);
        let arguments = graph.task(3).arguments();
        let mut found: Vec<Predicate> =
            arguments.map(|arg| table.rule(3, arg, DumpStage::BeforeDispatch).predicate).collect();
        let first = graph.task(1).arguments().next().unwrap();
        found.push(table.rule(1, first, DumpStage::AfterCompletion).predicate);
        found
    }

    #[test]
    fn an_input_has_the_rule_of_its_producer() {
        let close = |tolerance: f64| Predicate::Close { rtol: tolerance, atol: tolerance };
        let declared = [("make", 0.5), ("other", 0.25), ("use", 0.125)];
        let declared = declared.map(|(name, t)| (name.to_string(), Tolerance { rtol: t, atol: t }));
        let mut book = RuleBook::default().with_kernels(declared);
        assert_eq!(predicates(&book), [0.5, 0.25, 0.125, 0.125, 0.5].map(close));
        // A rule may select one of two tasks with the same kernel.
        let text = "[[rule]]\ntask = '0x0+1'\nulps = 3\n";
        book.rules = Rules::parse(text, Profile::Default).unwrap();
        let mut expected = [0.5, 0.25, 0.125, 0.125, 0.5].map(close);
        expected[4] = Predicate::Ulps(3);
        assert_eq!(predicates(&book), expected);
    }
}
