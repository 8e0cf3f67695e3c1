//! Loops compiled several times, for the vector instructions of several processors. The best variant for this
//! processor is chosen at run time.
//!
//! The same source gives the same bits at every level, because nothing is contracted or reordered.
#![expect(unsafe_code, reason = "calling a function for instructions that were found to be there")]
#![cfg_attr(
    target_arch = "x86_64",
    expect(clippy::disallowed_types, reason = "cpufeatures remembers what it found in an atomic of its own")
)]

// Each queries the processor once.
#[cfg(target_arch = "x86_64")]
cpufeatures::new!(avx2_is_there, "avx2");
#[cfg(target_arch = "x86_64")]
cpufeatures::new!(avx512_is_there, "avx512f", "avx512bw", "avx512dq", "avx512vl");

/// A set of vector instructions that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(Kind);

/// Private, so that a level exists only if the processor has its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// A loop. `run` and everything it calls must be inlined; otherwise it is compiled for the baseline.
pub trait Work {
    /// The result.
    type Output;
    /// Runs the loop.
    fn run(self) -> Self::Output;
}

impl Level {
    /// The best level of this processor.
    #[must_use]
    pub fn detect() -> Level {
        Level::available().last().unwrap_or(Level(Kind::Baseline))
    }

    /// All levels of this processor, the best last.
    pub fn available() -> impl Iterator<Item = Level> {
        let kinds = [
            Some(Kind::Baseline),
            #[cfg(target_arch = "x86_64")]
            avx2_is_there::get().then_some(Kind::Avx2),
            #[cfg(target_arch = "x86_64")]
            (avx2_is_there::get() && avx512_is_there::get()).then_some(Kind::Avx512),
        ];
        kinds.into_iter().flatten().map(Level)
    }

    /// The common name of the level.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Baseline => "baseline",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
        }
    }

    /// Runs the work with these instructions.
    #[inline]
    pub fn run<W: Work>(self, work: W) -> W::Output {
        match self.0 {
            Kind::Baseline => work.run(),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `available` returns this level only if the processor has these instructions.
            Kind::Avx2 => unsafe { avx2(work) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Kind::Avx512 => unsafe { avx512(work) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<W: Work>(work: W) -> W::Output {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512<W: Work>(work: W) -> W::Output {
    work.run()
}
