//! A hidden scene with one intermediate tensor of any size, which one task writes and another reads. It never exists on the
//! host, so a dump with several GiB needs no more memory than the tensor.

use tensortap_abi::{CoreType, DType};
use tensortap_scene::KernelArg::{In, Out, Scalar};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Runtimes, Scene, kernel_entry, scene_facts,
};

/// Element `i` is `i * FACTOR + START`, wrapping: no two pages are equal, and a checker needs no reference tensor.
const FACTOR: u32 = 129;
const START: u32 = 7;
/// Elements processed at a time.
const CHUNK: usize = 4096;

/// `sum(count(bytes / 4))`.
pub struct LargeTensor;

impl Scene for LargeTensor {
    scene_facts! {
        name: "large_tensor",
        about: "one task writes an intermediate of any size, another reads it",
        hidden: true,
        params: &[ParamSpec::int("bytes", "1048576", 4, 8 << 30, "bytes of the tensor, rounded down to 4")],
        kernels: &[COUNT, SUM],
    }

    fn runtimes(&self) -> Runtimes {
        Runtimes::DeviceBuilt
    }

    fn args(&self, _params: &Params) -> Vec<ArgSpec> {
        vec![ArgSpec::output("sum", DType::UInt32, &[1])]
    }

    fn fill(&self, _params: &Params, _args: &mut HostArgs) {}

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let sum = o.arg("sum")?;
        let large = o.tensor(DType::UInt32, &[params.int("bytes") / 4])?;
        let counted = o.task(&COUNT).output(&large).scalar(START).submit()?;
        o.task(&SUM).input(&large).output(&sum).after(counted).submit()?;
        Ok(())
    }

    /// The sum of an arithmetic sequence.
    fn golden(&self, params: &Params, _inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        let n = u128::from(params.int("bytes") / 4);
        let sum = n * u128::from(START) + u128::from(FACTOR) * (n * (n - 1) / 2);
        let sum = u32::try_from(sum % (1 << 32)).expect("a remainder");
        Some(vec![HostTensor::new("sum", &[1], &[sum])])
    }
}

const COUNT: KernelDef = KernelDef {
    func_id: 0,
    name: "count",
    core_type: CoreType::Aiv,
    signature: &[Out("numbers"), Scalar("first")],
    entry: kernel_entry::<Count>,
    reference: Some(&count_reference),
    tolerance: None,
    faults: &[],
};

const SUM: KernelDef = KernelDef {
    func_id: 1,
    name: "sum",
    core_type: CoreType::Aiv,
    signature: &[In("numbers"), Out("sum")],
    entry: kernel_entry::<Sum>,
    reference: Some(&sum_reference),
    tolerance: None,
    faults: &[],
};

/// Writes the sequence.
struct Count;

impl KernelBody for Count {
    fn run(args: &Args) {
        let (output, mut next) = (args.tensor(0), args.scalar::<u32>(1));
        let count = output.numel();
        for first in (0..count).step_by(CHUNK) {
            let words: Vec<u32> = (0..CHUNK.min(count - first))
                .map(|_| {
                    let word = next;
                    next = next.wrapping_add(FACTOR);
                    word
                })
                .collect();
            output.store_range(first, &words);
        }
    }
}

fn count_reference(task: &mut RefTask) {
    let start = f64::from(task.scalar::<u32>(1));
    let mut index = 0.0;
    for value in &mut task.tensors[0].values {
        *value = (index * f64::from(FACTOR) + start) % 4_294_967_296.0;
        index += 1.0;
    }
}

/// Sums the tensor, wrapping.
struct Sum;

impl KernelBody for Sum {
    fn run(args: &Args) {
        let input = args.tensor(0);
        let count = input.numel();
        let mut sum = 0_u32;
        for first in (0..count).step_by(CHUNK) {
            let words = input.load_range::<u32>(first, CHUNK.min(count - first));
            sum = words.into_iter().fold(sum, u32::wrapping_add);
        }
        args.tensor(1).store(&[sum]);
    }
}

fn sum_reference(task: &mut RefTask) {
    let sum = task.tensors[0].values.iter().fold(0.0, |sum, value| (sum + value) % 4_294_967_296.0);
    task.tensors[1].values[0] = sum;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap_scenes::checks::{self, ring_use};

    #[test]
    fn meets_the_requirements_of_scenes() {
        checks::all(&LargeTensor, &[&[("bytes", "100000")], &[("bytes", "4")], &[("bytes", "16384")]]);
    }

    #[test]
    fn the_tensor_is_allocated_once() {
        assert_eq!(ring_use(&LargeTensor, &[("bytes", "65536")]).bytes, 65536);
    }

    #[test]
    fn rejects_an_empty_tensor() {
        checks::refused(&LargeTensor, &[("bytes", "0")], "bytes");
    }
}
