//! Selectors on the command line: the same options in every verb, and the help page about them.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tensortap::abi::Role;
use tensortap::analysis::observation::Observation;
use tensortap::format::{ArgumentKind, Dump};
use tensortap::{DType, DumpStage, TaskChoice, UnknownName};
use tensortap_query::RoleChoice;
use tensortap_query::ids::{
    ArgChoice, IdRange, parse_arg_choice, parse_range, parse_task_choice, split_list,
};
use tensortap_query::words::printable_path;
use tensortap_query::{
    DumpSet, HashPrefix, Member, Part, QueryError, Selection, SelectorError, Selectors, ShapePattern,
    parse_dtype,
};

use crate::dump_path::quoted;
use crate::error::Exit;
use crate::output::Output;
use crate::parse::{choice, stage};
use crate::program::program;
use crate::progress::StepProgress;

/// The selector options. A record must match every option, and for each option any of its values.
#[derive(Args, Default)]
#[command(next_help_heading = "Selecting records (see `tensortap help selectors`)")]
pub struct SelectArgs {
    /// Records of these tasks, by id, range, name, kernel or scope: 3,0x100000000-0x10000000f,1:2,k_proj,softmax
    #[arg(long, value_name = "LIST", value_parser = value_list(parse_task_choice))]
    task: Vec<ValueList<TaskChoice>>,

    /// Records of these steps of a dump that contains several runs: 2,5-7
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    step: Vec<IdRange>,

    /// Records of tasks with these kernels, by name, pattern or func_id: add*,3
    #[arg(long, value_name = "NAME_OR_ID", value_parser = value_list(unparsed))]
    func: Vec<ValueList<String>>,

    /// Records of tasks in these scopes or in nested ones: 'layer 1','token 3/layer 1'
    #[arg(long, value_name = "PATH", value_parser = value_list(unparsed))]
    scope: Vec<ValueList<String>>,

    /// Arguments before the task (its inputs) or after it (its outputs)
    #[arg(long, value_name = "STAGE", ignore_case = true, value_parser = stage())]
    stage: Option<DumpStage>,

    /// Arguments with this role; if roles are unknown: with this observation
    #[arg(long, value_name = "ROLE", value_delimiter = ',', ignore_case = true, value_parser = roles())]
    role: Vec<RoleChoice>,

    /// Arguments by name or by position, tensors first: 0,scores,softmax.scores
    #[arg(long, value_name = "LIST", value_parser = value_list(parse_arg_choice))]
    arg: Vec<ValueList<ArgChoice>>,

    /// Records by index, as `list` prints it: 17,100-199
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    index: Vec<IdRange>,

    /// Only tensors or only scalars
    #[arg(long, value_name = "KIND", ignore_case = true, value_parser = choice([("tensor", ArgumentKind::Tensor), ("scalar", ArgumentKind::Scalar)]))]
    kind: Option<ArgumentKind>,

    /// Arguments with these element types, such as float32 or bf16
    #[arg(long, value_name = "DTYPE", value_delimiter = ',', ignore_case = true, hide_possible_values = true, value_parser = dtypes())]
    dtype: Vec<DType>,

    /// Tensors with these shapes; * matches any size, ... any dimensions: 16x*
    #[arg(long, value_name = "SHAPE", value_delimiter = ',', value_parser = ShapePattern::parse)]
    shape: Vec<ShapePattern>,

    /// Tensors whose content hash starts with these digits
    #[arg(long, value_name = "PREFIX", value_delimiter = ',', value_parser = HashPrefix::parse)]
    hash: Vec<HashPrefix>,

    /// Arguments of these dispatches, by their id in kernel_args_dump.json: 0x1100000002
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    dispatch: Vec<IdRange>,

    /// Arguments of dispatches, or of tasks with a dispatch, on these cores: 0,3-5
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    core: Vec<IdRange>,

    /// Arguments of dispatches, or of tasks with a dispatch, of these blocks: 0-1
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    block: Vec<IdRange>,

