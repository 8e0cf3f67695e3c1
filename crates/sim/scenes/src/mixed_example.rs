//! `mixed_example`: mix tasks, SPMD tasks, and tasks that are both, over several rounds, so that an error in
//! any of them changes the result.
//!
//! A round has five tasks on square matrices. `P` is the projection `weights`.
//! 1. Mix of AIC, AIV0 and AIV1: `projected = state x P`, `bent = state / 2 + 1/4`,
//!    `tallied = (3 counts + round + 1) mod 1009`.
//! 2. SPMD on AIV: `half = projected + bent`, in f16.
//! 3. SPMD mix: `turned = half x P'`, `folded = max(half, 0)` in f16, `stepped = 1008 - tallied`.
//! 4. Mix of one kernel on AIV0 and AIV1, half the rows each: `joined = turned - folded`.
//! 5. SPMD on AIV: `state += joined / 2` in place, `counts = stepped`.

mod golden;
mod matrix_kernels;
mod vector_kernels;

use std::ops::Range;

use tensortap_abi::{BlockContext, DType};
use tensortap_scene::FaultKind::{Last, Nan, Overflow, Race, Shift, Sign, Stale};
use tensortap_scene::KernelArg::{In, Out, Scalar};
use tensortap_scene::{
    ArgSpec, FaultKind, GraphError, HostArgs, HostTensor, KernelArg, Orch, ParamSpec, Params, Scene,
    SceneError, TaskHandle, Tolerance, scene_facts,
};

use crate::inputs::{SEED, fill_uniform, size};
use matrix_kernels::{PROJECT, TURN};
use vector_kernels::{BEND, BLEND, FOLD, JOIN, SETTLE, STEP, TALLY};

/// Arguments of the first mix task. Its kernels share one list. An output of the task is `Out` in all of their signatures,
/// also if a different kernel of the task writes it.
const FIRST_MIX: &[KernelArg] = &[
    In("state"),
    In("weights"),
    In("counts"),
    Out("projected"),
    Out("bent"),
    Out("tallied"),
    Scalar("round"),
];

/// Arguments of the second mix task.
const SECOND_MIX: &[KernelArg] =
    &[In("half"), In("weights"), In("tallied"), Out("turned"), Out("folded"), Out("stepped")];

/// Faults of kernels with float outputs.
const FLOAT_FAULTS: &[FaultKind] = &[Sign, Last, Stale, Nan, Shift, Overflow, Race];

/// Faults of kernels with integer outputs.
const INTEGER_FAULTS: &[FaultKind] = &[Sign, Last, Stale, Shift, Overflow, Race];

/// Counts are smaller than this. It is prime, so tripling modulo it loses no information.
const MODULUS: i32 = 1009;

/// The scene `mixed_example`, with mix tasks and SPMD blocks in f32, f16 and i32.
pub struct MixedExample;

impl Scene for MixedExample {
    scene_facts! {
        name: "mixed_example",
        about: "mix tasks, SPMD tasks and SPMD mix tasks in f32, f16 and i32, chained over rounds",
        params: &[
            ParamSpec::int("n", "64", 2, 512, "side of the matrices"),
            ParamSpec::int("blocks", "4", 1, 64, "blocks of the SPMD tasks, at most n"),
            ParamSpec::int("rounds", "4", 1, 16, "rounds of five tasks"),
            SEED,
        ],
        kernels: &[PROJECT, BEND, TALLY, BLEND, TURN, FOLD, STEP, JOIN, SETTLE],
    }

    fn check(&self, params: &Params) -> Result<(), SceneError> {
        let n = params.int("n");
        if params.int("blocks") <= n {
            return Ok(());
        }
        Err(SceneError::BadParam {
            scene: self.name(),
            name: "blocks".into(),
            value: params.word("blocks").into(),
            expected: format!("at most `n` ({n}) is expected, so that each block has a row"),
        })
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let shape = [params.int("n"); 2];
        vec![
            ArgSpec::input("weights", DType::Float32, &shape),
            ArgSpec::inout("state", DType::Float32, &shape),
            ArgSpec::inout("counts", DType::Int32, &shape),
            ArgSpec::output("half", DType::Float16, &shape),
        ]
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        // With this range, the projection keeps the magnitude of the state about the same in all rounds.
        let spread = 0.5 / f64::from(u32::try_from(params.int("n")).expect("bounded")).sqrt();
        fill_uniform::<f32>(params, args, "weights", -spread..spread);
        fill_uniform::<f32>(params, args, "state", -1.0..1.0);
        fill_uniform::<i32>(params, args, "counts", 0.0..f64::from(MODULUS));
    }

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let rounds = u32::try_from(params.int("rounds")).expect("bounded by the parameter");
        let mut last = None;
        for round in 0..rounds {
            last = Some(o.scope(format_args!("round {round}"), |o| submit_round(o, params, round, last))?);
        }
        Ok(())
    }

    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        Some(golden::golden(size(params, "n"), params.int("rounds"), inputs))
    }

    fn tolerance(&self, output: &str) -> Option<Tolerance> {
        // If an f32 sum is close to a rounding boundary of f16, it may be stored one f16 step away from the
        // golden. The remaining rounds carry this difference. Counts stay exact.
        (output != "counts").then_some(Tolerance { rtol: 2e-3, atol: 2e-3 })
    }
}

