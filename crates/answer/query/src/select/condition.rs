//! The condition of one selector.

use std::collections::{HashMap, HashSet};

use tensortap::analysis::observation::Observation;
use tensortap::format::{ArgumentKind, Dump, Record, TaskKey};
use tensortap::{DType, DumpStage};

use super::dispatches::Dispatches;
use super::named::{NamedArgs, NamedTasks};
use super::nan::NanRecords;
use super::pattern::{HashPrefix, ShapePattern};
use crate::ids::{IdRange, holds};
use crate::number::counted;
use crate::observed::RoleChoice;
use crate::words::{printable, record_kernels, shape_text, short_task};

/// A selector with its values.
pub enum Condition {
    /// Ids of any step, or of one.
    Task {
        ids: Vec<(Option<u32>, IdRange)>,
        named: NamedTasks,
        names: Vec<String>,
    },
    Func {
        funcs: Vec<u32>,
        given: String,
    },
    Scope {
        tasks: HashSet<TaskKey>,
        given: Vec<String>,
    },
    Step(Vec<IdRange>),
    Stage(DumpStage),
    Role(Vec<RoleChoice>, HashMap<u64, Observation>),
    Arg(NamedArgs),
    Index(Vec<IdRange>),
    Kind(ArgumentKind),
    Dtype(Vec<DType>),
    Shape(Vec<ShapePattern>),
    Hash(Vec<HashPrefix>),
    Dispatch(Dispatches),
    Nan(NanRecords),
}

/// The value of a record that a condition checks. Sorted by the number, then by the text.
pub type Facet = (u64, String);

impl Condition {
    /// Whether a record fits.
    pub fn holds(&self, record: &Record) -> bool {
        let is_tensor = record.kind == ArgumentKind::Tensor;
        match self {
            Condition::Task { .. }
            | Condition::Scope { .. }
            | Condition::Step(_)
            | Condition::Func { .. } => self.holds_task(record.task_key(), &record.func_id),
            Condition::Stage(stage) => record.stage == *stage,
            Condition::Role(roles, observed) => roles.contains(&role_of(record, observed)),
            Condition::Arg(args) => args.holds(record),
            Condition::Index(ranges) => holds(ranges, record.index),
            Condition::Kind(kind) => record.kind == *kind,
            Condition::Dtype(dtypes) => dtypes.contains(&record.dtype),
            Condition::Shape(patterns) => {
                is_tensor && patterns.iter().any(|pattern| pattern.fits(record.shape()))
            }
            Condition::Hash(prefixes) => {
                record.hash.is_some_and(|hash| prefixes.iter().any(|prefix| prefix.starts(hash)))
            }
            Condition::Dispatch(wanted) => wanted.holds(record),
            Condition::Nan(nans) => nans.holds(record),
        }
    }

    /// Whether a task fits, as far as the condition is about tasks. Without records, no task fits a condition about records.
    pub fn holds_task(&self, task: TaskKey, kernels: &[u32]) -> bool {
        match self {
            Condition::Task { ids, named, .. } => {
                let is_meant = |(step, range): &(Option<u32>, IdRange)| {
                    step.is_none_or(|step| step == task.step) && holds(&[*range], task.task_id)
                };
                ids.iter().any(is_meant) || named.holds(task, kernels)
            }
            Condition::Scope { tasks, .. } => tasks.contains(&task),
            Condition::Step(ranges) => holds(ranges, task.step.into()),
            Condition::Func { funcs, .. } => kernels.iter().any(|id| funcs.contains(id)),
            _ => false,
        }
    }

