//! One plan on a CUDA device.

use tensortap_device_kernels::{
    Build, DECIDE, Decision, HASH_LEAVES, MEASURE_LEAVES, Plan, RangeResult, StoredHashes,
};
use zerocopy::IntoBytes;

use crate::driver::{Arg, Device, Kernel, Memory, Stream};

pub const BUILD: Build = Build::CUDA;

/// The kernels of loaded code.
pub struct Kernels<'d> {
    pub device: &'d Device,
    hash_leaves: Kernel,
    measure_leaves: Kernel,
    decide: Kernel,
}

/// A plan with the device memory that it needs.
pub struct Prepared<'d> {
    pub plan: Plan,
    ranges: Memory<'d>,
    leaf_hashes: Memory<'d>,
    sums: Memory<'d>,
    parts: Memory<'d>,
    gates: Memory<'d>,
    results: Memory<'d>,
}

impl<'d> Kernels<'d> {
    pub fn load(device: &'d Device, code: &[u8]) -> Result<Kernels<'d>, String> {
        let module = device.load(code)?;
        let kernel = |name| device.kernel(module, name);
        Ok(Kernels {
            device,
            hash_leaves: kernel(HASH_LEAVES)?,
            measure_leaves: kernel(MEASURE_LEAVES)?,
            decide: kernel(DECIDE)?,
        })
    }

    pub fn prepare(&self, plan: Plan) -> Result<Prepared<'d>, String> {
        let scratch = plan.scratch();
        let room = |bytes: u64| self.device.allocate(usize::try_from(bytes).expect("fits into memory"));
        Ok(Prepared {
            ranges: self.device.upload(plan.ranges().as_bytes())?,
            leaf_hashes: room(scratch.leaf_hashes)?,
            sums: room(scratch.sums)?,
            parts: room(scratch.parts)?,
            gates: self.device.upload(&vec![0; usize::try_from(scratch.gates).expect("fits into memory")])?,
            // What a kernel leaves out must not look like a result.
            results: self.device.upload(&vec![0xa5; plan.ranges().len() * size_of::<RangeResult>()])?,
            plan,
        })
    }

    /// Everything about the ranges of a plan, in one launch.
    pub fn launch(&self, prepared: &Prepared<'_>, stream: Stream) -> Result<(), String> {
        let Prepared { plan, ranges, leaf_hashes, sums, parts, gates, results } = prepared;
        let kernel = if plan.measures() { self.measure_leaves } else { self.hash_leaves };
        let memory =
            [ranges, leaf_hashes, sums, parts, gates, results].map(|memory| Arg::Address(memory.address));
        let args = [&[Arg::Word(prepared.count())][..], &memory].concat();
        self.device.launch(kernel, plan.bundles(), BUILD.group, &args, stream)
    }

    /// Results of a plan, in the order of its sources.
    pub fn run(&self, prepared: &Prepared<'_>) -> Result<Vec<RangeResult>, String> {
        let stream = Stream::default_stream();
        self.launch(prepared, stream)?;
        self.device.finish(stream)?;
        prepared.results.read(prepared.plan.ranges().len())
    }

    /// What is new of a plan that has run.
    pub fn decide(
        &self,
        prepared: &Prepared<'_>,
        set: &Memory<'_>,
        stored: &StoredHashes,
    ) -> Result<Vec<Decision>, String> {
        let Prepared { plan, ranges, results, .. } = prepared;
        let decisions = self.device.upload(&vec![0xff; plan.ranges().len() * 4])?;
        let [ranges, results, set, out] =
            [ranges, results, set, &decisions].map(|memory| Arg::Address(memory.address));
        let args = [Arg::Word(prepared.count()), ranges, results, set, Arg::Word(stored.mask()), out];
        let (groups, stream) =
            (u32::try_from(plan.decide_groups(&BUILD)).expect("few ranges"), Stream::default_stream());
        self.device.launch(self.decide, groups, BUILD.group, &args, stream)?;
        self.device.finish(stream)?;
        let words: Vec<u32> = decisions.read(plan.ranges().len())?;
        words
            .into_iter()
            .map(|word| Decision::from_word(word).ok_or(format!("{word} is no decision")))
            .collect()
    }
}

impl Prepared<'_> {
    fn count(&self) -> u32 {
        u32::try_from(self.plan.ranges().len()).expect("ranges have slots of 32 bits")
    }

    /// What the leaves left, for the host to finish.
    pub fn finish_on_host(&self) -> Result<Vec<Option<RangeResult>>, String> {
        let bundles = self.plan.bundles() as usize;
        let parts = if self.plan.measures() { self.parts.read(bundles)? } else { Vec::new() };
        Ok(self.plan.finish(&self.leaf_hashes.read(bundles * 64)?, &parts))
    }
}
