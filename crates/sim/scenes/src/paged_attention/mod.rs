//! `paged_attention`: one decoding step of attention over a paged KV cache, block by block with an online
//! softmax.
//!
//! Each sequence has one query per head and a context with its own length. Its keys and values are in pages
//! of `block` positions. For each sequence and page:
//!
//! ```text
//! qk (AIC)  scores = q · kᵀ · scale                      f32   [heads, block]
//! softmax (AIV)  p = exp(scores - m), m = max, l = sum   bf16  [heads, block], f32 [heads] twice
//! pv (AIC)  partial = p · v                              f32   [heads, head_dim]
//! online_update (AIV)  rescales and adds to the running max, sum and output of the sequence
//! ```
//!
//! The pages of a sequence are scattered over the cache. An orchestration cannot read device memory, so the
//! block table is computed from the seed. The golden reads the copy in the arguments.

mod golden;
mod kernels;
mod plan;
mod reference;
#[cfg(test)]
mod tests;

use half::bf16;
use tensortap_abi::DType;
use tensortap_scene::{
    ArgSpec, GraphError, HostArgs, HostTensor, Orch, ParamSpec, Params, Scene, SceneError, TaskHandle,
    Tensor, Tolerance, scene_facts,
};

use crate::inputs;
use crate::limits::check_tasks;
use kernels::{ONLINE_UPDATE, PV, QK, SOFTMAX};
use plan::Plan;

/// The scene `paged_attention`.
pub struct PagedAttention;

const NAME: &str = "paged_attention";

/// Limit on the size of one of the two caches, in bytes.
const MAX_CACHE_BYTES: u64 = 1 << 30;

static PARAMS: [ParamSpec; 6] = [
    ParamSpec::int("batch", "4", 1, 64, "sequences"),
    ParamSpec::int("heads", "8", 1, 128, "attention heads"),
    ParamSpec::int("head_dim", "64", 1, 256, "size of one head"),
    ParamSpec::int("block", "64", 1, 256, "positions in a page of the KV cache"),
    ParamSpec::int("context", "512", 1, 1 << 16, "positions of the longest sequence; the others are shorter"),
    inputs::SEED,
];

impl Scene for PagedAttention {
    scene_facts! {
        name: NAME,
        about: "attention over a paged KV cache in bf16: four tasks per sequence and block, online softmax",
        params: &PARAMS,
        kernels: &kernels::ALL,
    }

    fn check(&self, params: &Params) -> Result<(), SceneError> {
        let plan = Plan::new(params);
        let positions = plan.pages * plan.block;
        let bytes = positions * plan.heads * plan.head_dim * 2;
        if bytes <= MAX_CACHE_BYTES {
            return check_tasks(NAME, ("block", plan.block), plan.tasks());
        }
        let fits = MAX_CACHE_BYTES * plan.context / bytes;
        Err(SceneError::BadParam {
            scene: NAME,
            name: "context".into(),
            value: plan.context.to_string(),
            expected: format!(
                "keys would take {bytes} bytes and may take {MAX_CACHE_BYTES}; about {fits} positions fit \
                 with this batch, heads and head_dim"
            ),
        })
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let plan = Plan::new(params);
        let Plan { batch, heads, head_dim, block, pages, .. } = plan;
        let cache = [pages, block, heads, head_dim];
        vec![
            ArgSpec::input("q", DType::BFloat16, &[batch, heads, head_dim]),
            ArgSpec::input("k_cache", DType::BFloat16, &cache),
            ArgSpec::input("v_cache", DType::BFloat16, &cache),
            ArgSpec::input("block_table", DType::Int32, &[batch, plan.blocks(0)]),
            ArgSpec::output("out", DType::BFloat16, &[batch, heads, head_dim]),
        ]
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        // For any head_dim, scores have a standard deviation near 2. So a few positions dominate, but no
        // single one decides the result.
        inputs::fill_uniform::<bf16>(params, args, "q", -6.0..6.0);
        inputs::fill_uniform::<bf16>(params, args, "k_cache", -1.0..1.0);
        // Magnitudes are at most 1, on which the tolerance of `out` is based. The mean is 1/4, so that no
        // output is only noise.
        inputs::fill_uniform::<bf16>(params, args, "v_cache", -0.5..1.0);
        args.get_mut("block_table").set(&Plan::new(params).padded_table());
    }

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let plan = Plan::new(params);
        (0..plan.batch).try_for_each(|sequence| {
            o.scope(format_args!("sequence {sequence}"), |o| Sequence::new(o, &plan, sequence)?.attend(o))
        })
    }

    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        Some(vec![golden::attention(&Plan::new(params), inputs)])
    }

    /// `p` is rounded to bf16, with an error of at most 2^-8 of its value. That changes an average of values
    /// of magnitude 1 by at most as much. Rounding both sides to bf16 adds one spacing, which is at most 2^-7
    /// of the value.
    fn tolerance(&self, _output: &str) -> Option<Tolerance> {
        Some(Tolerance { rtol: 8e-3, atol: 4e-3 })
    }
}

