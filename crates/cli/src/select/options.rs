//! The options, and the conditions they become in a dump.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tensortap::abi::Role;
use tensortap::format::{ArgumentKind, Dump, RunInfo};
use tensortap::{DType, DumpStage, Error, TaskChoice, Unknown};

use super::Selection;
use super::condition::Condition;
use super::nan::NanRecords;
use super::pattern::{HashPrefix, ShapePattern, is_pattern, name_fits};
use crate::ids::{IdRange, parse_id, parse_range, parse_task_range};
use crate::output::Output;
use crate::record_text::printable;

/// The options. Several values of one option widen, several options narrow.
#[derive(Args, Default)]
#[command(next_help_heading = "Selecting records (see `tensortap help selectors`)")]
pub struct SelectArgs {
    /// Records of these tasks, by id, range or kernel: 3,0x100000000-0x10000000f,1:2,softmax
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_task_choice)]
    task: Vec<TaskChoice>,

    /// Records of tasks with these kernels, by name, pattern or func_id: add*,3
    #[arg(long, value_name = "NAME_OR_ID", value_delimiter = ',')]
    func: Vec<String>,

    /// What tasks were given (before) or what they produced (after)
    #[arg(long, value_name = "STAGE", ignore_case = true, value_parser = stages())]
    stage: Option<DumpStage>,

    /// Arguments of this role
    #[arg(long, value_name = "ROLE", value_delimiter = ',', ignore_case = true, value_parser = roles())]
    role: Vec<Role>,

    /// Arguments at these positions: tensors first, then scalars
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    arg: Vec<IdRange>,

    /// Records at these positions in the dump
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    index: Vec<IdRange>,

    /// Tensors or scalars
    #[arg(long, value_name = "KIND", ignore_case = true, value_parser = kinds())]
    kind: Option<ArgumentKind>,

    /// Arguments of these element types, such as float32 or bf16
    #[arg(long, value_name = "DTYPE", value_delimiter = ',', ignore_case = true, hide_possible_values = true, value_parser = dtypes())]
    dtype: Vec<DType>,

    /// Tensors of these shapes; * is any size, ... any dimensions: 16x*
    #[arg(long, value_name = "SHAPE", value_delimiter = ',', value_parser = ShapePattern::parse)]
    shape: Vec<ShapePattern>,

    /// Tensors whose content hash starts with these digits
    #[arg(long, value_name = "PREFIX", value_delimiter = ',', value_parser = HashPrefix::parse)]
    hash: Vec<HashPrefix>,

    /// Records that hold a NaN
    #[arg(long)]
    nan: bool,
}

/// A name never starts with a digit, an id always does.
pub fn parse_task_choice(text: &str) -> Result<TaskChoice, String> {
    let named = text.trim().starts_with(|c: char| c.is_alphabetic() || "_*?".contains(c));
    if named {
        return Ok(TaskChoice::Kernel(text.trim().into()));
    }
    parse_task_range(text).map(|(first, last)| TaskChoice::Ids(first, last)).map_err(|reason| {
        format!("{reason}; a task is also meant by its ring and position (1:2) or its kernel's name")
    })
}

impl SelectArgs {
    /// The selection in a dump; a kernel that its run did not have is an error. Finding NaNs may read payloads, and
    /// shows how far it has come.
    pub fn selection(&self, dump: &Dump, output: Output) -> anyhow::Result<Selection> {
        let mut conditions = self.conditions(dump.info())?;
        if self.nan {
            let wanted = |record: &_| conditions.iter().all(|condition: &Condition| condition.holds(record));
            let nans = NanRecords::find(dump, output, wanted)?;
            conditions.push(Condition::Nan(nans));
        }
        Ok(Selection { conditions })
    }

