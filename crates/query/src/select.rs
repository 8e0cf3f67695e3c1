//! Selectors: which records of a dump are meant. They mean the same wherever a dump is read.

mod condition;
mod dispatches;
mod empty;
mod named;
mod nan;
mod pattern;
mod text;

use std::collections::HashMap;

use tensortap::analysis::graph::load;
use tensortap::format::{
    ArgumentKind, Dump, FormatError, Record, RunInfo, TaskChoice, func_ids, is_pattern, numbered,
};
use tensortap::{DType, DumpStage, Unknown};

use crate::ids::{ArgChoice, IdRange};
use crate::observed::{RoleChoice, observed_records};
use crate::words::printable;
use crate::{QueryError, SelectorError};
use condition::Condition;
use dispatches::Dispatches;
use named::{NamedArgs, NamedTasks};
use nan::NanRecords;

pub use pattern::{HashPrefix, ShapePattern};
pub use tensortap::analysis::Progress;

/// What is asked for. Several values of one selector widen, several selectors narrow; without any, all records are meant.
///
/// ```
/// use tensortap::DumpStage;
/// use tensortap_query::{Selectors, ids::parse_task_choice};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let mut config = tensortap::RunConfig::new("vector_example");
/// # config.device_mode = tensortap::DeviceMode::Thread;
/// # let out = folder.path().join("dump");
/// # config.dump = Some(tensortap::DumpConfig::new(tensortap::DumpLevel::Full));
/// # config.out = Some(out.clone());
/// # tensortap::run(&config)?;
/// let dump = tensortap::format::Dump::open(&out)?;
/// let wanted = Selectors {
///     task: vec![parse_task_choice("mul")?],
///     stage: Some(DumpStage::AfterCompletion),
///     ..Selectors::default()
/// };
/// let selection = wanted.selection(&dump, &|_, _| {})?;
/// assert_eq!(selection.records(&dump).count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selectors {
    /// Tasks, by id, name, kernel or scope.
    pub task: Vec<TaskChoice>,
    /// Steps of the run that the task belongs to.
    pub step: Vec<IdRange>,
    /// Kernels of the task: names, patterns, function ids.
    pub func: Vec<String>,
    /// Scopes that the task lies in: names, paths, patterns.
    pub scope: Vec<String>,
    /// When the argument was captured.
    pub stage: Option<DumpStage>,
    /// Directions.
    pub role: Vec<RoleChoice>,
    /// Arguments, by place or name.
    pub arg: Vec<ArgChoice>,
    /// Places in the dump.
    pub index: Vec<IdRange>,
    /// Tensors or scalars.
    pub kind: Option<ArgumentKind>,
    /// Element types.
    pub dtype: Vec<DType>,
    /// Shapes of tensors.
    pub shape: Vec<ShapePattern>,
    /// Beginnings of content hashes.
    pub hash: Vec<HashPrefix>,
    /// Dispatches, by id: those whose arguments are meant, or the tasks they are of.
    pub dispatch: Vec<IdRange>,
    /// Cores that a dispatch was handed to.
    pub core: Vec<IdRange>,
    /// Blocks of a dispatch.
    pub block: Vec<IdRange>,
    /// Only records that hold a NaN.
    pub nan: bool,
}

impl Selectors {
    /// The selection in a dump; a kernel that its run did not have is an error, and a pattern
    /// that fits none selects nothing. Finding NaNs may read payloads, and says
    /// in records how far it has come.
    pub fn selection(&self, dump: &Dump, progress: &Progress<'_>) -> Result<Selection, QueryError> {
        let mut conditions = self.conditions(dump)?;
        if self.nan {
            let wanted = |record: &_| conditions.iter().all(|condition: &Condition| condition.holds(record));
            let nans = NanRecords::find(dump, progress, wanted)?;
            conditions.push(Condition::Nan(nans));
        }
        Ok(Selection { conditions })
    }

    /// Everything that the records themselves say.
    fn conditions(&self, dump: &Dump) -> Result<Vec<Condition>, QueryError> {
        let info = dump.info();
        let Selectors { task, step, func, scope, stage, role, arg, index, kind, dtype, shape, hash, .. } =
            self;
        let mut conditions = Vec::new();
        if !task.is_empty() {
            conditions.push(task_condition(task, dump)?);
        }
        push_list(&mut conditions, step, Condition::Step);
        if !func.is_empty() {
            conditions.push(Condition::Func { funcs: kernels(info, func)?, given: func.join(",") });
        }
        if !scope.is_empty() {
            let tasks = named::in_scopes(scope, dump)?;
            conditions.push(Condition::Scope { tasks, given: scope.clone() });
        }
        conditions.extend(stage.map(Condition::Stage));
        if !role.is_empty() {
            // Whoever asks for a role alone needs no graph.
            let asks = role.iter().any(|role| matches!(role, RoleChoice::Observed(_)));
            let observed = match asks {
                true => observed_records(&load(dump, &[])?),
                false => HashMap::new(),
            };
            conditions.push(Condition::Role(role.clone(), observed));
        }
        if !arg.is_empty() {
            conditions.push(Condition::Arg(NamedArgs::of(arg, dump)?));
        }
        push_list(&mut conditions, index, Condition::Index);
        conditions.extend(kind.map(Condition::Kind));
        push_list(&mut conditions, dtype, Condition::Dtype);
        push_list(&mut conditions, shape, Condition::Shape);
        push_list(&mut conditions, hash, Condition::Hash);
        let Selectors { dispatch, core, block, .. } = self;
        if !(dispatch.is_empty() && core.is_empty() && block.is_empty()) {
            let wanted = Dispatches::of(dispatch, core, block, dump)?;
            conditions.push(Condition::Dispatch(wanted));
        }
        Ok(conditions)
    }
}