/// The tensors of one sequence.
struct Sequence<'p> {
    plan: &'p Plan,
    number: u64,
    k_cache: Tensor,
    v_cache: Tensor,
    query: Tensor,
    out: Tensor,
    running_max: Tensor,
    running_sum: Tensor,
    accumulator: Tensor,
}

impl<'p> Sequence<'p> {
    fn new(o: &mut Orch<'_>, plan: &'p Plan, number: u64) -> Result<Sequence<'p>, GraphError> {
        Ok(Sequence {
            plan,
            number,
            k_cache: o.arg("k_cache")?,
            v_cache: o.arg("v_cache")?,
            query: o.arg("q")?.select(0, number)?,
            out: o.arg("out")?.select(0, number)?,
            running_max: o.tensor(DType::Float32, &[plan.heads])?,
            running_sum: o.tensor(DType::Float32, &[plan.heads])?,
            accumulator: o.tensor(DType::Float32, &[plan.heads, plan.head_dim])?,
        })
    }

    /// Submits all blocks of the sequence. The first block writes the accumulators first, so it is submitted
    /// in the scope that owns them. Each further block has its own scope, so that a long context needs no
    /// more memory than a short one.
    fn attend(&self, o: &mut Orch<'_>) -> Result<(), GraphError> {
        let mut last = self.block(o, 0, None)?;
        for index in 1..self.plan.blocks(self.number) {
            last = o.scope(format_args!("block {index}"), |o| self.block(o, index, Some(last)))?;
        }
        Ok(())
    }

    /// Submits the four tasks of one block. `previous` is the update of the block before. Returns its own
    /// update.
    fn block(
        &self,
        o: &mut Orch<'_>,
        index: u64,
        previous: Option<TaskHandle>,
    ) -> Result<TaskHandle, GraphError> {
        let &Plan { heads, head_dim, block, .. } = self.plan;
        let is_last = index + 1 == self.plan.blocks(self.number);
        let scores = o.tensor(DType::Float32, &[heads, block])?;
        let p = o.tensor(DType::BFloat16, &[heads, block])?;
        let m = o.tensor(DType::Float32, &[heads])?;
        let l = o.tensor(DType::Float32, &[heads])?;
        let partial = o.tensor(DType::Float32, &[heads, head_dim])?;

        let keys = self.page(&self.k_cache, index)?;
        let qk =
            o.task(&QK).input(&self.query).input(&keys).output(&scores).scalar(self.plan.scale()).submit()?;
        let softmax = o
            .task(&SOFTMAX)
            .input(&scores)
            .output(&p)
            .output(&m)
            .output(&l)
            .scalar(self.plan.valid(self.number, index))
            .after(qk)
            .submit()?;
        let values = self.page(&self.v_cache, index)?;
        let pv = o.task(&PV).input(&p).input(&values).output(&partial).after(softmax).submit()?;
        let update = o
            .task(&ONLINE_UPDATE)
            .input(&m)
            .input(&l)
            .input(&partial)
            .inout(&self.running_max)
            .inout(&self.running_sum)
            .inout(&self.accumulator)
            .inout(&self.out)
            .scalar(index == 0)
            .scalar(is_last)
            .after(pv)
            .after_all(previous);
        if is_last { update.dump([6]).submit() } else { update.submit() }
    }

    /// The page of a block by head: `[heads, block, head_dim]`, not contiguous.
    fn page(&self, cache: &Tensor, index: u64) -> Result<Tensor, GraphError> {
        cache.select(0, self.plan.page(self.number, index))?.transpose(0, 1)
    }
}
