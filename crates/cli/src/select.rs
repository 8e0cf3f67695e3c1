//! Selectors: which records of a dump a verb is about. The same options in every verb.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tensortap::format::{ArgumentKind, Record, RunInfo};
use tensortap::{DType, DumpStage, Error, Unknown};
use tensortap_abi::Role;

use crate::ids::{IdRange, holds, parse_range};
use crate::verbs::parse_stage;

/// The options. Several values of one option widen, several options narrow.
#[derive(Args)]
#[command(next_help_heading = "Selecting records")]
pub struct SelectArgs {
    /// Records of these tasks, by id or range: 3,0x100000000-0x10000000f
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    task: Vec<IdRange>,

    /// Records of tasks with these kernels, by name or func_id
    #[arg(long, value_name = "NAME_OR_ID", value_delimiter = ',')]
    func: Vec<String>,

    /// What tasks were given (before) or what they produced (after)
    #[arg(long, value_name = "STAGE", value_parser = PossibleValuesParser::new(["before", "after"]).try_map(|w| parse_stage(&w)))]
    stage: Option<DumpStage>,

    /// Arguments of this role
    #[arg(long, value_name = "ROLE", value_delimiter = ',', value_parser = roles())]
    role: Vec<Role>,

    /// Arguments at these positions: tensors first, then scalars
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    arg: Vec<IdRange>,

    /// Records at these positions in the dump
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    index: Vec<IdRange>,

    /// Tensors or scalars
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    kind: Option<ArgumentKind>,

    /// Arguments of these element types, such as float32 or bfloat16
    #[arg(long, value_name = "DTYPE", value_delimiter = ',', hide_possible_values = true, value_parser = dtypes())]
    dtype: Vec<DType>,
}

impl SelectArgs {
    /// The selection in a dump; a kernel that its run did not have is an error.
    pub fn selection<'a>(&'a self, info: &RunInfo) -> Result<Selection<'a>, Error> {
        let funcs = self.func.iter().map(|name| func_id(info, name)).collect::<Result<_, _>>()?;
        Ok(Selection { args: self, funcs })
    }
}

/// Which records of one dump are meant.
pub struct Selection<'a> {
    args: &'a SelectArgs,
    funcs: Vec<u32>,
}

impl Selection<'_> {
    /// Whether nothing is left out.
    pub fn is_all(&self) -> bool {
        let SelectArgs { task, func, stage, role, arg, index, kind, dtype } = self.args;
        task.is_empty()
            && func.is_empty()
            && stage.is_none()
            && role.is_empty()
            && arg.is_empty()
            && index.is_empty()
            && kind.is_none()
            && dtype.is_empty()
    }

    /// Whether a record is meant.
    pub fn holds(&self, record: &Record) -> bool {
        let SelectArgs { task, func: _, stage, role, arg, index, kind, dtype } = self.args;
        holds(task, record.task_id)
            && (self.funcs.is_empty() || record.func_ids().any(|id| self.funcs.contains(&id)))
            && stage.is_none_or(|stage| stage == record.stage)
            && (role.is_empty() || role.contains(&record.role))
            && holds(arg, record.arg_index.into())
            && holds(index, record.index)
            && kind.is_none_or(|kind| kind == record.kind)
            && (dtype.is_empty() || dtype.contains(&record.dtype))
    }
}

fn func_id(info: &RunInfo, name: &str) -> Result<u32, Error> {
    let named = info.kernels.iter().find(|kernel| kernel.name == name).map(|kernel| kernel.func_id);
    let known = info.kernels.iter().map(|kernel| kernel.name.as_str());
    named.or_else(|| name.parse().ok()).ok_or_else(|| Unknown::new("kernel", name, known).into())
}

fn roles() -> impl TypedValueParser<Value = Role> {
    let words = [
        PossibleValue::new("input").alias("in"),
        PossibleValue::new("output").alias("out"),
        PossibleValue::new("inout"),
    ];
    PossibleValuesParser::new(words).map(|word| match word.as_str() {
        "input" | "in" => Role::Input,
        "output" | "out" => Role::Output,
        _ => Role::InOut,
    })
}

fn kinds() -> impl TypedValueParser<Value = ArgumentKind> {
    PossibleValuesParser::new(["tensor", "scalar"]).map(|word| match word.as_str() {
        "scalar" => ArgumentKind::Scalar,
        _ => ArgumentKind::Tensor,
    })
}

fn dtypes() -> impl TypedValueParser<Value = DType> {
    PossibleValuesParser::new(DType::ALL.map(DType::name))
        .try_map(|word| DType::ALL.into_iter().find(|dtype| dtype.name() == word).ok_or("no such dtype"))
}