    /// Records that contain a NaN
    #[arg(long)]
    nan: bool,
}

/// Adds the dump to the error about a name that it does not have.
fn in_dump(error: QueryError, dump: &Dump) -> QueryError {
    let QueryError::Unknown(UnknownName { what, name, valid, did_you_mean }) = error else { return error };
    let known =
        if valid.is_empty() { "there are none".into() } else { format!("there are: {}", valid.join(", ")) };
    let message = format!("{} has no {what} `{name}`; {known}", printable_path(dump.dir()));
    let hint = did_you_mean.map_or_else(
        || format!("`{} list {}` lists the records", program(), quoted(dump.dir())),
        |nearest| format!("did you mean `{nearest}`?"),
    );
    QueryError::Record { message, hint }
}

impl SelectArgs {
    /// The selection in a dump. A kernel that the run does not have is an error. Looking for NaN may read payloads,
    /// which shows progress.
    pub fn selection(&self, dump: &Dump, output: Output) -> Result<Selection, QueryError> {
        let bytes = if self.nan { dump.totals().stored_bytes } else { 0 };
        let progress = StepProgress::over_bytes(output, dump.len(), bytes);
        progress.begin("looking for NaN".into());
        let selected = self.selectors().selection(dump, &|done, of| progress.at(done, of));
        selected.map_err(|error| in_dump(error, dump))
    }

    /// The selection in each dump of a set.
    pub fn selections(&self, set: &DumpSet, output: Output) -> Result<Vec<Selection>, QueryError> {
        set.members().iter().map(|member| self.selection(&member.dump, output)).collect()
    }

    /// Whether an option other than `--step` is given.
    pub fn narrows_records(&self) -> bool {
        Selectors { step: Vec::new(), ..self.selectors() } != Selectors::default()
    }

    /// The requested steps. Empty: all steps.
    pub fn steps(&self) -> &[IdRange] {
        &self.step
    }

    fn selectors(&self) -> Selectors {
        let SelectArgs { task, step, func, scope, stage, role, arg, index, kind, dtype, shape, hash, .. } =
            self;
        let SelectArgs { dispatch, core, block, nan, .. } = self;
        Selectors {
            task: all(task),
            step: step.clone(),
            func: all(func),
            scope: all(scope),
            stage: *stage,
            role: role.clone(),
            arg: all(arg),
            index: index.clone(),
            kind: *kind,
            dtype: dtype.clone(),
            shape: shape.clone(),
            hash: hash.clone(),
            dispatch: dispatch.clone(),
            core: core.clone(),
            block: block.clone(),
            nan: *nan,
        }
    }
}

/// The dumps of a set, each with its selection.
pub fn parts<'a>(set: &'a DumpSet, selections: &'a [Selection]) -> Vec<Part<'a>> {
    let part = |(member, selection): (&'a Member, &'a Selection)| Part {
        dump: &member.dump,
        selection,
        rank: member.rank,
    };
    set.members().iter().zip(selections).map(part).collect()
}

/// The comma-separated values of one option. A quoted value may contain commas.
#[derive(Clone, Debug)]
pub struct ValueList<T>(Vec<T>);

/// Reads a list of values.
pub fn value_list<T>(
    parse: fn(&str) -> Result<T, SelectorError>,
) -> impl Fn(&str) -> Result<ValueList<T>, SelectorError> + Clone {
    move |text| split_list(text)?.iter().map(|word| parse(word)).collect::<Result<_, _>>().map(ValueList)
}

/// Accepts any text, for names that are looked up later.
pub fn unparsed(word: &str) -> Result<String, SelectorError> {
    Ok(word.to_owned())
}

/// The values of all occurrences of an option.
pub fn all<T: Clone>(given: &[ValueList<T>]) -> Vec<T> {
    given.iter().flat_map(|words| &words.0).cloned().collect()
}

