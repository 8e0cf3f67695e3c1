use std::collections::HashSet;

use half::bf16;
use tensortap_abi::DType;
use tensortap_scene::{
    ArgSpec, GraphError, HostArgs, HostTensor, KernelDef, Orch, ParamSpec, Params, Scene, SequentialGraph,
};

use super::PagedAttention;
use super::kernels::{self, ONLINE_UPDATE};
use super::plan::Plan;
use crate::checks::{self, ParamPairs, params, recorded, ring_use};

/// Irregular sizes: context and block share no factor, and head_dim is not a multiple of the lanes.
const RAGGED: ParamPairs<'_> =
    &[("batch", "3"), ("heads", "3"), ("head_dim", "13"), ("block", "7"), ("context", "45")];
const ONE_POSITION: ParamPairs<'_> =
    &[("batch", "1"), ("heads", "1"), ("head_dim", "1"), ("block", "1"), ("context", "1")];
const LARGE_BLOCKS: ParamPairs<'_> =
    &[("batch", "1"), ("heads", "2"), ("head_dim", "256"), ("block", "256"), ("context", "1000")];
const SMALL: ParamPairs<'_> =
    &[("batch", "3"), ("heads", "2"), ("head_dim", "4"), ("block", "4"), ("context", "23"), ("seed", "9")];

#[test]
fn passes_all_scene_checks() {
    checks::all(&PagedAttention, &[&[], RAGGED, ONE_POSITION, LARGE_BLOCKS, SMALL]);
}

#[test]
fn four_tasks_per_sequence_and_block() {
    let plan = Plan::new(&params(&PagedAttention, &[]));
    let blocks: u64 = (0..plan.batch).map(|s| plan.blocks(s)).sum();
    assert_eq!(recorded(&PagedAttention, &[]).len() as u64, 4 * blocks);
    assert_eq!(plan.tasks(), 4 * blocks);
    assert!((25..75).contains(&blocks), "{blocks}");
}

#[test]
fn sequences_differ_in_length_and_some_block_is_partly_filled() {
    let plan = Plan::new(&params(&PagedAttention, &[]));
    let lengths: HashSet<u64> = (0..plan.batch).map(|s| plan.length(s)).collect();
    assert_eq!(lengths.len() as u64, plan.batch);
    assert!(lengths.iter().all(|&l| l > 0 && l <= plan.context));
    assert!(lengths.iter().any(|l| l % plan.block != 0));
}

#[test]
fn no_two_blocks_share_a_page_and_pages_are_scattered() {
    let plan = Plan::new(&params(&PagedAttention, SMALL));
    let pages: Vec<u64> = (0..plan.batch)
        .flat_map(|s| (0..plan.blocks(s)).map(move |b| (s, b)))
        .map(|(s, b)| plan.page(s, b))
        .collect();
    assert!(pages.iter().all(|&p| p < plan.pages));
    assert_eq!(pages.iter().collect::<HashSet<_>>().len(), pages.len());
    assert!(!pages.is_sorted());
}

/// Fills the parts of the caches that belong to no sequence: free pages and the rest of each last block.
fn spoil_unused(plan: &Plan, args: &mut HostArgs) -> usize {
    let row = usize::try_from(plan.heads * plan.head_dim).unwrap();
    let used: HashSet<u64> = (0..plan.batch)
        .flat_map(|s| (0..plan.length(s)).map(move |p| (s, p)))
        .map(|(s, p)| plan.page(s, p / plan.block) * plan.block + p % plan.block)
        .collect();
    for cache in ["k_cache", "v_cache"] {
        let mut values = args.get(cache).get::<bf16>();
        for (place, row) in (0_u64..).zip(values.chunks_exact_mut(row)) {
            if !used.contains(&place) {
                row.fill(bf16::from_f32(1e4));
            }
        }
        args.get_mut(cache).set(&values);
    }
    usize::try_from(plan.pages * plan.block).unwrap() - used.len()
}

#[test]
fn cache_content_beyond_the_context_is_ignored() {
    let params = params(&PagedAttention, SMALL);
    let mut inputs = PagedAttention.host_args(&params);
    let out = |inputs: &HostArgs| {
        let mut graph = SequentialGraph::record(&PagedAttention, &params, inputs).unwrap();
        graph.run().unwrap();
        graph.arg_bytes("out").unwrap()
    };
    let before = out(&inputs);
    assert!(spoil_unused(&Plan::new(&params), &mut inputs) > 12, "free pages and partly filled blocks");
    assert_eq!(out(&inputs), before);
}

