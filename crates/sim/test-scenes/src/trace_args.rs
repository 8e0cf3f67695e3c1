//! A hidden scene whose kernels write down the arguments that they received, to check the arguments in a dump.
//!
//! `trace[task][block * 3 + subtask]` is a row of words: 1, the 50 slots of `args[]`, and the four numbers that slots 48 and
//! 49 point to. For each tensor follow its buffer address, dtype tag, dimensions, start offset, 8 sizes and 8 strides. A row of
//! zeros means that there was no such dispatch.

use half::{bf16, f16};
use tensortap_abi::{ARG_SLOTS, CoreType, DType, KernelEntry, MAX_DIMS, MAX_SCALARS, MAX_TENSORS};
use tensortap_scene::KernelArg::{self, In, InOut};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, Params, RefTask, ScalarArg,
    Scene, kernel_entry, scene_facts,
};

use tensortap_scenes::inputs::{SEED, fill_uniform};

const TASKS: u64 = 7;
/// Three slots of up to five blocks.
const ROWS: u64 = 15;
const CONTEXT_WORDS: usize = 4;
const TENSOR_WORDS: usize = 4 + 2 * MAX_DIMS;
const WORDS: usize = 1 + ARG_SLOTS + CONTEXT_WORDS + MAX_TENSORS * TENSOR_WORDS;

/// Every kind of task: single, mix, SPMD, SPMD mix, a pair on both AIV cores, all arguments, one argument.
pub struct TraceArgs;

impl Scene for TraceArgs {
    scene_facts! {
        name: "trace_args",
        about: "kernels that copy their own args[] to an output",
        hidden: true,
        params: &[SEED],
        kernels: &[AIC_1, AIC_2, AIV_2, AIV_3, AIV_16],
    }

    fn args(&self, _params: &Params) -> Vec<ArgSpec> {
        vec![
            ArgSpec::input("data", DType::Float32, &[4, 12]),
            ArgSpec::input("bytes", DType::UInt8, &[6]),
            ArgSpec::inout("trace", DType::UInt64, &[TASKS, ROWS, WORDS as u64]),
        ]
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        fill_uniform::<f32>(params, args, "data", -1.0..1.0);
        fill_uniform::<u8>(params, args, "bytes", 0.0..255.0);
    }

    fn orchestrate(&self, o: &mut Orch<'_>, _params: &Params) -> Result<(), GraphError> {
        let (data, bytes, trace) = (o.arg("data")?, o.arg("bytes")?, o.arg("trace")?);
        let rows = |task| trace.select(0, task);
        let deep = data.reshape(&[2, 1, 2, 3, 1, 2, 2, 1])?;
        let repeated = data.slice(0, 0, 1)?.broadcast(0, 9)?;
        let backwards = data.slice_step(1, 11, 4, -3)?.transpose(0, 1)?;

        let mut single = o.task(&AIV_3).inout(&rows(0)?).input(&deep).input(&backwards);
        for scalar in scalars() {
            single = single.scalar(scalar);
        }
        single.submit()?;
        o.scope("mix and blocks", |o| {
            let mix = o.task(&AIC_2).with(&AIV_2).with(&AIV_2).inout(&rows(1)?).input(&bytes);
            mix.scalar(-2.5_f32).submit()?;
            let spmd = o.task(&AIV_2).blocks(5).inout(&rows(2)?).input(&backwards);
            spmd.scalar(7_u16).scalar(true).submit()?;
            o.task(&AIC_2).with(&AIV_2).with(&AIV_2).blocks(3).inout(&rows(3)?).input(&deep).submit()
        })?;
        let pair = o.task(&AIV_2).with(&AIV_2).blocks(2).inout(&rows(4)?).input(&repeated);
        pair.scalar(u64::MAX).submit()?;
        let mut full = o.task(&AIV_16).inout(&rows(5)?);
        for index in 1..MAX_TENSORS as u64 {
            full = match index % 3 {
                0 => full.input(&bytes.slice(0, index % 6, 1)?),
                1 => full.input(&data.slice(1, index % 12, 1)?),
                _ => full.input(&deep),
            };
        }
        for index in 0..MAX_SCALARS {
            let all = scalars();
            full = full.scalar(all[index % all.len()]);
        }
        full.submit()?;
        o.task(&AIC_1).inout(&rows(6)?).submit()?;
        Ok(())
    }

