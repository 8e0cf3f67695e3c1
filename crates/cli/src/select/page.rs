//! The page about selectors: `tensortap help selectors`.

use clap::Args;

use crate::exit::Exit;
use crate::output::Output;

/// Takes nothing: the verb is its page.
#[derive(Args)]
pub struct SelectorsArgs {}

/// The page is also a verb of its own, for those who guess so.
pub fn run(output: Output) -> anyhow::Result<Exit> {
    output.text(PAGE)?;
    output.text("\n")?;
    Ok(Exit::Good)
}

/// The page, in lines that an 80-column terminal takes whole.
pub const PAGE: &str = "\
Selectors: which records a verb is about. They mean the same in every verb that
reads a dump. `replay` and `extract` are about tasks: they take --task, `replay`
--func as well, and `extract` one task.

Several values of one selector widen (separated by commas, or the option given
several times), several selectors narrow. Without any, all records are meant. A
selection that leaves nothing is no error: the verb says what there is instead.

  --task LIST    the task: 3, 0x100000002, ring and position 1:2, a range
                 0x100000000-0x10000000f, or the name of its kernel
  --func LIST    a kernel of the task: name, pattern (add*, ?mm) or func_id
  --stage STAGE  before: what tasks were given; after: what they produced
  --role LIST    input, output, inout
  --arg LIST     place among the task's arguments, tensors first: 0, 2-3
  --index LIST   place in the dump, as `list` shows it: 17, 100-199
  --kind KIND    tensor, scalar
  --dtype LIST   float32 or f32, bfloat16 or bf16, int8 or i8, ...
  --shape LIST   16x128; * is one dimension of any size (16x*), ... any number
                 of dimensions (...x64), [] none
  --hash LIST    first digits of the content hash; equal content, equal hash
  --nan          holds a NaN: by its recorded statistics, else by its content

One record is also named by TASK/STAGE/ARG, or by its index, where a verb takes
a single one:

  tensortap show 0x100000002/after/2
  tensortap show 17

Who else saw this content? Select by its hash:

  tensortap list --hash 765e781b

Which task produced the first NaN?

  tensortap list --nan --stage after --limit 1

All outputs of the softmax kernels with 64 columns, the largest first:

  tensortap list --func '*softmax*' --stage after --shape '...x64' --sort -bytes";