fn roles() -> impl TypedValueParser<Value = RoleChoice> {
    let words = [
        PossibleValue::new("input").alias("in"),
        PossibleValue::new("output").alias("out"),
        PossibleValue::new("inout"),
    ];
    let observed = Observation::ALL.map(|observed| PossibleValue::new(observed.name()));
    PossibleValuesParser::new(words.into_iter().chain(observed))
        .map(|word| RoleChoice::parse(&word).unwrap_or(RoleChoice::Known(Role::InOut)))
}

/// Accepts the names of the manifest and the short names.
fn dtypes() -> impl TypedValueParser<Value = DType> {
    let words = DType::ALL.map(|dtype| PossibleValue::new(dtype.name()).alias(dtype.short_name()));
    PossibleValuesParser::new(words).try_map(|word| parse_dtype(&word).ok_or("no such dtype"))
}

/// No arguments: the verb prints its page.
#[derive(Args)]
pub struct SelectorsArgs {}

/// Prints the page, for users who type `tensortap selectors`.
pub fn print_page(output: Output) -> anyhow::Result<Exit> {
    output.text(PAGE)?;
    output.text("\n")?;
    Ok(Exit::Good)
}

/// The page. Its lines fit an 80-column terminal.
pub const PAGE: &str = "\
Selectors choose records. They mean the same in every verb that reads a dump.
`replay` and `extract` work on tasks: both take --task and --step, `replay` also
takes --func, and `extract` needs exactly one task.

Separate several values with commas, or repeat the option: a record must match
any of them. With several selectors, a record must match each of them.
Without selectors, all records are selected. If no record matches, the verb says
what the dump contains instead; this is not an error. A name must exist in the
dump, but a pattern may match nothing. For a name with a comma, use quotes or a
backslash: --scope '\"heads 0,1\"', --arg 'a\\,b'.

  --task LIST    the task: 3, 0x100000002, ring and position 1:2, a range
                 0x100000000-0x10000000f, its name (k_proj), kernel or scope, or
                 several of these: 'layer 1/attention/k_proj'; * and ? match as
                 in --func
  --func LIST    a kernel of the task: name, pattern (add*, ?mm) or func_id
  --scope LIST   a scope of the task: 'layer 1', 'token 3/layer 1'; includes
                 nested scopes
  --stage STAGE  before: inputs of tasks; after: outputs of tasks
  --role LIST    input, output, inout; if roles are unknown, the observation:
                 same, changed, ambiguous, unobserved
  --arg LIST     position among the task's arguments, tensors first: 0, 2-3; or
                 name: scores, softmax.scores
  --index LIST   index in the dump, as `list` prints it: 17, 100-199
  --kind KIND    tensor, scalar
  --dtype LIST   float32 or f32, bfloat16 or bf16, int8 or i8, ...
  --shape LIST   16x128; * matches one dimension of any size (16x*), ... any
                 number of dimensions (...x64), [] no dimensions
  --hash LIST    first digits of the content hash; equal content, equal hash
  --dispatch LIST  the dispatch, by its id in kernel_args_dump.json; in a dump
                 with tensors, all records of its task
  --core LIST    a core that the task was dispatched to: 3, 0-5
  --block LIST   a block of the task: 0-1
  --nan          contains a NaN: by the recorded statistics, or by the content
  --step LIST    the step in a dump that contains several runs: 2, 5-7
  --rank LIST    the dumps of these ranks in a run folder of several processes

Verbs that take a single record accept TASK/STAGE/ARG or an index:

  tensortap show 0x100000002/after/2
  tensortap show my_dump mul/after/product
  tensortap show 2@0x100000002/after/2      (of step 2)
  tensortap show 17

Find other records with the same content by their hash:

  tensortap list --hash 765e781b

Find the task that produced the first NaN:

  tensortap list --nan --stage after --limit 1

List all outputs of the softmax kernels with 64 columns, the largest first:

  tensortap list --func '*softmax*' --stage after --shape '...x64' --sort -bytes";
