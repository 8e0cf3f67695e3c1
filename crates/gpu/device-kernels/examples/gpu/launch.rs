//! Runs plans on a CUDA device.

use tensortap_device_kernels::{
    Build, ContentCopy, Decision, FEW_RANGES, HASH_LEAVES, HASH_MANY, HASH_SPREAD, HashKernel, KEEP,
    KeepArgument, LargeSide, MEASURE_LEAVES, Plan, RangeResult, Side, StoredHashes,
};
use zerocopy::{FromZeros, IntoBytes};

use crate::driver::{Device, Kernel, Memory, Stream};

pub const BUILD: Build = Build::CUDA;

/// The loaded kernels.
pub struct Kernels<'d> {
    pub device: &'d Device,
    hash_leaves: Kernel,
    hash_spread: Kernel,
    hash_many: Kernel,
    measure_leaves: Kernel,
    keep: Kernel,
}

/// A plan with its device memory.
pub struct PreparedPlan<'d> {
    pub plan: Plan,
    ranges: Memory<'d>,
    leaf_hashes: Memory<'d>,
    sums: Memory<'d>,
    parts: Memory<'d>,
    gates: Memory<'d>,
    results: Memory<'d>,
    /// A 32-bit counter, and at offset 8 the word that reports completion.
    words: Memory<'d>,
    decisions: Memory<'d>,
}

impl<'d> Kernels<'d> {
    pub fn load(device: &'d Device, code: &[u8]) -> Result<Kernels<'d>, String> {
        let module = device.load(code)?;
        let kernel = |name| device.kernel(module, name);
        Ok(Kernels {
            device,
            hash_leaves: kernel(HASH_LEAVES)?,
            hash_spread: kernel(HASH_SPREAD)?,
            hash_many: kernel(HASH_MANY)?,
            measure_leaves: kernel(MEASURE_LEAVES)?,
            keep: kernel(KEEP)?,
        })
    }

    pub fn prepare(&self, plan: Plan) -> Result<PreparedPlan<'d>, String> {
        let scratch = plan.scratch();
        let room = |bytes: u64| self.device.allocate(usize::try_from(bytes).expect("fits into memory"));
        Ok(PreparedPlan {
            ranges: self.device.upload(plan.ranges().as_bytes())?,
            leaf_hashes: room(scratch.leaf_hashes)?,
            sums: room(scratch.sums)?,
            parts: room(scratch.parts)?,
            gates: self.device.upload(&vec![0; usize::try_from(scratch.gates).expect("fits into memory")])?,
            // Unwritten results must not look valid.
            results: self.device.upload(&vec![0xa5; plan.ranges().len() * size_of::<RangeResult>()])?,
            words: self.device.upload(&[0; 16])?,
            decisions: self.device.upload(&vec![0xff; plan.ranges().len() * 4])?,
            plan,
        })
    }

    /// Processes the ranges of a plan in one launch.
    pub fn launch(&self, prepared: &PreparedPlan<'_>, stream: Stream) -> Result<(), String> {
        self.launch_side(&prepared.side(TICKET), prepared, stream)
    }

    fn launch_side(&self, side: &Side, prepared: &PreparedPlan<'_>, stream: Stream) -> Result<(), String> {
        let plan = &prepared.plan;
        let (hash_kernel, groups) = plan.hash_kernel();
        let given =
            |side: &Side, kernel| self.device.launch(kernel, groups, BUILD.group, side.as_bytes(), stream);
        match hash_kernel {
            HashKernel::Bundles => given(side, self.hash_leaves),
            HashKernel::Spread => given(side, self.hash_spread),
            HashKernel::Measured => given(side, self.measure_leaves),
            HashKernel::Many => {
                let mut many = LargeSide { side: *side, ..LargeSide::new_zeroed() };
                many.ranges[..plan.ranges().len()].copy_from_slice(plan.ranges());
                if side.few[0].decided != 0 {
                    many.ranges.iter_mut().for_each(|range| range.decided = 1);
                }
                self.device.launch(self.hash_many, groups, BUILD.group, many.as_bytes(), stream)
            }
        }
    }

    /// Runs a plan and returns the results in the order of its sources.
    pub fn run(&self, prepared: &PreparedPlan<'_>) -> Result<Vec<RangeResult>, String> {
        let stream = Stream::default_stream();
        self.launch(prepared, stream)?;
        self.device.finish(stream)?;
        prepared.is_done(TICKET)?;
        prepared.results.read(prepared.plan.ranges().len())
    }