fn push_list<T: Clone>(
    conditions: &mut Vec<Condition>,
    values: &[T],
    condition: impl FnOnce(Vec<T>) -> Condition,
) {
    if !values.is_empty() {
        conditions.push(condition(values.to_vec()));
    }
}

fn task_condition(terms: &[TaskChoice], dump: &Dump) -> Result<Condition, QueryError> {
    let (mut ids, mut names) = (Vec::new(), Vec::new());
    let mut named = NamedTasks::default();
    for term in terms {
        match term {
            TaskChoice::Ids(first, last) => ids.push((None, (*first, *last))),
            &TaskChoice::InStep { step, first, last } => ids.push((Some(step), (first, last))),
            TaskChoice::Named(name) => {
                let known = named.add(name, dump)?;
                // A number need not be one that the run has told about, and a pattern may fit nothing.
                match numbered(name).filter(|_| !known) {
                    Some(func_id) => named.funcs.push(func_id),
                    None if !known && !is_pattern(name) => return Err(named::unknown_task(name, dump)),
                    None => {}
                }
                names.push(name.clone());
            }
        }
    }
    Ok(Condition::Task { ids, named, names })
}

/// The kernels that names, patterns and numbers stand for. A number need not be one that the run has told about: dumps of
/// other projects tell less.
fn kernels(info: &RunInfo, names: &[String]) -> Result<Vec<u32>, QueryError> {
    let mut ids = Vec::new();
    for name in names {
        let named = func_ids(&info.kernels, name);
        // A pattern that fits no kernel selects nothing, as a range or a shape does; a name must be one.
        if named.is_empty() && !is_pattern(name) {
            ids.push(numbered(name.trim()).ok_or_else(|| unknown_kernel(info, name.trim()))?);
        }
        ids.extend(named);
    }
    Ok(ids)
}

fn unknown_kernel(info: &RunInfo, name: &str) -> QueryError {
    let known: Vec<_> = info.kernels.iter().map(|kernel| printable(&kernel.name)).collect();
    QueryError::Unknown(Unknown::new("kernel", name, known.iter().map(AsRef::as_ref)))
}

/// Which records of one dump are meant: those that fit every condition.
pub struct Selection {
    conditions: Vec<Condition>,
}

impl Selection {
    /// Whether nothing is left out.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether a record is meant.
    #[must_use]
    pub fn holds(&self, record: &Record) -> bool {
        self.conditions.iter().all(|condition| condition.holds(record))
    }

    /// Every record that is meant, in the order of the dump.
    pub fn records<'d>(&'d self, dump: &'d Dump) -> impl Iterator<Item = Result<Record, FormatError>> + 'd {
        dump.records().filter(|record| record.as_ref().map_or(true, |record| self.holds(record)))
    }

    /// Why no record is meant, and what there is instead.
    pub fn why_empty(&self, dump: &Dump) -> Result<String, FormatError> {
        empty::explain(&self.conditions, dump)
    }

    /// What the selection could not find out; nothing when it is sure of every record.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        self.conditions.iter().find_map(Condition::doubt)
    }
}

/// A stage as selectors spell it, or as the manifest does.
pub fn parse_stage(word: &str) -> Result<DumpStage, SelectorError> {
    [DumpStage::BeforeDispatch, DumpStage::AfterCompletion]
        .into_iter()
        .find(|&stage| word == stage.name() || word == crate::stage_word(stage))
        .ok_or(SelectorError::NoStage)
}

/// An element type by its name in the manifest or the short one, whatever their case.
#[must_use]
pub fn parse_dtype(word: &str) -> Option<DType> {
    let meant = |dtype: &DType| {
        dtype.name().eq_ignore_ascii_case(word) || dtype.short_name().eq_ignore_ascii_case(word)
    };
    DType::ALL.into_iter().find(meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_meant_by_name_pattern_number_or_the_name_it_is_shown_with() {
        let kernel = |func_id, name: &str| tensortap::format::KernelInfo {
            func_id,
            name: name.into(),
            ..Default::default()
        };
        let info = RunInfo { kernels: vec![kernel(4, "add"), kernel(9, "add_scalar")], ..RunInfo::default() };
        let ids = |names: &[&str]| kernels(&info, &names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(ids(&["add"]).unwrap(), [4]);
        assert_eq!(ids(&["add*"]).unwrap(), [4, 9]);
        assert_eq!(ids(&["9", "func_4", "0x7"]).unwrap(), [9, 4, 7]);
        let unknown = |names: &[&str]| match ids(names) {
            Err(QueryError::Unknown(unknown)) => unknown,
            other => panic!("{other:?}"),
        };
        assert_eq!(unknown(&["ad"]).did_you_mean.as_deref(), Some("add"));
        assert_eq!(unknown(&["mul"]).valid, ["add", "add_scalar"]);
        assert_eq!(ids(&["mul*"]).unwrap(), [0; 0], "a pattern may fit nothing");
    }

    #[test]
    fn dtypes_are_known_by_two_names_each_none_of_them_twice() {
        let mut names: Vec<&str> = DType::ALL.into_iter().flat_map(|d| [d.name(), d.short_name()]).collect();
        assert!(DType::ALL.into_iter().all(|d| parse_dtype(d.short_name()) == Some(d)));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 2 * DType::ALL.len());
    }
}
