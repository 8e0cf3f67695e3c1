//! One plan on a CUDA device.

use tensortap_device_kernels::{
    Build, Decision, FEW, HASH_LEAVES, HASH_MANY, HASH_SPREAD, Hashing, KEEP, Keeping, Kept, MEASURE_LEAVES,
    Many, Plan, RangeResult, Side, StoredHashes,
};
use zerocopy::{FromZeros, IntoBytes};

use crate::driver::{Device, Kernel, Memory, Stream};

pub const BUILD: Build = Build::CUDA;

/// The kernels of loaded code.
pub struct Kernels<'d> {
    pub device: &'d Device,
    hash_leaves: Kernel,
    hash_spread: Kernel,
    hash_many: Kernel,
    measure_leaves: Kernel,
    keep: Kernel,
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
    /// A count of 32 bits, and 8 bytes farther the word that says that all is done.
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
            words: self.device.upload(&[0; 16])?,
            decisions: self.device.upload(&vec![0xff; plan.ranges().len() * 4])?,
            plan,
        })
    }

    /// Everything about the ranges of a plan, in one launch.
    pub fn launch(&self, prepared: &Prepared<'_>, stream: Stream) -> Result<(), String> {
        self.launch_side(&prepared.side(TICKET), prepared, stream)
    }

    fn launch_side(&self, side: &Side, prepared: &Prepared<'_>, stream: Stream) -> Result<(), String> {
        let plan = &prepared.plan;
        let (hashing, groups) = plan.hashing();
        let given =
            |side: &Side, kernel| self.device.launch(kernel, groups, BUILD.group, side.as_bytes(), stream);
        match hashing {
            Hashing::Bundles => given(side, self.hash_leaves),
            Hashing::Spread => given(side, self.hash_spread),
            Hashing::Measured => given(side, self.measure_leaves),
            Hashing::Many => {
                let mut many = Many { side: *side, ..Many::new_zeroed() };
                many.ranges[..plan.ranges().len()].copy_from_slice(plan.ranges());
                if side.few[0].decided != 0 {
                    many.ranges.iter_mut().for_each(|range| range.decided = 1);
                }
                self.device.launch(self.hash_many, groups, BUILD.group, many.as_bytes(), stream)
            }
        }
    }

    /// Results of a plan, in the order of its sources.
    pub fn run(&self, prepared: &Prepared<'_>) -> Result<Vec<RangeResult>, String> {
        let stream = Stream::default_stream();
        self.launch(prepared, stream)?;
        self.device.finish(stream)?;
        prepared.is_done(TICKET)?;
        prepared.results.read(prepared.plan.ranges().len())
    }

    /// What is new of a plan, which is hashed for it.
    pub fn decide(
        &self,
        prepared: &Prepared<'_>,
        set: &Memory<'_>,
        stored: &StoredHashes,
    ) -> Result<Vec<Decision>, String> {
        let decided: Vec<_> = prepared
            .plan
            .ranges()
            .iter()
            .map(|range| tensortap_device_kernels::Range { decided: 1, ..*range })
            .collect();
        let (table, told) =
            (self.device.upload(decided.as_bytes())?, self.device.allocate(decided.len() * 4)?);
        let mut side = prepared.side(TICKET + 1);
        (side.table, side.stored, side.mask, side.told) =
            (table.address, set.address, stored.mask(), told.address);
        side.few.iter_mut().for_each(|range| range.decided = 1);
        self.launch_side(&side, prepared, Stream::default_stream())?;
        self.device.finish(Stream::default_stream())?;
        prepared.is_done(TICKET + 1)?;
        let words: Vec<u32> = prepared.decisions.read(decided.len())?;
        if words != told.read::<u32>(decided.len())? {
            return Err("the host is told something else than the device".into());
        }
        words
            .into_iter()
            .map(|word| Decision::from_word(word).ok_or(format!("{word} is no decision")))
            .collect()
    }

    /// Keeps some of a plan's ranges that was decided about: their places, and where each goes.
    pub fn keep(&self, prepared: &Prepared<'_>, kept: &[(usize, u64)], stream: Stream) -> Result<(), String> {
        let kept: Vec<Kept> = kept
            .iter()
            .map(|&(place, to)| {
                let range = &prepared.plan.ranges()[place];
                Kept { from: range.address, to, bytes: range.bytes, first_chunk: 0, slot: range.slot }
            })
            .collect();
        let words = prepared.words.address;
        let keeping = Keeping {
            decisions: prepared.decisions.address,
            finished: words,
            done: words + 8,
            ticket: TICKET + 2,
            ..Keeping::of(&kept)
        };
        self.device.launch(self.keep, keeping.groups, BUILD.group, keeping.as_bytes(), stream)
    }

    /// The same, waited for.
    pub fn kept(&self, prepared: &Prepared<'_>, kept: &[(usize, u64)]) -> Result<(), String> {
        self.keep(prepared, kept, Stream::default_stream())?;
        self.device.finish(Stream::default_stream())?;
        prepared.is_done(TICKET + 2)
    }
}

/// What says that a launch is done.
const TICKET: u64 = 0x7454_0000_0001;

impl Prepared<'_> {
    fn side(&self, ticket: u64) -> Side {
        let Prepared { plan, ranges, leaf_hashes, sums, parts, gates, results, words, decisions } = self;
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
        if plan.ranges().len() <= FEW {
            side.table = 0;
            side.few[..plan.ranges().len()].copy_from_slice(plan.ranges());
        }
        side
    }

    /// Whether a launch has said that it is done, and has left its count as it was.
    fn is_done(&self, ticket: u64) -> Result<(), String> {
        match self.words.read::<u64>(2)?[..] {
            [0, done] if done == ticket => Ok(()),
            ref words => Err(format!("a launch did not say that it was done: {words:x?}")),
        }
    }

    /// What the leaves left, for the host to finish.
    pub fn finish_on_host(&self) -> Result<Vec<Option<RangeResult>>, String> {
        let bundles = self.plan.bundles() as usize;
        let parts = if self.plan.measures() { self.parts.read(bundles)? } else { Vec::new() };
        Ok(self.plan.finish(&self.leaf_hashes.read(bundles * 64)?, &parts))
    }
}