#[test]
fn ring_use_does_not_grow_with_the_context() {
    let short = ring_use(&PagedAttention, &[("context", "512")]);
    let long = ring_use(&PagedAttention, &[("context", "4096")]);
    assert_eq!((long.tasks, long.bytes), (short.tasks, short.bytes));
    assert!(long.tasks <= 64, "{long:?}");
}

#[test]
fn sizes_out_of_range_are_refused() {
    checks::refused(&PagedAttention, &[("batch", "0")], "batch");
    checks::refused(&PagedAttention, &[("block", "257")], "block");
    let crumbs = &[("block", "1"), ("batch", "64"), ("context", "65536"), ("heads", "1"), ("head_dim", "1")];
    checks::refused(&PagedAttention, crumbs, "block");
    checks::refused(&PagedAttention, &[("heads", "many")], "heads");
    let huge: ParamPairs<'_> =
        &[("batch", "64"), ("heads", "128"), ("head_dim", "256"), ("context", "65536")];
    checks::refused(&PagedAttention, huge, "context");
}

/// The update of a sequence with one block, over accumulators with NaN, the worst kind of uninitialized
/// memory.
struct OnlyUpdate;

impl Scene for OnlyUpdate {
    fn name(&self) -> &'static str {
        "only_update"
    }

    fn about(&self) -> &'static str {
        "one update"
    }

    fn params(&self) -> &'static [ParamSpec] {
        &[]
    }

    fn kernels(&self) -> &'static [KernelDef] {
        &kernels::ALL
    }

    fn args(&self, _: &Params) -> Vec<ArgSpec> {
        vec![
            ArgSpec::input("m", DType::Float32, &[1]),
            ArgSpec::input("l", DType::Float32, &[1]),
            ArgSpec::input("partial", DType::Float32, &[1, 2]),
            ArgSpec::inout("running_max", DType::Float32, &[1]),
            ArgSpec::inout("running_sum", DType::Float32, &[1]),
            ArgSpec::inout("accumulator", DType::Float32, &[1, 2]),
            ArgSpec::output("out", DType::BFloat16, &[1, 2]),
        ]
    }

    fn fill(&self, _: &Params, args: &mut HostArgs) {
        args.get_mut("m").set(&[-3.0_f32]);
        args.get_mut("l").set(&[2.0_f32]);
        args.get_mut("partial").set(&[1.0_f32, -4.0]);
        args.get_mut("running_max").set(&[f32::NAN]);
        args.get_mut("running_sum").set(&[f32::NAN]);
        args.get_mut("accumulator").set(&[f32::NAN; 2]);
    }

    fn orchestrate(&self, o: &mut Orch<'_>, _: &Params) -> Result<(), GraphError> {
        let [m, l, partial, max] = [o.arg("m")?, o.arg("l")?, o.arg("partial")?, o.arg("running_max")?];
        let [sum, accumulator, out] = [o.arg("running_sum")?, o.arg("accumulator")?, o.arg("out")?];
        let task = o.task(&ONLINE_UPDATE).input(&m).input(&l).input(&partial);
        let task = task.inout(&max).inout(&sum).inout(&accumulator).inout(&out);
        task.scalar(true).scalar(true).submit().map(|_| ())
    }

    fn golden(&self, _: &Params, _: &HostArgs) -> Option<Vec<HostTensor>> {
        Some(vec![
            HostTensor::new("running_max", &[1], &[-3.0_f32]),
            HostTensor::new("running_sum", &[1], &[2.0_f32]),
            HostTensor::new("accumulator", &[1, 2], &[1.0_f32, -4.0]),
            HostTensor::new("out", &[1, 2], &[bf16::from_f32(0.5), bf16::from_f32(-2.0)]),
        ])
    }
}

#[test]
fn the_first_update_ignores_the_old_accumulators() {
    checks::graph_equals_golden(&OnlyUpdate, &[]);
    checks::tasks_equal_references(&OnlyUpdate, &[]);
}
