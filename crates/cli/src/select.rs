//! Selectors on the command line: the same options in every verb, and the page about them.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tensortap::abi::Role;
use tensortap::analysis::observation::Observed;
use tensortap::format::{ArgumentKind, Dump};
use tensortap::{DType, DumpStage, TaskChoice};
use tensortap_query::RoleChoice;
use tensortap_query::ids::{
    ArgChoice, IdRange, parse_arg_choice, parse_range, parse_task_choice, split_list,
};
use tensortap_query::{
    HashPrefix, QueryError, Selection, SelectorError, Selectors, ShapePattern, parse_dtype,
};

use crate::error::Exit;
use crate::output::Output;
use crate::progress::StepProgress;

/// The options. Several values of one option widen, several options narrow.
#[derive(Args, Default)]
#[command(next_help_heading = "Selecting records (see `tensortap help selectors`)")]
pub struct SelectArgs {
    /// Records of these tasks, by id, range, name, kernel or scope: 3,0x100000000-0x10000000f,1:2,k_proj,softmax
    #[arg(long, value_name = "LIST", value_parser = words(parse_task_choice))]
    task: Vec<Words<TaskChoice>>,

    /// Records of these steps, where a dump holds several runs: 2,5-7
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    step: Vec<IdRange>,

    /// Records of tasks with these kernels, by name, pattern or func_id: add*,3
    #[arg(long, value_name = "NAME_OR_ID", value_parser = words(as_it_is))]
    func: Vec<Words<String>>,

    /// Records of tasks in these scopes, or in scopes below: 'layer 1','token 3/layer 1'
    #[arg(long, value_name = "PATH", value_parser = words(as_it_is))]
    scope: Vec<Words<String>>,

    /// What tasks were given (before) or what they produced (after)
    #[arg(long, value_name = "STAGE", ignore_case = true, value_parser = stages())]
    stage: Option<DumpStage>,

    /// Arguments of this role; where it is not known, of which this was observed
    #[arg(long, value_name = "ROLE", value_delimiter = ',', ignore_case = true, value_parser = roles())]
    role: Vec<RoleChoice>,

    /// Arguments of these names, or at these positions, tensors first: 0,scores,softmax.scores
    #[arg(long, value_name = "LIST", value_parser = words(parse_arg_choice))]
    arg: Vec<Words<ArgChoice>>,

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

    /// Arguments of these dispatches, by the id in kernel_args_dump.json: 0x1100000002
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    dispatch: Vec<IdRange>,

    /// Arguments of dispatches, or of tasks with a dispatch, on these cores: 0,3-5
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    core: Vec<IdRange>,

    /// The same for these blocks: 0-1
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    block: Vec<IdRange>,

    /// Records that hold a NaN
    #[arg(long)]
    nan: bool,
}

impl SelectArgs {
    /// The selection in a dump; a kernel that its run did not have is an error. Finding NaNs may read payloads, and
    /// shows how far it has come.
    pub fn selection(&self, dump: &Dump, output: Output) -> Result<Selection, QueryError> {
        let bytes = if self.nan { dump.totals().stored_bytes } else { 0 };
        let progress = StepProgress::over_bytes(output, dump.len(), bytes);
        progress.begin("looking for NaN".into());
        self.selectors().selection(dump, &|done, of| progress.at(done, of))
    }

    /// Whether anything but a step is asked for.
    pub fn narrows_records(&self) -> bool {
        Selectors { step: Vec::new(), ..self.selectors() } != Selectors::default()
    }