    /// The requested value and its category: `("task 0x7", "tasks")`.
    pub fn asked(&self) -> (String, &'static str) {
        match self {
            Condition::Task { ids, names, .. } => {
                let ids = ids.iter().map(|(step, range)| {
                    let step = step.map_or_else(String::new, |step| format!("{step}@"));
                    format!("{step}{}", ids_text(range, short_task))
                });
                (format!("task {}", ids.chain(names.iter().cloned()).collect::<Vec<_>>().join(",")), "tasks")
            }
            Condition::Func { given, .. } => (format!("kernel {given}"), "kernels"),
            Condition::Stage(stage) => (format!("stage {}", stage.word()), "stages"),
            Condition::Role(roles, _) => (format!("role {}", joined(roles, |role| role.name())), "roles"),
            Condition::Scope { given, .. } => (format!("scope {}", given.join(",")), "scopes"),
            Condition::Step(ranges) => (format!("step {}", ranges_text(ranges)), "steps"),
            Condition::Arg(args) => (format!("argument {}", args.given.join(",")), "arguments"),
            Condition::Index(ranges) => (format!("index {}", ranges_text(ranges)), "indexes"),
            Condition::Kind(kind) => (format!("kind {}", kind.name()), "kinds"),
            Condition::Dtype(dtypes) => (format!("dtype {}", joined(dtypes, |dtype| dtype.name())), "dtypes"),
            Condition::Shape(_) => ("such shape".into(), "shapes"),
            Condition::Hash(_) => ("such hash".into(), "hashes"),
            Condition::Dispatch(wanted) => (wanted.asked(), wanted.all()),
            Condition::Nan(_) => ("NaN".into(), "NaNs"),
        }
    }

    /// The value of a record that this condition checks; `None` if it has none.
    pub fn facet(&self, record: &Record, dump: &Dump) -> Option<Facet> {
        let info = dump.info();
        let is_tensor = record.kind == ArgumentKind::Tensor;
        match self {
            Condition::Task { ids, .. } if !ids.is_empty() => {
                Some((record.task_id, short_task(record.task_id)))
            }
            Condition::Task { .. } | Condition::Func { .. } => Some((0, record_kernels(record, info))),
            Condition::Stage(_) => Some((record.stage as u64, record.stage.word().into())),
            Condition::Role(_, observed) => {
                Some((record.role.tag().into(), role_of(record, observed).name().into()))
            }
            Condition::Scope { .. } => {
                dump.names(record).scope.map(|scope| (0, printable(scope).into_owned()))
            }
            Condition::Step(_) => Some((record.step.into(), record.step.to_string())),
            Condition::Arg(args) if args.by_name => {
                dump.names(record).arg_name.map(|name| (0, printable(name).into_owned()))
            }
            Condition::Arg(_) => Some((record.arg_index.into(), record.arg_index.to_string())),
            Condition::Index(_) => Some((record.index, record.index.to_string())),
            Condition::Kind(_) => Some((0, record.kind.name().into())),
            Condition::Dtype(_) => Some((record.dtype.tag().into(), record.dtype.name().into())),
            Condition::Shape(_) => is_tensor.then(|| (record.numel, shape_text(record))),
            Condition::Hash(_) => record.hash.map(|hash| (0, format!("{hash:032x}")[..8].into())),
            Condition::Dispatch(wanted) => wanted.facet(record),
            Condition::Nan(_) => None,
        }
    }

    /// A remark about records for which the condition cannot be decided.
    pub fn doubt(&self) -> Option<String> {
        match self {
            Condition::Nan(NanRecords { unknown, .. }) if *unknown > 0 => Some(format!(
                "{} may also hold a NaN: neither content nor statistics were captured",
                counted(*unknown, "record")
            )),
            _ => None,
        }
    }
}

/// The role of a record or, if unknown, the observation.
fn role_of(record: &Record, observed: &HashMap<u64, Observation>) -> RoleChoice {
    match record.role_known {
        true => RoleChoice::Known(record.role),
        false => {
            RoleChoice::Observed(observed.get(&record.index).copied().unwrap_or(Observation::Unobserved))
        }
    }
}

pub fn ids_text(&(first, last): &IdRange, text: impl Fn(u64) -> String) -> String {
    if first == last { text(first) } else { format!("{}-{}", text(first), text(last)) }
}

pub fn ranges_text(ranges: &[IdRange]) -> String {
    ranges.iter().map(|range| ids_text(range, |id| id.to_string())).collect::<Vec<_>>().join(",")
}

fn joined<T>(values: &[T], text: impl Fn(&T) -> &'static str) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(",")
}