    /// Everything that the records themselves say.
    fn conditions(&self, info: &RunInfo) -> Result<Vec<Condition>, Error> {
        let SelectArgs { task, func, stage, role, arg, index, kind, dtype, shape, hash, nan: _ } = self;
        let mut conditions = Vec::new();
        if !task.is_empty() {
            conditions.push(task_condition(task, info)?);
        }
        if !func.is_empty() {
            conditions.push(Condition::Func { funcs: func_ids(info, func)?, given: func.join(",") });
        }
        conditions.extend(stage.map(Condition::Stage));
        push_list(&mut conditions, role, Condition::Role);
        push_list(&mut conditions, arg, Condition::Arg);
        push_list(&mut conditions, index, Condition::Index);
        conditions.extend(kind.map(Condition::Kind));
        push_list(&mut conditions, dtype, Condition::Dtype);
        push_list(&mut conditions, shape, Condition::Shape);
        push_list(&mut conditions, hash, Condition::Hash);
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

fn task_condition(terms: &[TaskChoice], info: &RunInfo) -> Result<Condition, Error> {
    let (mut ids, mut names) = (Vec::new(), Vec::new());
    for term in terms {
        match term {
            TaskChoice::Ids(first, last) => ids.push((*first, *last)),
            TaskChoice::Kernel(name) => names.push(name.clone()),
        }
    }
    let funcs = func_ids(info, &names)?;
    Ok(Condition::Task { ids, funcs, names })
}

/// The kernels that names, patterns and numbers stand for.
fn func_ids(info: &RunInfo, names: &[String]) -> Result<Vec<u32>, Error> {
    let mut ids = Vec::new();
    for name in names {
        let name = name.trim();
        let fits = |known: &str| if is_pattern(name) { name_fits(name, known) } else { name == known };
        let named: Vec<u32> =
            info.kernels.iter().filter(|kernel| fits(&kernel.name)).map(|kernel| kernel.func_id).collect();
        if named.is_empty() {
            ids.push(numbered(name).ok_or_else(|| unknown_kernel(info, name))?);
        }
        ids.extend(named);
    }
    Ok(ids)
}

/// A kernel by its number, or by the name that one without a name is shown with.
fn numbered(name: &str) -> Option<u32> {
    parse_id(name.strip_prefix("func_").unwrap_or(name)).ok().and_then(|id| u32::try_from(id).ok())
}

fn unknown_kernel(info: &RunInfo, name: &str) -> Error {
    let known: Vec<_> = info.kernels.iter().map(|kernel| printable(&kernel.name)).collect();
    Unknown::new("kernel", name, known.iter().map(AsRef::as_ref)).into()
}

fn stages() -> impl TypedValueParser<Value = DumpStage> {
    let words = [
        PossibleValue::new("before").alias(DumpStage::BeforeDispatch.name()),
        PossibleValue::new("after").alias(DumpStage::AfterCompletion.name()),
    ];
    PossibleValuesParser::new(words).map(|word| {
        let before = word.to_ascii_lowercase().starts_with("before");
        if before { DumpStage::BeforeDispatch } else { DumpStage::AfterCompletion }
    })
}

fn roles() -> impl TypedValueParser<Value = Role> {
    let words = [
        PossibleValue::new("input").alias("in"),
        PossibleValue::new("output").alias("out"),
        PossibleValue::new("inout"),
    ];
    PossibleValuesParser::new(words).map(|word| match word.to_ascii_lowercase().as_str() {
        "input" | "in" => Role::Input,
        "output" | "out" => Role::Output,
        _ => Role::InOut,
    })
}

fn kinds() -> impl TypedValueParser<Value = ArgumentKind> {
    PossibleValuesParser::new(["tensor", "scalar"]).map(|word| match word.to_ascii_lowercase().as_str() {
        "scalar" => ArgumentKind::Scalar,
        _ => ArgumentKind::Tensor,
    })
}

/// Names as in the manifest, and the short ones that people type.
fn dtypes() -> impl TypedValueParser<Value = DType> {
    let words = DType::ALL.map(|dtype| PossibleValue::new(dtype.name()).alias(short_name(dtype)));
    PossibleValuesParser::new(words).try_map(|word| {
        let meant = |dtype: &DType| {
            dtype.name().eq_ignore_ascii_case(&word) || short_name(*dtype).eq_ignore_ascii_case(&word)
        };
        DType::ALL.into_iter().find(meant).ok_or("no such dtype")
    })
}

const fn short_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Float64 => "f64",
        DType::Float32 => "f32",
        DType::Float16 => "f16",
        DType::BFloat16 => "bf16",
        DType::Float8E4M3FN => "e4m3",
        DType::Float8E5M2 => "e5m2",
        DType::Float4E2M1 => "e2m1",
        DType::Int64 => "i64",
        DType::Int32 => "i32",
        DType::Int16 => "i16",
        DType::Int8 => "i8",
        DType::Int4 => "i4",
        DType::UInt64 => "u64",
        DType::UInt32 => "u32",
        DType::UInt16 => "u16",
        DType::UInt8 => "u8",
        DType::Bool => "boolean",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_meant_by_number_or_by_what_it_runs() {
        assert_eq!(parse_task_choice("1:2"), Ok(TaskChoice::Ids((1 << 32) + 2, (1 << 32) + 2)));
        assert_eq!(parse_task_choice("softmax"), Ok(TaskChoice::Kernel("softmax".into())));
        assert_eq!(parse_task_choice("*max"), Ok(TaskChoice::Kernel("*max".into())));
        for text in ["", "-", "1f", "1-", "0xg"] {
            assert!(parse_task_choice(text).unwrap_err().contains("kernel's name"), "{text}");
        }
    }

    #[test]
    fn a_kernel_is_meant_by_name_pattern_number_or_the_name_it_is_shown_with() {
        let kernel = |func_id, name: &str| tensortap::format::KernelInfo {
            func_id,
            name: name.into(),
            ..Default::default()
        };
        let info = RunInfo { kernels: vec![kernel(4, "add"), kernel(9, "add_scalar")], ..RunInfo::default() };
        let ids =
            |names: &[&str]| func_ids(&info, &names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(ids(&["add"]).unwrap(), [4]);
        assert_eq!(ids(&["add*"]).unwrap(), [4, 9]);
        assert_eq!(ids(&["9", "func_4", "0x7"]).unwrap(), [9, 4, 7]);
        assert!(ids(&["ad"]).unwrap_err().to_string().contains("did you mean `add`?"));
        assert!(ids(&["mul*"]).unwrap_err().to_string().contains("add, add_scalar"));
    }

    #[test]
    fn dtypes_are_known_by_two_names_each_none_of_them_twice() {
        let mut names: Vec<&str> = DType::ALL.into_iter().flat_map(|d| [d.name(), short_name(d)]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 2 * DType::ALL.len());
    }
}