    /// The steps that are asked for; none stand for all.
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

/// The values of one option, of which a name may hold commas.
#[derive(Clone, Debug)]
pub struct Words<T>(Vec<T>);

/// Reads such values.
pub fn words<T>(
    parse: fn(&str) -> Result<T, SelectorError>,
) -> impl Fn(&str) -> Result<Words<T>, SelectorError> + Clone {
    move |text| split_list(text)?.iter().map(|word| parse(word)).collect::<Result<_, _>>().map(Words)
}

/// A name that is looked up later.
pub fn as_it_is(word: &str) -> Result<String, SelectorError> {
    Ok(word.to_owned())
}

/// All values that were given, however often the option was.
pub fn all<T: Clone>(given: &[Words<T>]) -> Vec<T> {
    given.iter().flat_map(|words| &words.0).cloned().collect()
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

fn roles() -> impl TypedValueParser<Value = RoleChoice> {
    let words = [
        PossibleValue::new("input").alias("in"),
        PossibleValue::new("output").alias("out"),
        PossibleValue::new("inout"),
    ];
    let observed = Observed::ALL.map(|observed| PossibleValue::new(observed.name()));
    PossibleValuesParser::new(words.into_iter().chain(observed))
        .map(|word| RoleChoice::parse(&word).unwrap_or(RoleChoice::Known(Role::InOut)))
}

fn kinds() -> impl TypedValueParser<Value = ArgumentKind> {
    PossibleValuesParser::new(["tensor", "scalar"]).map(|word| match word.to_ascii_lowercase().as_str() {
        "scalar" => ArgumentKind::Scalar,
        _ => ArgumentKind::Tensor,
    })
}

/// Names as in the manifest, and the short ones that people type.
fn dtypes() -> impl TypedValueParser<Value = DType> {
    let words = DType::ALL.map(|dtype| PossibleValue::new(dtype.name()).alias(dtype.short_name()));
    PossibleValuesParser::new(words).try_map(|word| parse_dtype(&word).ok_or("no such dtype"))
}

/// Takes nothing: the verb is its page.
#[derive(Args)]
pub struct SelectorsArgs {}

/// The page is also a verb of its own, for those who guess so.
pub fn print_page(output: Output) -> anyhow::Result<Exit> {
    output.text(PAGE)?;
    output.text("\n")?;
    Ok(Exit::Good)
}

/// The page, in lines that an 80-column terminal takes whole.
pub const PAGE: &str = "\
Selectors: which records a verb is about. They mean the same in every verb that
reads a dump. `replay` and `extract` are about tasks: they take --task and
--step, `replay` --func as well, and `extract` one task.

Several values of one selector widen (separated by commas, or the option given
several times), several selectors narrow. Without any, all records are meant. A
selection that leaves nothing is no error: the verb says what there is instead.
A name must be one that the dump has; a pattern may fit nothing. A name with a
comma is given in double quotes, or with a backslash before the comma:
--scope '\"heads 0,1\"', --arg 'a\\,b'.

  --task LIST    the task: 3, 0x100000002, ring and position 1:2, a range
                 0x100000000-0x10000000f, its name (k_proj), that of its kernel
                 or scope, or both: 'layer 1/attention/k_proj'; * and ? as below
  --func LIST    a kernel of the task: name, pattern (add*, ?mm) or func_id
  --scope LIST   a scope that the task lies in: 'layer 1', 'token 3/layer 1';
                 what lies in scopes below it is meant, too
  --stage STAGE  before: what tasks were given; after: what they produced
  --role LIST    input, output, inout; where roles are not known, what was
                 observed: same, changed, ambiguous, unobserved
  --arg LIST     place among the task's arguments, tensors first: 0, 2-3; or
                 name: scores, softmax.scores
  --index LIST   place in the dump, as `list` shows it: 17, 100-199
  --kind KIND    tensor, scalar
  --dtype LIST   float32 or f32, bfloat16 or bf16, int8 or i8, ...
  --shape LIST   16x128; * is one dimension of any size (16x*), ... any number
                 of dimensions (...x64), [] none
  --hash LIST    first digits of the content hash; equal content, equal hash
  --dispatch LIST  the dispatch, by the id in kernel_args_dump.json; in a dump
                 that has tensors, too, all records of its task
  --core LIST    a core that it was handed to: 3, 0-5
  --block LIST   a block of it: 0-1
  --nan          holds a NaN: by its recorded statistics, else by its content
  --step LIST    the step, where one dump holds several runs: 2, 5-7
  --rank LIST    which dumps, where a run folder has one for each process

One record is also named by TASK/STAGE/ARG, or by its index, where a verb takes
a single one:

  tensortap show 0x100000002/after/2
  tensortap show my_dump mul/after/product
  tensortap show 2@0x100000002/after/2      (of step 2)
  tensortap show 17

Who else saw this content? Select by its hash:

  tensortap list --hash 765e781b

Which task produced the first NaN?

  tensortap list --nan --stage after --limit 1

All outputs of the softmax kernels with 64 columns, the largest first:

  tensortap list --func '*softmax*' --stage after --shape '...x64' --sort -bytes";
