//! `stream`: tasks that each read and write one tensor, as a load for measuring a dump.
//!
//! The scene has independent lanes of two buffers. A task reads one buffer of its lane and writes the other.
//! So device memory does not grow with the number of tasks, and a task waits only for the previous task of
//! its lane.

use tensortap_abi::{CoreType, DType};
use tensortap_scene::FaultKind::{Last, Overflow, Race, Shift, Sign, Stale};
use tensortap_scene::KernelArg::{In, Out, Scalar};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Scene, SceneError, kernel_entry, scene_facts,
};

use crate::inputs::{SEED, rng, size};

/// The factor is odd, so it maps different values to different values, and an error in any task is still
/// visible at the end. It is a power of two plus one, so that multiplying is a shift and an addition. It is
/// small, so that products are exact in f64.
const FACTOR: u32 = 129;

/// The scene `stream`: `out = in * FACTOR + task number` in each task.
pub struct Stream;

impl Scene for Stream {
    scene_facts! {
        name: "stream",
        about: "each task reads one tensor and writes another; device memory does not grow with the tasks",
        params: &[
            ParamSpec::int("tasks", "200", 1, 10_000_000, "tasks; runtimes with a task array hold 131072"),
            ParamSpec::int("bytes", "1048576", 8, 8 << 30, "bytes of each tensor, a multiple of 8"),
            ParamSpec::int("lanes", "2", 1, 16, "independent chains, each with two tensors"),
            SEED,
        ],
        kernels: &[ADVANCE],
    }

    fn check(&self, params: &Params) -> Result<(), SceneError> {
        let bytes = params.int("bytes");
        if bytes.is_multiple_of(8) {
            return Ok(());
        }
        let (below, above) = (bytes / 8 * 8, bytes.div_ceil(8) * 8);
        Err(SceneError::BadParam {
            scene: self.name(),
            name: "bytes".into(),
            value: bytes.to_string(),
            expected: format!("a multiple of 8 is expected, such as {below} or {above}"),
        })
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let shape = [params.int("lanes"), 2, params.int("bytes") / 4];
        vec![ArgSpec::inout("data", DType::UInt32, &shape)]
    }

    /// The first buffer of each lane is random, and the second is zero.
    fn fill(&self, params: &Params, args: &mut HostArgs) {
        let mut rng = rng(params, "data");
        let bytes = size(params, "bytes");
        for lane in args.get_mut("data").bytes.chunks_exact_mut(2 * bytes) {
            for word in lane[..bytes].as_chunks_mut().0 {
                *word = rng.u64(..).to_le_bytes();
            }
        }
    }

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let data = o.arg("data")?;
        let lane_count = params.int("lanes");
        let lanes = (0..lane_count).map(|lane| {
            let lane = data.select(0, lane)?;
            Ok([lane.select(0, 0)?, lane.select(0, 1)?])
        });
        let mut lanes: Vec<_> = lanes.collect::<Result<_, GraphError>>()?;
        let mut last = vec![None; lanes.len()];
        for number in 0..u32::try_from(params.int("tasks")).expect("bounded by the parameter") {
            let lane = number as usize % lanes.len();
            let [from, to] = lanes[lane];
            let after = last[lane];
            let task = o.scope(format_args!("lane {lane}"), |o| {
                o.task(&ADVANCE).input(&from).output(&to).scalar(number).after_all(after).submit()
            })?;
            last[lane] = Some(task);
            lanes[lane].swap(0, 1);
        }
        Ok(())
    }

    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        let mut data = inputs.get("data").clone();
        let (bytes, lanes) = (size(params, "bytes"), params.int("lanes"));
        for (lane, buffers) in (0..).zip(data.bytes.chunks_exact_mut(2 * bytes)) {
            finish_lane(buffers, (lane..params.int("tasks")).step_by(lanes_step(lanes)));
        }
        Some(vec![data])
    }
}

fn lanes_step(lanes: u64) -> usize {
    usize::try_from(lanes).expect("bounded by the parameter")
}