    /// Hashes the ranges of a plan and decides which are new.
    pub fn decide(
        &self,
        prepared: &PreparedPlan<'_>,
        set: &Memory<'_>,
        stored: &StoredHashes,
    ) -> Result<Vec<Decision>, String> {
        let decided: Vec<_> = prepared
            .plan
            .ranges()
            .iter()
            .map(|range| tensortap_device_kernels::Range { decided: 1, ..*range })
            .collect();
        let (table, host_decisions) =
            (self.device.upload(decided.as_bytes())?, self.device.allocate(decided.len() * 4)?);
        let mut side = prepared.side(TICKET + 1);
        (side.table, side.stored, side.mask, side.host_decisions) =
            (table.address, set.address, stored.mask(), host_decisions.address);
        side.few.iter_mut().for_each(|range| range.decided = 1);
        self.launch_side(&side, prepared, Stream::default_stream())?;
        self.device.finish(Stream::default_stream())?;
        prepared.is_done(TICKET + 1)?;
        let words: Vec<u32> = prepared.decisions.read(decided.len())?;
        if words != host_decisions.read::<u32>(decided.len())? {
            return Err("the decisions for host and device differ".into());
        }
        words
            .into_iter()
            .map(|word| Decision::from_word(word).ok_or(format!("{word} is not a decision")))
            .collect()
    }

    /// Copies ranges of a plan that are new: index and target address of each.
    pub fn keep(
        &self,
        prepared: &PreparedPlan<'_>,
        kept: &[(usize, u64)],
        stream: Stream,
    ) -> Result<(), String> {
        let kept: Vec<ContentCopy> = kept
            .iter()
            .map(|&(place, to)| {
                let range = &prepared.plan.ranges()[place];
                ContentCopy { from: range.address, to, bytes: range.bytes, first_chunk: 0, slot: range.slot }
            })
            .collect();
        let words = prepared.words.address;
        let keep_argument = KeepArgument {
            decisions: prepared.decisions.address,
            finished: words,
            done: words + 8,
            ticket: TICKET + 2,
            ..KeepArgument::of(&kept)
        };
        self.device.launch(self.keep, keep_argument.groups, BUILD.group, keep_argument.as_bytes(), stream)
    }

    /// Copies new ranges and waits.
    pub fn kept(&self, prepared: &PreparedPlan<'_>, kept: &[(usize, u64)]) -> Result<(), String> {
        self.keep(prepared, kept, Stream::default_stream())?;
        self.device.finish(Stream::default_stream())?;
        prepared.is_done(TICKET + 2)
    }
}

/// Value that reports completion.
const TICKET: u64 = 0x7454_0000_0001;

impl PreparedPlan<'_> {
    fn side(&self, ticket: u64) -> Side {
        let PreparedPlan { plan, ranges, leaf_hashes, sums, parts, gates, results, words, decisions } = self;
        let mut side = Side {
            table: ranges.address,
            leaf_hashes: leaf_hashes.address,
            sums: sums.address,
            parts: parts.address,
            gates: gates.address,
            finished: words.address,
            results: results.address,
            decisions: decisions.address,
            done: words.address + 8,
            ticket,
            count: u32::try_from(plan.ranges().len()).expect("ranges have slots of 32 bits"),
            ..Side::new_zeroed()
        };
        if plan.ranges().len() <= FEW_RANGES {
            side.table = 0;
            side.few[..plan.ranges().len()].copy_from_slice(plan.ranges());
        }
        side
    }

    /// Checks that a launch has reported completion and reset its counter.
    fn is_done(&self, ticket: u64) -> Result<(), String> {
        match self.words.read::<u64>(2)?[..] {
            [0, done] if done == ticket => Ok(()),
            ref words => Err(format!("a launch did not report completion: {words:x?}")),
        }
    }

    /// Computes the results on the host from the results of leaves.
    pub fn finish_on_host(&self) -> Result<Vec<Option<RangeResult>>, String> {
        let bundles = self.plan.bundles() as usize;
        let parts = if self.plan.measures() { self.parts.read(bundles)? } else { Vec::new() };
        Ok(self.plan.finish(&self.leaf_hashes.read(bundles * 64)?, &parts))
    }
}