    fn golden(&self, _params: &Params, _inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        // The trace contains addresses. Tests compare it with the dump.
        None
    }
}

/// Values that a careless JSON writer would round.
fn scalars() -> [ScalarArg; 10] {
    [
        0.1_f32.into(),
        (0.1_f64 + 0.2).into(),
        (-9_007_199_254_740_993_i64).into(),
        u64::MAX.into(),
        i64::MIN.into(),
        f32::MIN_POSITIVE.into(),
        f64::NEG_INFINITY.into(),
        f16::from_f32(-0.333).into(),
        bf16::from_f32(3.0e38).into(),
        false.into(),
    ]
}

/// The trace and the inputs. Scalars are not declared because their number differs between tasks.
const SIGNATURE: [KernelArg; MAX_TENSORS] = [
    InOut("trace"),
    In("in_1"),
    In("in_2"),
    In("in_3"),
    In("in_4"),
    In("in_5"),
    In("in_6"),
    In("in_7"),
    In("in_8"),
    In("in_9"),
    In("in_10"),
    In("in_11"),
    In("in_12"),
    In("in_13"),
    In("in_14"),
    In("in_15"),
];

const fn tracer(
    func_id: u32,
    name: &'static str,
    core_type: CoreType,
    signature: &'static [KernelArg],
    entry: KernelEntry,
) -> KernelDef {
    KernelDef {
        func_id,
        name,
        core_type,
        signature,
        entry,
        reference: Some(&untouched),
        tolerance: None,
        faults: &[],
    }
}

const AIC_1: KernelDef =
    tracer(0, "trace_aic_1", CoreType::Aic, SIGNATURE.split_at(1).0, kernel_entry::<Trace<1>>);
const AIC_2: KernelDef =
    tracer(1, "trace_aic_2", CoreType::Aic, SIGNATURE.split_at(2).0, kernel_entry::<Trace<2>>);
const AIV_2: KernelDef =
    tracer(2, "trace_aiv_2", CoreType::Aiv, SIGNATURE.split_at(2).0, kernel_entry::<Trace<2>>);
const AIV_3: KernelDef =
    tracer(3, "trace_aiv_3", CoreType::Aiv, SIGNATURE.split_at(3).0, kernel_entry::<Trace<3>>);
const AIV_16: KernelDef =
    tracer(4, "trace_aiv_16", CoreType::Aiv, SIGNATURE.split_at(16).0, kernel_entry::<Trace<16>>);

/// Writes down the arguments of a task with this many tensors.
struct Trace<const TENSORS: usize>;

impl<const TENSORS: usize> KernelBody for Trace<TENSORS> {
    fn run(args: &Args) {
        let (block, subtask) = (args.block(), args.subtask());
        let mut row = vec![1];
        row.extend(args.words());
        let context = [block.block_idx, block.block_num, subtask.subtask_id, subtask.subtask_count];
        row.extend(context.map(u64::from));
        for index in 0..TENSORS {
            let tensor = args.tensor(index);
            let layout = tensor.layout();
            let (mut shape, mut strides) = ([0; MAX_DIMS], [0; MAX_DIMS]);
            shape.iter_mut().zip(layout.shape()).for_each(|(to, from)| *to = *from);
            strides.iter_mut().zip(layout.strides()).for_each(|(to, from)| *to = from.cast_unsigned());
            let dtype = u64::from(tensor.dtype().tag());
            row.extend([tensor.buffer_addr(), dtype, layout.shape().len() as u64, layout.start_offset()]);
            row.extend(shape.into_iter().chain(strides));
        }
        row.resize(WORDS, 0);
        let place = block.block_idx as usize * 3 + subtask.subtask_id as usize;
        args.tensor(0).store_range(place * WORDS, &row);
    }
}

/// Addresses cannot be predicted, so the reference does nothing.
fn untouched(_task: &mut RefTask) {}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap_scenes::checks::recorded;

    #[test]
    fn every_dispatch_writes_its_own_row() {
        let mut graph = recorded(&TraceArgs, &[]);
        graph.run().unwrap();
        let bytes = graph.arg_bytes("trace").unwrap();
        let words: Vec<u64> =
            bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        let written = words.chunks_exact(WORDS).filter(|row| row[0] == 1).count();
        assert_eq!(written, 1 + 3 + 5 + 9 + 4 + 1 + 1);
    }
}
