//! Selectors choose records of a dump. They mean the same in every verb and view.

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
    ArgumentKind, Dump, FormatError, Record, RunInfo, TaskChoice, TaskKey, func_ids, is_pattern, numbered,
    short_name,
};
use tensortap::{DType, DumpStage, UnknownName};

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

/// The selectors of a query. Several values of one selector are alternatives; different selectors must all
/// match. Without selectors, all records match.
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
    /// Scopes of the task: names, paths, patterns.
    pub scope: Vec<String>,
    /// The stage at which the argument was captured.
    pub stage: Option<DumpStage>,
    /// Roles of arguments.
    pub role: Vec<RoleChoice>,
    /// Arguments, by index or name.
    pub arg: Vec<ArgChoice>,
    /// Indexes in the dump.
    pub index: Vec<IdRange>,
    /// Tensors or scalars.
    pub kind: Option<ArgumentKind>,
    /// Element types.
    pub dtype: Vec<DType>,
    /// Shapes of tensors.
    pub shape: Vec<ShapePattern>,
    /// Prefixes of content hashes.
    pub hash: Vec<HashPrefix>,
    /// Dispatches, by id: records of these dispatches or of their tasks.
    pub dispatch: Vec<IdRange>,
    /// Cores of dispatches.
    pub core: Vec<IdRange>,
    /// Blocks of dispatches.
    pub block: Vec<IdRange>,
    /// Whether to select only records with a NaN.
    pub nan: bool,
}

impl Selectors {
    /// The selection in a dump. An unknown kernel is an error; a pattern without a match selects nothing.
    /// Finding NaNs may read payloads; `progress` counts records.
    pub fn selection(&self, dump: &Dump, progress: &Progress<'_>) -> Result<Selection, QueryError> {
        let mut conditions = self.conditions(dump)?;
        if self.nan {
            let wanted = |record: &_| conditions.iter().all(|condition: &Condition| condition.holds(record));
            let nans = NanRecords::find(dump, progress, wanted)?;
            conditions.push(Condition::Nan(nans));
        }
        Ok(Selection { conditions })
    }

    /// The conditions that need no content.
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
            // Known roles need no graph.
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
                // A number need not be a known kernel, and a pattern may match nothing.
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

/// The kernels for names, patterns and numbers. A number need not be a known kernel, because dumps of other
/// projects may not list kernels.
fn kernels(info: &RunInfo, names: &[String]) -> Result<Vec<u32>, QueryError> {
    let mut ids = Vec::new();
    for name in names {
        let named = func_ids(&info.kernels, name);
        // A pattern, like a range or a shape, may match nothing. A name must exist.
        if named.is_empty() && !is_pattern(name) {
            ids.push(numbered(name.trim()).ok_or_else(|| unknown_kernel(info, name.trim()))?);
        }
        ids.extend(named);
    }
    Ok(ids)
}

fn unknown_kernel(info: &RunInfo, name: &str) -> QueryError {
    let known: Vec<_> = info.kernels.iter().map(|kernel| short_name(&kernel.name)).collect();
    let known: Vec<_> = known.iter().map(|name| printable(name)).collect();
    QueryError::Unknown(UnknownName::new("kernel", name, known.iter().map(AsRef::as_ref)))
}

/// The selection in one dump: records that fit every condition.
pub struct Selection {
    conditions: Vec<Condition>,
}

impl Selection {
    /// Whether all records are selected.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether a record is selected.
    #[must_use]
    pub fn holds(&self, record: &Record) -> bool {
        self.conditions.iter().all(|condition| condition.holds(record))
    }

    /// Whether a task without records is selected: it fits every condition, and all conditions are about tasks.
    #[must_use]
    pub fn holds_task(&self, dump: &Dump, task: TaskKey) -> bool {
        let kernels = dump.task_kernels(task);
        self.conditions.iter().all(|condition| condition.holds_task(task, &kernels))
    }

    /// All selected records, in the order of the dump.
    pub fn records<'d>(&'d self, dump: &'d Dump) -> impl Iterator<Item = Result<Record, FormatError>> + 'd {
        dump.records().filter(|record| record.as_ref().map_or(true, |record| self.holds(record)))
    }

    /// Why no record is selected, and which values exist.
    pub fn why_empty(&self, dump: &Dump) -> Result<String, FormatError> {
        empty::explain(&self.conditions, dump)
    }

    /// A remark if the selection is uncertain for some records.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        self.conditions.iter().find_map(Condition::doubt)
    }
}

/// Parses a stage as in selectors or as in the manifest.
pub fn parse_stage(word: &str) -> Result<DumpStage, SelectorError> {
    DumpStage::parse(word).or_else(|| DumpStage::from_word(word)).ok_or(SelectorError::NoStage)
}

/// Parses an element type by its manifest name or short name. Case is ignored.
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
    fn finds_kernels_by_name_pattern_and_number() {
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
        assert_eq!(ids(&["mul*"]).unwrap(), [0; 0], "a pattern may match nothing");
    }

    #[test]
    fn dtype_names_are_unique() {
        let mut names: Vec<&str> = DType::ALL.into_iter().flat_map(|d| [d.name(), d.short_name()]).collect();
        assert!(DType::ALL.into_iter().all(|d| parse_dtype(d.short_name()) == Some(d)));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 2 * DType::ALL.len());
    }
}