/// Computes both buffers of a lane after its tasks. Steps of the form `x * FACTOR + c` compose to one step of
/// that form, so each element is computed once, however many tasks there were.
fn finish_lane(buffers: &mut [u8], tasks: impl Iterator<Item = u64>) {
    let (mut last, mut before) = ((1_u32, 0_u32), None);
    let mut steps = 0_usize;
    for number in tasks {
        let number = u32::try_from(number).expect("bounded by the parameter");
        before = Some(last);
        last = (last.0.wrapping_mul(FACTOR), last.1.wrapping_mul(FACTOR).wrapping_add(number));
        steps += 1;
    }
    let Some(before) = before else { return };
    let (first, second) = buffers.split_at_mut(buffers.len() / 2);
    let of_parity = if steps.is_multiple_of(2) { [last, before] } else { [before, last] };
    for (first, second) in first.as_chunks_mut().0.iter_mut().zip(second.as_chunks_mut().0) {
        let start = u32::from_le_bytes(*first);
        let [even, odd] = of_parity.map(|(factor, term)| start.wrapping_mul(factor).wrapping_add(term));
        (*first, *second) = (even.to_le_bytes(), odd.to_le_bytes());
    }
}

const ADVANCE: KernelDef = KernelDef {
    func_id: 0,
    name: "advance",
    core_type: CoreType::Aiv,
    signature: &[In("from"), Out("to"), Scalar("number")],
    entry: kernel_entry::<Advance>,
    reference: Some(&advance_reference),
    tolerance: None,
    faults: &[Sign, Last, Stale, Shift, Overflow, Race],
};

/// `out = in * FACTOR + task number`, wrapping.
struct Advance;

/// Elements per chunk. 16 KiB stay in the nearest cache between load and store.
const CHUNK: usize = 4096;

impl KernelBody for Advance {
    fn run(args: &Args) {
        let (input, output, number) = (args.tensor(0), args.tensor(1), args.scalar::<u32>(2));
        let count = input.numel();
        for first in (0..count).step_by(CHUNK) {
            let mut words = input.load_range::<u32>(first, CHUNK.min(count - first));
            for word in &mut words {
                *word = word.wrapping_mul(FACTOR).wrapping_add(number);
            }
            output.store_range(first, &words);
        }
    }
}

fn advance_reference(task: &mut RefTask) {
    let number = f64::from(task.scalar::<u32>(2));
    for i in 0..task.tensors[1].values.len() {
        let exact = task.tensors[0].values[i] * f64::from(FACTOR) + number;
        task.tensors[1].values[i] = exact % 4_294_967_296.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{self, recorded, ring_use};
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn passes_all_scene_checks() {
        let chunks = [("bytes", "100000"), ("tasks", "9"), ("lanes", "3"), ("seed", "2")];
        checks::all(&Stream, &[&[("tasks", "6")], &chunks, &[("bytes", "16"), ("tasks", "40")]]);
    }

    #[test]
    fn memory_and_ring_slots_do_not_grow_with_tasks() {
        let few = ring_use(&Stream, &[("tasks", "2"), ("bytes", "64")]);
        assert_eq!(few, ring_use(&Stream, &[("tasks", "100000"), ("bytes", "64")]));
        assert_eq!((few.tasks, few.total_bytes), (1, 0));
    }

    #[test]
    fn no_two_tasks_write_the_same_content() {
        let mut contents = HashSet::new();
        let given = [("bytes", "64"), ("tasks", "64")];
        recorded(&Stream, &given)
            .run_observed(|step| {
                let written = step.after.tensors[1].values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert!(contents.insert(written), "task {}", step.index);
            })
            .unwrap();
        assert_eq!(contents.len(), 64);
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        checks::refused(&Stream, &[("bytes", "12")], "bytes");
        checks::refused(&Stream, &[("bytes", "0")], "bytes");
        checks::refused(&Stream, &[("tasks", "10000001")], "tasks");
        checks::refused(&Stream, &[("lanes", "0")], "lanes");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_number_of_tasks_and_lanes_gives_the_golden(
            tasks in 1_u64..50, words in 1_u64..40, lanes in 1_u64..6, seed: u64,
        ) {
            let text = [tasks, words * 8, lanes, seed].map(|v| v.to_string());
            let names = ["tasks", "bytes", "lanes", "seed"];
            let given: Vec<_> = names.into_iter().zip(text.iter().map(String::as_str)).collect();
            checks::graph_equals_golden(&Stream, &given);
        }
    }
}