fn submit_round(
    o: &mut Orch<'_>,
    params: &Params,
    round: u32,
    last: Option<TaskHandle>,
) -> Result<TaskHandle, GraphError> {
    let shape = [params.int("n"); 2];
    let blocks = u32::try_from(params.int("blocks")).expect("bounded by the parameter");
    let [weights, state, counts, half] =
        [o.arg("weights")?, o.arg("state")?, o.arg("counts")?, o.arg("half")?];

    let projected = o.tensor(DType::Float32, &shape)?;
    let bent = o.tensor(DType::Float32, &shape)?;
    let tallied = o.tensor(DType::Int32, &shape)?;
    let mix = o
        .task(&PROJECT)
        .with(&BEND)
        .with(&TALLY)
        .task_name("mix")
        .input(&state)
        .input(&weights)
        .input(&counts);
    let mix = mix.output(&projected).output(&bent).output(&tallied).scalar(round);
    let mix = mix.after_all(last).submit()?;

    let spmd = o.task(&BLEND).blocks(blocks).input(&projected).input(&bent).output(&half);
    let spmd = spmd.after(mix).submit()?;

    let turned = o.tensor(DType::Float32, &shape)?;
    let folded = o.tensor(DType::Float16, &shape)?;
    let stepped = o.tensor(DType::Int32, &shape)?;
    let both = o.task(&TURN).with(&FOLD).with(&STEP).task_name("mix in blocks").blocks(blocks);
    let both = both.input(&half).input(&weights).input(&tallied);
    let both = both.output(&turned).output(&folded).output(&stepped).after(spmd).submit()?;

    let joined = o.tensor(DType::Float32, &shape)?;
    let pair = o.task(&JOIN).with(&JOIN).task_name("pair").input(&turned).input(&folded).output(&joined);
    let pair = pair.after(both).submit()?;

    let settle = o.task(&SETTLE).blocks(blocks).input(&joined).input(&stepped).inout(&state);
    settle.output(&counts).after(pair).submit()
}

/// The rows of a matrix that belong to a block. Every row belongs to one block.
fn rows_of(block: BlockContext, rows: usize) -> Range<usize> {
    let (index, blocks) = (block.block_idx as usize, block.block_num as usize);
    index * rows / blocks..(index + 1) * rows / blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{self, recorded, ring_use};
    use std::collections::HashSet;

    #[test]
    fn passes_all_scene_checks() {
        let uneven = [("n", "7"), ("blocks", "3"), ("rounds", "2"), ("seed", "4")];
        checks::all(&MixedExample, &[&[], &[("n", "33"), ("blocks", "1"), ("rounds", "16")], &uneven]);
    }

    #[test]
    fn tasks_mix_kernels_and_blocks_in_every_way() {
        let mut kinds = HashSet::new();
        let mut graph = recorded(&MixedExample, &[]);
        graph.run_observed(|step| _ = kinds.insert((step.kernels.len(), step.before.block_num))).unwrap();
        assert_eq!(kinds, HashSet::from([(3, 1), (1, 4), (3, 4), (2, 1)]));
    }

    #[test]
    fn blocks_cover_all_rows_without_overlap() {
        for block_num in 1..=9 {
            let rows = (0..block_num).flat_map(|block_idx| rows_of(BlockContext { block_idx, block_num }, 9));
            assert!(rows.eq(0..9), "{block_num} blocks");
        }
    }

    #[test]
    fn a_scope_holds_one_round() {
        assert_eq!(ring_use(&MixedExample, &[]).tasks, 5);
    }

    #[test]
    fn more_blocks_than_rows_are_refused() {
        checks::refused(&MixedExample, &[("n", "8"), ("blocks", "9")], "blocks");
        checks::refused(&MixedExample, &[("n", "1")], "n");
    }
}
